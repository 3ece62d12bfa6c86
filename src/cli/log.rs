//! The log of the program, on standard error: as text for people, or a JSON object in each line for a collector of logs.

use std::io;

use tracing_subscriber::EnvFilter;

use super::settings::LogFormat;
use crate::harness::failure::Failure;
use crate::harness::secret::{Redacting, RedactingJson};
use crate::log;

/// Starts the log. Its levels can be changed from now on.
pub(super) fn start(filter: &str, format: LogFormat) -> Result<(), Failure> {
    // What RabbitMQ's client says of an outage, we say once. A filter that names it is asked for.
    let settings = match filter.contains("lapin") {
        true => filter.to_owned(),
        false => format!("{filter},lapin=off"),
    };
    let parsed = EnvFilter::try_new(&settings).map_err(|error| {
        Failure::usage(format!(
            "--log is not valid: {error}; give `info` or `mainspring=debug`, for example"
        ))
    })?;
    let builder = tracing_subscriber::fmt().with_target(false);
    // The reload of a filter knows the form and the writer, which therefore come first.
    let started = match format {
        LogFormat::Text => {
            let builder = builder.with_writer(|| Redacting(io::stderr()));
            let builder = builder.with_env_filter(parsed).with_filter_reloading();
            let handle = builder.reload_handle();
            log::install(&settings, move |filter| {
                let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
                handle.reload(filter).map_err(|error| error.to_string())
            });
            builder.try_init()
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_span_list(false);
            let builder = builder.with_writer(|| RedactingJson(io::stderr()));
            let builder = builder.with_env_filter(parsed).with_filter_reloading();
            let handle = builder.reload_handle();
            log::install(&settings, move |filter| {
                let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
                handle.reload(filter).map_err(|error| error.to_string())
            });
            builder.try_init()
        }
    };
    started.map_err(|error| Failure::failed(format!("cannot start the log: {error}")))
}
