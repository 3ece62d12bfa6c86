//! The export of traces, if the settings name a collector.

use std::time::Duration;

use super::settings::{Common, Serve};
use crate::harness::failure::Failure;
#[cfg(feature = "otlp")]
use crate::otlp::{OtlpOptions, TraceExporter};
use crate::runtime::EngineBuilder;
use crate::trace::Traces;

/// How long a node that stops sends its last spans.
const LAST: Duration = Duration::from_secs(2);

/// Where the spans of a node go.
#[derive(Default)]
pub(super) struct TraceExport {
    traces: Option<Traces>,
    #[cfg(feature = "otlp")]
    exporter: Option<TraceExporter>,
}

impl TraceExport {
    #[cfg_attr(not(feature = "otlp"), allow(unused_variables, reason = "the settings were refused"))]
    pub(super) fn start(common: &Common, settings: &Serve) -> Result<Self, Failure> {
        #[cfg(feature = "otlp")]
        if let Some(endpoint) = &settings.traces.otlp_endpoint {
            let (traces, exporter) = TraceExporter::start(&OtlpOptions {
                endpoint: endpoint.reveal().to_owned(),
                ratio: settings.traces.otlp_ratio,
                node: settings.node_id.clone(),
                schema: common.schema.clone(),
            })?;
            return Ok(Self {
                traces: Some(traces),
                exporter: Some(exporter),
            });
        }
        Ok(Self::default())
    }

    /// Has the engine use it.
    pub(super) fn apply(&self, builder: EngineBuilder) -> EngineBuilder {
        match &self.traces {
            Some(traces) => builder.traces(traces.clone()),
            None => builder,
        }
    }

    /// Sends what is left.
    pub(super) async fn finish(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.finish(LAST).await;
        }
        #[cfg(not(feature = "otlp"))]
        let _ = LAST;
    }
}
