//! Rights, locks, indexes, vacuum and partitions.

use serde_json::json;

use super::{assert_finds, assert_silent, examine, examine_at, follow, of};
use crate::support::node::{Node, publish, start_walk};
use crate::support::{Child, Connection, Server, TIMEOUT, TestDatabase, poll_until};

/// What a bad operation has dropped is made by the remedy, word by word.
#[tokio::test]
async fn a_missing_index_is_found_with_the_statement_that_makes_it() {
    let database = TestDatabase::create().await;
    let found = examine(&database);
    assert_silent(&found, "indexes");
    assert_silent(&found, "plans");
    database
        .connect()
        .await
        .run("DROP INDEX mainspring.work_ready; DROP INDEX mainspring.bookmark_correlation; DROP INDEX mainspring.trigger_route")
        .await;
    let found = examine(&database);
    assert_finds(&found, "plans", &["work/poll", "reads all of the table work"]);
    for index in ["work_ready", "bookmark_correlation", "trigger_route"] {
        let remedy = assert_finds(&found, "indexes", &[index, "is missing"]);
        follow(&database, &remedy).await;
    }
    let found = examine(&database);
    assert_silent(&found, "indexes");
    assert_silent(&found, "plans");
}

/// As a CREATE INDEX CONCURRENTLY leaves one that was interrupted.
#[tokio::test]
async fn an_invalid_index_is_found_and_made_again() {
    let database = TestDatabase::create().await;
    let invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'mainspring.timer_due'::regclass";
    database.connect().await.run(invalid).await;
    let found = examine(&database);
    let remedy = assert_finds(&found, "indexes", &["timer_due", "is invalid"]);
    assert_finds(&found, "plans", &["reads all of the table timer"]);
    follow(&database, &remedy).await;
    assert_silent(&examine(&database), "indexes");
}

#[tokio::test]
async fn a_stopped_vacuum_is_found_and_its_dead_rows_are_vacuumed() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    assert_silent(&examine(&database), "table-vacuum");
    client
        .run("ALTER TABLE mainspring.work SET (autovacuum_enabled = false)")
        .await;
    leave_dead_rows(&client).await;
    let found = poll_until(TIMEOUT, "the dead rows to be counted", async || {
        let found = examine(&database);
        (!of(&found, "dead-rows").is_empty()).then_some(found)
    })
    .await;
    assert_finds(&found, "dead-rows", &["work has ", "dead rows"]);
    let remedy = assert_finds(&found, "table-vacuum", &["autovacuum is off for work"]);
    let fixed = examine_at(&database.url(), &["--fix"]);
    assert_eq!(fixed["fixed"], json!(["vacuumed work"]));
    follow(&database, &remedy).await;
    let found = poll_until(TIMEOUT, "the vacuum to be counted", async || {
        let found = examine(&database);
        of(&found, "dead-rows").is_empty().then_some(found)
    })
    .await;
    assert_silent(&found, "table-vacuum");
}

async fn leave_dead_rows(client: &Connection) {
    client
        .run("INSERT INTO mainspring.work (tenant_id, instance_id, kind, body) SELECT '', 'i' || n, 1, '{}' FROM generate_series(1, 30000) n")
        .await;
    client.run("DELETE FROM mainspring.work").await;
}

#[tokio::test]
async fn a_missing_partition_is_found_and_made() {
    let database = TestDatabase::create().await;
    assert_silent(&examine(&database), "partitions");
    let client = database.connect().await;
    let day = "SELECT to_char((now() AT TIME ZONE 'UTC')::date + 1, 'YYYYMMDD')";
    let day: String = client.query_one(day, &[]).await.unwrap().get(0);
    client.run(&format!("DROP TABLE mainspring.burst_record_{day}")).await;
    assert_finds(&examine(&database), "partitions", &["no partition for"]);
    let fixed = examine_at(&database.url(), &["--fix"]);
    assert_eq!(fixed["fixed"], json!(["created the partitions of the next week"]));
    assert_silent(&fixed, "partitions");
}

#[tokio::test]
async fn a_right_that_the_role_lacks_is_found() {
    let database = TestDatabase::create().await;
    // A name has at most 63 bytes.
    let role = database.name().replace("mainspring_test", "role");
    let client = database.connect().await;
    let grants = format!(
        "CREATE ROLE {role}; GRANT USAGE, CREATE ON SCHEMA mainspring TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA mainspring TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA mainspring TO {role};
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA mainspring TO {role}"
    );
    client.run(&grants).await;
    let url = format!("{}?options=-c%20role%3D{role}", database.url());
    assert_silent(&examine_at(&url, &[]), "rights");
    client
        .run(&format!(
            "REVOKE DELETE ON mainspring.work, mainspring.timer FROM {role}"
        ))
        .await;
    let remedy = assert_finds(&examine_at(&url, &[]), "rights", &[&role, "delete timer, delete work"]);
    assert!(remedy.contains(&format!("TO {role}")), "{remedy}");
    // Without the right to read a table, what the checks of it would find is not known.
    client.run(&format!("REVOKE ALL ON mainspring.timer FROM {role}")).await;
    assert_finds(&examine_at(&url, &[]), "late-timers", &["could not be examined"]);
    client.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_lock_of_another_program_on_a_table_is_found_with_its_session() {
    let database = TestDatabase::create().await;
    assert_silent(&examine(&database), "table-locks");
    let psql = database.connect().await;
    psql.run("SET application_name = 'psql'; BEGIN; LOCK TABLE mainspring.work IN ACCESS EXCLUSIVE MODE")
        .await;
    let process = psql.count("SELECT pg_backend_pid()::bigint").await.to_string();
    let found = examine(&database);
    let remedy = assert_finds(
        &found,
        "table-locks",
        &[&process, "(psql)", "AccessExclusiveLock on work"],
    );
    // What could not be read is said, and the rest is examined.
    assert_finds(&found, "late-work", &["could not be examined"]);
    assert_finds(&found, "missing-roles", &["no live node runs workflows"]);
    follow(&database, &remedy).await;
    assert_silent(&examine(&database), "table-locks");
}

/// The lock of an instance is held by psql: its work waits, and the holder is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_an_instance_that_psql_holds_is_found() {
    let database = TestDatabase::create().await;
    let node = Node::start(&database, "one");
    publish(node.http.as_ref().unwrap()).await;
    assert_silent(&examine(&database), "foreign-locks");
    let psql = database.connect().await;
    let key = "SELECT pg_advisory_lock(('x' || substr(encode(sha256(string_agg(
                   int8send(octet_length(p)) || convert_to(p, 'UTF8'), ''::bytea ORDER BY n)), 'hex'), 1, 16))::bit(64)::bigint)
               FROM unnest(ARRAY['mainspring', 'instance', '', 'held']) WITH ORDINALITY u(p, n)";
    psql.query(key, &[]).await.unwrap();
    let process = psql.count("SELECT pg_backend_pid()::bigint").await.to_string();
    let http = node.http.clone();
    start_walk(1, &json!({"instanceId": "held", "input": {"n": 1}}), &mut || {
        http.clone()
    })
    .await;
    // The first burst has no lock; its delay is resumed under one.
    let found = poll_until(TIMEOUT, "the timer to be late", async || {
        let found = examine(&database);
        (!of(&found, "foreign-locks").is_empty()).then_some(found)
    })
    .await;
    let remedy = assert_finds(&found, "foreign-locks", &["instance:held", &process]);
    follow(&database, &remedy).await;
    node.http
        .as_ref()
        .unwrap()
        .post("events/go-1/trigger", &json!({}))
        .await
        .expect(200);
    node.http.as_ref().unwrap().instance_becomes("held", "Finished").await;
    assert_silent(&examine(&database), "foreign-locks");
}

#[tokio::test]
async fn sequences_that_have_begun_again_are_found() {
    let database = TestDatabase::create().await;
    assert_silent(&examine(&database), "sequences");
    let rows = "INSERT INTO mainspring.work (tenant_id, id, instance_id, kind, body) OVERRIDING SYSTEM VALUE
                VALUES ('', 700, 'i', 1, '{}')";
    database.connect().await.run(rows).await;
    assert_eq!(
        assert_finds(&examine(&database), "sequences", &["behind the ids"]),
        "mainspring migrate"
    );
}

/// Nodes log in as a role of their own, which the owner of the schema is no member of.
#[tokio::test]
async fn an_owner_that_does_not_see_the_sessions_of_nodes_is_found() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let (admin, name) = (database.connect().await, database.name());
    admin
        .run(&format!(
            "CREATE ROLE engine LOGIN PASSWORD 'p'; GRANT CREATE ON DATABASE {name} TO engine;
             CREATE ROLE one LOGIN PASSWORD 'p' IN ROLE engine"
        ))
        .await;
    let url = |role: &str| format!("postgres://{role}:p@127.0.0.1:{}/{name}", server.port());
    let mut migrates = Child::start(&["migrate", "--database-url", &url("engine")], &[]);
    assert!(migrates.wait(TIMEOUT).success(), "{:?}", migrates.stderr());
    assert_silent(&examine(&database), "session-rights");
    let _node = Node::start_at(&url("one"), "one", &["--check-in", "200ms"], &[]);
    let remedy = assert_finds(
        &examine(&database),
        "session-rights",
        &["engine", "may not see the sessions of role one"],
    );
    assert!(
        remedy.contains("GRANT pg_read_all_stats, pg_signal_backend TO engine"),
        "{remedy}"
    );
    assert_silent(&examine(&database), "rights");
    admin.run("GRANT pg_read_all_stats TO engine").await;
    assert_finds(
        &examine(&database),
        "session-rights",
        &["may not end the sessions of role one"],
    );
    admin.run("GRANT pg_signal_backend TO engine").await;
    assert_silent(&examine(&database), "session-rights");
}
