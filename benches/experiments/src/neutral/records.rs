//! The lines on standard output.

use std::io::Write;
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use mainspring::internals::Failure;
use serde_json::{Value, json};

use crate::settings::{Journal, Settings};

/// The name in `adapter.json`.
const SYSTEM: &str = "mainspring";

/// The first line: who this is, and which tables the harness watches.
pub(crate) fn descriptor(settings: &Settings, event_tables: &[String]) -> Result<(), Failure> {
    let journal = match settings.journal {
        Journal::Full => "full",
        Journal::Off => "off",
    };
    let path = settings.database_url.rsplit('/').next().unwrap_or_default();
    let database = path.split('?').next().unwrap_or_default();
    emit(&[json!({
        "kind": "descriptor",
        "system": SYSTEM,
        "instance_id": settings.instance_id,
        "event_tables": event_tables,
        "event_indexes": [],
        "extensions": [],
        "version": env!("CARGO_PKG_VERSION"),
        "schema_version": format!("V1, journal {journal}"),
        "db_name": database,
        "started_at": now(),
    })])
}

/// A value at one moment.
pub(crate) struct Sample {
    pub(crate) metric: String,
    pub(crate) value: f64,
    /// The seconds that the value is of; 0: it is of this moment.
    pub(crate) window: f64,
}

/// One line for each, with the same time.
pub(crate) fn samples(settings: &Settings, samples: &[Sample]) -> Result<(), Failure> {
    let at = now();
    let record = |sample: &Sample| {
        json!({
            "t": at,
            "system": SYSTEM,
            "instance_id": settings.instance_id,
            "kind": "adapter",
            "subject_kind": "adapter",
            "subject": "",
            "metric": sample.metric,
            "value": sample.value,
            "window_s": sample.window,
        })
    };
    let records: Vec<Value> = samples.iter().map(record).collect();
    emit(&records)
}

fn emit(records: &[Value]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = records
        .iter()
        .try_for_each(|record| writeln!(out, "{record}"))
        .and_then(|()| out.flush());
    written.map_err(|error| Failure::failed(format!("standard output takes no records: {error}")))
}

fn now() -> String {
    DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true)
}
