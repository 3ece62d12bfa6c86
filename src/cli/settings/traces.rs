//! Settings of traces.

use clap::Args;

use crate::harness::failure::Failure;
use crate::harness::secret::Secret;

/// Where the traces of a node go.
#[derive(Debug, Args)]
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "no collector can be used"))]
pub(crate) struct TraceSettings {
    /// The collector that takes traces by OTLP over HTTP, such as http://localhost:4318; without it the node makes no spans. Headers
    /// for it are in OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<Secret>,
    /// Which part of the instances is sampled whose callers do not decide it, from 0 to 1; the same on all nodes
    #[arg(long, value_name = "RATIO", default_value = "1", value_parser = ratio)]
    pub(crate) otlp_ratio: f64,
}

impl TraceSettings {
    /// Refuses a collector in a program that can use none, and a URL that is none.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Some(endpoint) = &self.otlp_endpoint else {
            return Ok(());
        };
        if cfg!(not(feature = "otlp")) {
            return Err(Failure::usage(
                "this program was built without the feature `otlp`, so it sends no traces; remove the setting otlp-endpoint",
            ));
        }
        let url = reqwest::Url::parse(endpoint.reveal());
        match url.is_ok_and(|url| ["http", "https"].contains(&url.scheme()) && url.has_host()) {
            true => Ok(()),
            false => Err(Failure::usage(
                "the setting otlp-endpoint is no URL of a collector; give it as http://localhost:4318, for example",
            )),
        }
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "give a number from 0 to 1, such as 0.01".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_from_0_to_1() {
        assert_eq!(ratio("0.01"), Ok(0.01));
        for bad in ["", "1.1", "-0.1", "NaN", "1%"] {
            assert!(ratio(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_collector_has_a_url() {
        let of = |url: &str| TraceSettings {
            otlp_endpoint: Some(url.to_owned().into()),
            otlp_ratio: 1.0,
        };
        assert!(of("http://localhost:4318").check().is_ok());
        for bad in ["localhost:4318", "grpc://localhost:4317", "http://", ""] {
            assert!(of(bad).check().is_err(), "{bad}");
        }
    }
}
