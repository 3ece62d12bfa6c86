//! The views: by Elsa's names each statement of Elsa's guides runs, and changes nothing; our own show what is there.

use serde_json::json;

use crate::support::node::{Node, publish, send_event, start_walk};
use crate::support::{Connection, TIMEOUT, TestDatabase, command, poll_until};

/// What the guides of Elsa have an operator read.
const READS: [&str; 6] = [
    "SELECT * FROM qrtz_scheduler_state;",
    "SELECT * FROM qrtz_fired_triggers;",
    "SELECT * FROM elsa.bookmarks WHERE workflow_instance_id = 'walk-1';",
    "SELECT * FROM qrtz_triggers WHERE trigger_group = 'Elsa.Scheduling';",
    "SELECT b.* FROM elsa.bookmarks b
     LEFT JOIN elsa.workflow_instances wi ON b.workflow_instance_id = wi.id
     WHERE wi.id IS NULL;",
    "SELECT * FROM pg_locks WHERE locktype = 'advisory';",
];

/// What they have an operator delete.
const DELETES: [&str; 4] = [
    "DELETE FROM elsa.workflow_instances
     WHERE status = 'Completed'
       AND finished_at < NOW() - INTERVAL '30 days';",
    "DELETE FROM elsa.workflow_instances
     WHERE status = 'Faulted'
       AND finished_at < NOW() - INTERVAL '90 days';",
    "DELETE FROM qrtz_fired_triggers
     WHERE fired_time < EXTRACT(EPOCH FROM NOW() - INTERVAL '7 days') * 1000;",
    "DELETE FROM elsa.bookmarks
     WHERE workflow_instance_id NOT IN (SELECT id FROM elsa.workflow_instances);",
];

async fn rows(client: &Connection, query: &str) -> usize {
    client
        .query(query.trim_end_matches(';'), &[])
        .await
        .unwrap_or_else(|error| panic!("{query}: {error:?}"))
        .len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_statement_of_elsas_guides_runs_and_none_changes_anything() {
    let database = TestDatabase::create().await;
    for again in 0..2 {
        let (code, printed) = command(&database, &["migrate", "--elsa-views"]);
        assert_eq!(code, Some(0), "{again}: {printed}");
    }
    let node = Node::start(&database, "one");
    publish(node.http.as_ref().unwrap()).await;
    let http = node.http.clone();
    let start = json!({"instanceId": "walk-1", "input": {"n": 700}});
    start_walk(1, &start, &mut || http.clone()).await;
    let client = database.connect().await;
    let [nodes, _, bookmarks, _, orphaned, _] = READS;
    assert_eq!(rows(&client, nodes).await, 1);
    // Its delay, and then the event.
    poll_until(TIMEOUT, "the instance to wait", async || {
        (rows(&client, bookmarks).await == 1).then_some(())
    })
    .await;
    for query in READS {
        rows(&client, query).await;
    }
    assert_eq!(rows(&client, orphaned).await, 0);
    let checked_in = "SELECT last_checkin_time / 1000 - extract(epoch FROM now())::bigint FROM qrtz_scheduler_state
                      WHERE instance_name LIKE 'one/%' AND checkin_interval = 200";
    assert!(client.count(checked_in).await.abs() < 60);
    send_event(700, &mut || http.clone()).await;
    let completed = "SELECT 1 FROM elsa.workflow_instances WHERE status = 'Completed' AND sub_status = 'Finished' AND finished_at IS NOT NULL";
    poll_until(TIMEOUT, "the instance to end", async || {
        (rows(&client, completed).await == 1).then_some(())
    })
    .await;
    // Nothing fits yet, so they change nothing and say so.
    for query in DELETES {
        client.run(query).await;
    }
    // An instance that fits is kept, with the way to delete it.
    client
        .run("UPDATE mainspring.instance SET finished_at = now() - interval '1 year'")
        .await;
    let error = client.batch_execute(DELETES[0]).await.unwrap_err();
    let refused = error.as_db_error().unwrap();
    assert!(
        refused
            .message()
            .contains("elsa.workflow_instances is a view of Mainspring, and read-only"),
        "{refused}"
    );
    assert!(
        refused
            .hint()
            .unwrap()
            .contains("bulk-actions/delete/workflow-instances"),
        "{refused:?}"
    );
    assert_eq!(client.rows("instance").await, 1);
}

#[tokio::test]
async fn tables_of_elsa_are_not_touched() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    client
        .run("CREATE SCHEMA elsa; CREATE TABLE elsa.bookmarks (id text)")
        .await;
    let (code, _) = command(&database, &["migrate", "--elsa-views"]);
    assert_eq!(code, Some(1));
    let views = "SELECT count(*) FROM pg_views WHERE schemaname = 'elsa' OR viewname LIKE 'qrtz%'";
    assert_eq!(client.count(views).await, 0, "all or none");
}

/// The columns of our own views are those that docs/reference/views.md lists, in that order.
#[tokio::test]
async fn the_views_have_the_columns_that_are_documented() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let docs = include_str!("../../../docs/reference/views.md");
    for view in ["nodes", "instances", "locks", "timers", "queue"] {
        let section = docs
            .split(&format!("\n## `{view}`\n"))
            .nth(1)
            .unwrap_or_else(|| panic!("{view}"));
        let section = section.split("\n## ").next().unwrap();
        let documented: Vec<String> = section
            .lines()
            .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
            .collect();
        let query = "SELECT attname::text FROM pg_attribute WHERE attrelid = ('mainspring.' || $1)::regclass AND attnum > 0 ORDER BY attnum";
        let rows = client.query(query, &[&view]).await.unwrap();
        let columns: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(documented, columns, "{view}");
        // And it can be read.
        self::rows(&client, &format!("SELECT * FROM mainspring.{view}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_views_show_nodes_timers_and_locks() {
    let database = TestDatabase::create().await;
    let node = Node::start(&database, "one");
    publish(node.http.as_ref().unwrap()).await;
    let client = database.connect().await;
    let live = "SELECT count(*) FROM mainspring.nodes WHERE node_id = 'one' AND state = 'live' AND version IS NOT NULL
                    AND roles @> '{worker}' AND abs(extract(epoch FROM clock_ahead)) < 60";
    poll_until(TIMEOUT, "a check-in", async || {
        (client.count(live).await == 1).then_some(())
    })
    .await;
    let liveness = "SELECT count(*) FROM mainspring.locks WHERE node_id = 'one' AND mode = 'exclusive' AND is_granted";
    assert!(client.count(liveness).await >= 1);
    client
        .run(
            "INSERT INTO mainspring.timer (tenant_id, instance_id, id, due, available_at)
                 VALUES ('', 'i', 'b', now() + interval '1 hour', now() + interval '1 hour');
             INSERT INTO mainspring.work (tenant_id, instance_id, kind, body, available_at)
                 VALUES ('', 'i', 1, '{}', now() + interval '1 hour')",
        )
        .await;
    assert_eq!(
        client
            .count("SELECT count(*) FROM mainspring.timers WHERE state = 'scheduled' AND node_id IS NULL")
            .await,
        1
    );
    assert_eq!(
        client
            .count("SELECT count(*) FROM mainspring.queue WHERE state = 'scheduled' AND kind = 'resume'")
            .await,
        1
    );
}
