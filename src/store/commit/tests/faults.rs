//! Faults of the database, and refusals of a single burst.

use std::sync::Arc;
use std::time::Duration;

use crate::assert_outcome;
use crate::store::commit::{CommitOutcome, WriterOptions};
use crate::testing::store::{Fixture, Writer, burst, execute, journal, occupy, spawn};

/// Makes the server refuse commits that write a record of a matching instance.
async fn refuses(fixture: &Fixture, code: &str, which: &str) {
    let refuse = format!(
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
         $$BEGIN IF NEW.instance_id ~ '{which}' THEN
             RAISE EXCEPTION 'it is refused' USING ERRCODE = '{code}'; END IF; RETURN NEW; END$$;
         DROP TRIGGER IF EXISTS refuse ON burst_record;
         CREATE TRIGGER refuse BEFORE INSERT ON burst_record FOR EACH ROW EXECUTE FUNCTION refuse()"
    );
    fixture.execute(&refuse).await;
}

/// Takes no lock on the table, for which a burst may wait.
async fn refuses_no_more(fixture: &Fixture) {
    let accept = "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'";
    fixture.execute(accept).await;
}

async fn writer(fixture: &Fixture, lock_timeout: Duration) -> Arc<Writer> {
    let options = WriterOptions {
        second_lane_min: None,
        lock_timeout,
        ..WriterOptions::default()
    };
    Arc::new(fixture.writer_with(&fixture.base, options).await)
}

/// Writes bursts in one batch, in this order.
async fn together(fixture: &Fixture, writer: &Arc<Writer>, instances: &[&str]) -> Vec<CommitOutcome> {
    let (occupier, occupied) = occupy(fixture, writer).await;
    let mut sent = Vec::new();
    for instance in instances {
        sent.push(spawn(writer, journal(burst(instance, None), 1)));
        // In the order in which they are sent.
        tokio::task::yield_now().await;
    }
    execute(&occupier, "ROLLBACK").await;
    assert_outcome!(occupied.await.unwrap(), CommitOutcome::Committed(_));
    let mut outcomes = Vec::new();
    for burst in sent {
        outcomes.push(burst.await.unwrap());
    }
    outcomes
}

#[tokio::test]
async fn what_is_refused_to_all_is_no_bursts_own() {
    for code in ["42501", "58030", "XX000", "53100", "57014", "42P01"] {
        let fixture = Fixture::new().await;
        let writer = writer(&fixture, Duration::from_millis(50)).await;
        refuses(&fixture, code, "i").await;
        let names = ["i1", "i2", "i3", "i4", "i5", "i6"];
        let outcomes = together(&fixture, &writer, &names).await;
        // A statement that takes too long is the row's if without rows it does not.
        if code != "57014" {
            for outcome in outcomes {
                assert!(
                    matches!(outcome, CommitOutcome::DatabaseFault(_)),
                    "{code}: {outcome:?}"
                );
            }
            let reason = writer.commit.breaker().reason().unwrap_or_default();
            assert!(reason.contains(code), "{code}: {reason}");
        }
        assert_eq!(fixture.count("SELECT count(*) FROM burst_record").await, 0);
        refuses_no_more(&fixture).await;
        writer.commits(journal(burst("i1", None), 1)).await;
        assert!(!writer.commit.breaker().is_open());
        fixture.is_sound().await;
    }
}

#[tokio::test]
async fn what_is_refused_for_a_moment_is_written_without_running_it_again() {
    let fixture = Fixture::new().await;
    let writer = writer(&fixture, Duration::from_secs(60)).await;
    refuses(&fixture, "42501", "i").await;
    let sent: Vec<_> = ["i1", "i2", "i3"]
        .into_iter()
        .map(|instance| spawn(&writer, journal(burst(instance, None), 1)))
        .collect();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !writer.commit.breaker().is_open() {
        assert!(tokio::time::Instant::now() < deadline, "it does not open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    refuses_no_more(&fixture).await;
    for burst in sent {
        assert_outcome!(burst.await.unwrap(), CommitOutcome::Committed(_));
    }
    assert!(!writer.commit.breaker().is_open());
    fixture.is_sound().await;
}

#[tokio::test]
async fn what_fails_alone_while_others_are_committed_is_its_own() {
    for code in ["XX000", "42501", "57014"] {
        for bad in ["i1", "i3", "i5"] {
            let fixture = Fixture::new().await;
            let writer = writer(&fixture, Duration::from_secs(60)).await;
            refuses(&fixture, code, bad).await;
            let names = ["i1", "i2", "i3", "i4", "i5"];
            let outcomes = together(&fixture, &writer, &names).await;
            for (instance, outcome) in names.iter().zip(outcomes) {
                if *instance == bad {
                    assert!(
                        matches!(outcome, CommitOutcome::Refused(_)),
                        "{code} {bad}: {outcome:?}"
                    );
                } else {
                    assert!(
                        matches!(outcome, CommitOutcome::Committed(_)),
                        "{code} {bad} {instance}: {outcome:?}"
                    );
                }
            }
            assert!(!writer.commit.breaker().is_open());
            fixture.is_sound().await;
        }
    }
}

#[tokio::test]
async fn a_commit_that_always_exceeds_its_timeout_is_refused_without_other_commits_too() {
    let fixture = Fixture::new().await;
    let writer = writer(&fixture, Duration::from_secs(60)).await;
    refuses(&fixture, "57014", "long").await;
    assert_outcome!(
        writer.write(journal(burst("long", None), 1)).await,
        CommitOutcome::Refused(_)
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_check_is_the_rows_and_a_missing_partition_is_not() {
    let fixture = Fixture::new().await;
    let writer = writer(&fixture, Duration::from_millis(50)).await;
    let check = "ALTER TABLE instance ADD CONSTRAINT named CHECK (id <> 'bad')";
    fixture.execute(check).await;
    assert_outcome!(
        writer.write(journal(burst("bad", None), 1)).await,
        CommitOutcome::Refused(_)
    );
    let drop_partitions = "DO $$DECLARE p record; BEGIN
                    FOR p IN SELECT inhrelid::regclass AS name FROM pg_inherits WHERE inhparent = 'burst_record'::regclass LOOP
                        EXECUTE 'DROP TABLE ' || p.name; END LOOP; END$$";
    fixture.execute(drop_partitions).await;
    assert_outcome!(
        writer.write(journal(burst("i", None), 1)).await,
        CommitOutcome::DatabaseFault(_)
    );
}
