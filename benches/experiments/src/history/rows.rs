//! The rows: a few instances run, the others are copies of their rows, with ids, versions, times, names and correlation ids
//! of their own.

use mainspring::internals::{Client, Failure, ScratchDatabase};
use serde_json::{Value, json};

use crate::database::{execute, failed, open};

/// Definitions, and versions of each. The first definitions have most of the instances.
const DEFINITIONS: usize = 20;
const VERSIONS: usize = 3;

/// Instances of one statement.
const AT_ONCE: usize = 100_000;

/// Of these, in this order: the version by its number in `v`, the prototype of its kind, and its age.
const COPY: &str = "
    INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version,
                          correlation_id, name, incident_count, created_at, updated_at, finished_at, state)
    SELECT p.tenant_id, md5('history' || n), v.definition_id, v.version_id, v.version, p.status, p.sub_status, p.version,
           CASE WHEN n % 3 = 0 THEN 'order-' || n END, CASE WHEN n % 5 = 0 THEN 'Order of customer ' || n % 100000 END,
           p.incident_count, t.at, t.at + interval '2 seconds',
           CASE WHEN p.finished_at IS NOT NULL THEN t.at + interval '2 seconds' END, p.state
    FROM generate_series($1::bigint, $2::bigint) n
    CROSS JOIN LATERAL (SELECT CASE WHEN n % 100 < 95 THEN 'finished' WHEN n % 100 < 98 THEN 'suspended'
                               ELSE 'faulted' END) k(kind)
    JOIN instance p ON p.id = k.kind
    -- Sequential in time, as rows are written, over twenty days.
    CROSS JOIN LATERAL (SELECT $3::timestamptz + n * interval '20 days' / $4::bigint) t(at)
    JOIN history_version v ON v.number = floor(pow(hashint8(n)::float8 / 4294967296.0 + 0.5, 2) * $5::integer)::integer";

const BOOKMARKS: &str = "
    INSERT INTO bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash, payload,
                          publishable, correlation_id)
    SELECT b.tenant_id, md5('history' || n), b.id, b.activity_id, b.node_id, b.activity_execution_id, b.name, b.hash,
           b.payload, b.publishable, CASE WHEN n % 3 = 0 THEN 'order-' || n END
    FROM generate_series($1::bigint, $2::bigint) n
    JOIN bookmark b ON b.instance_id = 'suspended'
    WHERE n % 100 BETWEEN 95 AND 97";

const RECORDS: &str = "
    INSERT INTO burst_record (tenant_id, instance_id, version, at, began_at, first_entry, entries, body)
    SELECT r.tenant_id, md5('history' || n), r.version, t.at, t.at, r.first_entry, r.entries, r.body
    FROM generate_series($1::bigint, $2::bigint) n
    CROSS JOIN LATERAL (SELECT CASE WHEN n % 100 < 95 THEN 'finished' WHEN n % 100 < 98 THEN 'suspended'
                               ELSE 'faulted' END) k(kind)
    JOIN burst_record r ON r.instance_id = k.kind
    CROSS JOIN LATERAL (SELECT $3::timestamptz + n * interval '20 days' / $4::bigint) t(at)";

/// The ids of the definitions.
pub(super) fn definition_ids() -> Vec<String> {
    (0..DEFINITIONS).map(|number| format!("history-{number}")).collect()
}

/// Publishes the definitions, and runs the instances that are copied.
pub(super) async fn definitions(client: &Client) -> Result<(), Failure> {
    let is = |kind: &str| json!({"typeName": "Boolean", "expression": {"type": "JavaScript", "value": format!("getInput('kind') == '{kind}'")}});
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": "Hello"});
    let root = json!({"type": "Elsa.Sequence", "id": "steps", "activities": [
        {"type": "Elsa.If", "id": "waits", "condition": is("suspended"),
         "then": {"type": "Elsa.Event", "id": "event", "eventName": "go"}},
        {"type": "Elsa.If", "id": "fails", "condition": is("faulted"),
         "then": {"type": "Elsa.Fault", "id": "fault", "message": "no stock"}},
        line]});
    for id in definition_ids() {
        for version in 1..=VERSIONS {
            let definition =
                json!({"definitionId": id, "name": format!("History {id}, version {version}"), "root": root});
            client.publish(&definition).await?;
        }
    }
    client.publish(&json!({"definitionId": "plain", "root": line})).await?;
    for kind in ["finished", "suspended", "faulted"] {
        let start = json!({"instanceId": kind, "input": {"kind": kind}});
        client.post("workflow-definitions/history-0/dispatch", &start).await?;
        let path = format!("workflow-instances/{kind}");
        let is_there = async || {
            let instance = client.get(&path).await?;
            let word = instance.get("subStatus").and_then(Value::as_str).unwrap_or_default();
            Ok::<_, Failure>(word.eq_ignore_ascii_case(kind))
        };
        let began = tokio::time::Instant::now();
        while !is_there().await? {
            if began.elapsed().as_secs() > 20 {
                return Err(Failure::failed(format!("the instance {kind} did not become {kind}")));
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Copies them until there are `rows` more.
pub(super) async fn fill(scratch: &ScratchDatabase, rows: usize) -> Result<(), Failure> {
    let session = open(scratch).await?;
    let database = &session.client;
    execute(
        database,
        "CREATE TABLE history_version AS
         SELECT row_number() OVER (ORDER BY version, definition_id)::integer - 1 AS number, definition_id, version_id, version
         FROM definition WHERE definition_id LIKE 'history-%';
         ANALYZE history_version;
         SELECT create_partition((now() - ago * interval '1 day')::date) FROM generate_series(0, 21) ago",
    )
    .await?;
    let row = database
        .query_one("SELECT date_trunc('second', now()) - interval '20 days' AS since", &[])
        .await
        .map_err(failed)?;
    let since: chrono::DateTime<chrono::Utc> = row.get("since");
    let all = i64::try_from(rows).unwrap_or(i64::MAX);
    let versions = i32::try_from(DEFINITIONS * VERSIONS).unwrap_or(i32::MAX);
    for first in (1..=rows).step_by(AT_ONCE) {
        let last = (first + AT_ONCE - 1).min(rows);
        let (from, to) = (i64::try_from(first).unwrap_or(0), i64::try_from(last).unwrap_or(0));
        database
            .execute(COPY, &[&from, &to, &since, &all, &versions])
            .await
            .map_err(failed)?;
        database.execute(BOOKMARKS, &[&from, &to]).await.map_err(failed)?;
        database
            .execute(RECORDS, &[&from, &to, &since, &all])
            .await
            .map_err(failed)?;
        eprintln!("{last} instances");
    }
    for table in ["instance", "bookmark", "burst_record"] {
        execute(database, &format!("VACUUM ANALYZE {table}")).await?;
    }
    Ok(())
}

/// Values to list by.
pub(super) struct Samples {
    instances: Vec<(String, Option<String>, Option<String>, String)>,
    versions: Vec<(String, String)>,
}

impl Samples {
    pub(super) async fn read(scratch: &ScratchDatabase) -> Result<Self, Failure> {
        let session = open(scratch).await?;
        let text = "SELECT i.id, i.name, i.correlation_id, to_char(i.created_at, 'YYYY-MM-DD\"T\"HH24:MI:SSOF:00') AS created
                    FROM instance i TABLESAMPLE BERNOULLI (100) WHERE i.name IS NOT NULL AND i.correlation_id IS NOT NULL
                    LIMIT 400";
        let rows = session.client.query(text, &[]).await.map_err(failed)?;
        let instances = rows
            .iter()
            .map(|row| {
                (
                    row.get("id"),
                    row.get("name"),
                    row.get("correlation_id"),
                    row.get("created"),
                )
            })
            .collect();
        let text =
            "SELECT definition_id, version_id FROM definition WHERE definition_id LIKE 'history-%' ORDER BY version_id";
        let rows = session.client.query(text, &[]).await.map_err(failed)?;
        let versions = rows
            .iter()
            .map(|row| (row.get("definition_id"), row.get("version_id")))
            .collect();
        Ok(Self { instances, versions })
    }

    fn instance(&self, n: usize) -> Option<&(String, Option<String>, Option<String>, String)> {
        self.instances.get(n % self.instances.len().max(1))
    }

    pub(super) fn id(&self, n: usize) -> &str {
        self.instance(n).map_or("", |instance| &instance.0)
    }

    pub(super) fn name(&self, n: usize) -> &str {
        self.instance(n)
            .and_then(|instance| instance.1.as_deref())
            .unwrap_or("")
    }

    pub(super) fn correlation(&self, n: usize) -> &str {
        self.instance(n)
            .and_then(|instance| instance.2.as_deref())
            .unwrap_or("")
    }

    /// A part of a correlation id, in its middle.
    pub(super) fn part(&self, n: usize) -> &str {
        self.correlation(n).get(2..).unwrap_or("")
    }

    pub(super) fn time(&self, n: usize) -> &str {
        self.instance(n).map_or("", |instance| &instance.3)
    }

    pub(super) fn definition(&self, n: usize) -> &str {
        self.versions
            .get(n % self.versions.len().max(1))
            .map_or("", |version| &version.0)
    }

    pub(super) fn version(&self, n: usize) -> &str {
        self.versions
            .get(n % self.versions.len().max(1))
            .map_or("", |version| &version.1)
    }
}
