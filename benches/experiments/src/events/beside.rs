//! The load beside the events: clients that start instances which wait, and plain executes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mainspring::internals::{Client, Latencies};
use serde_json::json;

use super::connections::Connections;
use super::{Address, EXECUTED, Errors, PLAIN, WARM_UP, Window};
use crate::settings::SharedNames;

/// The number of plain executes per second.
const RATE: u32 = 100;

/// The number of connections for them: a slow one does not delay the next.
const EXECUTE_CONNECTIONS: usize = 64;

/// The response about an instance that waits.
const SUSPENDED: &[u8] = br#""subStatus":"Suspended""#;

pub(super) struct Beside<'a> {
    settings: &'a SharedNames,
    errors: &'a Errors,
    starters: Connections,
    executes: Connections,
    /// Instances that were started, in all phases.
    started: AtomicUsize,
    /// Instances that began to wait in the measured time of this phase.
    pub(super) waiters: AtomicUsize,
}

/// The result of one phase.
pub(super) struct Phase {
    pub(super) took: Duration,
    pub(super) waiters_per_s: f64,
    pub(super) execute: Latencies,
}

impl<'a> Beside<'a> {
    pub(super) fn new(nodes: &[Client], settings: &'a SharedNames, errors: &'a Errors) -> Self {
        Self {
            settings,
            errors,
            starters: Connections::new(nodes, settings.starters),
            executes: Connections::new(nodes, EXECUTE_CONNECTIONS),
            started: AtomicUsize::new(0),
            waiters: AtomicUsize::new(0),
        }
    }

    /// Runs `starters` clients and the executes in a new window.
    pub(super) async fn phase(&self, starters: usize, window: &Window, each_second: impl FnMut(usize)) -> Phase {
        self.waiters.store(0, Relaxed);
        let pass = window.pass(self.settings.seconds, each_second);
        let starters = join_all((0..starters).map(|_| self.start(window)));
        let (took, _, times) = tokio::join!(pass, starters, self.execute());
        Phase {
            took,
            waiters_per_s: self.waiters.load(Relaxed) as f64 / took.as_secs_f64(),
            execute: Latencies::of(&times),
        }
    }

    /// Starts instances until the window is over, each when the one before waits.
    async fn start(&self, window: &Window) {
        while !window.is_over() {
            let number = self.started.fetch_add(1, Relaxed);
            let start = Address::of(self.settings, "started", number).start();
            match self.starters.post("workflow-definitions/bench/execute", &start).await {
                Ok(answer) if answer.windows(SUSPENDED.len()).any(|part| part == SUSPENDED) => {
                    if window.is_measuring() {
                        self.waiters.fetch_add(1, Relaxed);
                    }
                }
                Ok(_) => self.errors.add("an instance that was started does not wait"),
                Err(failure) => {
                    self.errors.add(&failure.redacted());
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Executes at a fixed rate for the time of a window. Returns the microseconds from the time at which each was due in
    /// the measured time to its response.
    async fn execute(&self) -> Vec<f64> {
        let (path, body) = (
            format!("workflow-definitions/{PLAIN}/execute"),
            json!({"input": {"line": EXECUTED}}),
        );
        let began = Instant::now();
        let seconds = u32::try_from(self.settings.seconds).unwrap_or(u32::MAX / RATE);
        let (path, body) = (&path, &body);
        let executes = (0..RATE * seconds).map(async |number| {
            let due = began + WARM_UP + Duration::from_secs(1) / RATE * number;
            tokio::time::sleep_until(due.into()).await;
            match self.executes.post(path, body).await {
                Ok(_) => Some(due.elapsed().as_secs_f64() * 1e6),
                Err(failure) => {
                    self.errors.add(&failure.redacted());
                    None
                }
            }
        });
        join_all(executes).await.into_iter().flatten().collect()
    }
}
