//! The hot statements find their rows by the indexes that their headers name, with any number of rows in the tables.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::plan_tables::{BATCH, BIG, EMPTIED, FILL, LATER_TENANT};
use crate::id::{Incarnation, NodeId};
use crate::store::claim;
use crate::store::commit::StatementShape;
use crate::store::start::StartForm;
use crate::store::stimulus_key::StimulusScope;
use crate::testing::store::Fixture;

#[derive(Clone, Copy)]
pub(super) struct Hot {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
    /// Arguments as a caller would give them, by which a custom plan is made.
    pub(super) arguments: &'static str,
    /// Runs on a connection of a node, with scans disabled.
    pub(super) scans_off: bool,
}

macro_rules! hot {
    ($name:literal, $arguments:literal, $scans_off:literal) => {
        Hot {
            name: $name,
            sql: include_str!(concat!("../../../sql/queries/", $name, ".sql")),
            arguments: $arguments,
            scans_off: $scans_off,
        }
    };
}
pub(super) use hot;

/// The other form of the claim.
const CLAIM_BOUNDED: &str = "work/claim, bounded";

const HOT: [Hot; 48] = [
    hot!(
        "work/poll",
        "64, array['','']::text[], array['i1','i2']::text[], true, now() - interval '1 day', 5000000, 4, 1",
        false
    ),
    hot!(
        "work/poll_supported",
        "64, array['']::text[], array['i1']::text[], true, array['']::text[], array['d9']::text[], now() - interval '1 day'",
        false
    ),
    hot!(
        "work/claim",
        "4711, array['','']::text[], array['i1','i2']::text[], 100, 1000000",
        false
    ),
    Hot {
        name: CLAIM_BOUNDED,
        ..hot!(
            "work/claim",
            "4711, array['','']::text[], array['i1','i2']::text[], 100, 1000000, 1000, false",
            false
        )
    },
    hot!(
        "work/claim_in_order",
        "4711, array['','']::text[], array['i1','i2']::text[], 100, true, 1000000, 1000, false",
        false
    ),
    hot!("instance/load", "array['']::text[], array['i1']::text[], 1000", false),
    hot!("instance/execution_state", "'', 'i1'", false),
    hot!(
        "commit/batch",
        "4711, 0, array[row(0,'','i1',1,null,1,'d','d1',1,0,2,null,null,0,'',0,1,1,true,true,0,0,'',null)::commit_request],
         array[row(0,1,null,1)::commit_claim, row(0,null,'b',1)::commit_claim], '{}', array[row(0,'b')::commit_burned],
         '{}', '{}', '{}', '{}', array[row(0,'b')::commit_burned],
         array[row(0,sha256('7'),'Elsa.Event',null,null,false,1)::commit_event], array[row(0,'i9','d9',null,'{}',null)::commit_child],
         array[row(0,true,'{}')::commit_child_end], array[row(0,'i7',1,2,true,false)::commit_nested],
         array[row(0,1,null,1)::commit_claim, row(0,null,'b',1)::commit_claim], array[row(0,'i9','b',true)::commit_awaited],
         array[row(0,gen_random_uuid(),3,null,null,null)::commit_answer],
         array[row(0,gen_random_uuid(),'Elsa.RunTask','{}')::commit_delivery]",
        true
    ),
    hot!(
        "commit/classify",
        "4711, 0, array[row(0,'','i1',1,null,1,'d','d1',1,0,2,null,null,0,'',0,1,1,true,true,0,0,'',null)::commit_request],
         array[row(0,1,null,1)::commit_claim, row(0,null,'b',1)::commit_claim], array[row(0,'i7',1,2,true,false)::commit_nested]",
        true
    ),
    hot!("instance/child", "'', 'd7', 'i7'", false),
    hot!("http_answer/read", "array[gen_random_uuid()]", false),
    hot!(
        "event/publish",
        "'', 'event', 'key', '', sha256('7'), 'Elsa.Event', '{}', 'c7', 'i7', null, 1000000, 1000, 60000000, 16777216, true, null",
        false
    ),
    hot!("fan_out/turn", "7, '', sha256('7'), 'c7', 'i7', null, 51", false),
    hot!(
        "fan_out/page",
        "7, '', sha256('7'), 'c7', 'i7', null, 0, 500, 2000, 1000000, 'Elsa.Event', false, null",
        false
    ),
    hot!("fan_out/next", "'{}', 7", false),
    hot!("fan_out/has_turn", "7, '', sha256('7'), null, null", false),
    hot!("task/find", "'', 'i7:3'", false),
    hot!("task/list", "'', 5000, 101", false),
    hot!("fan_out/list", "100", false),
    hot!("fan_out/purge", "600000000, now() - interval '1 hour'", false),
    hot!("node/check_in", "4711, now() - interval '1 minute', 7, now()", false),
    hot!("inbox_match/begin", "'', 'd7', array[sha256('7')]", true),
    hot!(
        "inbox_match/page",
        "'', 'd7', sha256('7'), 0, 20000, 500, 4194304",
        true
    ),
    hot!("node/remove_release", "4711", false),
    hot!("node/remove_remaining", "4711", false),
    hot!(
        "work/release",
        "4711, array['']::text[], array['i1']::text[], array[1]::bigint[], array['b']::text[], array[1]::bigint[], 1::smallint, 1000, '', array[true]",
        false
    ),
    hot!("work/list_claimed", "4711", false),
    hot!("maintenance/advance_postponed", "120000000", true),
    hot!(
        "start/accept",
        "4711, array[row(0,'','new','d','{}','start','k','',true,NULL,NULL,'a',sha256('7'),1,NULL)::start_request]",
        true
    ),
    hot!("maintenance/purge_expired", "86400000000, array[now(), null, now(), null], 9, 9", false),
    hot!(
        "work/next_supported_due",
        "array['']::text[], array['d9']::text[]",
        false
    ),
    hot!("dead_letter/replay", "'', 7", false),
    hot!("dead_letter/replay_many", "'', array[7,8]::bigint[]", true),
    hot!("activation/stage", "'', 'd1'", false),
    hot!("schedule/list_due", "500", false),
    hot!("schedule/next", "", false),
    hot!("schedule/find", "'', 's7'", false),
    hot!("schedule/lock", "'', 'd7'", false),
    hot!("schedule/clear", "'', 'd7', array['s7']", true),
    hot!(
        "schedule/set",
        "'', 's7', 1, false, '2026e', now(), now(), now()",
        false
    ),
    hot!(
        "schedule/fire",
        "array[row(0,'','s7',1,'2026e',now(),now(),now(),null,0,0,0)::schedule_firing],
         array[row(0,'new','a','{}',0)::schedule_start], false, 'node'",
        true
    ),
    hot!("instance/delete", "'', 'i1'", false),
    hot!("record/list_journal", "'', 'i7', 100, 0, now() - interval '1 day', now()", true),
    hot!("record/list_after", "'', 'i7', 0, 4194304, now() - interval '1 day', now()", true),
    hot!("record/list_before", "'', 'i7', 9223372036854775807, 4194304, now() - interval '1 day', now()", true),
    hot!("record/delete", "'', array['i7'], now() - interval '1 day', now()", true),
    hot!("record/times", "'', 'i7'", true),
    hot!("work/delete_cancelled", "'', 'i1', 0, 1000", false),
];

/// The indexes of big tables that the header names, except those of ON CONFLICT, which no plan shows.
fn named(sql: &str) -> Vec<&str> {
    sql.lines()
        .find_map(|line| line.strip_prefix("-- index:"))
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|index| !["idempotency_key_pkey", "activation_held"].contains(index))
        .filter(|index| BIG.iter().any(|table| index.starts_with(&format!("{table}_"))))
        .collect()
}

#[tokio::test]
async fn hot_statements_find_their_rows_by_index() {
    let fixture = Fixture::new().await;
    fixture.execute("SET statement_timeout = '2min'").await;
    fixture.execute(FILL).await;
    let mut bad = Vec::new();
    for hot in every_hot() {
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let plan = explain(&fixture, &hot, mode).await;
            if plan.contains("Seq Scan on burst_record_") && !plan.contains("Scan using burst_record_") {
                bad.push(format!("{} ({mode}) scans the records\n{plan}", hot.name));
            }
            for table in BIG {
                if plan.contains(&format!("Seq Scan on {table} ")) {
                    bad.push(format!("{} ({mode}) scans {table}\n{plan}", hot.name));
                }
            }
            // From 17 on a plan names each column of such a list by itself.
            let hashed = plan.lines().filter(|line| line.contains("hashed SubPlan")).count();
            if hot.name == "work/poll" && hashed != 3 {
                bad.push(format!(
                    "{} ({mode}) compares each row with the whole list\n{plan}",
                    hot.name
                ));
            }
            for index in named(hot.sql) {
                let mut words = plan.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                if !words.any(|word| word == index) {
                    bad.push(format!("{} ({mode}) does not use {index}\n{plan}", hot.name));
                }
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// As after the first migration: a plan that is made now is kept until the server has analyzed the tables, and they may be
/// full by then. A scan that is not given the first column of its index walks over all of it.
#[tokio::test]
async fn plans_made_on_empty_tables_use_the_first_column_of_an_index() {
    let fixture = Fixture::new().await;
    let bad = walks(&fixture).await;
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// As after an idle time: a vacuum that finds no live row leaves statistics of no rows, in tables and indexes of many pages.
#[tokio::test]
async fn plans_made_after_a_vacuum_of_dead_rows_use_the_first_column_of_an_index() {
    let fixture = Fixture::new().await;
    let client = &fixture.admin.client;
    client.batch_execute("SET statement_timeout = '2min'").await.unwrap();
    client.batch_execute(FILL).await.unwrap();
    for table in EMPTIED {
        // Autovacuum would truncate the pages.
        let empty = format!("ALTER TABLE {table} SET (autovacuum_enabled = false); DELETE FROM {table}");
        client.batch_execute(&empty).await.unwrap();
    }
    // Rows that snapshots of other sessions still see are not removable yet.
    let tables = EMPTIED.join(", ");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let vacuum = format!("VACUUM (TRUNCATE false) {tables}");
        client.batch_execute(&vacuum).await.unwrap();
        let full = "SELECT count(*) FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
                    AND c.relname = ANY (string_to_array($1, ', ')) AND (c.reltuples > 0 OR c.relpages = 0)";
        let full: i64 = client.query_one(full, &[&tables]).await.unwrap().get(0);
        if full == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{full} tables are not empty");
    }
    // Each vacuum takes more pages out of the indexes, until they are as low as can be.
    for _ in 0..3 {
        let bad = walks(&fixture).await;
        assert!(bad.is_empty(), "{}", bad.join("\n"));
        client
            .batch_execute(&format!("VACUUM (TRUNCATE false) {tables}"))
            .await
            .unwrap();
    }
}

/// The hot statements that would walk over all of an index, as they are planned now.
async fn walks(fixture: &Fixture) -> Vec<String> {
    let indexes = "SELECT c.relname::text, t.relname::text, a.attname::text, i.indpred IS NOT NULL
                   FROM pg_index i
                   JOIN pg_class c ON c.oid = i.indexrelid
                   JOIN pg_class t ON t.oid = i.indrelid
                   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                   WHERE t.relnamespace = current_schema()::regnamespace";
    let row = fixture
        .admin
        .client
        .query_one(LATER_TENANT, &[&EMPTIED.as_slice()])
        .await
        .unwrap();
    assert_eq!(row.get::<_, Option<String>>(0), None, "use (tenant_id || '')");
    let rows = fixture.admin.client.query(indexes, &[]).await.unwrap();
    let mut first = HashMap::new();
    for row in &rows {
        let (index, table, column): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let grows =
            BIG.contains(&table.as_str()) && !["definition", "schedule", "idempotency_key"].contains(&table.as_str());
        // All of one tenant are what an engine has, as long as there is one.
        assert!(!grows || column != "tenant_id", "{index} begins with the tenant");
        if grows && !row.get::<_, bool>(3) {
            first.insert(index, column);
        }
    }
    assert!(first.len() > 10, "{first:?}");
    let mut bad = Vec::new();
    // The purge of expired rows is one statement a minute for the cluster.
    for hot in every_hot().filter(|hot| hot.name != "maintenance/purge_expired") {
        let hot = Hot { scans_off: true, ..hot };
        let plan = explain(fixture, &hot, "force_generic_plan").await;
        let mut lines = plan.lines().peekable();
        let mut above = "";
        while let Some(line) = lines.next() {
            let over = std::mem::replace(&mut above, line);
            let Some(column) = first.iter().find_map(|(index, column)| {
                let (scan, bitmap) = (format!("using {index} on"), format!("Index Scan on {index} "));
                (line.contains(&scan) || line.contains(&bitmap)).then_some(column)
            }) else {
                continue;
            };
            let condition = lines.peek().copied().unwrap_or_default();
            // A test for any row.
            let is_first_row = over.contains("Limit  (") && !condition.contains("Filter");
            if is_first_row {
                continue;
            }
            if !condition.contains("Index Cond") || !condition.contains(&format!("({column} ")) {
                bad.push(format!("{}: {} {}", hot.name, line.trim(), condition.trim()));
            }
        }
    }
    bad
}

/// While nothing is due: the pages that a poll reads must not grow with what will be due some day; and what is planned
/// then, and kept, must not walk over all that is due for each instance when much of it is.
#[tokio::test]
async fn future_work_slows_neither_polls_nor_claims() {
    let fixture = Fixture::new().await;
    let mut pages = Vec::new();
    for (from, to) in [(1, 2_000), (2_001, 60_000)] {
        let fill = format!(
            "SET statement_timeout = '2min';
             INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
                 SELECT '', 'i' || n, 'b', now(), now() + n * interval '1 hour' FROM generate_series({from}, {to}) n;
             INSERT INTO work (tenant_id, instance_id, kind, body, available_at)
                 SELECT '', 'i' || n, 1, '{{}}', now() + n * interval '1 hour' FROM generate_series({from}, {to}) n;"
        );
        fixture.execute(&fill).await;
        // Not in the transaction of the other statements.
        fixture.execute("VACUUM ANALYZE timer, work").await;
        let sql = format!(
            "PREPARE poll AS {}; EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE poll(64, '{{}}', '{{}}', false, now() - interval '1 day', NULL, 1, 0); DEALLOCATE poll",
            include_str!("../../../sql/queries/work/poll.sql")
        );
        let messages = fixture.admin.client.simple_query(&sql).await.unwrap();
        let plan = messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let plan: serde_json::Value = serde_json::from_str(plan.unwrap()).unwrap();
        let count = |name: &str| plan[0]["Plan"][name].as_u64().unwrap();
        pages.push(count("Shared Hit Blocks") + count("Shared Read Blocks"));
        for hot in every_hot()
            .filter(|hot| ["work/claim", CLAIM_BOUNDED, "work/claim_in_order", "commit/batch"].contains(&hot.name))
        {
            let hot = Hot { scans_off: true, ..hot };
            for mode in ["force_generic_plan", "force_custom_plan"] {
                let plan = explain(&fixture, &hot, mode).await;
                for walk in ["timer_due", "timer_claimed", "work_ready", "work_claimed"] {
                    assert!(!plan.contains(walk), "{} ({mode}) walks over {walk}\n{plan}", hot.name);
                }
            }
        }
    }
    // Each of the four walks over an index goes down one level more, at most.
    assert!(pages[0] > 0 && pages[1] <= pages[0] + 4, "{pages:?}");
}

/// As if the statistics were taken while nearly all rows were claimed, before a backlog grew: a plan for the few rows that it
/// expects would read all of them, at each poll, to return the oldest.
#[tokio::test]
async fn a_poll_of_a_backlog_unknown_to_the_statistics_walks_along_the_queue() {
    let fixture = Fixture::new().await;
    let fill = "
        ALTER TABLE work SET (autovacuum_enabled = false);
        INSERT INTO work (tenant_id, instance_id, kind, body, claimed_by, available_at)
            SELECT '', 'i' || n, 1, '{}', CASE WHEN n % 50 > 0 THEN 4711 END,
                   now() - n * 7919 % 20000 * interval '1 second'
            FROM generate_series(1, 20000) n;
        ANALYZE work;
        UPDATE work SET claimed_by = NULL";
    for statement in fill.split(';') {
        fixture.execute(statement).await;
    }
    let poll = hot!(
        "work/poll",
        "256, '{}'::text[], '{}'::text[], false, now() - interval '1 day', NULL, 1, 0",
        true
    );
    for mode in ["force_generic_plan", "force_custom_plan"] {
        let plan = explain(&fixture, &poll, mode).await;
        assert!(
            plan.contains("Index Scan using work_ready on work w "),
            "({mode})\n{plan}"
        );
    }
}

/// The hot statements: those of a batch and of starts as wholes, and in all their shapes. Most shapes differ from the whole
/// only in what they leave out, so no expected indexes are given for them.
fn every_hot() -> impl Iterator<Item = Hot> {
    let of = |name| HOT.into_iter().filter(move |hot: &Hot| hot.name == name);
    let leak = |sql: String| -> &'static str { Box::leak(sql.into_boxed_str()) };
    let scoped = ["event/publish", "fan_out/turn", "fan_out/page"];
    let own = [
        "bookmark_hash",
        "bookmark_correlation",
        "bookmark_pkey, bookmark_crowded",
    ];
    let scopes = scoped.into_iter().flat_map(of).flat_map(move |hot| {
        let texts = StimulusScope::texts(hot.sql).into_iter().zip(own);
        texts.map(move |(text, own)| {
            let any_of = "bookmark_hash or bookmark_correlation or (bookmark_pkey, bookmark_crowded)";
            // An event for one instance starts nothing.
            let is_targeted = own.contains("bookmark_pkey");
            Hot {
                sql: leak(if is_targeted {
                    by_index(&text, own)
                } else {
                    text.replace(any_of, own)
                }),
                arguments: leak(if is_targeted {
                    hot.arguments.to_owned()
                } else {
                    hot.arguments.replace("'i7'", "null")
                }),
                ..hot
            }
        })
    });
    let wholes = HOT.into_iter().filter(move |hot| !scoped.contains(&hot.name));
    let wholes = wholes.map(move |hot| Hot {
        sql: match hot.name {
            "commit/batch" => leak(StatementShape::WHOLE.text(hot.sql)),
            "work/claim" => &claim::TOGETHER,
            CLAIM_BOUNDED => &claim::BOUNDED,
            "start/accept" => leak(StartForm::Checked.text(false, false)),
            _ => hot.sql,
        },
        ..hot
    });
    let shapes = StatementShape::all().flat_map(move |shape| {
        of("commit/batch").map(move |hot| Hot {
            sql: leak(by_index(&shape.text(hot.sql), shape.own_indexes())),
            ..hot
        })
    });
    let ways = [(false, false), (true, false), (true, true)];
    let forms = StartForm::ALL
        .into_iter()
        .flat_map(move |form| ways.map(|way| (form, way)));
    let starts = forms.flat_map(move |(form, (lent, relaxed))| {
        let own = if form.is_checked() { "" } else { "definition_published" };
        of("start/accept").map(move |hot| Hot {
            sql: leak(by_index(&form.text(lent, relaxed), own)),
            ..hot
        })
    });
    wholes
        .chain(scopes)
        .chain(super::plan_links::hot().chain(super::plan_routes::hot()))
        .chain(super::plan_webhooks::hot())
        .chain(shapes)
        .chain(starts)
}

/// With these indexes in its header in place of those of the whole.
fn by_index(sql: &str, indexes: &str) -> String {
    let lines = sql.lines().map(|line| match line.strip_prefix("-- index:") {
        Some(_) => format!("-- index: {indexes}"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The plan of the server, on a connection of a node or on another one.
pub(super) async fn explain(fixture: &Fixture, hot: &Hot, mode: &str) -> String {
    let session = if hot.scans_off {
        let node = fixture.base.of(Incarnation(1), &NodeId::new("test"));
        node.open().await.unwrap()
    } else {
        fixture.session().await
    };
    let arguments = if hot.arguments.is_empty() {
        String::new()
    } else {
        format!("({})", hot.arguments)
    };
    let plan = session
        .client
        .simple_query(&format!(
            "SET plan_cache_mode = {mode}; PREPARE hot{} AS {};
             EXPLAIN EXECUTE hot{arguments}",
            // Not every shape has all of them.
            if hot.name == "commit/batch" { BATCH } else { "" },
            hot.sql
        ))
        .await
        .unwrap_or_else(|error| panic!("{}: {error:?}", hot.name));
    plan.iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect::<Vec<_>>()
        .join("\n")
}
