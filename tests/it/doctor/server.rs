//! Snapshots that are held, settings, and limits of the server.

use super::{assert_finds, assert_silent, examine, examine_at, follow, migrated_on, of};
use crate::support::{Server, Stop, TIMEOUT, TestDatabase, poll_until, wait_until};

#[tokio::test]
async fn a_transaction_that_is_left_open_is_found_since_when_and_ended() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    client
        .run("SET application_name = 'psql'; BEGIN; SELECT count(*) FROM mainspring.work")
        .await;
    let process = client.count("SELECT pg_backend_pid()::bigint").await.to_string();
    let began = "SELECT to_char(xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS') FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let began: String = client.query_one(began, &[]).await.unwrap().get(0);
    let found = examine(&database);
    let remedy = assert_finds(&found, "old-snapshots", &[&process, "(psql)", "idle in transaction"]);
    assert!(found.to_string().contains(&format!("\"since\":\"{began}")), "{found:#}");
    // Not yet an hour.
    let later = examine_at(&database.url(), &["--older-than", "1h"]);
    assert!(!later.to_string().contains(&format!("session {process} ")), "{later:#}");
    follow(&database, &remedy).await;
    assert!(client.simple_query("SELECT 1").await.is_err(), "the session is ended");
}

/// On a server of its own, as these belong to the whole server.
#[tokio::test]
async fn what_the_whole_server_keeps_or_leaves_out_is_found() {
    let server = Server::start().await;
    let database = migrated_on(&server).await;
    let client = database.connect().await;
    client.run("ALTER SYSTEM SET max_prepared_transactions = 5").await;
    server.restart(Stop::Fast);
    let mut migrates = crate::support::Child::start(&["migrate", "--database-url", &database.url()], &[]);
    assert!(
        migrates.wait(crate::support::TIMEOUT).success(),
        "{:?}",
        migrates.stderr()
    );
    let found = examine(&database);
    assert_silent(&found, "old-snapshots");
    assert_silent(&found, "lock-table");
    let remedy = assert_finds(&found, "server-settings", &["fsync is off"]);
    follow(&database, &remedy).await;
    wait_until("the setting to be taken", async || {
        of(&examine(&database), "server-settings").is_empty()
    })
    .await;
    let client = database.connect().await;
    client.run("ALTER SYSTEM SET autovacuum = off").await;
    client
        .run("SELECT pg_reload_conf(), pg_create_physical_replication_slot('left_over', true)")
        .await;
    client
        .run("BEGIN; INSERT INTO mainspring.purged_version VALUES ('', 'v'); PREPARE TRANSACTION 'left'")
        .await;
    client
        .run(
            "INSERT INTO mainspring.node (incarnation, node_id, tolerance, facts)
             VALUES (71, 'seven', '1 hour', '{\"connections\": 500, \"workers\": 1000000}')",
        )
        .await;
    let found = poll_until(TIMEOUT, "the setting to be taken", async || {
        let found = examine(&database);
        (!of(&found, "server-settings").is_empty()).then_some(found)
    })
    .await;
    assert_finds(&found, "server-settings", &["autovacuum is off"]);
    assert_finds(&found, "connections", &["the 1 live nodes open up to 500 connections"]);
    let remedy = assert_finds(&found, "lock-table", &["up to 1000000 bursts"]);
    assert!(remedy.contains("max_locks_per_transaction"), "{remedy}");
    for parts in [
        ["the replication slot left_over is inactive", "of WAL"],
        ["the prepared transaction left", "neither committed"],
    ] {
        let remedy = assert_finds(&found, "old-snapshots", &parts);
        follow(&database, &remedy).await;
    }
    assert_silent(&examine(&database), "old-snapshots");

    // A database that lets fewer connections in than its nodes open.
    client
        .run("UPDATE mainspring.node SET facts = '{\"connections\": 20, \"workers\": 8}'")
        .await;
    assert_silent(&examine(&database), "connections");
    client
        .run(&format!("ALTER DATABASE {} CONNECTION LIMIT 12", database.name()))
        .await;
    assert_finds(
        &examine(&database),
        "connections",
        &["up to 20 connections", "room for 12"],
    );
}

/// Notifications wait for a listener in a transaction, until the queue is full and each NOTIFY fails.
#[tokio::test]
async fn a_queue_of_notifications_that_a_listener_blocks_is_found() {
    let server = Server::start().await;
    let database = migrated_on(&server).await;
    let version = "SELECT current_setting('server_version_num')::bigint";
    if database.connect().await.count(version).await < 170_000 {
        // Its queue has 8 GB, whatever is set.
        return;
    }
    database
        .connect()
        .await
        .run("ALTER SYSTEM SET max_notify_queue_pages = 64")
        .await;
    server.restart(Stop::Fast);
    let mut migrates = crate::support::Child::start(&["migrate", "--database-url", &database.url()], &[]);
    assert!(
        migrates.wait(crate::support::TIMEOUT).success(),
        "{:?}",
        migrates.stderr()
    );
    assert_silent(&examine(&database), "notify-queue");
    let hog = database.connect().await;
    for statement in ["LISTEN hog", "BEGIN; SELECT 1"] {
        hog.run(statement).await;
    }
    let sender = database.connect().await;
    while sender
        .batch_execute("SELECT pg_notify('hog', repeat('x', 7900))")
        .await
        .is_ok()
    {}
    let found = examine(&database);
    assert_finds(&found, "session", &["queue of notifications is full"]);
    let remedy = assert_finds(&found, "notify-queue", &["percent full"]);
    follow(&database, &remedy).await;
    wait_until("the queue to be read", async || {
        of(&examine(&database), "notify-queue").is_empty()
    })
    .await;
}

/// A disk that takes nothing: the folder of temporary tables is gone.
#[tokio::test]
async fn a_server_that_cannot_write_is_found() {
    let server = Server::start().await;
    let database = migrated_on(&server).await;
    let mut migrates = crate::support::Child::start(&["migrate", "--database-url", &database.url()], &[]);
    assert!(
        migrates.wait(crate::support::TIMEOUT).success(),
        "{:?}",
        migrates.stderr()
    );
    assert_silent(&examine(&database), "writes");
    let client = database.connect().await;
    let folder = "SELECT current_setting('data_directory') || '/../elsewhere'";
    let folder: String = client.query_one(folder, &[]).await.unwrap().get(0);
    // The server makes it itself, so that it belongs to its user.
    client
        .run(&format!("COPY (SELECT 1) TO PROGRAM 'mkdir {folder}'"))
        .await;
    client
        .run(&format!("CREATE TABLESPACE elsewhere LOCATION '{folder}'"))
        .await;
    client
        .run(&format!(
            "ALTER DATABASE {} SET temp_tablespaces = 'elsewhere'",
            database.name()
        ))
        .await;
    assert_silent(&examine(&database), "writes");
    client
        .run(&format!("COPY (SELECT 1) TO PROGRAM 'rm -r {folder}'"))
        .await;
    assert_finds(&examine(&database), "writes", &["the server does not write"]);
}

/// Where no session is let in the message of the server is all there is, and it is a finding.
#[tokio::test]
async fn a_database_without_room_for_a_session_is_found() {
    let server = Server::start().await;
    let database = migrated_on(&server).await;
    let name = database.name();
    let client = database.connect().await;
    client
        .run("CREATE ROLE plain LOGIN PASSWORD 'p' IN ROLE pg_read_all_data")
        .await;
    let url = format!("postgres://plain:p@127.0.0.1:{}/{name}", server.port());
    assert_finds(&examine_at(&url, &[]), "rights", &["role plain may not"]);
    client.run(&format!("ALTER DATABASE {name} CONNECTION LIMIT 0")).await;
    let found = examine_at(&url, &[]);
    assert_finds(&found, "session", &["too many connections for database"]);
    assert_eq!(found["findings"].as_array().unwrap().len(), 1, "{found:#}");
}
