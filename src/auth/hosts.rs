//! The admitted names in `Host`.
//!
//! A web page can make its own name resolve to 127.0.0.1 (DNS rebinding), and its scripts then reach a local engine as
//! "same origin". They cannot change the `Host` that the browser sends, which is the page's own name. So only known names of
//! this server are admitted. An address written in digits cannot be rebound; it is admitted if it is the loopback or the
//! address that the server listens on. A pattern admits all names below one: who can register such a name can rebind it.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderValue, Request, StatusCode, header};

use crate::http::ApiError;

/// The entry that admits every name.
const ANY: &str = "*";
/// What an entry begins with that admits all names below one.
const BELOW: &str = "*.";

/// The names and addresses of this server.
#[derive(Debug)]
pub(crate) struct AllowedHosts {
    listen: IpAddr,
    names: Vec<String>,
    /// Names below these are admitted.
    above: Vec<String>,
    any: bool,
}

impl AllowedHosts {
    /// The loopback, the address that the server listens on, and the names that the operator allows.
    pub(crate) fn new(listen: SocketAddr, allowed: &[String]) -> Self {
        let (patterns, names): (Vec<&String>, _) = allowed.iter().partition(|name| name.starts_with(BELOW));
        Self {
            listen: listen.ip(),
            names: names.into_iter().map(|name| normalize(name)).collect(),
            above: patterns
                .into_iter()
                .filter_map(|pattern| pattern.strip_prefix(BELOW))
                .map(normalize)
                .collect(),
            any: allowed.iter().any(|name| name == ANY),
        }
    }

    /// Returns the host that a request names, or the reason why it is not admitted.
    pub(crate) fn check<'a, B>(&self, request: &'a Request<B>) -> Result<&'a str, ApiError> {
        let headers = request.headers();
        let text = |name| {
            headers
                .get(name)
                .map(|value: &HeaderValue| value.to_str().unwrap_or_default())
        };
        // The host of an absolute URL in the request line takes precedence. No browser sends one, so both must be admitted.
        let host = text(header::HOST).unwrap_or_default();
        let target = request.uri().authority().map_or(host, |authority| authority.as_str());
        if headers.get_all(header::HOST).iter().count() != 1 || !self.admits(host) || !self.admits(target) {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "host-not-allowed",
                "The `Host` of the request is not a name of this server; call it by its address, or start it with \
                 --allowed-host and the name.",
            ));
        }
        Ok(host)
    }

    /// Whether a request with this `Host` is addressed to this server.
    pub(crate) fn admits(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        if self.any || name == "localhost" || self.names.contains(&name) {
            return true;
        }
        if self.above.iter().any(|above| is_below(&name, above)) {
            return true;
        }
        let Ok(address) = name.parse::<IpAddr>() else {
            return false;
        };
        let address = address.to_canonical();
        address.is_loopback() || address == self.listen.to_canonical() || self.listen.is_unspecified()
    }
}

/// Whether a name is one or more labels in front of another one. Both are in lower case.
fn is_below(name: &str, above: &str) -> bool {
    let labels = name.strip_suffix(above).and_then(|rest| rest.strip_suffix('.'));
    labels.is_some_and(|labels| !labels.is_empty() && !labels.starts_with('.'))
}

/// Checks an entry of the setting: a name or address without scheme and port, `*.name` for all names below it, or `*`.
/// Errors: What is wrong.
#[cfg(any(test, feature = "cli"))]
pub(crate) fn parse_allowed_host(text: &str) -> Result<String, String> {
    let wrong = || "give a host name without scheme and port, *.name for all names below it, or *".to_owned();
    // An empty one, as of a variable without a value, admits nothing.
    if text == ANY || text.is_empty() {
        return Ok(text.to_owned());
    }
    let name = text.strip_prefix(BELOW).unwrap_or(text);
    let bare = normalize(name);
    let is_address = bare.parse::<IpAddr>().is_ok();
    let is_name = bare.split('.').all(is_label);
    // An address has no names below it.
    if is_name && !is_address || is_address && name == text {
        return Ok(text.to_owned());
    }
    Err(wrong())
}

#[cfg(any(test, feature = "cli"))]
fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.bytes().all(plain)
}

/// Whether an entry of the setting admits names that anyone can register: all, or all below a name of a single label.
#[cfg(any(test, feature = "cli"))]
pub(crate) fn admits_strangers(text: &str) -> bool {
    text == ANY
        || text
            .strip_prefix(BELOW)
            .is_some_and(|name| !normalize(name).contains('.'))
}

/// The host without port, brackets and a final dot, in lower case.
fn name_of(host: &str) -> Option<String> {
    let authority: Authority = host.parse().ok().filter(|_| !host.contains('@'))?;
    let name = normalize(authority.host());
    (!name.is_empty()).then_some(name)
}

fn normalize(name: &str) -> String {
    let name = name.strip_suffix('.').unwrap_or(name);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str, allowed: &[&str]) -> AllowedHosts {
        let allowed: Vec<String> = allowed.iter().map(|&name| name.to_owned()).collect();
        AllowedHosts::new(listen.parse().unwrap(), &allowed)
    }

    #[test]
    fn only_names_of_this_server_are_admitted() {
        let local = hosts("127.0.0.1:5001", &[]);
        for own in [
            "localhost",
            "LOCALHOST:5001",
            "localhost.:1",
            "127.0.0.1:5001",
            "127.9.9.9",
            "[::1]:5001",
        ] {
            assert!(local.admits(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "evil.localhost",
            "192.168.0.7",
            "",
            ":80",
            "localhost@evil.example",
            "127.0.0.1.nip.io",
            "user@localhost",
            "[::2]",
            "a b",
        ] {
            assert!(!local.admits(foreign), "{foreign}");
        }
        let named = hosts("10.0.0.7:80", &["Workflows.Example"]);
        assert!(named.admits("10.0.0.7") && named.admits("workflows.example:8443"));
        assert!(!named.admits("10.0.0.8") && !named.admits("other.example"));
        let everywhere = hosts("0.0.0.0:80", &[]);
        assert!(everywhere.admits("10.0.0.8:80") && !everywhere.admits("evil.example"));
        assert!(hosts("0.0.0.0:80", &["*"]).admits("what.ever"));
    }

    #[test]
    fn a_pattern_admits_the_names_below_it() {
        let below = hosts("10.0.0.7:80", &["*.Example.org", "*.svc.", "plain.example"]);
        for own in [
            "a.example.org",
            "A.B.EXAMPLE.ORG:8443",
            "a.example.org.",
            "x.svc",
            "plain.example",
        ] {
            assert!(below.admits(own), "{own}");
        }
        for foreign in [
            "example.org",
            ".example.org",
            "..example.org",
            "aexample.org",
            "a.example.org.evil.example",
            "a.plain.example",
            "svc",
            "*.svc.evil.example",
        ] {
            assert!(!below.admits(foreign), "{foreign}");
        }
        // An entry without a name admits nothing.
        assert!(!hosts("10.0.0.7:80", &["*."]).admits("evil.example"));
    }

    #[test]
    fn an_entry_is_a_name_an_address_or_a_pattern() {
        for good in [
            "",
            "*",
            "elsa-service",
            "a_b.example",
            "*.example.org",
            "Workflows.Example.",
            "10.0.0.7",
            "[fd00::1]",
            "fd00::1",
        ] {
            assert_eq!(parse_allowed_host(good).as_deref(), Ok(good));
        }
        for bad in [
            "*.",
            "**",
            "a.*.example",
            "*example.org",
            "https://a.example",
            "a.example:443",
            "a b",
            "a/b",
            "user@a",
            "*.10.0.0.7",
            "*.*.example",
            "a..b",
            "10.0.0.0/8",
            ".",
        ] {
            assert!(parse_allowed_host(bad).is_err(), "{bad}");
        }
        for (entry, expected) in [
            ("*", true),
            ("*.com", true),
            ("*.com.", true),
            ("*.example.org", false),
            ("com", false),
        ] {
            assert_eq!(admits_strangers(entry), expected, "{entry}");
        }
    }
}
