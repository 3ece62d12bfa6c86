//! Where the database is, and how it is reached.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::dotnet;
use super::password::PasswordFile;
use crate::{Error, Result};

/// A checked database URL (`postgres://user:password@host:port/name?sslmode=require`, `key=value` pairs, or a connection
/// string of .NET), perhaps with a `password_file` that is read anew for each connection. Its password is never shown:
/// what prints it prints host, port and name.
#[derive(Clone)]
pub(crate) struct DatabaseUrl {
    config: tokio_postgres::Config,
    /// Where TLS is required, whether the server must prove who it is.
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
        // The parser's message may quote the text, password and all: only its kind is passed on.
        // We verify whenever TLS is required, so these two of libpq's are what `require` means here.
        let text = text
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        tokio_postgres::Config::from_str(&text).map_err(|_| {
            Error::invalid(
                "invalid-database-url",
                "the database URL cannot be read: write postgres://USER:PASSWORD@HOST:PORT/NAME, with ?sslmode=require \
                 for TLS, and percent-encode special characters of the password",
            )
        })
    }

    /// Where the password is, if it is not in the URL.
    pub(super) fn password_file(&self) -> Option<&PasswordFile> {
        self.password_file.as_ref()
    }

    pub(crate) fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    /// TLS by rustls. `sslmode=require` verifies the server against the system's certificates (`SSL_CERT_FILE` names
    /// others); `prefer`, which is what no word means, takes TLS where it is offered and does not ask by whom, as libpq
    /// does: else a Debian server with its self-made certificate could not be used.
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
                .with_custom_certificate_verifier(Arc::new(super::tls::Anybody(provider)))
                .with_no_client_auth()
        };
        Ok(MakeRustlsConnect::new(config))
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, host) in self.config.get_hosts().iter().enumerate() {
            let host = match host {
                tokio_postgres::config::Host::Tcp(name) => name.clone(),
                tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
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
}
