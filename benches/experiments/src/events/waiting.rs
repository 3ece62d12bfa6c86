//! The preparation of instances that wait: started by the nodes, or copied from one that was.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use mainspring::internals::{Client, Failure};
use serde_json::Value;
use tokio_postgres::Client as Database;

use super::connections::Connections;
use crate::database::{execute, waiting};

/// The number of concurrent starts.
const CONCURRENT_STARTS: usize = 64;

/// The timeout while the number of waiting instances does not grow.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts an instance of the definition with each request, and waits until all wait for their events.
pub(super) async fn start(
    database: &Database,
    nodes: &[Client],
    definition: &str,
    requests: impl ExactSizeIterator<Item = Value>,
) -> Result<(), Failure> {
    let count = requests.len();
    let wanted = waiting(database).await? + count;
    let (path, connections) = (
        format!("workflow-definitions/{definition}/dispatch"),
        Connections::new(nodes, CONCURRENT_STARTS),
    );
    let (path, connections) = (&path, &connections);
    let starts = requests.map(async |request| connections.post(path, &request).await);
    let mut starts = stream::iter(starts).buffer_unordered(CONCURRENT_STARTS);
    let (mut started, mut reported) = (0, Instant::now());
    while let Some(answer) = starts.next().await {
        answer?;
        started += 1;
        if reported.elapsed() >= Duration::from_secs(1) {
            eprintln!("{started} of {count} started");
            reported = Instant::now();
        }
    }
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let now = waiting(database).await?;
        if now >= wanted {
            return Ok(());
        }
        if now > last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > TIMEOUT {
            return Err(Failure::failed("the instances do not reach their events"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Copies a waiting instance of the definition so many times. Columns that are not named have their defaults.
pub(super) async fn copy(database: &Database, definition: &str, count: usize) -> Result<(), Failure> {
    let one = format!("(SELECT * FROM instance WHERE definition_id = '{definition}' ORDER BY id LIMIT 1)");
    let id = format!("'{definition}-copy-' || n");
    for statement in [
        format!(
            "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status,
                                   version, correlation_id, name, incident_count, state)
             SELECT i.tenant_id, {id}, i.definition_id, i.version_id, i.definition_version, i.status, i.sub_status,
                    i.version, i.correlation_id, i.name, i.incident_count, i.state
             FROM {one} i, generate_series(1, {count}) n"
        ),
        format!(
            "INSERT INTO bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash,
                                   payload, publishable, correlation_id)
             SELECT b.tenant_id, {id}, b.id, b.activity_id, b.node_id, b.activity_execution_id, b.name, b.hash,
                    b.payload, b.publishable, b.correlation_id
             FROM {one} i JOIN bookmark b ON b.instance_id = i.id AND b.tenant_id = i.tenant_id,
                  generate_series(1, {count}) n"
        ),
        "VACUUM ANALYZE instance".to_owned(),
        "VACUUM ANALYZE bookmark".to_owned(),
    ] {
        execute(database, &statement).await?;
    }
    Ok(())
}
