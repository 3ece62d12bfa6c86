//! Settings of the listener: the proxies in front of it, and its certificate.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::api::{ForwardingHeader, ServerOptions, ServerTls, TrustedProxies};
use crate::db;
use crate::harness::failure::Failure;
use crate::network::Network;

/// What is in front of a node.
#[derive(Debug, Args)]
pub(crate) struct ListenerSettings {
    /// A proxy in front of this node, which names the client of a request: an address, or a network such as `10.0.0.0/8`; can be
    /// repeated, or contain several separated by commas. No other client can name another address than its own
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = trusted_proxy)]
    trusted_proxy: Vec<Network>,
    /// The header field in which a trusted proxy names the client
    #[arg(long, value_name = "HEADER", default_value = "x-forwarded-for", value_enum)]
    trusted_proxy_header: ForwardingHeaderName,
    /// A PEM file with the certificate of this node, and those that lead to its authority: --listen then takes TLS only. It is
    /// read again when it changes
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// A PEM file with the key of the --tls-cert
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

impl ListenerSettings {
    /// Checks the settings that depend on each other.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => Err(Failure::usage("a --tls-cert needs its --tls-key")),
            (None, Some(_)) => Err(Failure::usage("a --tls-key needs its --tls-cert")),
            _ => Ok(()),
        }
    }

    /// Whether clients reach this node over TLS of its own.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// How the node serves, but for the limits of its connections. Reads the certificate.
    /// Errors: Wrong usage.
    pub(crate) fn options(&self) -> Result<ServerOptions, Failure> {
        Ok(ServerOptions {
            trusted_proxies: TrustedProxies::of_networks(&self.trusted_proxy, self.trusted_proxy_header.into()),
            tls: self.tls()?,
            ..ServerOptions::default()
        })
    }

    fn tls(&self) -> Result<Option<ServerTls>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        if let Some(readers) = db::readers(key) {
            tracing::warn!(
                "the file {} contains a key and can be read by {readers}: chmod 600 it",
                key.display()
            );
        }
        let read = ServerTls::from_files(certificate, key);
        let tls = read.map_err(|error| Failure::usage(format!("--tls-cert and --tls-key: {}", error.message())))?;
        Ok(Some(tls))
    }

    /// Warns of a list that trusts every address.
    pub(crate) fn warn(&self) {
        if self.trusted_proxy.iter().any(Network::is_all) {
            tracing::warn!(
                "--trusted-proxy has a network of all addresses: each client can name any address as its own; list the \
                 networks of the proxies alone"
            );
        }
    }

    /// What nodes of a cluster compare of these settings.
    pub(super) fn compared(&self) -> [(&'static str, String); 2] {
        [
            ("trusted-proxy", format!("{:?}", self.trusted_proxy)),
            ("trusted-proxy-header", format!("{:?}", self.trusted_proxy_header)),
        ]
    }
}

fn trusted_proxy(text: &str) -> Result<Network, String> {
    Network::parse(text.trim()).ok_or_else(|| "give the address of a proxy, or a network such as 10.0.0.0/8".to_owned())
}

/// The header field in which a proxy names a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ForwardingHeaderName {
    /// `X-Forwarded-For`, with the scheme in `X-Forwarded-Proto`
    #[value(name = "x-forwarded-for")]
    XForwardedFor,
    /// `Forwarded` of RFC 7239
    Forwarded,
}

impl From<ForwardingHeaderName> for ForwardingHeader {
    fn from(name: ForwardingHeaderName) -> Self {
        match name {
            ForwardingHeaderName::XForwardedFor => Self::XForwardedFor,
            ForwardingHeaderName::Forwarded => Self::Forwarded,
        }
    }
}
