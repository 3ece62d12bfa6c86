//! Sends spans to a collector: OTLP over HTTP, in protobuf.
//!
//! A task of its own sends what has come together, in batches. Spans wait in a bounded queue; those that find no room, and those
//! of a batch that the collector does not take, are lost and counted: no workflow waits for a collector.
//!
//! # Layout
//! `exporter`: the task · `http_client`: its requests · `span_data`: spans in the words of OpenTelemetry

mod exporter;
mod http_client;
mod span_data;

pub(crate) use exporter::{OtlpOptions, TraceExporter};
