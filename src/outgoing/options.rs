//! The settings of outgoing requests.

use std::path::PathBuf;
use std::time::Duration;

/// How a node sends the HTTP requests of workflows, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutgoingOptions {
    /// The targets that requests may have; any, if the list is empty. An entry is a host name, `*.name` for all names below it,
    /// an address, or a network such as `10.0.0.0/8`. A network or address is allowed although its range is denied.
    pub allowed_targets: Vec<String>,
    /// The targets that no request may have, in the same form, also those that are allowed. Link-local and metadata addresses
    /// are denied, too, but for those in an allowed address or network.
    pub denied_targets: Vec<String>,
    /// Whether also loopback and private addresses are denied, but for those in an allowed address or network. Default: no.
    pub deny_private: bool,
    /// The URL of the proxy that requests go through, as `http://user:password@host:port`. Default: none.
    pub proxy: Option<String>,
    /// The targets that are reached without the proxy, in the form of the other lists.
    pub no_proxy: Vec<String>,
    /// A PEM file of certificates of authorities that are trusted besides those of the system.
    pub root_certificates: Option<PathBuf>,
    /// How long a request may take, to the last byte of its answer, where an activity sets no timeout. Default: 100 s, as in
    /// Elsa.
    pub timeout: Duration,
    /// The most bytes of the body of one answer. Default: 100 MiB.
    pub response_bytes: u64,
    /// How many redirects of one request are followed. Default: 10.
    pub redirects: u32,
    /// Whether a request has the header `Idempotency-Key`, with a key that is the same at each repeat. Default: yes.
    pub idempotency_key: bool,
}

impl Default for OutgoingOptions {
    fn default() -> Self {
        Self {
            allowed_targets: Vec::new(),
            denied_targets: Vec::new(),
            deny_private: false,
            proxy: None,
            no_proxy: Vec::new(),
            root_certificates: None,
            timeout: Duration::from_secs(100),
            response_bytes: 100 << 20,
            redirects: 10,
            idempotency_key: true,
        }
    }
}
