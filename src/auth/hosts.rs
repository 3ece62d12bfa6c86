//! The admitted names in `Host`.
//!
//! A web page can make its own name resolve to 127.0.0.1 (DNS rebinding), and its scripts then reach a local engine as
//! "same origin". They cannot change the `Host` that the browser sends, which is the page's own name. So only known names of
//! this server are admitted. An address written in digits cannot be rebound; it is admitted if it is the loopback or the
//! address that the server listens on.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderValue, Request, StatusCode, header};

use crate::http::ApiError;

/// The names and addresses of this server.
#[derive(Debug)]
pub(crate) struct AllowedHosts {
    listen: IpAddr,
    names: Vec<String>,
    any: bool,
}

impl AllowedHosts {
    /// The loopback, the address that the server listens on, and the names that the operator allows.
    pub(crate) fn new(listen: SocketAddr, allowed: &[String]) -> Self {
        Self {
            listen: listen.ip(),
            names: allowed.iter().map(|name| normalize(name)).collect(),
            any: allowed.iter().any(|name| name == "*"),
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
        let Ok(address) = name.parse::<IpAddr>() else {
            return false;
        };
        let address = address.to_canonical();
        address.is_loopback() || address == self.listen.to_canonical() || self.listen.is_unspecified()
    }
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
}
