//! What each fence refuses, and the outcome of every request; in one round trip, and with a failpoint between statements armed.

use std::sync::Arc;

use crate::assert_outcome;
use crate::id::{BookmarkId, ClaimNo, InstanceVersion};
use crate::store::commit::{Claim, Commit, CommitOutcome, DeliveryRow, SendMode, StimulusRow, WriterOptions};
use crate::store::node::removal::RemovalCause;
use crate::testing::store::{Fixture, burst, journal, waiting, yielding};

/// Runs each of these as two tests, one for each [`SendMode`].
macro_rules! both_ways {
    ($($name:ident),* $(,)?) => {
        mod pipelined {
            use super::SendMode;
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(SendMode::Pipelined).await;
                }
            )*
        }

        mod stepwise {
            use super::SendMode;
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(SendMode::Stepwise).await;
                }
            )*
        }
    };
}

both_ways!(
    a_burst_is_written_whole_and_its_version_grows,
    an_old_version_changes_nothing,
    a_lost_claim_loses_the_whole_burst,
    a_removed_incarnation_writes_nothing_more,
    one_bad_row_hurts_only_its_own_burst,
    a_commit_whose_answer_was_lost_is_found_and_not_repeated,
    a_commit_in_doubt_of_a_removed_incarnation_is_still_found,
    an_instance_deleted_while_in_doubt_is_unknown,
    the_inbox_gives_each_stimulus_to_one_bookmark,
    a_yielded_burst_continues_under_the_row_that_it_claimed,
    a_yielded_burst_continues_under_a_new_claimed_row,
);

async fn a_burst_is_written_whole_and_its_version_grows(send: SendMode) {
    let fixture = Fixture::new().await;
    let writer = fixture.sending(send).await;
    let first = waiting(journal(burst("i", None), 1), "b", 7);
    assert_eq!(writer.commits(first).await.version, InstanceVersion(1));
    let mut second = journal(burst("i", Some(1)), 2);
    second.effects.bookmarks_burned = vec![BookmarkId::new("b")];
    assert_eq!(writer.commits(second).await.version, InstanceVersion(2));
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 2);
    assert_eq!(fixture.count("SELECT count(*) FROM bookmark").await, 0);
    fixture.is_sound().await;
}

async fn an_old_version_changes_nothing(send: SendMode) {
    let fixture = Fixture::new().await;
    let writer = fixture.sending(send).await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let mut stale = journal(burst("i", Some(9)), 5);
    stale.effects.bookmarks_burned = vec![BookmarkId::new("b")];
    assert_outcome!(writer.write(stale).await, CommitOutcome::VersionConflict);
    assert_outcome!(
        writer.write(journal(burst("i", None), 5)).await,
        CommitOutcome::VersionConflict
    );
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    assert_eq!(fixture.version("i").await, Some(1));
    fixture.is_sound().await;
}

async fn a_lost_claim_loses_the_whole_burst(send: SendMode) {
    let fixture = Fixture::new().await;
    let writer = fixture.sending(send).await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let good = fixture.claimed_work("i", writer.incarnation).await;
    let Claim::Work(id, _) = fixture.claimed_work("i", writer.incarnation).await else {
        unreachable!()
    };
    let mut request = journal(burst("i", Some(1)), 1);
    request.claims = vec![good.clone(), Claim::Work(id, ClaimNo(2))];
    assert_outcome!(writer.write(request).await, CommitOutcome::ClaimLost);
    assert_eq!(
        fixture.count("SELECT count(*) FROM work").await,
        2,
        "its other rows are not consumed"
    );
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    let mut request = waiting(journal(burst("i", Some(1)), 1), "b2", 8);
    request.claims = vec![good, Claim::Work(id, ClaimNo(1))];
    writer.commits(request).await;
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    fixture.is_sound().await;
}

async fn a_removed_incarnation_writes_nothing_more(send: SendMode) {
    let fixture = Fixture::new().await;
    let writer = fixture.sending(send).await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    fixture.remove(writer.incarnation, RemovalCause::Crashed).await;
    assert_outcome!(
        writer.write(journal(burst("i", Some(1)), 1)).await,
        CommitOutcome::Fenced
    );
    assert_outcome!(writer.write(journal(burst("j", None), 1)).await, CommitOutcome::Fenced);
    assert_eq!(fixture.version("i").await, Some(1));
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    fixture.is_sound().await;
}

async fn one_bad_row_hurts_only_its_own_burst(send: SendMode) {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.sending(send).await);
    let mut bursts = Vec::new();
    for n in 0..9 {
        let mut request = journal(burst(&format!("i{n}"), None), 1);
        if n == 4 {
            // A date that no timestamptz can hold: the whole statement fails.
            request.effects.elapsed = std::time::Duration::from_micros(i64::MAX as u64);
        }
        let writer = Arc::clone(&writer);
        bursts.push(tokio::spawn(async move { (n, writer.write(request).await) }));
    }
    for task in bursts {
        match task.await.unwrap() {
            (4, outcome) => assert_outcome!(outcome, CommitOutcome::Refused(_)),
            (_, outcome) => assert_outcome!(outcome, CommitOutcome::Committed(_)),
        }
    }
    assert_eq!(fixture.count("SELECT count(*) FROM instance").await, 8);
    fixture.is_sound().await;
}

async fn a_commit_whose_answer_was_lost_is_found_and_not_repeated(send: SendMode) {
    let fixture = Fixture::new().await;
    let options = WriterOptions {
        send,
        ..WriterOptions::default()
    };
    let (proxy, writer) = fixture.proxied(options).await;
    writer.commits(journal(waiting(burst("i", None), "b", 7), 1)).await;
    let mut request = journal(waiting(burst("i", Some(1)), "b2", 8), 2);
    request.claims = vec![fixture.claimed_work("i", writer.incarnation).await];
    request.effects.continues = true;
    let token = Arc::new(());
    proxy.lose_commit(send);
    let reply = writer.reply(request, Arc::clone(&token)).await;
    let CommitOutcome::Committed(Commit { version, continued, .. }) = reply.outcome else {
        panic!("{:?}", reply.outcome)
    };
    assert_eq!((version.0, fixture.version("i").await), (2, Some(2)), "written once");
    assert!(continued.is_some(), "the row under which it continues is found, too");
    assert_eq!(
        Arc::strong_count(&token),
        2,
        "its guard is held until the outcome is known"
    );
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 2);

    // The same for an instance that is new, with a waiting bookmark (a pipeline of several statements).
    proxy.lose_commit(send);
    writer.commits(waiting(burst("new", None), "b", 9)).await;
    assert_eq!(fixture.version("new").await, Some(1));
    fixture.is_sound().await;
}

async fn a_commit_in_doubt_of_a_removed_incarnation_is_still_found(send: SendMode) {
    let fixture = Fixture::new().await;
    let options = WriterOptions {
        send,
        ..WriterOptions::default()
    };
    let (proxy, writer) = fixture.proxied(options).await;
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    // The incarnation is removed with the commit, before it can be classified.
    fixture
        .execute(
            "CREATE FUNCTION remove_now() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN DELETE FROM fence; DELETE FROM node; RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER remove_now AFTER UPDATE ON instance DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION remove_now()",
        )
        .await;
    proxy.lose_commit(send);
    writer.commits(waiting(burst("i", Some(1)), "b2", 7)).await;
    assert_outcome!(
        writer.write(waiting(burst("i", Some(2)), "b3", 7)).await,
        CommitOutcome::Fenced
    );
    fixture.is_sound().await;
}

async fn an_instance_deleted_while_in_doubt_is_unknown(send: SendMode) {
    let fixture = Fixture::new().await;
    let options = WriterOptions {
        send,
        ..WriterOptions::default()
    };
    let (proxy, writer) = fixture.proxied(options).await;
    // The second also has the statement prepared, so that the next answer is that of a commit.
    for expected in [None, Some(1)] {
        writer.commits(burst("i", expected)).await;
    }
    fixture
        .execute(
            "CREATE FUNCTION vanish() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN DELETE FROM instance WHERE id = NEW.id; RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER vanish AFTER UPDATE ON instance DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION vanish()",
        )
        .await;
    proxy.lose_answer(send);
    assert_outcome!(writer.write(burst("i", Some(2))).await, CommitOutcome::Unknown);
    fixture.is_sound().await;
}

async fn the_inbox_gives_each_stimulus_to_one_bookmark(send: SendMode) {
    let fixture = Fixture::new().await;
    let writer = fixture.sending(send).await;
    let mut request = waiting(burst("i", None), "b", 7);
    for _ in 0..2 {
        request.effects.stimuli.push(StimulusRow {
            no: 0,
            hash: vec![9; 32],
            name: "Elsa.Event".to_owned(),
            payload: Some(serde_json::json!(1)),
            lifetime: 60_000_000,
        });
    }
    writer.commits(request).await;
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 2);
    // Another instance: they are targeted at the first one.
    writer.commits(waiting(burst("j", None), "b", 9)).await;
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 2);
    let three = waiting(waiting(waiting(burst("i", Some(1)), "b1", 9), "b2", 9), "b3", 9);
    writer.commits(three).await;
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 0);
    assert_eq!(
        fixture
            .count("SELECT count(DISTINCT body->>'bookmarkId') FROM work WHERE kind = 2")
            .await,
        2
    );
    fixture.is_sound().await;
}

async fn a_yielded_burst_continues_under_the_row_that_it_claimed(send: SendMode) {
    let fixture = Fixture::new().await;
    let writer = fixture.sending(send).await;
    let claim = fixture.claimed_work("i", writer.incarnation).await;
    fixture.execute("UPDATE work SET crashes = 1, failures = 3").await;
    for (expected, asks, waits) in [
        (None, false, false),
        (Some(1), true, false),
        (Some(2), false, false),
        (Some(3), true, true),
    ] {
        let mut request = yielding(burst("i", expected));
        request.effects.reads_pending_work = asks;
        request.claims = vec![claim.clone()];
        if expected == Some(2) {
            let others = "INSERT INTO work (tenant_id, instance_id, kind, body) VALUES ('', 'i', 1, '{}')";
            fixture.execute(others).await;
        }
        let commit = writer.commits(request).await;
        assert_eq!(
            (commit.continued, commit.has_pending_work),
            (None, waits),
            "no other row was made"
        );
        let is = "SELECT count(*) FROM work WHERE kind = 4 AND claimed_by IS NOT NULL AND failures = 0 AND crashes = 0";
        assert_eq!(
            fixture.count(is).await,
            1,
            "it made progress: no failure or crash is counted"
        );
    }
    // A row that stays on its page is written in a quarter of the time.
    let indexed = r"SELECT count(*) FROM pg_index WHERE indrelid = 'work'::regclass
                    AND pg_get_indexdef(indexrelid) ~ '\m(kind|body|failures|crashes|version_id|definition_version)\M'";
    assert_eq!(fixture.count(indexed).await, 0, "no index holds a changed column");
    let mut last = burst("i", Some(4));
    last.claims = vec![claim];
    assert_eq!(writer.commits(last).await.continued, None);
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1, "the other one");
    fixture.is_sound().await;
}

async fn a_yielded_burst_continues_under_a_new_claimed_row(send: SendMode) {
    let fixture = Fixture::new().await;
    let writer = fixture.sending(send).await;
    let work = writer.commits(yielding(burst("i", None))).await.continued.unwrap();
    let mut request = burst("i", Some(1));
    request.claims = vec![Claim::Work(work, ClaimNo(1))];
    assert_eq!(writer.commits(request).await.continued, None);
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    fixture.is_sound().await;
}

#[test]
fn each_row_of_an_event_counts_in_the_weight_of_a_batch() {
    let of = |sinks: usize| {
        let mut request = burst("i", None);
        request.effects.deliveries.push(DeliveryRow::default());
        request.effects.delivery_sinks = vec![1; sinks];
        request.size()
    };
    assert_eq!(of(100) - of(1), 99 * 256);
    let mut request = burst("i", None);
    let before = request.size();
    request.effects.payload_bytes = 4 << 20;
    assert_eq!(request.size() - before, 4 << 20);
}
