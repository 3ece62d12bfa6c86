//! The recorder of metrics that `serve` installs.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::task::AbortOnDropHandle;

use crate::api::MetricsText;
use crate::harness::failure::Failure;
use crate::metric::{self, MetricKind};

/// How often what histograms have recorded is put into their buckets: a scrape then has little left to do, and a node that is not
/// scraped keeps no more.
const UPKEEP: Duration = Duration::from_secs(1);

/// The recorder of this process. Its metrics stay when this ends; what they have recorded is kept as it is then.
pub(super) struct MetricsRecorder {
    handle: PrometheusHandle,
    _upkeep: AbortOnDropHandle<()>,
}

impl MetricsRecorder {
    /// Installs it, before the engine starts. Histograms have the buckets of the table.
    pub(super) fn install() -> Result<Self, Failure> {
        let mut builder = PrometheusBuilder::new();
        for metric in metric::all() {
            if let MetricKind::Histogram(buckets) = metric.kind {
                let name = Matcher::Full(metric.name.to_owned());
                builder = builder
                    .set_buckets_for_metric(name, buckets)
                    .map_err(|error| Failure::failed(format!("the buckets of {} are wrong: {error}", metric.name)))?;
            }
        }
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder)
            .map_err(|_| Failure::failed("this process has another recorder of metrics"))?;
        let upkept = handle.clone();
        let upkeep = tokio::spawn(async move {
            loop {
                tokio::time::sleep(UPKEEP).await;
                upkept.run_upkeep();
            }
        });
        Ok(Self {
            handle,
            _upkeep: AbortOnDropHandle::new(upkeep),
        })
    }

    /// What renders its metrics.
    pub(super) fn text(&self) -> MetricsText {
        let handle = self.handle.clone();
        MetricsText::new(move || handle.render())
    }
}
