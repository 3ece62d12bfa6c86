//! A server that answers but takes no writes (25006), as after a demotion: no burst counts a failure.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::assert_outcome;
use crate::store::commit::CommitOutcome;
use crate::store::event;
use crate::testing::store::{Fixture, burst, event, journal, spawn};

/// Makes the server refuse writes to this table, and counts the attempts.
async fn demote(fixture: &Fixture, table: &str) {
    let demote = format!(
        "CREATE SEQUENCE IF NOT EXISTS refused;
         CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             PERFORM nextval('refused');
             RAISE EXCEPTION 'cannot execute INSERT in a read-only transaction' USING ERRCODE = '25006';
         END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
    );
    fixture.execute(&demote).await;
}

async fn promote(fixture: &Fixture, table: &str) {
    let promote = format!("DROP TRIGGER refuse ON {table}");
    fixture.execute(&promote).await;
}

#[tokio::test]
async fn a_burst_is_sent_again_until_a_server_takes_it_and_not_in_a_storm() {
    const TRIES: i64 = 9;
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    demote(&fixture, "instance").await;
    let began = Instant::now();
    let sent = spawn(&writer, journal(burst("i", None), 1));
    while fixture.count("SELECT last_value FROM refused").await < TRIES {
        assert!(!sent.is_finished(), "{:?}", sent.await);
        assert!(began.elapsed() < Duration::from_secs(30), "it is not sent again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Before the third try and each later one it waits at least 10 ms, doubled each time, up to 500 ms.
    let least = Duration::from_millis(10 + 20 + 40 + 80 + 160 + 320 + 500);
    assert!(began.elapsed() >= least, "{TRIES} tries in {:?}", began.elapsed());
    promote(&fixture, "instance").await;
    assert_outcome!(sent.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_that_was_not_taken_can_be_tried_again() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let class = fixture.base.schema().lock_class();
    let event = event("k", 9);
    demote(&fixture, "idempotency_key").await;
    let error = event::publish(&writer.pool, class, &event).await.unwrap_err();
    assert_eq!((error.code(), error.is_unavailable()), ("database-read-only", true));
    promote(&fixture, "idempotency_key").await;
    assert!(event::publish(&writer.pool, class, &event).await.unwrap().kept);
}
