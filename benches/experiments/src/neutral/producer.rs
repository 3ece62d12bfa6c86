//! The producer: a batch is as many dispatches at the same time, which the engine accepts in common commits.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::future::join_all;
use mainspring::Engine;
use mainspring::internals::Failure;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::job;
use crate::measures::Measures;
use crate::settings::{Pacing, Settings};

/// How long the producer waits after a batch of which nothing was accepted.
const BACKOFF: Duration = Duration::from_millis(200);

/// How long it waits while the queue is deep enough.
const DEPTH_INTERVAL: Duration = Duration::from_millis(50);

/// The tokens that wait; more wait in the pipe.
const TOKENS: usize = 1_024;

/// Produces until the process ends.
pub(crate) async fn run(settings: Arc<Settings>, measures: Arc<Measures>, engine: Engine) -> Result<(), Failure> {
    if !settings.is_producer {
        return std::future::pending().await;
    }
    let producer = Producer {
        payload: "x".repeat(settings.payload_bytes),
        settings,
        measures,
        engine,
    };
    match producer.settings.pacing {
        Pacing::Tokens => producer.by_tokens().await,
        Pacing::Rate => producer.by_rate().await,
        Pacing::Depth => producer.by_depth().await,
    }
}

struct Producer {
    settings: Arc<Settings>,
    measures: Arc<Measures>,
    engine: Engine,
    payload: String,
}

impl Producer {
    /// The harness decides when, and how many.
    async fn by_tokens(&self) -> Result<(), Failure> {
        let mut tokens = tokens()?;
        self.aim_at(self.settings.producer_rate);
        while let Some(mut count) = tokens.recv().await {
            while count > 0 {
                let size = count.min(self.settings.batch_max);
                self.produce(size).await;
                count -= size;
            }
        }
        // The harness closes its end before it ends the process.
        std::future::pending().await
    }

    async fn by_rate(&self) -> Result<(), Failure> {
        let (mut next, mut credit) = (Instant::now(), Credit::new(Instant::now()));
        let mut rate = self.settings.producer_rate;
        loop {
            next = (next + self.settings.batch_interval).max(Instant::now());
            sleep_until(next).await;
            rate = self.settings.rate_file.as_deref().and_then(rate_in).unwrap_or(rate);
            self.aim_at(rate);
            credit.grow(Instant::now(), rate);
            // What one batch cannot take is owed, and follows at once.
            while let Some(size) = credit.take(self.settings.batch_max) {
                self.produce(size).await;
                credit.grow(Instant::now(), rate);
            }
        }
    }

    async fn by_depth(&self) -> Result<(), Failure> {
        self.aim_at(0.0);
        loop {
            let missing = self
                .settings
                .target_depth
                .saturating_sub(self.measures.queued.load(Relaxed));
            let size = usize::try_from(missing)
                .unwrap_or(usize::MAX)
                .min(self.settings.batch_max);
            if size > 0 {
                self.produce(size).await;
            } else {
                sleep(DEPTH_INTERVAL).await;
            }
        }
    }

    async fn produce(&self, size: usize) {
        let began = Instant::now();
        let dispatches = (0..size).map(|_| self.engine.dispatch(job::start(&self.payload)));
        let outcomes = join_all(dispatches).await;
        let took = began.elapsed();
        let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if let Some(error) = outcomes.iter().find_map(|outcome| outcome.as_ref().err()) {
            eprintln!(
                "mainspring-neutral: {} of {size} jobs were not accepted: {error}",
                size - accepted
            );
        }
        let Some(divisor) = u32::try_from(accepted).ok().filter(|accepted| *accepted > 0) else {
            sleep(BACKOFF).await;
            return;
        };
        let accepted = u64::from(divisor);
        self.measures.enqueued.fetch_add(accepted, Relaxed);
        self.measures.calls.record(took);
        self.measures.jobs.record_each(took / divisor, accepted);
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn aim_at(&self, rate: f64) {
        self.measures.target_rate.store(rate as u64, Relaxed);
    }
}

/// The jobs that are owed, by the time that has passed and not by the number of batches: a slow batch loses no load.
struct Credit {
    jobs: f64,
    since: Instant,
}

impl Credit {
    fn new(now: Instant) -> Self {
        Self { jobs: 0.0, since: now }
    }

    fn grow(&mut self, now: Instant, rate: f64) {
        self.jobs += rate * now.saturating_duration_since(self.since).as_secs_f64();
        self.since = now;
    }

    /// So many whole jobs, at most.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    fn take(&mut self, most: usize) -> Option<usize> {
        let size = (self.jobs as usize).min(most);
        self.jobs -= size as f64;
        (size > 0).then_some(size)
    }
}

/// The rate in the file. A file that is being written, or was removed, leaves the rate as it is.
fn rate_in(file: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(file).ok()?;
    text.trim()
        .parse()
        .ok()
        .filter(|rate| (0.0..=1_000_000.0).contains(rate))
}

/// The counts of the lines of standard input.
fn tokens() -> Result<mpsc::Receiver<usize>, Failure> {
    let (sender, receiver) = mpsc::channel(TOKENS);
    let thread = std::thread::Builder::new().name("tokens".to_owned());
    let reader = move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match count_of(&line) {
                Some(count) if sender.blocking_send(count).is_err() => return,
                Some(_) => {}
                None => {
                    eprintln!("mainspring-neutral: the line `{line}` is ignored; send ENQUEUE and a number of jobs")
                }
            }
        }
        eprintln!("mainspring-neutral: standard input has ended, so no more jobs are produced");
    };
    thread
        .spawn(reader)
        .map_err(|error| Failure::failed(format!("cannot start the thread that reads standard input: {error}")))?;
    Ok(receiver)
}

fn count_of(line: &str) -> Option<usize> {
    let count = line.trim().strip_prefix("ENQUEUE ")?.trim().parse().ok()?;
    (1..=1_000_000).contains(&count).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_by_the_time_that_has_passed() {
        let began = Instant::now();
        let mut credit = Credit::new(began);
        credit.grow(began + Duration::from_millis(5), 100.0);
        assert_eq!(credit.take(128), None);
        // A batch that took a second is owed a second's jobs.
        credit.grow(began + Duration::from_millis(1_005), 100.0);
        assert_eq!(credit.take(64), Some(64));
        assert_eq!(credit.take(64), Some(36));
        assert_eq!(credit.take(64), None);
    }

    #[test]
    fn a_token_has_a_number_of_jobs() {
        assert_eq!(count_of("ENQUEUE 20\n"), Some(20));
        for line in [
            "",
            "ENQUEUE",
            "ENQUEUE 0",
            "ENQUEUE -1",
            "ENQUEUE x",
            "20",
            "ENQUEUE 99999999",
        ] {
            assert_eq!(count_of(line), None, "{line}");
        }
    }
}
