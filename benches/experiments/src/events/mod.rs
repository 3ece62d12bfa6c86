//! `shared-names` and `fan-out`: events and the instances that wait for them.

mod beside;
mod connections;
mod fan_out;
mod shared_names;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mainspring::internals::{Client, Failure};
use serde_json::{Value, json};

use crate::settings::SharedNames;

pub(crate) use fan_out::run as fan_out;
pub(crate) use shared_names::run as shared_names;

const WARM_UP: Duration = Duration::from_secs(1);

/// The definition that writes its input `line`, and waits for nothing.
const PLAIN: &str = "plain";

/// The line of an instance of [`PLAIN`] that only its execute is measured of.
const EXECUTED: &str = "executed";

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
    correlation_id: String,
}

impl Address {
    /// The address of an instance; `group` distinguishes the clients' instances from the further ones.
    fn of(settings: &SharedNames, group: &str, number: usize) -> Self {
        let own = format!("{group}-{number}");
        Self {
            event: settings
                .names
                .map_or_else(|| own.clone(), |names| format!("shared-{}", number % names)),
            correlation_id: own,
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

/// Publishes [`PLAIN`].
async fn publish_plain(node: &Client) -> Result<(), Failure> {
    let line = text_of("Input", json!({"name": "line"}));
    let root = json!({"type": "Elsa.WriteLine", "id": "line", "text": line});
    node.publish(&json!({"definitionId": PLAIN, "root": root})).await
}
