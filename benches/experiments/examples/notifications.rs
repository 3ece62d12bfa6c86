//! The latency of notifications between nodes, and the load of idle nodes on the database.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --release -p mainspring-experiments --example notifications [ROUNDS [SECONDS]]`
//!
//! Three nodes run in one process, each with its own connections, the first without workers. `event`: from the acceptance
//! of an event by the first node until the activity after it runs on another one. `publish`: from the end of a publish on
//! the first node until the third one returns the new version. Times are those of this process's clock; the cluster is
//! idle otherwise. `idle`: transactions of the whole database per second (`xact_commit + xact_rollback`) during SECONDS
//! (60) without requests; use a separate database.

use std::time::{Duration, Instant};

use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::runtime::{EventRequest, StartRequest, VersionOptions};
use mainspring::{Engine, Result, definition::WorkflowDefinition};
use tokio::sync::mpsc;

/// Reports when it ran.
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
        // Returns when the instance waits for the event.
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
    // Idle sessions report their statistics after ten seconds.
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

/// The number of transactions of the database so far.
async fn transactions(url: &str) -> Option<i64> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.ok()?;
    let connection = tokio::spawn(connection);
    let query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let count = client.query_one(query, &[]).await.ok()?.get(0);
    drop(client);
    let _ = connection.await;
    Some(count)
}

/// A random pause between two rounds, so that they do not fall into step.
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
