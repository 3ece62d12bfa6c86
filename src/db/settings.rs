//! The database URL.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tokio_postgres::config::{ChannelBinding, Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::dotnet;
use super::hosts::needs_primary;
use super::password::PasswordFile;
use crate::{Error, Result};

/// A checked database URL (`postgres://user:password@host:port/name?sslmode=require`, `key=value` pairs, or a connection
/// string of .NET), perhaps with a `password_file` that is read again for each connection. Its password is never shown:
/// what prints it prints host, port and name.
#[derive(Clone)]
pub(crate) struct DatabaseUrl {
    config: tokio_postgres::Config,
    /// With TLS required: whether the certificate of the server is verified.
    verify: bool,
    password_file: Option<PasswordFile>,
}

impl DatabaseUrl {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (text, password_file) = PasswordFile::taken_from(text);
        let (config, verify) = if dotnet::is(&text) {
            let parsed = dotnet::parse(&text)?;
            for note in parsed.notes {
                tracing::warn!("{note}");
            }
            (parsed.config, parsed.verify)
        } else {
            (Self::libpq(&text)?, true)
        };
        if config.get_hosts().is_empty() {
            return Err(Error::invalid("invalid-database-url", "the database URL names no host"));
        }
        Ok(Self {
            config,
            verify,
            password_file,
        })
    }

    fn libpq(text: &str) -> Result<tokio_postgres::Config> {
        // Refused by name here, as the parser knows only some of these values.
        let read_only = ["standby", "prefer-standby", "read-only"];
        if let Some(word) = read_only
            .iter()
            .find(|word| text.contains(&format!("target_session_attrs={word}")))
        {
            return Err(needs_primary(&format!("target_session_attrs={word}")));
        }
        // A required TLS connection is always verified, so these two values of libpq mean the same as `require`.
        let text = text
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require")
            .replace("target_session_attrs=primary", "target_session_attrs=read-write");
        // The parser's message may quote the text with its password, so it is not passed on.
        let config = tokio_postgres::Config::from_str(&text).map_err(|_| {
            Error::invalid(
                "invalid-database-url",
                "the database URL cannot be read: write postgres://USER:PASSWORD@HOST:PORT/NAME, with ?sslmode=require \
                 for TLS, and percent-encode special characters of the password",
            )
        })?;
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(needs_primary("target_session_attrs=read-only"));
        }
        Ok(config)
    }

    /// How an impostor of the server could get the password. `None` if it could not, there is no password, or the server is
    /// local.
    pub(super) fn exposure(&self) -> Option<String> {
        let has_password = self.config.get_password().is_some() || self.password_file.is_some();
        if !has_password || self.is_local() || self.config.get_channel_binding() == ChannelBinding::Require {
            return None;
        }
        let why = match self.config.get_ssl_mode() {
            SslMode::Require if self.verify => return None,
            SslMode::Require => "Trust Server Certificate=true does not verify the server's name",
            SslMode::Disable => "sslmode=disable neither encrypts nor verifies the server's name",
            _ => {
                "sslmode=prefer, which is the default, does not verify the server's name and works without TLS if \
                 the server does not offer it"
            }
        };
        Some(format!(
            "whatever answers in place of the database at {self} receives its password: {why}. With sslmode=require \
             (SSL Mode=Require) the server must prove its name"
        ))
    }

    /// Whether no host is reached over a network.
    fn is_local(&self) -> bool {
        let addresses = self.config.get_hostaddrs();
        self.config
            .get_hosts()
            .iter()
            .enumerate()
            .all(|(place, host)| match host {
                Host::Unix(_) => true,
                Host::Tcp(name) => match addresses.get(place).copied().or_else(|| name.parse().ok()) {
                    Some(address) => address.is_loopback(),
                    None => name.eq_ignore_ascii_case("localhost"),
                },
            })
    }

    /// The password file, if the password is not in the URL.
    pub(super) fn password_file(&self) -> Option<&PasswordFile> {
        self.password_file.as_ref()
    }

    pub(crate) fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    /// TLS by rustls. `sslmode=require` verifies the server against the system's certificates (or `SSL_CERT_FILE`). `prefer`,
    /// the default, uses TLS where it is offered without verification, as libpq does: a Debian server has a self-signed
    /// certificate.
    pub(crate) fn tls(&self) -> Result<MakeRustlsConnect> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("TLS cannot be set up").caused_by(error))?;
        let config = if self.config.get_ssl_mode() == SslMode::Require && self.verify {
            let mut roots = rustls::RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            builder.with_root_certificates(roots).with_no_client_auth()
        } else {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(super::tls::UnverifiedServer(provider)))
                .with_no_client_auth()
        };
        Ok(MakeRustlsConnect::new(config))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, host) in self.config.get_hosts().iter().enumerate() {
            let host = match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            };
            let port = self
                .config
                .get_ports()
                .get(i)
                .or(self.config.get_ports().first())
                .copied()
                .unwrap_or(5432);
            let separator = if i == 0 { "" } else { "," };
            write!(f, "{separator}{host}:{port}")?;
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or(""))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let url = DatabaseUrl::parse("postgres://me:s3cr3t@db.example:6000/flows").unwrap();
        assert_eq!(url.to_string(), "db.example:6000/flows");
        assert!(!format!("{url:?}").contains("s3cr3t"));
        let error = DatabaseUrl::parse("postgres://me:s3cr3t@db.example:notaport/flows").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("s3cr3t"));
    }

    /// A node needs the primary, so several hosts mean the primary among them, unless the URL asks for a standby.
    #[test]
    fn a_url_that_asks_for_a_standby_is_refused() {
        for word in ["any", "read-write", "primary"] {
            for url in [
                format!("postgres://u:s3cr3t@a:1,b:2/d?target_session_attrs={word}"),
                format!("host=a,b target_session_attrs={word}"),
            ] {
                let url = DatabaseUrl::parse(&url).unwrap();
                assert_eq!(url.config().get_hosts().len(), 2);
            }
        }
        for word in ["read-only", "standby", "prefer-standby"] {
            for url in [
                format!("postgres://u:s3cr3t@a,b/d?target_session_attrs={word}"),
                format!("host=a,b password=s3cr3t target_session_attrs={word}"),
                format!("Host=a,b;Password=s3cr3t;Target Session Attributes={word}"),
            ] {
                let error = DatabaseUrl::parse(&url).unwrap_err();
                assert_eq!(error.code(), "invalid-database-url");
                let message = format!("{error} {error:?}");
                assert!(message.contains(word) && message.contains("primary"), "{message}");
                assert!(!message.contains("s3cr3t"), "{message}");
            }
        }
    }

    #[test]
    fn an_exposed_password_is_warned_of() {
        for (url, why) in [
            ("postgres://u:s3cr3t@db/d", Some("sslmode=prefer")),
            ("postgres://u:s3cr3t@db/d?sslmode=prefer", Some("sslmode=prefer")),
            ("postgres://u:s3cr3t@db/d?sslmode=disable", Some("sslmode=disable")),
            ("postgres://u:s3cr3t@10.1.2.3/d", Some("sslmode=prefer")),
            ("postgres://u:s3cr3t@localhost,db/d", Some("sslmode=prefer")),
            ("postgres://u@db/d?password_file=/run/p", Some("sslmode=prefer")),
            ("Server=db;Password=s3cr3t", Some("sslmode=prefer")),
            (
                "Server=db;Password=s3cr3t;SSL Mode=Require;Trust Server Certificate=true",
                Some("Trust Server Certificate"),
            ),
            ("Server=db;Password=s3cr3t;SSL Mode=Require", None),
            ("postgres://u:s3cr3t@db/d?sslmode=require", None),
            ("postgres://u:s3cr3t@db/d?sslmode=verify-full", None),
            ("postgres://u:s3cr3t@db/d?channel_binding=require", None),
            ("postgres://u@db/d", None),
            ("postgres://u:s3cr3t@localhost/d", None),
            ("postgres://u:s3cr3t@127.0.0.1:5433/d", None),
            ("postgres://u:s3cr3t@[::1]/d", None),
            ("host=/run/postgresql password=s3cr3t", None),
        ] {
            let exposure = DatabaseUrl::parse(url).unwrap().exposure();
            let message = exposure.as_deref().unwrap_or_default();
            assert_eq!(exposure.is_some(), why.is_some(), "{url}: {message}");
            assert!(
                message.contains(why.unwrap_or_default()) && !message.contains("s3cr3t"),
                "{url}: {message}"
            );
        }
    }
}
