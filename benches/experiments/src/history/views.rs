//! What a designer reads beside lists of instances: definitions with many versions, and one instance with a long journal.

use mainspring::internals::{Client, Failure, ScratchDatabase};
use serde_json::{Value, json};

use crate::database::{failed, open};

/// Definitions that statements write, and versions of each.
const DEFINITIONS: i32 = 1_000;
const VERSIONS: i32 = 20;

/// Turns of the loop of the long instance: each writes two entries.
const TURNS: usize = 5_000;

/// The id of the long instance, and of its definition.
const LONG: &str = "long";

const COPY: &str = "
    INSERT INTO definition (tenant_id, version_id, definition_id, version, name, is_latest, is_published, was_published,
                            created_at, body, activity_types)
    SELECT d.tenant_id, md5('catalogue' || n || ' ' || v), 'catalogue-' || n, v, 'Catalogue ' || n, v = $2, v = $2, true,
           d.created_at + v * interval '1 second', d.body, d.activity_types
    FROM definition d, generate_series(1, $1::integer) n, generate_series(1, $2::integer) v
    WHERE d.definition_id = 'plain' AND d.is_latest";

/// Copies the published definition `plain`, and runs the long instance.
pub(super) async fn fill(client: &Client, scratch: &ScratchDatabase) -> Result<(), Failure> {
    let session = open(scratch).await?;
    session
        .client
        .execute(COPY, &[&DEFINITIONS, &VERSIONS])
        .await
        .map_err(failed)?;
    session
        .client
        .batch_execute("VACUUM ANALYZE definition")
        .await
        .map_err(failed)?;
    let root = json!({"type": "Elsa.For", "id": "loop", "start": 1, "end": TURNS,
        "body": {"type": "Elsa.SetName", "id": "step", "value": "long"}});
    client.publish(&json!({"definitionId": LONG, "root": root})).await?;
    let run = client
        .post(
            &format!("workflow-definitions/{LONG}/dispatch"),
            &json!({"instanceId": LONG}),
        )
        .await;
    run?;
    let began = tokio::time::Instant::now();
    loop {
        let instance = client.get(&format!("workflow-instances/{LONG}")).await?;
        match instance.get("subStatus").and_then(Value::as_str) {
            Some("Finished") => return Ok(()),
            Some("Faulted") => return Err(Failure::failed(format!("the long instance has faulted: {instance}"))),
            _ if began.elapsed().as_secs() > 120 => return Err(Failure::failed("the long instance does not end")),
            _ => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

/// A read: its path, and a body if it is a POST.
pub(super) type Read = (String, Option<String>);

type NamedRead = (&'static str, fn(usize) -> Read);

/// The reads by name; each takes a number, so that no two requests ask for the same rows where there are several.
pub(super) fn reads() -> Vec<NamedRead> {
    vec![
        ("definitions", |n| {
            let page = n % 40;
            let query = "versionOptions=Latest&orderBy=Name&orderDirection=Ascending&pageSize=25";
            (format!("workflow-definitions?{query}&page={page}"), None)
        }),
        ("versions", |n| {
            let query = "versionOptions=AllVersions&orderBy=Version&orderDirection=Descending&page=0&pageSize=25";
            let definition = 1 + n % DEFINITIONS.unsigned_abs() as usize;
            let path = format!("workflow-definitions?{query}&definitionIds=catalogue-{definition}");
            (path, None)
        }),
        ("journal", |_| {
            let filter = json!({"filter": {"excludedActivityTypes": ["Elsa.Workflow", "Elsa.Flowchart"]}});
            let path = format!("workflow-instances/{LONG}/journal?skip=0&take=100");
            (path, Some(filter.to_string()))
        }),
        ("report", |_| {
            let body =
                json!({"workflowInstanceId": LONG, "activityNodeIds": ["Workflow1:loop", "Workflow1:loop:step"]});
            ("activity-executions/report".to_owned(), Some(body.to_string()))
        }),
    ]
}
