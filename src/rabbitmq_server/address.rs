//! Where a RabbitMQ broker is, from a URL as RabbitMQ's clients and MassTransit read it.
//!
//! Messages contain no values, and only plausible keys, because a part of a password may look like a key.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, Result};

const PORT: u16 = 5672;
const TLS_PORT: u16 = 5671;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time-out that is taken from a URL.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A broker that does not answer is noticed after twice this time.
const HEARTBEAT: u16 = 10;
/// The longest name of AMQP, in bytes.
const LONGEST_NAME: usize = 255;
/// The longest key that a message contains.
const LONGEST_KEY: usize = 40;
const MOST_HOSTS: usize = 16;

/// Known keys without effect: the client decides itself, or has no use for them.
const NOT_NEEDED: [&str; 5] = ["channel_max", "frame_max", "depth", "fail_if_no_peer_cert", "locale"];

/// A broker with what is needed to connect.
#[derive(Clone)]
pub(super) struct RabbitAddress {
    /// They are tried in this order.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) virtual_host: String,
    pub(super) connect_timeout: Duration,
    pub(super) heartbeat: u16,
    /// The certificate is the user (`auth_mechanism=external`).
    pub(super) is_external: bool,
    pub(super) tls: Option<TlsAddress>,
}

/// The files of a connection with TLS. They are read for each connection.
#[derive(Clone, Default)]
pub(super) struct TlsAddress {
    pub(super) authority: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    /// The name in the certificate, if it is not the host.
    pub(super) server_name: Option<String>,
}

impl RabbitAddress {
    /// Parses `amqp://user:password@host:port/virtual-host?key=value`, `amqps://…` with TLS; further hosts follow the first one
    /// after a comma.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let is_tls = match scheme {
            "amqp" | "rabbitmq" => false,
            "amqps" | "rabbitmqs" => true,
            _ => return Err(invalid("it begins with amqp://, or amqps:// for TLS")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let (user, password) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            Some((user, password)) => (decoded(user)?, decoded(password)?),
            // What RabbitMQ itself begins with.
            None => ("guest".to_owned(), "guest".to_owned()),
        };
        let port = if is_tls { TLS_PORT } else { PORT };
        let hosts = hosts
            .split(',')
            .map(|host| host_and_port(host.trim(), port))
            .collect::<Result<Vec<_>>>()?;
        if hosts.len() > MOST_HOSTS {
            return Err(invalid("it names more than 16 hosts"));
        }
        if path.contains('/') {
            return Err(invalid("a slash in the name of a virtual host is written as %2F"));
        }
        if path.contains('@') {
            return Err(invalid("a slash in a password is written as %2F, an @ as %40"));
        }
        // As for RabbitMQ's .NET client, a trailing slash is no name.
        let virtual_host = match path {
            "" => "/".to_owned(),
            path => decoded(path)?,
        };
        if [&user, &virtual_host].iter().any(|name| name.len() > LONGEST_NAME) {
            return Err(invalid("the user and the virtual host have at most 255 bytes"));
        }
        let mut address = Self {
            hosts,
            user,
            password,
            virtual_host,
            connect_timeout: CONNECT_TIMEOUT,
            heartbeat: HEARTBEAT,
            is_external: false,
            tls: is_tls.then(TlsAddress::default),
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            address.set(key, decoded(value)?)?;
        }
        Ok(address)
    }

    fn set(&mut self, key: &str, value: String) -> Result<()> {
        match key {
            "heartbeat" => {
                let seconds: u16 = value.parse().map_err(|_| bad_value(key))?;
                // Without heartbeats a silent broker would never be noticed.
                self.heartbeat = if seconds == 0 { HEARTBEAT } else { seconds };
            }
            "connection_timeout" => {
                let millis = value.parse().map_err(|_| bad_value(key))?;
                self.connect_timeout = Duration::from_millis(millis).min(LONGEST_TIMEOUT);
            }
            "auth_mechanism" => {
                self.is_external = match value.to_ascii_lowercase().as_str() {
                    "external" => true,
                    "plain" => false,
                    _ => return Err(bad_value(key)),
                }
            }
            "verify" if value == "verify_peer" => {}
            "verify" => {
                return Err(invalid(
                    "`verify` can only be verify_peer: name the authority with `cacertfile`",
                ));
            }
            "cacertfile" | "certfile" | "keyfile" | "server_name_indication" => {
                let Some(tls) = &mut self.tls else {
                    return Err(invalid(&format!("`{key}` needs amqps://")));
                };
                match key {
                    "cacertfile" => tls.authority = Some(value.into()),
                    "certfile" => tls.certificate = Some(value.into()),
                    "keyfile" => tls.key = Some(value.into()),
                    _ => tls.server_name = Some(value),
                }
            }
            known if NOT_NEEDED.contains(&known) => {}
            unknown => return Err(unknown_key(unknown)),
        }
        Ok(())
    }

    /// The broker as messages name it, without user and password.
    pub(super) fn place(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        let slash = if self.virtual_host.starts_with('/') { "" } else { "/" };
        format!("{}{slash}{}", hosts.join(","), self.virtual_host)
    }
}

fn host_and_port(text: &str, default: u16) -> Result<(String, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        // An address of IPv6 has several colons, and brackets.
        Some((host, port)) if !port.ends_with(']') => {
            let port = port.parse().ok().filter(|port| *port > 0);
            (
                host,
                port.ok_or_else(|| {
                    invalid("a port is a number up to 65535; in a password, ?, / and @ are written as %3F, %2F and %40")
                })?,
            )
        }
        _ => (text, default),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(invalid("it names no host"));
    }
    Ok((decoded(host)?, port))
}

/// Replaces `%2F` and the like.
fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(invalid(
                "a percent sign is followed by two hexadecimal digits, and written as %25",
            ));
        };
        bytes.extend(u8::try_from(high * 16 + low));
    }
    String::from_utf8(bytes).map_err(|_| invalid("a part of it is not UTF-8"))
}

fn bad_value(key: &str) -> Error {
    invalid(&format!("the value of `{key}` cannot be read"))
}

fn unknown_key(key: &str) -> Error {
    let is_plausible = key.len() <= LONGEST_KEY && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plausible {
        invalid(&format!("the key `{key}` is unknown"))
    } else {
        invalid(
            "a part after its question mark is not key=value; in a password, ?, /, @ and : are written as %3F, %2F, \
             %40 and %3A",
        )
    }
}

fn invalid(what: &str) -> Error {
    Error::invalid(
        "invalid-rabbitmq-url",
        format!("the RabbitMQ URL cannot be used: {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_mean_what_they_meant() {
        let parse = |text: &str| RabbitAddress::parse(text).unwrap();
        let of = |text: &str| {
            let address = parse(text);
            (address.place(), address.user, address.password)
        };
        let expected =
            |place: &str, user: &str, password: &str| (place.to_owned(), user.to_owned(), password.to_owned());
        let seed = expected("rabbitmq:5672/", "guest", "guest");
        assert_eq!(of("amqp://guest:guest@rabbitmq:5672/"), seed);
        assert_eq!(of("amqp://rabbitmq"), seed);
        assert_eq!(of("rabbitmq://rabbitmq/%2f"), seed);
        assert_eq!(of("amqp://u:p%40%2Fq@h:1/v%2Fw"), expected("h:1/v/w", "u", "p@/q"));
        assert_eq!(
            of("amqps://u:p@a,b:7,[::1]:8/v"),
            expected("a:5671,b:7,::1:8/v", "u", "p")
        );
        let full = "amqps://h/v?heartbeat=5&connection_timeout=100&cacertfile=/ca%20b.pem&certfile=/c.pem&keyfile=/k.pem\
                    &server_name_indication=broker&auth_mechanism=EXTERNAL&verify=verify_peer&channel_max=7";
        let full = parse(full);
        let tls = full.tls.unwrap();
        assert_eq!(full.heartbeat, 5);
        assert_eq!(full.connect_timeout, Duration::from_millis(100));
        assert_eq!(tls.authority, Some("/ca b.pem".into()));
        assert!(full.is_external && tls.certificate.is_some() && tls.key.is_some());
        assert_eq!(tls.server_name.as_deref(), Some("broker"));
        assert_eq!(parse("amqp://h?heartbeat=0").heartbeat, HEARTBEAT);
    }

    #[test]
    fn what_cannot_be_used_is_named_without_a_secret() {
        for (text, named) in [
            ("", "empty"),
            ("geheim", "amqp://"),
            ("redis://u:geheim@h", "amqp://"),
            ("amqp://u:geheim@", "no host"),
            ("amqp://u:geheim@h:port", "65535"),
            ("amqp://u:geheim@h:0", "65535"),
            ("amqp://u:gehe%im@h", "percent"),
            ("amqp://u:%ff@h", "UTF-8"),
            ("amqp://u:geheim@h/a/b", "%2F"),
            ("amqp://u:12/geheim@h", "%2F"),
            ("amqp://u:geheim@h?heartbeat=geheim", "`heartbeat`"),
            ("amqp://u:geheim@h?hartbeat=1", "`hartbeat`"),
            ("amqp://u:x?geheim!@h", "%3F"),
            ("amqp://h?geheim!", "question mark"),
            ("amqp://u:geheim@h?cacertfile=/geheim", "amqps"),
            ("amqps://u:geheim@h?verify=verify_none", "verify_peer"),
        ] {
            let Err(error) = RabbitAddress::parse(text) else {
                panic!("{text}")
            };
            let message = error.to_string();
            assert!(
                message.contains(named) && !message.contains("geheim"),
                "{text}: {message}"
            );
            assert_eq!(error.code(), "invalid-rabbitmq-url");
        }
    }
}
