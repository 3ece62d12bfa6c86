//! What each fence refuses, and what every burst is told.

use std::sync::Arc;

use super::fixture::{Fixture, burst, journal, kept, waiting};
use super::proxy::Proxy;
use crate::assert_verdict;
use crate::id::{BookmarkId, ClaimNo, InstanceVersion, NodeId};
use crate::store::commit::{Claim, Commit, StimulusRow, Verdict, WriterOptions};
use crate::store::depart::{self, Cause};

#[tokio::test]
async fn a_burst_is_written_whole_and_its_version_grows() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let first = waiting(journal(burst("i", None), 1), "b", 7);
    assert_verdict!(
        writer.write(first).await,
        Verdict::Won(Commit {
            version: InstanceVersion(1),
            ..
        })
    );
    let mut second = journal(burst("i", Some(1)), 2);
    second.effects.bookmarks_burned = vec![BookmarkId::new("b")];
    assert_verdict!(
        writer.write(second).await,
        Verdict::Won(Commit {
            version: InstanceVersion(2),
            ..
        })
    );
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 2);
    assert_eq!(fixture.count("SELECT count(*) FROM bookmark").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_old_version_changes_nothing() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    assert_verdict!(writer.write(waiting(burst("i", None), "b", 7)).await, Verdict::Won(_));
    let mut stale = journal(burst("i", Some(9)), 5);
    stale.effects.bookmarks_burned = vec![BookmarkId::new("b")];
    assert_verdict!(writer.write(stale).await, Verdict::VersionConflict);
    assert_verdict!(
        writer.write(journal(burst("i", None), 5)).await,
        Verdict::VersionConflict
    );
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    assert_eq!(fixture.version("i").await, Some(1));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_lost_claim_loses_the_whole_burst() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    assert_verdict!(writer.write(waiting(burst("i", None), "b", 7)).await, Verdict::Won(_));
    let good = fixture.claimed_work("i", writer.incarnation).await;
    let Claim::Work(id, _) = fixture.claimed_work("i", writer.incarnation).await else {
        unreachable!()
    };
    let mut request = journal(burst("i", Some(1)), 1);
    request.claims = vec![good.clone(), Claim::Work(id, ClaimNo(2))];
    assert_verdict!(writer.write(request).await, Verdict::ClaimLost);
    assert_eq!(
        fixture.count("SELECT count(*) FROM work").await,
        2,
        "its other rows are not consumed"
    );
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    let mut request = waiting(journal(burst("i", Some(1)), 1), "b2", 8);
    request.claims = vec![good, Claim::Work(id, ClaimNo(1))];
    assert_verdict!(writer.write(request).await, Verdict::Won(_));
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_departed_incarnation_writes_nothing_more() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    assert_verdict!(writer.write(waiting(burst("i", None), "b", 7)).await, Verdict::Won(_));
    let session = fixture.session().await;
    depart::depart(&session.client, writer.incarnation, &NodeId::new("test"), Cause::Died)
        .await
        .unwrap();
    assert_verdict!(writer.write(journal(burst("i", Some(1)), 1)).await, Verdict::Fenced);
    assert_verdict!(writer.write(journal(burst("j", None), 1)).await, Verdict::Fenced);
    assert_eq!(fixture.version("i").await, Some(1));
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
    fixture.is_sound().await;
}

#[tokio::test]
async fn one_bad_row_hurts_only_its_own_burst() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
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
            (4, verdict) => assert_verdict!(verdict, Verdict::Refused(_)),
            (_, verdict) => assert_verdict!(verdict, Verdict::Won(_)),
        }
    }
    assert_eq!(fixture.count("SELECT count(*) FROM instance").await, 8);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_found_and_not_repeated() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::start(fixture.server_port()).await;
    let writer = fixture
        .writer_with(&fixture.through(proxy.port), WriterOptions::default())
        .await;
    assert_verdict!(
        writer.write(journal(waiting(burst("i", None), "b", 7), 1)).await,
        Verdict::Won(_)
    );
    let mut request = journal(waiting(burst("i", Some(1)), "b2", 8), 2);
    request.claims = vec![fixture.claimed_work("i", writer.incarnation).await];
    request.effects.continues = true;
    let (keep, token) = kept();
    request.keep = keep;
    proxy.swallow_up_to_commit();
    let answer = writer.answer(request).await;
    let Verdict::Won(Commit { version, continued, .. }) = answer.verdict else {
        panic!("{:?}", answer.verdict)
    };
    assert_eq!((version.0, fixture.version("i").await), (2, Some(2)), "written once");
    assert!(continued.is_some(), "the row under which it goes on is found, too");
    assert_eq!(
        Arc::strong_count(&token),
        2,
        "what travels with it is held until the outcome is known"
    );
    assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 2);

    // The same for an instance that is new, with a waiting bookmark (a pipeline of several statements).
    proxy.swallow_up_to_commit();
    assert_verdict!(writer.write(waiting(burst("new", None), "b", 9)).await, Verdict::Won(_));
    assert_eq!(fixture.version("new").await, Some(1));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_commit_in_doubt_whose_incarnation_departed_is_still_found() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::start(fixture.server_port()).await;
    let writer = fixture
        .writer_with(&fixture.through(proxy.port), WriterOptions::default())
        .await;
    assert_verdict!(writer.write(waiting(burst("i", None), "b", 7)).await, Verdict::Won(_));
    // Whoever departs us does so the moment the commit is done, before we can ask.
    fixture
        .admin
        .client
        .batch_execute(
            "CREATE FUNCTION depart_now() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN DELETE FROM fence; DELETE FROM node; RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER depart_now AFTER UPDATE ON instance DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION depart_now()",
        )
        .await
        .unwrap();
    proxy.swallow_up_to_commit();
    assert_verdict!(
        writer.write(waiting(burst("i", Some(1)), "b2", 7)).await,
        Verdict::Won(_)
    );
    assert_verdict!(
        writer.write(waiting(burst("i", Some(2)), "b3", 7)).await,
        Verdict::Fenced
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_instance_that_is_gone_while_in_doubt_is_unknown() {
    let fixture = Fixture::new().await;
    let proxy = Proxy::start(fixture.server_port()).await;
    let writer = fixture
        .writer_with(&fixture.through(proxy.port), WriterOptions::default())
        .await;
    // The second also has the statement prepared, so that the next answer is that of a commit.
    for expected in [None, Some(1)] {
        assert_verdict!(writer.write(burst("i", expected)).await, Verdict::Won(_));
    }
    fixture
        .admin
        .client
        .batch_execute(
            "CREATE FUNCTION vanish() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN DELETE FROM instance WHERE id = NEW.id; RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER vanish AFTER UPDATE ON instance DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION vanish()",
        )
        .await
        .unwrap();
    proxy.swallow_next_answer();
    assert_verdict!(writer.write(burst("i", Some(2))).await, Verdict::Unknown);
    fixture.is_sound().await;
}

#[tokio::test]
async fn the_inbox_gives_each_stimulus_to_one_bookmark() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
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
    assert_verdict!(writer.write(request).await, Verdict::Won(_));
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 2);
    // Another instance: they are targeted at the first one.
    assert_verdict!(writer.write(waiting(burst("j", None), "b", 9)).await, Verdict::Won(_));
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 2);
    let three = waiting(waiting(waiting(burst("i", Some(1)), "b1", 9), "b2", 9), "b3", 9);
    assert_verdict!(writer.write(three).await, Verdict::Won(_));
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 0);
    assert_eq!(
        fixture
            .count("SELECT count(DISTINCT body->>'bookmarkId') FROM work WHERE kind = 2")
            .await,
        2
    );
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_yielded_burst_goes_on_under_the_row_that_it_was_born_of() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let claim = fixture.claimed_work("i", writer.incarnation).await;
    let session = fixture.session().await;
    session
        .client
        .execute("UPDATE work SET crashes = 1, failures = 3", &[])
        .await
        .unwrap();
    for (expected, asks, waits) in [
        (None, false, false),
        (Some(1), true, false),
        (Some(2), false, false),
        (Some(3), true, true),
    ] {
        let mut request = burst("i", expected);
        (
            request.effects.status,
            request.effects.sub_status,
            request.effects.continues,
        ) = (0, 1, true);
        request.effects.asks = asks;
        request.claims = vec![claim.clone()];
        if expected == Some(2) {
            let others = "INSERT INTO work (tenant_id, instance_id, kind, body) VALUES ('', 'i', 1, '{}')";
            session.client.batch_execute(others).await.unwrap();
        }
        let Verdict::Won(Commit { continued, more, .. }) = writer.write(request).await else {
            panic!()
        };
        assert_eq!((continued, more), (None, waits), "no other row was made");
        let is = "SELECT count(*) FROM work WHERE kind = 4 AND claimed_by IS NOT NULL AND failures = 0 AND crashes = 0";
        assert_eq!(fixture.count(is).await, 1, "it got further: nobody is to blame");
    }
    // A row that stays on its page is written in a quarter of the time.
    let indexed = r"SELECT count(*) FROM pg_index WHERE indrelid = 'work'::regclass
                    AND pg_get_indexdef(indexrelid) ~ '\m(kind|body|failures|crashes|version_id|definition_version)\M'";
    assert_eq!(fixture.count(indexed).await, 0, "no index knows what is changed");
    let mut last = burst("i", Some(4));
    last.claims = vec![claim];
    assert_verdict!(writer.write(last).await, Verdict::Won(Commit { continued: None, .. }));
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 1, "the other one");
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_yielded_burst_goes_on_under_a_claimed_row() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let mut request = burst("i", None);
    (
        request.effects.status,
        request.effects.sub_status,
        request.effects.continues,
    ) = (0, 1, true);
    let Verdict::Won(Commit {
        continued: Some(work), ..
    }) = writer.write(request).await
    else {
        panic!()
    };
    let mut request = burst("i", Some(1));
    request.claims = vec![Claim::Work(work, ClaimNo(1))];
    assert_verdict!(
        writer.write(request).await,
        Verdict::Won(Commit { continued: None, .. })
    );
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    fixture.is_sound().await;
}
