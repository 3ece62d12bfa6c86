//! `loop`: the WAL of each commit of one workflow with many iterations.

use std::time::Duration;

use mainspring::internals::{Client, Failure, Target, nearest_rank, print_line, text_field};
use serde_json::json;

use super::{start_node, with_schema};
use crate::database::{count, execute, failed, open};
use crate::settings::Loop;

/// The number of commits at each end that are compared.
const COMPARED: usize = 100;

/// The bytes of each transaction that wrote the row of an instance, without full-page images.
const SIZES: &str = "
    WITH entry AS MATERIALIZED (
        SELECT xid, start_lsn, record_length - fpi_length AS bytes, block_ref
        FROM public.pg_get_wal_records_info($1::text::pg_lsn, pg_current_wal_flush_lsn()) WHERE xid <> '0'),
    place AS (
        SELECT '%rel 1663/' || (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || relfilenode || ' %'
               AS place
        FROM pg_class WHERE oid = 'instance'::regclass)
    SELECT sum(bytes)::float8 AS bytes FROM entry GROUP BY xid
    HAVING bool_or(block_ref LIKE (SELECT place FROM place)) ORDER BY min(start_lsn)";

pub(crate) async fn run(target: &Target, settings: &Loop) -> Result<(), Failure> {
    with_schema(target, async |scratch| {
        let session = open(scratch).await?;
        let database = &session.client;
        execute(database, "CREATE EXTENSION IF NOT EXISTS pg_walinspect SCHEMA public").await?;
        let mut node = start_node(target, scratch).await?;
        let client = Client::new(&node.url());
        let script = |text: String| json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": text}});
        let definition = json!({
            "definitionId": "loop",
            "options": {"commitStrategyName": "ActivityExecuted"},
            "variables": [{"id": "n", "name": "N", "typeName": "Int32", "value": "0"}],
            "root": {"type": "Elsa.While", "id": "while", "condition": script(format!("getN() < {}", settings.iterations)),
                "body": {"type": "Elsa.SetVariable", "id": "count", "variable": {"id": "n", "name": "N"},
                    "value": script("getN() + 1".to_owned())}},
        });
        client.publish(&definition).await?;
        execute(database, "CHECKPOINT").await?;
        let start: String = database
            .query_one("SELECT pg_current_wal_lsn()::text AS position", &[])
            .await
            .map_err(failed)?
            .get("position");
        let started = client.post("workflow-definitions/loop/dispatch", &json!({})).await?;
        eprintln!("instance {} runs", text_field(&started, "workflowInstanceId"));
        while count(database, "SELECT count(*) FROM instance WHERE status = 1 /* finished */").await? == 0 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let commits = count(database, "SELECT version::bigint AS count FROM instance").await?;
        let rows = database.query(SIZES, &[&start]).await.map_err(failed)?;
        node.stop().await;
        let sizes: Vec<f64> = rows.iter().map(|row| row.get("bytes")).collect();
        let compared = COMPARED.min(sizes.len());
        let (first, _) = sizes.split_at(compared);
        let (_, last) = sizes.split_at(sizes.len() - compared);
        let (first, last) = (nearest_rank(first, 50), nearest_rank(last, 50));
        print_line(&format!(
            "{} iterations, {commits} commits, {} found in WAL",
            settings.iterations,
            sizes.len()
        ));
        print_line(&format!(
            "WAL bytes per commit: first {compared} {first:.0}, last {compared} {last:.0}: {:.2} times",
            last / first.max(1.0)
        ));
        Ok(())
    })
    .await
}
