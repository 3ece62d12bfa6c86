//! Connection strings as .NET programs write them: `Server=host;Database=name;User Id=me;Password="a;b";SSL Mode=Require`.
//!
//! Keys are those of Npgsql, regardless of case and spaces. Messages contain no value and only plausible keys, because an
//! unquoted part of a password looks like a key.

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::hosts::needs_primary;
use crate::{Error, Result};

/// The longest key that a message contains.
const LONGEST_KEY: usize = 40;

/// Known keys without effect: the engine decides itself, or has a setting of its own.
const NOT_NEEDED: [&str; 33] = [
    "timeout",
    "connectiontimeout",
    "applicationname",
    "pooling",
    "maxpoolsize",
    "maximumpoolsize",
    "minpoolsize",
    "minimumpoolsize",
    "connectionidlelifetime",
    "connectionpruninginterval",
    "connectionlifetime",
    "commandtimeout",
    "internalcommandtimeout",
    "cancellationtimeout",
    "keepalive",
    "tcpkeepalive",
    "tcpkeepalivetime",
    "tcpkeepaliveinterval",
    "includeerrordetail",
    "includeerrordetails",
    "multiplexing",
    "maxautoprepare",
    "autoprepareminusages",
    "noresetonclose",
    "persistsecurityinfo",
    "encoding",
    "clientencoding",
    "timezone",
    "enlist",
    "searchpath",
    "readbuffersize",
    "writebuffersize",
    "loadtablecomposites",
];

/// Keys that a string of libpq does not start with.
const OWN: [&str; 11] = [
    "server",
    "datasource",
    "userid",
    "username",
    "uid",
    "database",
    "db",
    "initialcatalog",
    "pwd",
    "psw",
    "sslmode",
];

/// Keys that a string of libpq may start with, too.
const SHARED: [&str; 4] = ["host", "port", "password", "user"];

/// A parsed connection string.
pub(super) struct Parsed {
    pub(super) config: Config,
    /// With TLS required: whether the certificate of the server is verified.
    pub(super) verify: bool,
    /// Warnings, without any value.
    pub(super) notes: Vec<String>,
}

/// Whether a text is a connection string of .NET, and neither a URL nor `key=value` pairs of libpq.
pub(super) fn is(text: &str) -> bool {
    if text.contains("://") && !text.contains(';') {
        return false;
    }
    let Some((first, rest)) = text.split_once('=') else {
        return false;
    };
    let own = |key: &str| OWN.contains(&normal(key).as_str());
    let known = |key: &str| {
        let key = normal(key);
        SHARED.contains(&key.as_str()) || OWN.contains(&key.as_str()) || NOT_NEEDED.contains(&key.as_str())
    };
    if !known(first) || own(first) || first.chars().any(char::is_uppercase) {
        return known(first);
    }
    // `host=h password=a;b` is of libpq: another key follows the first value before any semicolon.
    let (value, others) = rest.split_once(';').unwrap_or((rest, ""));
    let mut others = others.split(';').filter_map(|pair| Some(pair.split_once('=')?.0));
    !value.contains('=') && others.any(known)
}

/// Parses a connection string. Errors contain no value.
pub(super) fn parse(text: &str) -> Result<Parsed> {
    let mut parsed = Parsed {
        config: Config::new(),
        verify: true,
        notes: Vec::new(),
    };
    let (mut hosts, mut ports) = (String::new(), String::new());
    let mut verified = None;
    let mut unneeded = Vec::new();
    for (key, value) in pairs(text)? {
        let config = &mut parsed.config;
        match normal(&key).as_str() {
            "host" | "server" | "datasource" => hosts = value,
            "port" => ports = value,
            "database" | "db" | "initialcatalog" => drop(config.dbname(value)),
            "username" | "userid" | "user" | "uid" => drop(config.user(value)),
            "password" | "pwd" | "psw" => drop(config.password(value)),
            "sslmode" => {
                config.ssl_mode(mode(&value)?);
                verified = verifying(&value);
            }
            "trustservercertificate" => parsed.verify = !truth(&key, &value)?,
            "targetsessionattributes" => primary(&value)?,
            "" => return Err(unreadable()),
            known if NOT_NEEDED.contains(&known) => unneeded.push(key),
            _ => parsed.notes.push(format!(
                "the connection string has an unknown key, which has no effect: {}",
                shown(&key)
            )),
        }
    }
    if let (Some(verified), false) = (verified, parsed.verify) {
        return Err(Error::invalid(
            "invalid-database-url",
            format!(
                "the connection string contradicts itself: SSL Mode={verified} verifies the server, and Trust Server \
                 Certificate=true does not; leave one of them out"
            ),
        ));
    }
    if !unneeded.is_empty() {
        parsed.notes.push(format!(
            "not needed in the connection string, and without effect: {}",
            unneeded.join(", ")
        ));
    }
    address(&mut parsed.config, &hosts, &ports)?;
    Ok(parsed)
}

fn address(config: &mut Config, hosts: &str, ports: &str) -> Result<()> {
    let port = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong("Port"));
    let default = if ports.is_empty() { 5432 } else { port(ports)? };
    for host in hosts.split(',').map(str::trim).filter(|host| !host.is_empty()) {
        // Two colons or more: an IPv6 address.
        match host.split_once(':') {
            Some((name, own)) if !own.contains(':') => config.host(name).port(port(own)?),
            _ => config.host(host).port(default),
        };
    }
    Ok(())
}

fn mode(value: &str) -> Result<SslMode> {
    match normal(value).as_str() {
        "disable" => Ok(SslMode::Disable),
        "allow" | "prefer" => Ok(SslMode::Prefer),
        "require" | "verifyca" | "verifyfull" => Ok(SslMode::Require),
        _ => Err(wrong("SSL Mode")),
    }
}

/// The modes that verify in every version of Npgsql.
fn verifying(value: &str) -> Option<&'static str> {
    match normal(value).as_str() {
        "verifyca" => Some("VerifyCA"),
        "verifyfull" => Some("VerifyFull"),
        _ => None,
    }
}

/// The wanted server: anything but a standby means the primary.
fn primary(value: &str) -> Result<()> {
    let shown = match normal(value).as_str() {
        "any" | "primary" | "preferprimary" | "readwrite" => return Ok(()),
        "standby" => "standby",
        "preferstandby" => "prefer-standby",
        "readonly" => "read-only",
        _ => return Err(wrong("Target Session Attributes")),
    };
    Err(needs_primary(&format!("Target Session Attributes={shown}")))
}

fn truth(key: &str, value: &str) -> Result<bool> {
    match normal(value).as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(wrong(key)),
    }
}

/// A key without case, spaces, dashes and underscores.
fn normal(key: &str) -> String {
    let plain = key.chars().filter(|c| !c.is_whitespace() && !matches!(c, '-' | '_'));
    plain.flat_map(char::to_lowercase).collect()
}

fn shown(key: &str) -> String {
    let key = key.trim();
    if key.len() <= LONGEST_KEY && key.chars().all(|c| c.is_ascii_alphabetic() || c == ' ') {
        format!("{key:?}")
    } else {
        "(it does not look like a key, so it is not shown)".to_owned()
    }
}

fn wrong(key: &str) -> Error {
    Error::invalid(
        "invalid-database-url",
        format!(
            "the connection string cannot be used: the value of {} is not understood",
            shown(key)
        ),
    )
}

fn unreadable() -> Error {
    Error::invalid(
        "invalid-database-url",
        "the connection string cannot be read: write Server=HOST;Port=5432;Database=NAME;User Id=USER;Password=PASSWORD, \
         and put a value with a semicolon or quotes in it between quotes",
    )
}

/// Splits into keys and values. A quoted value (either quote, doubled inside) may contain anything.
fn pairs(text: &str) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(';') {
            rest = after.trim_start();
            continue;
        }
        let (key, after) = rest.split_once('=').ok_or_else(unreadable)?;
        if key.contains(';') {
            return Err(unreadable());
        }
        let after = after.trim_start();
        let (value, next) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => quoted(after, quote)?,
            _ => {
                let (value, next) = after.split_once(';').unwrap_or((after, ""));
                (value.trim_end().to_owned(), next)
            }
        };
        pairs.push((key.trim().to_owned(), value));
        rest = next.trim_start();
    }
    Ok(pairs)
}

fn quoted(text: &str, quote: char) -> Result<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.strip_prefix(quote).ok_or_else(unreadable)?;
    loop {
        let (part, after) = rest.split_once(quote).ok_or_else(unreadable)?;
        value.push_str(part);
        if let Some(after) = after.strip_prefix(quote) {
            value.push(quote);
            rest = after;
            continue;
        }
        let after = after.trim_start();
        return match after.strip_prefix(';') {
            Some(next) => Ok((value, next)),
            None if after.is_empty() => Ok((value, "")),
            None => Err(unreadable()),
        };
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::Host;

    use super::*;

    fn read(text: &str) -> Parsed {
        assert!(is(text), "{text}");
        parse(text).unwrap()
    }

    #[test]
    fn strings_of_npgsql_are_read() {
        let parsed = read("Server=postgres-host;Port=5433;Database=elsa;User Id=elsa;Password=p w;MaxPoolSize=100;");
        let config = &parsed.config;
        assert_eq!(config.get_hosts(), [Host::Tcp("postgres-host".to_owned())]);
        assert_eq!(
            (config.get_ports(), config.get_dbname(), config.get_user()),
            (&[5433][..], Some("elsa"), Some("elsa"))
        );
        assert_eq!(config.get_password(), Some(&b"p w"[..]));
        assert_eq!((config.get_ssl_mode(), parsed.verify), (SslMode::Prefer, true));
        assert_eq!(
            parsed.notes,
            ["not needed in the connection string, and without effect: MaxPoolSize"]
        );

        let parsed = read(
            " host = a:1, b ; USERNAME='me' ;pwd=\"a;\"\"b\"\"'=\";Ssl Mode=Require;Trust Server Certificate=True;timeout=7",
        );
        let config = &parsed.config;
        assert_eq!(config.get_hosts().len(), 2);
        assert_eq!((config.get_ports(), config.get_user()), (&[1, 5432][..], Some("me")));
        assert_eq!(config.get_password(), Some(&b"a;\"b\"'="[..]));
        assert_eq!((config.get_ssl_mode(), parsed.verify), (SslMode::Require, false));
        assert_eq!(parsed.notes.len(), 1);
        for (mode, verify) in [
            ("SSLMode=VerifyFull", true),
            ("sslmode=verify-full", true),
            ("SSL Mode=Require;TrustServerCertificate=false", true),
            ("SSL Mode=VerifyCA;TrustServerCertificate=false", true),
        ] {
            let parsed = read(&format!("Server=h;{mode}"));
            assert_eq!(
                (parsed.config.get_ssl_mode(), parsed.verify),
                (SslMode::Require, verify),
                "{mode}"
            );
        }
        assert_eq!(
            read("Server=h;SSL Mode=Disable").config.get_ssl_mode(),
            SslMode::Disable
        );
        assert_eq!(
            read("Server=::1;Database=d").config.get_hosts(),
            [Host::Tcp("::1".to_owned())]
        );
    }

    #[test]
    fn what_verifies_the_server_is_not_overridden() {
        for mode in ["VerifyFull", "verify-full", "VerifyCA"] {
            for text in [
                format!("Server=h;SSL Mode={mode};Trust Server Certificate=true"),
                format!("Server=h;Trust Server Certificate=true;SSL Mode={mode}"),
            ] {
                let error = parse(&text).err().unwrap_or_else(|| panic!("{text}"));
                assert_eq!(error.code(), "invalid-database-url");
                let message = error.to_string();
                assert!(
                    message.contains("Trust Server Certificate") && message.contains("Verify"),
                    "{message}"
                );
            }
        }
    }

    #[test]
    fn the_wanted_server_is_understood() {
        for wanted in [
            "Any",
            "Primary",
            "PreferPrimary",
            "prefer-primary",
            "ReadWrite",
            "read-write",
        ] {
            let parsed = read(&format!("Server=a,b;Target Session Attributes={wanted}"));
            assert_eq!(parsed.notes, Vec::<String>::new(), "{wanted}");
        }
        for (wanted, shown) in [
            ("Standby", "standby"),
            ("PreferStandby", "prefer-standby"),
            ("ReadOnly", "read-only"),
            ("Somewhere", "Target Session Attributes"),
        ] {
            let error = parse(&format!("Server=a,b;TargetSessionAttributes={wanted}"))
                .err()
                .unwrap();
            assert_eq!(error.code(), "invalid-database-url");
            assert!(error.to_string().contains(shown), "{error}");
        }
    }

    #[test]
    fn urls_and_pairs_of_libpq_are_something_else() {
        for other in [
            "",
            "postgres://u:p@h/d",
            "postgres://u:p=x@h/d?sslmode=require",
            "host=h user=u password=a;b",
            "host=h",
            "host=h dbname=d",
            "password=a;b host=h",
            "hostaddr=1.2.3.4",
            "nonsense",
            "a=b;c=d",
        ] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn no_value_is_ever_shown() {
        let parsed = read("Server=h;Password=s3cret;Colour=s3cret;s3cret=x;Load Balance Hosts=s3cret");
        let notes = parsed.notes.join("\n");
        assert!(
            notes.contains("\"Colour\"") && notes.contains("\"Load Balance Hosts\"") && !notes.contains("s3cret"),
            "{notes}"
        );
        for bad in [
            "Server=h;Password=\"s3cret",
            "Server=h;Password=\"s3cret\"s3cret;Port=1",
            "Server=h;Password=a;s3cret",
            "Server=h;Password=a;s3cret;Port=1",
            "Server=h;Port=s3cret",
            "Server=h:s3cret",
            "Server=h;SSL Mode=s3cret",
            "Server=h;Trust Server Certificate=s3cret",
            "Server=h;=s3cret",
        ] {
            assert!(is(bad), "{bad}");
            let error = parse(bad).err().unwrap_or_else(|| panic!("{bad}"));
            assert_eq!(error.code(), "invalid-database-url");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
