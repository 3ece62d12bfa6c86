//! A session has the settings that promises need, whatever the database sets for others.

use super::connector;
use crate::db::{Connector, Pool};
use crate::id::{Incarnation, NodeId};
use crate::testing::TestDatabase;

/// A setting, what is set for the database, and what a session of ours has.
const FOREIGN: [(&str, &str, &str); 21] = [
    ("default_transaction_isolation", "repeatable read", "read committed"),
    ("default_transaction_read_only", "on", "off"),
    ("default_transaction_deferrable", "on", "off"),
    ("row_security", "on", "off"),
    ("datestyle", "German, DMY", "ISO, MDY"),
    ("intervalstyle", "iso_8601", "postgres"),
    ("bytea_output", "escape", "hex"),
    ("timezone", "Asia/Tokyo", "UTC"),
    ("extra_float_digits", "-15", "1"),
    ("standard_conforming_strings", "off", "on"),
    ("transform_null_equals", "on", "off"),
    ("array_nulls", "off", "on"),
    ("exit_on_error", "on", "off"),
    ("plan_cache_mode", "force_custom_plan", "auto"),
    ("default_table_access_method", "other", "heap"),
    ("idle_session_timeout", "60s", "0"),
    ("idle_in_transaction_session_timeout", "60s", "10s"),
    ("statement_timeout", "60s", "10s"),
    ("lock_timeout", "60s", "5s"),
    ("synchronous_commit", "off", "on"),
    ("transaction_timeout", "60s", "0"),
];

async fn set(database: &TestDatabase, name: &str, value: &str) {
    let set = format!("ALTER DATABASE {} SET {name} = '{value}'", database.name());
    database.connect_to_server().await.batch_execute(&set).await.unwrap();
}

/// What a setting is on a session of each kind: one alone, one of an incarnation, one of a pool.
async fn found(base: &Connector, name: &str) -> Vec<String> {
    let show = format!("SHOW {name}");
    let mut found = Vec::new();
    for connector in [base.clone(), base.of(Incarnation(1), &NodeId::new("node"))] {
        let session = connector.open().await.unwrap();
        found.push(session.client.query_one(&show, &[]).await.unwrap().get(0));
    }
    let pooled = Pool::new(base, 1).unwrap().exclusive().await.unwrap();
    found.push(pooled.client().unwrap().query_one(&show, &[]).await.unwrap().get(0));
    found
}

#[tokio::test]
async fn a_session_does_not_inherit_settings_that_promises_depend_on() {
    let database = TestDatabase::empty().await;
    let client = database.connect().await;
    let other = "CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler";
    client.batch_execute(other).await.unwrap();
    let num = client
        .query_one("SELECT current_setting('server_version_num')::int", &[])
        .await
        .unwrap();
    let known = |name: &str| name != "transaction_timeout" || num.get::<_, i32>(0) >= 170_000;
    let base = connector(&database, "mainspring");
    let foreign = FOREIGN.iter().filter(|(name, ..)| known(name));
    for (name, theirs, _) in foreign.clone() {
        set(&database, name, theirs).await;
    }
    for (name, theirs, ours) in foreign {
        assert_eq!(
            found(&base, name).await,
            [*ours; 3],
            "{name}, which others set to {theirs}"
        );
    }
}

/// A commit that was confirmed to a client is on disk; where the server asks for more, that counts.
#[tokio::test]
async fn a_commit_is_flushed_and_no_less_is_waited_for_than_the_server_asks() {
    let database = TestDatabase::empty().await;
    let base = connector(&database, "mainspring");
    for (theirs, ours) in [
        ("off", "on"),
        ("local", "on"),
        ("on", "on"),
        ("remote_write", "remote_write"),
        ("remote_apply", "remote_apply"),
    ] {
        set(&database, "synchronous_commit", theirs).await;
        assert_eq!(found(&base, "synchronous_commit").await, [ours; 3], "{theirs}");
    }
}
