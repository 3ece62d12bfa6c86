//! `mainspring bench signals`: events and the instances that wait for them.
//!
//! `events` measures how long it takes from an event until its instance has run, on request beside further waiting
//! instances, starts of such instances and plain executes; `fan_out` one event that resumes many instances.

mod beside;
mod connections;
mod events;
mod fan_out;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::settings::BenchSignals;
use crate::harness::client::Client;
use crate::harness::failure::Failure;
use crate::harness::settings::Target;

const WARM_UP: Duration = Duration::from_secs(1);

/// The definition that writes its input `line`, and waits for nothing.
const PLAIN: &str = "plain";

/// The line of an instance of [`PLAIN`] that only its execute is measured of.
const EXECUTED: &str = "executed";

pub(crate) async fn run(target: &Target, settings: &BenchSignals) -> Result<(), Failure> {
    if settings.fan_out {
        fan_out::run(target, settings).await
    } else {
        events::run(target, settings).await
    }
}

/// The errors of all clients.
#[derive(Default)]
struct Errors(AtomicUsize);

impl Errors {
    fn add(&self, what: &str) {
        // An unavailable node fails at once: the output is limited.
        if self.0.fetch_add(1, Relaxed) < 10 {
            eprintln!("error: {what}");
        }
    }

    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// The measured time, as the clients of a phase see it.
#[derive(Default)]
struct Window {
    measuring: AtomicBool,
    stop: AtomicBool,
}

impl Window {
    /// Opens after the warm-up for so many seconds, and calls `each_second`. Returns how long it was open.
    async fn pass(&self, seconds: usize, mut each_second: impl FnMut(usize)) -> Duration {
        tokio::time::sleep(WARM_UP).await;
        self.measuring.store(true, Relaxed);
        let began = Instant::now();
        for second in 1..=seconds {
            tokio::time::sleep_until((began + Duration::from_secs(second as u64)).into()).await;
            each_second(second);
        }
        self.measuring.store(false, Relaxed);
        self.stop.store(true, Relaxed);
        began.elapsed()
    }

    fn is_measuring(&self) -> bool {
        self.measuring.load(Relaxed)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

/// What events name to reach an instance.
struct Address {
    event: String,
    correlation_id: Option<String>,
}

impl Address {
    /// The address of an instance; `group` distinguishes the clients' instances from the further ones.
    fn of(settings: &BenchSignals, group: &str, number: usize) -> Self {
        let own = format!("{group}-{number}");
        Self {
            event: settings
                .names
                .map_or_else(|| own.clone(), |names| format!("shared-{}", number % names)),
            correlation_id: settings.correlated.then_some(own),
        }
    }

    /// The request that starts the instance.
    fn start(&self) -> Value {
        json!({"input": {"event": self.event}, "correlationId": self.correlation_id})
    }
}

/// The expression of a text: `kind` is `Input` or `Output`.
fn text_of(kind: &str, value: Value) -> Value {
    json!({"typeName": "String", "expression": {"type": kind, "value": value}})
}

/// Publishes a definition.
async fn publish(node: &Client, id: &str, root: Value) -> Result<(), Failure> {
    let save = json!({"model": {"definitionId": id, "root": root}, "publish": true});
    node.post("workflow-definitions", &save).await?;
    Ok(())
}

/// Publishes [`PLAIN`].
async fn publish_plain(node: &Client) -> Result<(), Failure> {
    let line = text_of("Input", json!({"name": "line"}));
    publish(
        node,
        PLAIN,
        json!({"type": "Elsa.WriteLine", "id": "line", "text": line}),
    )
    .await
}
