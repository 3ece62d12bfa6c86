//! Settings of workflows behind URLs, and of the requests that workflows send.

use std::path::PathBuf;

use clap::Args;

use super::outgoing::OutgoingSettings;
use crate::activity::HttpOptions;
use crate::activity::http::base_path;
use crate::harness::settings::count;

/// Where workflows are served, and where their large bodies are kept.
#[derive(Debug, Args)]
pub(crate) struct HttpSettings {
    /// The path below which HTTP endpoints of workflows are served
    #[arg(long, value_name = "PATH", default_value = "/workflows", value_parser = base_path)]
    http_base_path: String,
    /// The largest body of a request to a workflow whose endpoint has no RequestSizeLimit, in MiB
    #[arg(long, value_name = "MIB", default_value = "128", value_parser = count)]
    pub(crate) http_body_mib: usize,
    /// The folder for bodies and files that are too large for memory, on a disk of this machine; by default in the system's
    /// folder for temporary files
    #[arg(long, value_name = "FOLDER")]
    spool_dir: Option<PathBuf>,
    /// The size of all files there, in MiB; a request for which there is no room gets 503
    #[arg(long, value_name = "MIB", default_value = "1024", value_parser = count)]
    spool_mib: usize,
    #[command(flatten)]
    outgoing: OutgoingSettings,
}

impl HttpSettings {
    /// What the HTTP activities share. `base_url`: where clients reach this node.
    pub(crate) fn options(&self, base_url: Option<&str>) -> HttpOptions {
        HttpOptions {
            base_url: base_url.map(str::to_owned),
            base_path: self.http_base_path.clone(),
            spool_directory: self.spool_dir.clone(),
            spool_bytes: u64::try_from(self.spool_mib)
                .unwrap_or(u64::MAX)
                .saturating_mul(1 << 20),
            outgoing: self.outgoing.options(),
        }
    }
}
