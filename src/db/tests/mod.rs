//! Migrations run once, however many nodes start at the same moment, and never backwards.

mod session;

use std::time::{Duration, Instant};

use crate::db::{Connector, DatabaseUrl, Pool, ReadPool, SchemaName, migrate};
use crate::testing::TestDatabase;

fn connector(database: &TestDatabase, schema: &str) -> Connector {
    Connector::new(
        &DatabaseUrl::parse(&database.url()).unwrap(),
        &SchemaName::parse(schema).unwrap(),
    )
    .unwrap()
}

async fn migrated() -> (TestDatabase, Connector) {
    let database = TestDatabase::empty().await;
    let base = connector(&database, "mainspring");
    migrate::run(&base).await.unwrap();
    (database, base)
}

#[tokio::test]
async fn processes_that_migrate_at_once_all_succeed() {
    let database = TestDatabase::empty().await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let base = connector(&database, "mainspring");
        tasks.push(tokio::spawn(async move { migrate::run(&base).await }));
    }
    let mut applied = 0;
    for task in tasks {
        applied += usize::from(!task.await.unwrap().unwrap().is_empty());
    }
    assert_eq!(applied, 1, "one works, the others find it done");
    migrate::verify(&connector(&database, "mainspring")).await.unwrap();
}

/// Nodes that start together would else queue for the lock, however little there is to do.
#[tokio::test]
async fn a_node_without_migrations_to_run_does_not_wait() {
    let (_database, base) = migrated().await;
    let other = base.open().await.unwrap();
    let class = base.schema().lock_class();
    // The session that migrated may still be ending at the server, so this waits for the lock.
    let lock = "SELECT pg_advisory_lock($1::integer, 1)";
    tokio::time::timeout(Duration::from_secs(20), other.client.execute(lock, &[&class]))
        .await
        .expect("the first session ends")
        .unwrap();
    let run = tokio::time::timeout(Duration::from_secs(20), migrate::run(&base));
    assert!(run.await.expect("it waited").unwrap().is_empty());
}

#[tokio::test]
async fn a_changed_migration_is_reported() {
    let (_database, base) = migrated().await;
    let session = base.open().await.unwrap();
    let change = "UPDATE refinery_schema_history SET checksum = '1' WHERE version = 1";
    session.client.batch_execute(change).await.unwrap();
    assert_eq!(migrate::run(&base).await.unwrap_err().code(), "migration-failed");
}

#[tokio::test]
async fn two_schemas_of_one_database_do_not_meet() {
    let database = TestDatabase::empty().await;
    for schema in ["one", "two"] {
        migrate::run(&connector(&database, schema)).await.unwrap();
        migrate::verify(&connector(&database, schema)).await.unwrap();
    }
    let missing = migrate::verify(&connector(&database, "three")).await.unwrap_err();
    assert_eq!(missing.code(), "schema-outdated");
}

#[tokio::test]
async fn a_database_newer_than_this_binary_is_refused() {
    let (database, base) = migrated().await;
    database
        .connect()
        .await
        .batch_execute(
            "INSERT INTO mainspring.refinery_schema_history (version, name, applied_on, checksum)
             VALUES (999, 'from_the_future', '2126-01-01T00:00:00Z', '0')",
        )
        .await
        .unwrap();
    assert_eq!(migrate::run(&base).await.unwrap_err().code(), "database-newer");
    assert_eq!(migrate::verify(&base).await.unwrap_err().code(), "database-newer");
}

#[tokio::test]
async fn a_database_of_a_build_before_the_first_release_is_refused() {
    let (database, base) = migrated().await;
    let unreleased = "UPDATE mainspring.refinery_schema_history SET name = 'trunk', checksum = '1';
         INSERT INTO mainspring.refinery_schema_history (version, name, applied_on, checksum)
         SELECT n, 'later', '2026-01-01T00:00:00Z', '1' FROM generate_series(2, 20) n";
    database.connect().await.batch_execute(unreleased).await.unwrap();
    for error in [
        migrate::run(&base).await.unwrap_err(),
        migrate::verify(&base).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), "database-unreleased");
        assert!(error.message().contains("DROP SCHEMA mainspring CASCADE"), "{error}");
    }
}

/// As a connection does that reaches a standby: the primary is somewhere else, so the next statement connects anew.
#[tokio::test]
async fn a_connection_that_takes_no_writes_is_not_used_again() {
    let (_database, base) = migrated().await;
    let pool = Pool::new(&base, 1).unwrap();
    let writes = "UPDATE revision SET revision = revision RETURNING 1";
    for _ in 0..2 {
        let connection = pool.exclusive().await.unwrap();
        let demote = "SET default_transaction_read_only = on";
        connection.client().unwrap().batch_execute(demote).await.unwrap();
        connection.give_back();
        let error = pool.query(writes, &[]).await.unwrap_err();
        assert_eq!((error.code(), error.is_unavailable()), ("database-read-only", true));
        pool.query(writes, &[]).await.unwrap();
    }
}

/// Whatever clients list without a pause, half of the time of its connections is left to other sessions.
#[tokio::test]
async fn the_connection_of_a_list_rests_for_as_long_as_the_list_took() {
    let (_database, base) = migrated().await;
    let reads = ReadPool::new(&base, 2).unwrap();
    let slow = Duration::from_millis(150);
    reads.lists().query("SELECT 1", &[]).await.unwrap();
    let began = Instant::now();
    reads.lists().query("SELECT pg_sleep(0.15)", &[]).await.unwrap();
    match reads.lists().query("SELECT 1", &[]).await {
        Ok(_) => assert!(began.elapsed() >= 2 * slow, "{:?}", began.elapsed()),
        // On a machine that was stalled the rest is longer than the wait for a connection.
        Err(error) => assert_eq!(error.code(), "reads-busy"),
    }
}

#[test]
fn a_schema_name_carries_no_statement_with_it() {
    for hostile in [
        "x; DROP SCHEMA public",
        "x\"",
        "x,public",
        "x -c statement_timeout=0",
        "pg_catalog",
        "x\0",
    ] {
        let error = SchemaName::parse(hostile).unwrap_err();
        assert_eq!(error.code(), "invalid-schema", "{hostile}");
    }
}
