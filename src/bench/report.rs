//! What the reports of the benchmarks share: percentiles, JSON fields, and the description of machine and server.

use serde_json::{Value, json};

use super::queries;
use crate::Result;
use crate::db::{Connector, DatabaseUrl, SchemaName};

/// The percentile by nearest rank.
pub fn nearest_rank(times: &[f64], percent: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// The percentile by nearest rank, rounded to a tenth.
pub(super) fn percentile(times: &[f64], percent: usize) -> f64 {
    (nearest_rank(times, percent) * 10.0).round() / 10.0
}

/// Percentiles of latencies, in microseconds.
pub struct Latencies {
    /// The median.
    pub p50: f64,
    /// What 95 of 100 do not exceed.
    pub p95: f64,
    /// What 99 of 100 do not exceed.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Latencies {
    /// Of these times.
    pub fn of(micros: &[f64]) -> Self {
        let [p50, p95, p99, max] = [50, 95, 99, 100].map(|percent| percentile(micros, percent));
        Self { p50, p95, p99, max }
    }

    /// As text, in milliseconds.
    pub fn in_text(&self) -> String {
        let [p50, p95, p99, max] = [self.p50, self.p95, self.p99, self.max].map(|micros| micros / 1e3);
        format!("p50 {p50:.2} ms, p95 {p95:.2} ms, p99 {p99:.2} ms, longest {max:.2} ms")
    }

    /// The JSON object of a benchmark: the shared fields, then those of the object `more`.
    pub fn report(&self, bench: &str, measured: &Measured, more: Value) -> Value {
        let mut report = json!({
            "bench": bench,
            "clients": measured.clients,
            "seconds": measured.seconds,
            "ops_per_s": measured.per_second.round(),
            "p50_us": self.p50,
            "p95_us": self.p95,
            "p99_us": self.p99,
            "max_us": self.max,
            "errors": measured.errors,
        });
        add_fields(&mut report, more);
        report
    }
}

/// Appends the fields of the object `more` to a report.
pub fn add_fields(report: &mut Value, more: Value) {
    if let (Value::Object(report), Value::Object(more)) = (report, more) {
        report.extend(more);
    }
}

/// The shared figures beside the latencies.
pub struct Measured {
    /// Concurrent clients.
    pub clients: usize,
    /// The measured time.
    pub seconds: usize,
    /// What was done in a second.
    pub per_second: f64,
    /// What failed, and violated invariants.
    pub errors: usize,
}

/// Describes the machine and the server, in a line each.
pub async fn describe_environment(url: &str) -> Result<[String; 2]> {
    // Any name: the schema need not exist.
    let connector = Connector::new(&DatabaseUrl::parse(url)?, &SchemaName::parse("mainspring")?)?;
    let settings = queries::server(&connector.open().await?.client).await?;
    let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    Ok([
        format!("machine: {}", machine()),
        format!("server: {}", settings.join(", ")),
    ])
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let field = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let mut parts = vec![format!("{cores} cores")];
    parts.extend(field("/proc/cpuinfo", "model name"));
    parts.extend(field("/proc/meminfo", "MemTotal").map(|memory| format!("{memory} of memory")));
    parts.push(format!("{} {}", std::env::consts::OS, std::env::consts::ARCH));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(percentile(&times, 50), 10.0);
        assert_eq!(percentile(&times, 95), 19.0);
        assert_eq!(percentile(&times, 100), 20.0);
        assert_eq!(percentile(&[1.26], 95), 1.3);
        assert_eq!(percentile(&[], 95), 0.0);
    }

    #[test]
    fn a_report_has_shared_and_own_fields() {
        let measured = Measured {
            clients: 3,
            seconds: 2,
            per_second: 9.6,
            errors: 1,
        };
        let report = Latencies::of(&[1.0, 2.0, 4.0]).report("x", &measured, json!({"lost": 0}));
        let wanted = r#"{"bench":"x","clients":3,"seconds":2,"ops_per_s":10.0,"p50_us":2.0,"p95_us":4.0,"p99_us":4.0,"max_us":4.0,"errors":1,"lost":0}"#;
        assert_eq!(report.to_string(), wanted);
    }
}
