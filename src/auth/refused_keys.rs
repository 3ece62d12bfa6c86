//! Requests without the right API key: they are counted, and logged at intervals.

use std::net::IpAddr;

use crate::refusals::Refusals;

/// Counts requests without the right key, and says at intervals where such requests come from; never what they sent.
#[derive(Debug, Default)]
pub(crate) struct RefusedKeys(Refusals);

impl RefusedKeys {
    /// A request from `client` had no key (`missing`) or another one (`wrong`).
    pub(crate) fn note(&self, client: Option<IpAddr>, kind: &'static str) {
        metrics::counter!("mainspring_credentials_refused_total", "reason" => kind).increment(1);
        if let Some(refused) = self.0.count() {
            let client = client.map_or_else(|| "unknown".to_owned(), |address| address.to_string());
            tracing::warn!(
                client,
                refused,
                "requests without the right API key were refused; the client is that of the last request"
            );
        }
    }
}
