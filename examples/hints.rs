//! How fast nodes tell each other, on this machine, and how little they ask of the database when there is nothing to tell.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --release --example hints [ROUNDS [SECONDS]]`
//!
//! Three nodes in one process, each with connections of its own, the first without workers. `event`: from the answer
//! to an event that the first accepts until the activity after it runs on one of the others; `publish`: from the answer
//! to a publish on the first until the third has evicted the old version and shows the new one. Times are those of one
//! clock, of this process; the cluster is idle but for what is measured. `idle`: transactions of the whole database per
//! second (`xact_commit + xact_rollback`) while for SECONDS (60) nobody wants anything; use a database of its own.

use std::time::{Duration, Instant};

use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::runtime::{EventRequest, StartRequest, VersionOptions};
use mainspring::{Engine, Result, definition::WorkflowDefinition};
use tokio::sync::mpsc;

/// Tells when it ran.
struct Mark(mpsc::UnboundedSender<Instant>);

impl Activity for Mark {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Mark")
    }

    async fn execute(&self, _context: &mut ActivityContext<'_>) -> std::result::Result<Step, Fault> {
        let _ = self.0.send(Instant::now());
        Ok(Step::Done)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    let rounds: usize = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(200);
    let (marks, mut marked) = mpsc::unbounded_channel();
    let node = |workers| {
        let builder = Engine::builder(&url).schema("mainspring_hints").workers(workers);
        builder.activity(Mark(marks.clone())).start()
    };
    let (first, second, third) = (node(0).await?, node(64).await?, node(64).await?);

    let definition = br#"{"definitionId": "hints", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Event", "id": "event", "eventName": "go"}, {"type": "Mark", "id": "mark"}]}}"#;
    let mut definition = WorkflowDefinition::from_json(definition)?;
    first.save(definition.clone(), true).await?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        // Answered when the instance waits.
        let start = StartRequest {
            definition_id: "hints".into(),
            ..StartRequest::default()
        };
        first.execute(start).await?;
        pause().await;
        let event = EventRequest {
            name: "go".to_owned(),
            ..EventRequest::default()
        };
        first.trigger_event(event).await?;
        let accepted = Instant::now();
        let ran = marked.recv().await.unwrap_or(accepted);
        times.push(ran.saturating_duration_since(accepted));
        pause().await;
    }
    report("event", times);

    let mut times = Vec::new();
    let id = "hints".into();
    for round in 0..rounds {
        definition.name = Some(format!("round {round}"));
        let name = serde_json::Value::from(definition.name.clone());
        third.definition(&id, VersionOptions::Published).await?;
        pause().await;
        first.save(definition.clone(), true).await?;
        let committed = Instant::now();
        while third.definition(&id, VersionOptions::Published).await?.get("name") != Some(&name) {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        times.push(committed.elapsed());
    }
    report("publish", times);

    let seconds: u32 = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(60);
    // What was under way ends, and every session tells its counts: one that falls idle does so after ten seconds.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let before = transactions(&url).await;
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    if let (Some(before), Some(after)) = (before, transactions(&url).await) {
        let rate = (after - before) as f64 / f64::from(seconds);
        println!("idle: {rate:.1} transactions/s over {seconds} s, three nodes");
    }
    for node in [first, second, third] {
        node.shutdown().await;
    }
    Ok(())
}

/// What the database has counted so far.
async fn transactions(url: &str) -> Option<i64> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.ok()?;
    let connection = tokio::spawn(connection);
    let query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let count = client.query_one(query, &[]).await.ok()?.get(0);
    drop(client);
    let _ = connection.await;
    Some(count)
}

/// Between two rounds, and not always the same, so that no round rides on what another one left under way.
async fn pause() {
    tokio::time::sleep(Duration::from_micros(rand::random_range(10_000..30_000))).await;
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| {
        let place = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(place).map_or(0.0, Duration::as_secs_f64) * 1000.0
    };
    println!(
        "{what}: {} rounds, p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
        times.len(),
        at(50),
        at(95),
        at(99),
        at(100)
    );
}
