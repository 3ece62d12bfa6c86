//! The task that sends spans.

use std::time::Duration;

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::http_client::CollectorClient;
use super::span_data::span_data;
use crate::refusals::Refusals;
use crate::trace::{Span, Traces};
use crate::{Error, Result};

/// The most spans in one request.
const BATCH: usize = 512;

/// How long spans come together before they are sent.
const INTERVAL: Duration = Duration::from_millis(500);

/// Where traces go.
#[derive(Clone, Debug)]
pub(crate) struct OtlpOptions {
    /// The URL of the collector, to which the paths of OTLP are added.
    pub(crate) endpoint: String,
    /// Of the instances whose callers do not decide it, the part that is sampled.
    pub(crate) ratio: f64,
    /// The name of the node.
    pub(crate) node: Option<String>,
    /// The schema, which tells clusters apart.
    pub(crate) schema: String,
}

/// Sends spans until it is dropped.
pub(crate) struct TraceExporter {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl TraceExporter {
    /// Starts the task. Call it within a runtime.
    ///
    /// # Errors
    /// `invalid-settings`: the endpoint is no URL.
    pub(crate) fn start(options: &OtlpOptions) -> Result<(Traces, Self)> {
        let endpoint = format!("{}/v1/traces", options.endpoint.trim_end_matches('/'));
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient::new()?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build()
            .map_err(|error| {
                let message = "the setting otlp-endpoint, or a variable OTEL_EXPORTER_OTLP_…, cannot be used";
                Error::invalid("invalid-settings", message).caused_by(error)
            })?;
        exporter.set_resource(&resource(options));
        let (traces, spans) = Traces::new(options.ratio);
        let stop = CancellationToken::new();
        let task = tokio::spawn(send(exporter, spans, stop.clone()));
        let task = AbortOnDropHandle::new(task);
        Ok((traces, Self { stop, task }))
    }

    /// Sends what is left, for as long at most.
    pub(crate) async fn finish(self, within: Duration) {
        self.stop.cancel();
        let _ = tokio::time::timeout(within, self.task).await;
    }
}

fn resource(options: &OtlpOptions) -> Resource {
    let mut attributes = vec![
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.namespace", options.schema.clone()),
    ];
    if let Some(node) = &options.node {
        attributes.push(KeyValue::new("service.instance.id", node.clone()));
    }
    Resource::builder_empty()
        .with_service_name("mainspring")
        .with_attributes(attributes)
        .build()
}

async fn send(exporter: SpanExporter, mut spans: mpsc::Receiver<Span>, stop: CancellationToken) {
    let scope = InstrumentationScope::builder("mainspring")
        .with_version(env!("CARGO_PKG_VERSION"))
        .build();
    let lost = Refusals::default();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        // All three are cancellation safe.
        let first = tokio::select! {
            biased;
            first = spans.recv() => first,
            () = stop.cancelled() => None,
        };
        let Some(first) = first else { return };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(INTERVAL) => {}
        }
        batch.push(span_data(first, &scope));
        while !batch.is_empty() {
            while batch.len() < BATCH
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span_data(span, &scope));
            }
            let count = batch.len() as u64;
            if let Err(error) = exporter.export(std::mem::take(&mut batch)).await {
                metrics::counter!("mainspring_trace_spans_dropped_total").increment(count);
                if let Some(batches) = lost.count() {
                    tracing::warn!(%error, batches, "spans are lost: the collector does not take them");
                }
            }
            // Only what is there at once: a batch that is full has others behind it.
            if let Ok(span) = spans.try_recv() {
                batch.push(span_data(span, &scope));
            }
        }
    }
}
