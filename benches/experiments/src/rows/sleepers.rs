//! `memory` and `due-at-once`: many sleeping instances. One is started and sleeps; the others are copies of
//! its rows.

use std::time::{Duration, Instant};

use mainspring::internals::{Client, Failure, ScratchDatabase, Target, nearest_rank, print_line};
use serde_json::json;
use tokio_postgres::Client as Database;

use super::{memory_of, start_node, with_schema};
use crate::database::{count, execute, failed, open};
use crate::settings::{DueAtOnce, Memory};

/// The number of nodes whose memory is read, one after another.
const STARTS: usize = 5;

/// How long a node runs before its memory is read.
const SETTLE: Duration = Duration::from_secs(5);

/// The tables of a sleeping instance, each with its columns that the copies do not share. The number of a bookmark takes its
/// default.
const TABLES: [(&str, &str, &str); 3] = [
    ("instance", "id", "'i' || n"),
    ("bookmark", "instance_id, id", "'i' || n, id"),
    ("timer", "instance_id, id, due, available_at", "'i' || n, id, due, due"),
];

const COLUMNS: &str = "SELECT string_agg(quote_ident(attname), ', ') AS names FROM pg_attribute
                       WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
                         AND attname NOT IN ('id', 'instance_id', 'due', 'available_at', 'number')";

const FINISHED: &str = "SELECT count(*) FROM instance WHERE definition_id = 'sleeper' AND status = 1 /* finished */";

/// Measures the resident memory of a new node without and with sleeping instances.
pub(crate) async fn memory(target: &Target, settings: &Memory) -> Result<(), Failure> {
    with_schema(target, async |scratch| {
        let without = median_memory(target, scratch).await?;
        sleep_one(target, scratch).await?;
        let session = open(scratch).await?;
        copy(&session.client, settings.rows).await?;
        let with = median_memory(target, scratch).await?;
        print_line(&format!(
            "resident memory: {without:.1} MB without sleeping instances, {with:.1} MB with {}: {:+.1} MB",
            settings.rows,
            with - without
        ));
        Ok(())
    })
    .await
}

/// Measures how fast instances resume that are all due at one instant, and how long other executes take meanwhile.
pub(crate) async fn due_at_once(target: &Target, settings: &DueAtOnce) -> Result<(), Failure> {
    with_schema(target, async |scratch| {
        sleep_one(target, scratch).await?;
        let session = open(scratch).await?;
        copy(&session.client, settings.rows).await?;
        execute(&session.client, "UPDATE timer SET due = now(), available_at = now()").await?;
        execute(&session.client, "VACUUM ANALYZE timer").await?;
        let mut node = start_node(target, scratch).await?;
        let client = Client::new(&node.url());
        let began = Instant::now();
        let mut times = Vec::new();
        for second in 1..=settings.seconds {
            tokio::time::sleep_until((began + Duration::from_secs(second as u64)).into()).await;
            let called = Instant::now();
            client.post("workflow-definitions/fresh/execute", &json!({})).await?;
            times.push(called.elapsed().as_secs_f64());
            eprintln!("{second} s: {} finished", count(&session.client, FINISHED).await?);
        }
        let finished = count(&session.client, FINISHED).await?;
        let memory = memory_of(&node, "VmRSS:")?;
        node.stop().await;
        print_line(&format!(
            "{} instances due at once: {finished} finished in {} s, resident memory {memory:.0} MB",
            settings.rows, settings.seconds
        ));
        print_line(&format!(
            "execute meanwhile: median {:.3} s, longest {:.3} s",
            nearest_rank(&times, 50),
            nearest_rank(&times, 100)
        ));
        Ok(())
    })
    .await
}

/// Publishes the definitions, and starts one instance that sleeps.
async fn sleep_one(target: &Target, scratch: &ScratchDatabase) -> Result<(), Failure> {
    let mut node = start_node(target, scratch).await?;
    let client = Client::new(&node.url());
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": "ran"});
    for definition in [
        json!({"definitionId": "sleeper", "root": {"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": "Elsa.Delay", "id": "delay", "timeSpan": "10:00:00"}, line]}}),
        json!({"definitionId": "fresh", "root": line}),
    ] {
        client.publish(&definition).await?;
    }
    client.post("workflow-definitions/sleeper/execute", &json!({})).await?;
    node.stop().await;
    Ok(())
}

/// Copies the rows of the sleeping instance until there are `rows`.
async fn copy(database: &Database, rows: usize) -> Result<(), Failure> {
    for (table, own, values) in TABLES {
        let shared: String = database
            .query_one(COLUMNS, &[&table])
            .await
            .map_err(failed)?
            .get("names");
        let insert = format!(
            "INSERT INTO {table} ({own}, {shared}) SELECT {values}, {shared} FROM {table}, generate_series(2, {rows}) n"
        );
        execute(database, &insert).await?;
        execute(database, &format!("VACUUM ANALYZE {table}")).await?;
    }
    Ok(())
}

/// The median of the resident memory of nodes after their start, in MB.
async fn median_memory(target: &Target, scratch: &ScratchDatabase) -> Result<f64, Failure> {
    let mut sizes = Vec::new();
    for _ in 0..STARTS {
        let mut node = start_node(target, scratch).await?;
        tokio::time::sleep(SETTLE).await;
        sizes.push(memory_of(&node, "VmRSS:")?);
        node.stop().await;
    }
    Ok(nearest_rank(&sizes, 50))
}
