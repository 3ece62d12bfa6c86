//! `snapshot`: executes over HTTP at a fixed rate, without and with a transaction that holds a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mainspring::internals::{Client, Failure, PersistentConnection, Target, nearest_rank, print_line};
use serde_json::json;
use tokio::task::JoinSet;

use super::poll::hold_snapshot;
use super::{millis, start_node, with_schema};
use crate::database::open;
use crate::settings::Snapshot;

/// The number of client connections.
const CONNECTIONS: usize = 32;

pub(crate) async fn run(target: &Target, settings: &Snapshot) -> Result<(), Failure> {
    with_schema(target, async |scratch| {
        let mut node = start_node(target, scratch).await?;
        let client = Client::new(&node.url());
        let definition =
            json!({"definitionId": "hello", "root": {"type": "Elsa.WriteLine", "id": "line", "text": "Hello"}});
        client.publish(&definition).await?;
        let without = latencies(&client, settings).await?;
        let session = open(scratch).await?;
        let time = Duration::from_secs(settings.seconds as u64 + 2);
        let holder = tokio::spawn(async move { hold_snapshot(session, time).await });
        let with = latencies(&client, settings).await?;
        node.stop().await;
        holder
            .await
            .map_err(|error| Failure::failed(format!("the session with the snapshot ended early: {error}")))??;
        for (name, times) in [("without", &without), ("with", &with)] {
            print_line(&format!(
                "{name} an old snapshot: median {:.2} ms, p99 {:.2} ms, of {}",
                nearest_rank(times, 50),
                nearest_rank(times, 99),
                times.len()
            ));
        }
        let ratio = nearest_rank(&with, 99) / nearest_rank(&without, 99).max(1e-9);
        print_line(&format!("p99: {ratio:.2} times"));
        Ok(())
    })
    .await
}

/// The latencies in milliseconds, each from the time at which the request was due.
async fn latencies(client: &Client, settings: &Snapshot) -> Result<Vec<f64>, Failure> {
    let (next, total) = (Arc::new(AtomicUsize::new(0)), settings.seconds * settings.rate);
    let (began, interval) = (
        Instant::now(),
        Duration::from_secs(1) / u32::try_from(settings.rate).unwrap_or(1),
    );
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (mut connection, next) = (PersistentConnection::open(client).await?, Arc::clone(&next));
        tasks.spawn(async move {
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= total {
                    return Ok::<_, Failure>(times);
                }
                let due = began + interval * u32::try_from(number).unwrap_or(u32::MAX);
                tokio::time::sleep_until(due.into()).await;
                connection.post("workflow-definitions/hello/execute", "{}").await?;
                times.push(millis(due.elapsed()));
            }
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        times.extend(ended.map_err(|error| Failure::failed(format!("a client ended early: {error}")))??);
    }
    Ok(times)
}
