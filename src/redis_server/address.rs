//! Where a Redis server is, from a URL or a connection string of StackExchange.Redis.
//!
//! Messages contain no value, and only plausible keys: an unquoted part of a password may have the form of a key.

use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use crate::{Error, Result};

/// The longest key that a message contains.
const LONGEST_KEY: usize = 40;
const PORT: u16 = 6379;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time-out that is taken from a connection string.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Known keys without effect: the engine decides itself, or has no use for them.
const NOT_NEEDED: [&str; 26] = [
    "allowadmin",
    "asynctimeout",
    "channelprefix",
    "checkcertificaterevocation",
    "configchannel",
    "configcheckseconds",
    "connectretry",
    "defaultoptions",
    "heartbeatconsistencychecks",
    "heartbeatinterval",
    "highintegrity",
    "includedetailinexceptions",
    "keepalive",
    "libname",
    "name",
    "preservasyncorder",
    "preserveasyncorder",
    "proxy",
    "protocol",
    "resolvedns",
    "responsetimeout",
    "setclientlibrary",
    "sslprotocols",
    "synctimeout",
    "tiebreaker",
    "writebuffer",
];

/// A server with what is needed to connect.
pub(super) struct RedisAddress {
    pub(super) info: ConnectionInfo,
    pub(super) connect_timeout: Duration,
    /// Whether a server that is away at the start is an error.
    pub(super) abort_connect: bool,
}

impl RedisAddress {
    /// Parses `redis://user:password@host:port/database`, `rediss://…`, or `host:port,password=…,ssl=true`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        if text.contains("://") {
            return Self::of_url(text);
        }
        Self::of_connection_string(text)
    }

    fn of_url(text: &str) -> Result<Self> {
        let scheme = text.split("://").next().unwrap_or_default();
        if !matches!(scheme, "redis" | "rediss") {
            return Err(invalid("the scheme of a URL is redis, or rediss for TLS"));
        }
        // The error of the crate is dropped: it may show the text.
        let info = text
            .into_connection_info()
            .map_err(|_| invalid("it is no URL of the form redis://user:password@host:port/database"))?;
        Ok(Self {
            info,
            connect_timeout: CONNECT_TIMEOUT,
            abort_connect: true,
        })
    }

    fn of_connection_string(text: &str) -> Result<Self> {
        let (mut hosts, mut tls, mut settings) = (Vec::new(), false, RedisConnectionInfo::default());
        let (mut connect_timeout, mut abort_connect) = (CONNECT_TIMEOUT, true);
        let mut tls_name = None;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                hosts.push(part);
                continue;
            };
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "password" => settings = settings.set_password(value),
                "user" => settings = settings.set_username(value),
                "ssl" => tls = flag(key, value)?,
                "sslhost" => tls_name = Some(value),
                "abortconnect" => abort_connect = flag(key, value)?,
                "connecttimeout" => {
                    let millis = value.parse().map_err(|_| bad_value(key))?;
                    connect_timeout = Duration::from_millis(millis).min(LONGEST_TIMEOUT);
                }
                "defaultdatabase" => {
                    let database: u16 = value.parse().map_err(|_| bad_value(key))?;
                    settings = settings.set_db(database.into());
                }
                "servicename" => {
                    return Err(invalid(
                        "`serviceName` asks for Sentinel, which is not supported: name the server itself",
                    ));
                }
                known if NOT_NEEDED.contains(&known) => {}
                unknown => return Err(unknown_key(unknown)),
            }
        }
        let [host] = hosts.as_slice() else {
            return Err(invalid(if hosts.is_empty() {
                "it names no server: begin with host:port"
            } else {
                "it names several servers: name one, since neither Sentinel nor Cluster is supported"
            }));
        };
        let (host, port) = host_and_port(host)?;
        let host = tls_name.filter(|_| tls).map_or(host, str::to_owned);
        let addr = if tls {
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            }
        } else {
            ConnectionAddr::Tcp(host, port)
        };
        let info = addr
            .into_connection_info()
            .map_err(|_| invalid("the server cannot be addressed"))?;
        Ok(Self {
            info: info.set_redis_settings(settings),
            connect_timeout,
            abort_connect,
        })
    }

    /// The server as messages name it, without user and password.
    pub(super) fn place(&self) -> String {
        format!("{}/{}", self.info.addr(), self.info.redis_settings().db())
    }
}

fn host_and_port(text: &str) -> Result<(String, u16)> {
    let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match text.rsplit_once(':') {
        // An address of IPv6 without brackets has several colons.
        Some((host, port)) if is_port(port) && (!host.contains(':') || host.ends_with(']')) => {
            let port = port.parse().map_err(|_| invalid("the port is no number up to 65535"))?;
            Ok((bare(host), port))
        }
        _ => Ok((bare(text), PORT)),
    }
}

fn flag(key: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(bad_value(key)),
    }
}

fn bad_value(key: &str) -> Error {
    invalid(&format!("the value of `{}` cannot be read", key.trim()))
}

fn unknown_key(key: &str) -> Error {
    let is_plausible = key.len() <= LONGEST_KEY && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plausible {
        invalid(&format!("the key `{key}` is unknown"))
    } else {
        invalid("it has a part that is no `key=value`; a password with a comma needs the form of a URL, with %2C")
    }
}

fn invalid(what: &str) -> Error {
    Error::invalid(
        "invalid-redis-url",
        format!("the Redis URL or connection string cannot be used: {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (String, Option<String>, Option<String>, bool) {
        let address = RedisAddress::parse(text).unwrap();
        let settings = address.info.redis_settings();
        let tls = matches!(address.info.addr(), ConnectionAddr::TcpTls { .. });
        let owned = |text: Option<&str>| text.map(str::to_owned);
        (
            address.place(),
            owned(settings.username()),
            owned(settings.password()),
            tls,
        )
    }

    #[test]
    fn urls_and_connection_strings_mean_what_they_meant() {
        let some = |text: &str| Some(text.to_owned());
        let plain = (String::from("redis:6379/0"), None, None, false);
        assert_eq!(parse("redis:6379"), plain);
        assert_eq!(parse("redis"), plain);
        assert_eq!(parse("redis://redis"), plain);
        let seed = "redis-host:6379,password=YOUR_PASSWORD,ssl=False,abortConnect=False,connectTimeout=5000";
        let expected = ("redis-host:6379/0".to_owned(), None, some("YOUR_PASSWORD"), false);
        assert_eq!(parse(seed), expected);
        assert!(!RedisAddress::parse(seed).unwrap().abort_connect);
        let full = "h:7000,user=u,password=p=q,ssl=true,defaultDatabase=3,name=x,syncTimeout=1,keepAlive=60";
        assert_eq!(parse(full), ("h:7000/3".to_owned(), some("u"), some("p=q"), true));
        let url = parse("rediss://u:p%2Cq@h:7000/3");
        assert_eq!(url, ("h:7000/3".to_owned(), some("u"), some("p,q"), true));
        assert_eq!(parse("[::1]:7000").0, "::1:7000/0");
    }

    #[test]
    fn what_cannot_be_used_is_named_without_a_secret() {
        for (text, named) in [
            ("", "empty"),
            ("amqp://u:geheim@h", "scheme"),
            ("redis://u:geheim@h:port", "URL"),
            ("h:6379,passwort=geheim", "`passwort`"),
            ("h:6379,password=x,geheim!=y", "comma"),
            ("h:6379,ssl=geheim", "`ssl`"),
            ("h:6379,serviceName=geheim", "Sentinel"),
            ("a:1,b:2,password=geheim", "several"),
            ("password=geheim", "no server"),
            ("h:99999", "65535"),
        ] {
            let Err(error) = RedisAddress::parse(text) else {
                panic!("{text}")
            };
            let message = error.to_string();
            assert!(
                message.contains(named) && !message.contains("geheim"),
                "{text}: {message}"
            );
            assert_eq!(error.code(), "invalid-redis-url");
        }
    }
}
