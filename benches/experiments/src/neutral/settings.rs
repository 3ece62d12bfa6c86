//! The environment that the harness gives.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use mainspring::internals::Failure;

/// The schema of the engine; `adapter.json` names its tables.
pub(crate) const SCHEMA: &str = "mainspring";

/// What decides how many jobs are produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pacing {
    /// `ENQUEUE <count>` lines on standard input
    Tokens,
    /// A rate, credited by the time that has passed
    Rate,
    /// The queue is kept at a depth
    Depth,
}

/// Whether instances have a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Journal {
    /// The default of the engine
    Full,
    Off,
}

/// All settings.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) database_url: String,
    /// 0-based, of the replicas of a run.
    pub(crate) instance_id: u32,
    pub(crate) pacing: Pacing,
    /// Whether this replica produces.
    pub(crate) is_producer: bool,
    /// Jobs per second.
    pub(crate) producer_rate: f64,
    /// A file with another rate, which the harness writes while the adapter runs.
    pub(crate) rate_file: Option<PathBuf>,
    pub(crate) target_depth: u64,
    /// How many jobs are dispatched at the same time at most.
    pub(crate) batch_max: usize,
    /// The interval of the producer.
    pub(crate) batch_interval: Duration,
    /// Concurrent bursts.
    pub(crate) worker_count: usize,
    pub(crate) pool_size: usize,
    pub(crate) payload_bytes: usize,
    pub(crate) job_work: Duration,
    pub(crate) sample_every: Duration,
    /// What percentiles are of.
    pub(crate) latency_window: Duration,
    pub(crate) journal: Journal,
}

impl Settings {
    pub(crate) fn from_env() -> Result<Self, Failure> {
        Self::read(&|name| std::env::var(name).ok())
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let environment = Environment(variable);
        environment.word("SCENARIO", &[("long_horizon", ())])?;
        let pacing = match environment.word("PRODUCER_MODE", &[("fixed", true), ("depth-target", false)])? {
            true => environment.word(
                "PRODUCER_PACING",
                &[("adapter", Pacing::Rate), ("harness", Pacing::Tokens)],
            )?,
            false => Pacing::Depth,
        };
        let instance_id = environment.number("BENCH_INSTANCE_ID", 0, 0..=9_999)?;
        let is_single = environment.number("PRODUCER_ONLY_INSTANCE_ZERO", 0, 0..=1)? == 1;
        let milliseconds = |name, default, range| environment.number(name, default, range).map(Duration::from_millis);
        Ok(Self {
            database_url: environment.required(
                "DATABASE_URL",
                "the URL of the database, as postgres://host:port/database",
            )?,
            instance_id,
            pacing,
            is_producer: !is_single || instance_id == 0,
            producer_rate: environment.number("PRODUCER_RATE", 800.0, 0.0..=1_000_000.0)?,
            rate_file: environment.value("PRODUCER_RATE_CONTROL_FILE").map(PathBuf::from),
            target_depth: environment.number("TARGET_DEPTH", 1_000, 1..=10_000_000)?,
            batch_max: environment.number("PRODUCER_BATCH_MAX", 128, 1..=10_000)?,
            batch_interval: milliseconds("PRODUCER_BATCH_MS", 10, 1..=10_000)?,
            worker_count: environment.number("WORKER_COUNT", 32, 1..=4_096)?,
            pool_size: environment.number("MAINSPRING_POOL_SIZE", 8, 1..=256)?,
            payload_bytes: environment.number("JOB_PAYLOAD_BYTES", 256, 0..=1_000_000)?,
            job_work: milliseconds("JOB_WORK_MS", 1, 0..=600_000)?,
            sample_every: Duration::from_secs(environment.number("SAMPLE_EVERY_S", 5, 1..=3_600)?),
            latency_window: milliseconds("LATENCY_WINDOW_MS", 30_000, 1_000..=3_600_000)?,
            journal: environment.word("MAINSPRING_JOURNAL", &[("full", Journal::Full), ("off", Journal::Off)])?,
        })
    }

    /// Whether this replica reports what is one number for all: the depths.
    pub(crate) fn is_observer(&self) -> bool {
        self.instance_id == 0
    }
}

/// Where variables come from.
struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Environment<'_> {
    /// An empty variable counts as none.
    fn value(&self, name: &str) -> Option<String> {
        (self.0)(name)
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    }

    fn required(&self, name: &str, what: &str) -> Result<String, Failure> {
        self.value(name)
            .ok_or_else(|| Failure::usage(format!("set {name} to {what}")))
    }

    fn number<T>(&self, name: &str, default: T, range: RangeInclusive<T>) -> Result<T, Failure>
    where
        T: FromStr + PartialOrd + Display,
    {
        let Some(value) = self.value(name) else {
            return Ok(default);
        };
        let number = value.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            Failure::usage(format!(
                "{name} is `{value}`; set it to a number from {least} to {most}"
            ))
        })
    }

    /// One of several words; the first one by default.
    fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, Failure> {
        let value = self.value(name);
        let mut candidates = words.iter();
        let found = match &value {
            Some(value) => candidates.find(|(word, _)| word == value),
            None => candidates.next(),
        };
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let value = value.unwrap_or_default();
            Failure::usage(format!("{name} is `{value}`; set it to {}", words.join(" or ")))
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let find = |name: &str| {
            let all = [("DATABASE_URL", "postgres://localhost/x")];
            let mut pairs = variables.iter().chain(&all);
            pairs
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        Settings::read(&find).map_err(|failure| failure.redacted())
    }

    #[test]
    fn defaults_are_those_of_the_harness() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.pacing, Pacing::Rate);
        assert_eq!((settings.worker_count, settings.batch_max), (32, 128));
        assert!((settings.producer_rate - 800.0).abs() < f64::EPSILON);
        assert!(settings.is_producer && settings.is_observer());
    }

    #[test]
    fn a_mode_decides_about_the_pacing() {
        let pacing = |variables| read(variables).unwrap().pacing;
        assert_eq!(pacing(&[("PRODUCER_PACING", "harness")]), Pacing::Tokens);
        let both = [("PRODUCER_PACING", "harness"), ("PRODUCER_MODE", "depth-target")];
        assert_eq!(pacing(&both), Pacing::Depth);
    }

    #[test]
    fn a_replica_may_be_a_consumer_only() {
        let settings = read(&[("BENCH_INSTANCE_ID", "1"), ("PRODUCER_ONLY_INSTANCE_ZERO", "1")]).unwrap();
        assert!(!settings.is_producer && !settings.is_observer());
    }

    #[test]
    fn what_is_wrong_is_refused_with_what_is_right() {
        for (name, value, message) in [
            (
                "WORKER_COUNT",
                "0",
                "WORKER_COUNT is `0`; set it to a number from 1 to 4096",
            ),
            (
                "WORKER_COUNT",
                "many",
                "WORKER_COUNT is `many`; set it to a number from 1 to 4096",
            ),
            (
                "PRODUCER_RATE",
                "NaN",
                "PRODUCER_RATE is `NaN`; set it to a number from 0 to 1000000",
            ),
            (
                "PRODUCER_MODE",
                "burst",
                "PRODUCER_MODE is `burst`; set it to fixed or depth-target",
            ),
            ("SCENARIO", "migrate", "SCENARIO is `migrate`; set it to long_horizon"),
            (
                "MAINSPRING_JOURNAL",
                "none",
                "MAINSPRING_JOURNAL is `none`; set it to full or off",
            ),
            (
                "DATABASE_URL",
                "",
                "set DATABASE_URL to the URL of the database, as postgres://host:port/database",
            ),
        ] {
            assert_eq!(read(&[(name, value)]).unwrap_err(), message);
        }
    }
}
