//! Settings of the requests that workflows send.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::harness::secret::Secret;
use crate::harness::settings::{count, duration};
use crate::runtime::OutgoingOptions;

/// How workflows send HTTP requests, and to whom.
#[derive(Debug, Args)]
pub(crate) struct OutgoingSettings {
    /// A target that workflows may send requests to: a host name, `*.name` for all names below it, an address, or a network
    /// such as `10.0.0.0/8`; can be repeated, or contain several separated by commas. By default any target that is not
    /// denied. An allowed name does not lift the denial of its addresses
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    http_allowed_target: Vec<String>,
    /// A target that no workflow may send requests to, in the same form, whatever is allowed. Link-local and metadata
    /// addresses are denied, too, but for those in an allowed address or network
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    http_denied_target: Vec<String>,
    /// Deny also loopback and private addresses, but for those in an allowed address or network
    #[arg(long)]
    http_deny_private: bool,
    /// The proxy that requests go through, as `http://user:password@host:port`; it must itself deny what no workflow may
    /// reach
    #[arg(long, value_name = "URL")]
    http_proxy: Option<Secret>,
    /// A target that is reached without the proxy; can be repeated, or contain several separated by commas
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    http_no_proxy: Vec<String>,
    /// A PEM file of authorities that are trusted besides those of the system
    #[arg(long, value_name = "FILE")]
    http_root_certificates: Option<PathBuf>,
    /// How long a request may take, unless its activity sets another timeout
    #[arg(long, value_name = "DURATION", default_value = "100s", value_parser = duration)]
    http_timeout: Duration,
    /// The largest answer to a request, in MiB; a larger one faults its activity
    #[arg(long, value_name = "MIB", default_value = "100", value_parser = count)]
    http_response_mib: usize,
    /// How many redirects of a request are followed; the one after them is its answer
    #[arg(long, value_name = "COUNT", default_value = "10")]
    http_redirects: u32,
    /// Send no `Idempotency-Key`, by which services recognise a repeated request
    #[arg(long)]
    http_no_idempotency_key: bool,
}

impl OutgoingSettings {
    pub(super) fn options(&self) -> OutgoingOptions {
        let mut options = OutgoingOptions::default();
        options.allowed_targets.clone_from(&self.http_allowed_target);
        options.denied_targets.clone_from(&self.http_denied_target);
        options.deny_private = self.http_deny_private;
        options.proxy = self.http_proxy.as_ref().map(|url| url.reveal().to_owned());
        options.no_proxy.clone_from(&self.http_no_proxy);
        options.root_certificates.clone_from(&self.http_root_certificates);
        options.timeout = self.http_timeout;
        options.response_bytes = u64::try_from(self.http_response_mib)
            .unwrap_or(u64::MAX)
            .saturating_mul(1 << 20);
        options.redirects = self.http_redirects;
        options.idempotency_key = !self.http_no_idempotency_key;
        options
    }
}
