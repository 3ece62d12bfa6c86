//! Where a Redis server is, from a URL or a connection string of StackExchange.Redis.
//!
//! Messages contain no values, and only plausible keys, because an unquoted part of a password may look like a key.

use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

use super::connection::Endpoint;
use super::tls::RedisTlsFiles;
use crate::{Error, Result};

/// The longest key that a message contains.
const LONGEST_KEY: usize = 40;
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// The longest name of a master at sentinels.
const LONGEST_NAME: usize = 64;
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

/// What the hosts of an address are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AddressKind {
    /// One server.
    Single,
    /// Sentinels that know a master by this name.
    Sentinels(String),
    /// Some nodes of a cluster.
    Cluster,
    /// The same as a connection string names them: several servers without `serviceName`.
    Several,
}

impl AddressKind {
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster | Self::Several)
    }

    fn default_port(&self) -> u16 {
        match self {
            Self::Sentinels(_) => SENTINEL_PORT,
            Self::Single | Self::Cluster | Self::Several => PORT,
        }
    }
}

/// A server, sentinels or a cluster, with what is needed to connect.
pub(super) struct RedisAddress {
    /// The server, the sentinels that know it, or some nodes of the cluster.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) kind: AddressKind,
    settings: RedisConnectionInfo,
    tls: bool,
    /// The name in the certificate, if it is not the host (`sslHost`).
    tls_name: Option<String>,
    tls_files: RedisTlsFiles,
    connect_timeout: Duration,
    /// Whether a server that is away at the start is an error.
    pub(super) abort_connect: bool,
}

impl RedisAddress {
    /// Parses `redis://user:password@host:port/database`, `rediss://…`, `redis-sentinel://…`, `redis-cluster://…`, or
    /// `host:port,password=…,ssl=true`.
    pub(super) fn parse(text: &str, tls_files: &RedisTlsFiles) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        let mut address = if text.contains("://") {
            Self::of_url(text)?
        } else {
            Self::of_connection_string(text)?
        };
        if !address.tls && !tls_files.is_empty() {
            return Err(invalid(
                "it is one without TLS, but files for TLS are given: begin with rediss://, or add ssl=true",
            ));
        }
        if address.kind.is_cluster() && address.database() != 0 {
            return Err(invalid("a cluster has database 0 only: leave the number out"));
        }
        address.tls_files = tls_files.clone();
        Ok(address)
    }

    fn of_url(text: &str) -> Result<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let tls = scheme.starts_with("rediss");
        let (rest, kind) = match scheme {
            "redis" | "rediss" => (rest, AddressKind::Single),
            "redis-cluster" | "rediss-cluster" => (rest, AddressKind::Cluster),
            "redis-sentinel" | "rediss-sentinel" => {
                let (rest, name) = rest
                    .split_once("?service=")
                    .ok_or_else(|| invalid("a URL of sentinels ends with `?service=` and the name of the master"))?;
                (rest, AddressKind::Sentinels(service_name(name)?))
            }
            _ => {
                return Err(invalid(
                    "the scheme of a URL is redis, redis-sentinel or redis-cluster, with TLS rediss, rediss-sentinel or \
                     rediss-cluster",
                ));
            }
        };
        if rest.contains('#') {
            return Err(invalid(
                "nothing may follow `#`: the certificate of the server is always checked",
            ));
        }
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (rest, String::new()),
        };
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        if kind == AddressKind::Single && hosts.contains(',') {
            return Err(invalid(
                "it names several servers: name one, sentinels with redis-sentinel://, or a cluster with redis-cluster://",
            ));
        }
        let form = || invalid("it is not a URL of the form redis://user:password@host:port/database");
        let each = hosts
            .split(',')
            .map(|host| host_and_port(host.trim(), kind.default_port()));
        let hosts = each.collect::<Result<Vec<_>>>().map_err(|_| form())?;
        // The crate reads what is encoded, and the database. Its error is dropped: it may show the text.
        let of_one = format!("redis://{login}localhost{path}");
        let info = of_one.as_str().into_connection_info().map_err(|_| form())?;
        if hosts.iter().any(|(host, _)| !is_host(host)) {
            return Err(form());
        }
        Ok(Self {
            hosts,
            kind,
            settings: info.redis_settings().clone(),
            tls,
            tls_name: None,
            tls_files: RedisTlsFiles::default(),
            connect_timeout: CONNECT_TIMEOUT,
            abort_connect: true,
        })
    }

    fn of_connection_string(text: &str) -> Result<Self> {
        let (mut hosts, mut tls, mut settings) = (Vec::new(), false, RedisConnectionInfo::default());
        let (mut connect_timeout, mut abort_connect) = (CONNECT_TIMEOUT, true);
        let (mut tls_name, mut service) = (None, None);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                // What stands behind a comma of a password looks like a server, whose name logs contain.
                if settings.password().is_some() {
                    return Err(not_a_part());
                }
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
                "servicename" => service = Some(service_name(value)?),
                known if NOT_NEEDED.contains(&known) => {}
                unknown => return Err(unknown_key(unknown)),
            }
        }
        if hosts.is_empty() {
            return Err(invalid("it names no server: begin with host:port"));
        }
        let kind = match service {
            Some(name) => AddressKind::Sentinels(name),
            None if hosts.len() > 1 => AddressKind::Several,
            None => AddressKind::Single,
        };
        let each = hosts.iter().map(|host| host_and_port(host, kind.default_port()));
        let hosts = each.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            hosts,
            kind,
            settings,
            tls,
            tls_name: tls_name.map(str::to_owned),
            tls_files: RedisTlsFiles::default(),
            connect_timeout,
            abort_connect,
        })
    }

    /// A server, with user, password and database.
    pub(super) fn server(&self, host: &str, port: u16) -> Result<Endpoint> {
        self.endpoint(host, port, self.settings.clone())
    }

    /// A sentinel, which has no databases.
    pub(super) fn sentinel(&self, host: &str, port: u16, with_login: bool) -> Result<Endpoint> {
        let settings = if with_login {
            self.settings.clone().set_db(0)
        } else {
            RedisConnectionInfo::default()
        };
        self.endpoint(host, port, settings)
    }

    fn endpoint(&self, host: &str, port: u16, settings: RedisConnectionInfo) -> Result<Endpoint> {
        // The client compares the certificate with the host of the address, which the endpoint resolves to the real one.
        let addr = if self.tls {
            ConnectionAddr::TcpTls {
                host: self.tls_name.as_deref().unwrap_or(host).to_owned(),
                port,
                insecure: false,
                tls_params: None,
            }
        } else {
            ConnectionAddr::Tcp(host.to_owned(), port)
        };
        let info = addr
            .into_connection_info()
            .map_err(|_| invalid("the server cannot be addressed"))?;
        let tls = if self.tls { Some(self.tls_files.read()?) } else { None };
        Endpoint::new(host, info.set_redis_settings(settings), tls, self.connect_timeout)
    }

    pub(super) fn database(&self) -> i64 {
        self.settings.db()
    }

    /// The server, the sentinels and the name, or the nodes of a cluster, as messages name it, without user and password.
    pub(super) fn place(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        let service = match &self.kind {
            AddressKind::Sentinels(name) => format!(" ({name})"),
            AddressKind::Single | AddressKind::Cluster | AddressKind::Several => String::new(),
        };
        format!("{}/{}{service}", hosts.join(","), self.database())
    }
}

/// The name of a master at sentinels, which messages contain.
fn service_name(text: &str) -> Result<String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > LONGEST_NAME || !text.bytes().all(is_name) {
        return Err(invalid(
            "the name of the master at the sentinels has only letters, digits and `-_.`",
        ));
    }
    Ok(text.to_owned())
}

fn is_host(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = !text.is_empty() && text.bytes().all(is_part);
    is_name || text.parse::<std::net::IpAddr>().is_ok()
}

fn host_and_port(text: &str, default: u16) -> Result<(String, u16)> {
    let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match text.rsplit_once(':') {
        // An address of IPv6 without brackets has several colons.
        Some((host, port)) if is_port(port) && (!host.contains(':') || host.ends_with(']')) => {
            let port = port
                .parse()
                .map_err(|_| invalid("the port is not a number up to 65535"))?;
            Ok((bare(host), port))
        }
        _ => Ok((bare(text), default)),
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
        not_a_part()
    }
}

fn not_a_part() -> Error {
    invalid(
        "it has a part after its password that is not `key=value`; a password with a comma needs the form of a URL, \
         with %2C",
    )
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

    fn parsed(text: &str) -> Result<RedisAddress> {
        RedisAddress::parse(text, &RedisTlsFiles::default())
    }

    fn parse(text: &str) -> (String, Option<String>, Option<String>, bool) {
        let address = parsed(text).unwrap();
        let owned = |text: Option<&str>| text.map(str::to_owned);
        (
            address.place(),
            owned(address.settings.username()),
            owned(address.settings.password()),
            address.tls,
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
        assert!(!parsed(seed).unwrap().abort_connect);
        let full = "h:7000,user=u,password=p=q,ssl=true,defaultDatabase=3,name=x,syncTimeout=1,keepAlive=60";
        assert_eq!(parse(full), ("h:7000/3".to_owned(), some("u"), some("p=q"), true));
        let url = parse("rediss://u:p%2Cq@h:7000/3");
        assert_eq!(url, ("h:7000/3".to_owned(), some("u"), some("p,q"), true));
        assert_eq!(parse("[::1]:7000").0, "::1:7000/0");
        assert_eq!(parse("redis://[::1]:7000/2").0, "::1:7000/2");
    }

    /// The name in a certificate is no address: the server is reached, and named, by its own.
    #[test]
    fn the_name_of_a_certificate_is_no_address() {
        let address = parsed("ssl=true,10.0.0.7:7000,sslHost=redis.example,password=p").unwrap();
        assert_eq!(address.place(), "10.0.0.7:7000/0");
        assert_eq!(address.tls_name.as_deref(), Some("redis.example"));
        let endpoint = address.server("10.0.0.7", 7000).unwrap();
        assert_eq!(endpoint.place(), "10.0.0.7:7000/0");
    }

    #[test]
    fn sentinels_are_named_in_both_forms() {
        let string = parse("s1:26379,s2,password=p,serviceName=mymaster,defaultDatabase=2");
        let expected = "s1:26379,s2:26379/2 (mymaster)".to_owned();
        assert_eq!(string, (expected, None, Some("p".to_owned()), false));
        let url = parse("rediss-sentinel://u:p@s1,s2:7000/2?service=my.master");
        let expected = "s1:26379,s2:7000/2 (my.master)".to_owned();
        assert_eq!(url, (expected, Some("u".to_owned()), Some("p".to_owned()), true));
    }

    #[test]
    fn clusters_are_named_in_both_forms() {
        let expected = |user: Option<&str>, tls| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            ("c1:7000,c2:6379/0".to_owned(), owned(user), owned(Some("p,q")), tls)
        };
        assert_eq!(parse("redis-cluster://u:p%2Cq@c1:7000,c2"), expected(Some("u"), false));
        for more in ["/", "/0", "/?protocol=resp3"] {
            let url = format!("rediss-cluster://:p%2Cq@c1:7000,c2{more}");
            assert_eq!(parse(&url), expected(None, true));
            assert!(parsed(&url).unwrap().kind.is_cluster());
        }
        let several = parsed("c1:7000,c2,password=p,defaultDatabase=0").unwrap();
        assert_eq!(several.kind, AddressKind::Several);
        assert_eq!(parsed("redis-cluster://h").unwrap().kind, AddressKind::Cluster);
        assert_eq!(parsed("h").unwrap().kind, AddressKind::Single);
    }

    #[test]
    fn what_cannot_be_used_is_named_without_a_secret() {
        for (text, named) in [
            ("", "empty"),
            ("amqp://u:geheim@h", "scheme"),
            ("redis://u:geheim@h:port", "URL"),
            ("redis://u:geheim@a,b", "several"),
            ("rediss://u:geheim@h#insecure", "certificate"),
            ("redis-cluster://u:geheim@h/3", "database 0"),
            ("a:1,b:2,password=geheim,defaultDatabase=1", "database 0"),
            ("redis-sentinel://u:geheim@h", "?service="),
            ("redis-sentinel://u:geheim@h?service=a b", "name of the master"),
            ("h:6379,passwort=geheim", "`passwort`"),
            ("h:6379,password=x,geheim!=y", "comma"),
            ("h:6379,password=x,geheim", "comma"),
            ("h:6379,ssl=geheim", "`ssl`"),
            ("h:6379,serviceName=geheim!", "name of the master"),
            ("password=geheim", "no server"),
            ("h:99999", "65535"),
        ] {
            let Err(error) = parsed(text) else { panic!("{text}") };
            let message = error.to_string();
            assert!(
                message.contains(named) && !message.contains("geheim"),
                "{text}: {message}"
            );
            assert_eq!(error.code(), "invalid-redis-url");
        }
        let files = RedisTlsFiles {
            ca: Some("ca.pem".into()),
            ..RedisTlsFiles::default()
        };
        let error = RedisAddress::parse("redis://h", &files).err().unwrap();
        assert!(error.to_string().contains("rediss://"), "{error}");
    }
}
