//! Whether the statements that run for each burst find their rows by an index, as the server plans them now.

use tokio_postgres::{Client, SimpleQueryMessage};

use super::{DoctorFinding, FindingLevel, unexamined};
use crate::Result;
use crate::db::{ANSWER_TIMEOUT, SchemaName, within};

/// A statement with arguments as a node would give them.
struct Hot {
    name: &'static str,
    sql: &'static str,
    arguments: &'static str,
}

const HOT: [Hot; 5] = [
    Hot {
        name: "work/poll",
        sql: crate::store::claim::POLL,
        arguments: "64, ARRAY['']::text[], ARRAY['i']::text[], true, now() - interval '1 day', 5000000, 1, 0",
    },
    Hot {
        name: "work/list_claimed",
        sql: include_str!("../../../sql/queries/work/list_claimed.sql"),
        arguments: "1",
    },
    Hot {
        name: "instance/load",
        sql: include_str!("../../../sql/queries/instance/load.sql"),
        arguments: "ARRAY['']::text[], ARRAY['i']::text[], 1000",
    },
    Hot {
        name: "schedule/list_due",
        sql: include_str!("../../../sql/queries/schedule/list_due.sql"),
        arguments: "500",
    },
    Hot {
        name: "node/remove_remaining",
        sql: include_str!("../../../sql/queries/node/remove_remaining.sql"),
        arguments: "1",
    },
];

/// The tables that grow, which none of these may scan.
const TABLES: [&str; 5] = ["work", "timer", "instance", "bookmark", "schedule"];

/// As on a connection of a node, where the server scans only what has no index that fits.
const AS_A_NODE: &str =
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan";
const AS_BEFORE: &str = "RESET enable_seqscan; RESET enable_bitmapscan; RESET plan_cache_mode; DEALLOCATE ALL";

const CHECK: &str = "plans";

/// The hot statements that read all of a table.
pub(super) async fn walks(client: &Client, schema: &SchemaName) -> Vec<DoctorFinding> {
    let found = find(client, schema).await;
    // The session is the doctor's own; a failure here ends nothing else.
    let _ = within(ANSWER_TIMEOUT, client.batch_execute(AS_BEFORE)).await;
    found.unwrap_or_else(|error| vec![unexamined(CHECK, &error)])
}

async fn find(client: &Client, schema: &SchemaName) -> Result<Vec<DoctorFinding>> {
    within(ANSWER_TIMEOUT, client.batch_execute(AS_A_NODE)).await?;
    let mut found = Vec::new();
    for Hot { name, sql, arguments } in &HOT {
        let prepare = format!("PREPARE doctor_plan AS {sql}");
        within(ANSWER_TIMEOUT, client.batch_execute(&prepare)).await?;
        let explain = format!("EXPLAIN (COSTS false) EXECUTE doctor_plan({arguments})");
        let plan = within(ANSWER_TIMEOUT, client.simple_query(&explain)).await?;
        within(ANSWER_TIMEOUT, client.batch_execute("DEALLOCATE doctor_plan")).await?;
        let lines = plan.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get("QUERY PLAN"),
            _ => None,
        });
        let lines: Vec<&str> = lines.collect();
        found.extend(scanned(&lines).map(|table| DoctorFinding {
            check: CHECK,
            level: FindingLevel::Problem,
            what: format!("the statement {name} reads all of the table {table}"),
            means: "It takes longer with each row of the table, and runs for each claim.",
            since: None,
            remedy: format!(
                "see indexes; else: psql \"$MAINSPRING_DATABASE_URL\" -c \"REINDEX TABLE CONCURRENTLY {schema}.{table}\""
            ),
            fix: None,
        }));
    }
    Ok(found)
}

/// The tables that a plan scans.
fn scanned(plan: &[&str]) -> impl Iterator<Item = &'static str> {
    let is_scanned = |table: &&str| {
        let scan = format!("Seq Scan on {table}");
        plan.iter().any(|line| {
            line.split_once(&scan)
                .is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with(' '))
        })
    };
    TABLES.into_iter().filter(is_scanned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_of_a_table_is_seen() {
        let plan = [
            "Limit",
            "  ->  Seq Scan on work w",
            "  ->  Seq Scan on timers",
            "Index Scan using x on timer t",
        ];
        assert_eq!(scanned(&plan).collect::<Vec<_>>(), ["work"]);
        assert_eq!(scanned(&["Seq Scan on timer"]).collect::<Vec<_>>(), ["timer"]);
    }
}
