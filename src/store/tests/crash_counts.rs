//! Crash and failure counts: which claims count the death of a process, and which rows become dead letters.

use std::time::Duration;

use chrono::DateTime;

use crate::assert_outcome;
use crate::id::{InstanceId, TenantId};
use crate::store::claim::{self, ClaimBounds, InstanceKey, Release, ReleaseCause, Shard};
use crate::store::commit::{Claim, CommitOutcome};
use crate::store::dead_letter;
use crate::store::node;
use crate::store::node::removal::{self, RemovalCause};
use crate::testing::store::{Fixture, Writer, burst, waiting};

fn key(instance: &str) -> InstanceKey {
    (TenantId::default(), InstanceId::new(instance))
}

/// Instances that wait, each with a resume that has crashed so often.
async fn resumes(fixture: &Fixture, writer: &Writer, crashes: &[(&str, i32)]) {
    for (instance, crashes) in crashes {
        if fixture.version(instance).await.is_none() {
            let wrote = writer.write(waiting(burst(instance, None), "b", 7)).await;
            assert_outcome!(wrote, CommitOutcome::Committed(_));
        }
        let insert = "INSERT INTO work (tenant_id, instance_id, kind, body, crashes, has_begun)
                      VALUES ('', $1, 1, '{}', $2, $2 > 0)";
        fixture
            .admin
            .client
            .execute(insert, &[instance, crashes])
            .await
            .unwrap();
    }
}

/// The claimed instances, with the crashes of each row.
async fn claimed(writer: &Writer, instances: &[&str], suspect: bool) -> Vec<(String, Vec<i32>)> {
    let keys: Vec<_> = instances.iter().map(|instance| key(instance)).collect();
    let found = claim::claim(&writer.pool, writer.incarnation, &keys, suspect, ClaimBounds::NONE)
        .await
        .unwrap();
    let mut all: Vec<_> = found
        .into_iter()
        .filter(|(_, found)| !found.rows.is_empty())
        .map(|(key, found)| {
            let crashes = found.rows.iter().map(|row| row.crashes).collect();
            (key.1.as_str().to_owned(), crashes)
        })
        .collect();
    all.sort();
    all
}

async fn crashes(fixture: &Fixture, instance: &str) -> Option<i32> {
    let query = "SELECT crashes FROM work WHERE instance_id = $1";
    let row = fixture.admin.client.query_opt(query, &[&instance]).await.unwrap();
    row.map(|row| row.get(0))
}

async fn crash(fixture: &Fixture, writer: &Writer) {
    fixture.remove(writer.incarnation, RemovalCause::Crashed).await;
}

#[tokio::test]
async fn one_isolated_row_is_claimed_at_a_time_and_alone() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, &writer, &[("i", 2), ("i", 0), ("j", 2), ("k", 1)]).await;
    let seen = claim::poll_work(&writer.pool, 10, &[], false, DateTime::UNIX_EPOCH, Shard::WHOLE)
        .await
        .unwrap();
    assert_eq!(seen.instances, [key("i"), key("k")]);
    let seen = claim::poll_work(&writer.pool, 10, &[], true, DateTime::UNIX_EPOCH, Shard::WHOLE)
        .await
        .unwrap();
    assert_eq!(seen.instances.len(), 3);
    let all = ["i", "j", "k"];
    let first = claimed(&writer, &all, true).await;
    assert_eq!(first, [("i".to_owned(), vec![2]), ("k".to_owned(), vec![1])]);
    // With an isolated row in flight, no other is claimed.
    assert_eq!(
        claimed(&writer, &all, false).await,
        [],
        "what is behind it in its instance waits for it"
    );
    assert_eq!(claimed(&writer, &all, true).await, [("j".to_owned(), vec![2])]);
}

#[tokio::test]
async fn an_isolated_timer_is_claimed_alone() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, &writer, &[("i", 0), ("j", 0)]).await;
    let insert = "INSERT INTO timer (tenant_id, instance_id, id, due, available_at, crashes, has_begun)
                  VALUES ('', 'i', 'b', now(), now(), 2, true), ('', 'j', 'b', now(), now(), 1, true)";
    fixture.admin.client.execute(insert, &[]).await.unwrap();
    let taken = claimed(&writer, &["i", "j"], true).await;
    assert_eq!(taken, [("i".to_owned(), vec![2]), ("j".to_owned(), vec![1])]);
    crash(&fixture, &writer).await;
    let dead_letter = &writer.dead_letters().await[0];
    assert_eq!((dead_letter.kind, dead_letter.crashes), ("delay", 3));
    assert_eq!(fixture.count("SELECT count(*) FROM timer").await, 1);
    // Without it the instance would wait forever; it is replayed as a resume of its bookmark.
    let refused = dead_letter::delete(&writer.pool, &TenantId::default(), dead_letter.id).await;
    assert!(refused.unwrap_err().is_conflict());
    dead_letter::replay(&writer.pool, &TenantId::default(), dead_letter.id)
        .await
        .unwrap();
    let back = "SELECT count(*) FROM work WHERE instance_id = 'i' AND kind = 1 AND body->>'bookmarkId' = 'b'";
    assert_eq!(fixture.count(back).await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn all_claims_count_a_crash_unless_one_was_isolated() {
    let fixture = Fixture::new().await;
    let (first, second) = (fixture.writer().await, fixture.writer().await);
    resumes(&fixture, &first, &[("i", 1), ("j", 0)]).await;
    claimed(&first, &["i", "j"], false).await;
    crash(&fixture, &first).await;
    assert_eq!(crashes(&fixture, "i").await, Some(2));
    assert_eq!(crashes(&fixture, "j").await, Some(1));
    claimed(&second, &["i", "j"], true).await;
    crash(&fixture, &second).await;
    assert_eq!(crashes(&fixture, "i").await, None, "dead-lettered at its third crash");
    assert_eq!(crashes(&fixture, "j").await, Some(1), "the other row keeps its count");
    let tenant = TenantId::default();
    let dead_letters = first.dead_letters().await;
    assert_eq!(dead_letters.len(), 1);
    assert_eq!(dead_letters[0].instance, Some(InstanceId::new("i")));
    assert_eq!((dead_letters[0].kind, dead_letters[0].crashes), ("resume", 3));
    assert!(dead_letters[0].reason.contains("3 times"), "{}", dead_letters[0].reason);
    fixture.is_sound().await;
    // A replay resets its counters; it cannot be replayed twice.
    let replayed = dead_letter::replay(&first.pool, &tenant, dead_letters[0].id)
        .await
        .unwrap();
    assert_eq!(replayed.instance, InstanceId::new("i"));
    assert!(replayed.work.is_some());
    assert_eq!(crashes(&fixture, "i").await, Some(0));
    let again = dead_letter::replay(&first.pool, &tenant, dead_letters[0].id).await;
    assert!(again.unwrap_err().is_not_found());
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_third_crash_counts_less_where_processes_die_without_the_row() {
    let fixture = Fixture::new().await;
    for expected in [3, 4] {
        let writer = fixture.writer().await;
        // Crashes that it did not cause.
        let deaths = "INSERT INTO crash SELECT n FROM generate_series(1001, 1007) n ON CONFLICT DO NOTHING";
        fixture.admin.client.execute(deaths, &[]).await.unwrap();
        if expected == 3 {
            resumes(&fixture, &writer, &[("i", 2)]).await;
        }
        claimed(&writer, &["i"], true).await;
        crash(&fixture, &writer).await;
        assert_eq!(crashes(&fixture, "i").await, Some(expected));
    }
    let writer = fixture.writer().await;
    claimed(&writer, &["i"], true).await;
    crash(&fixture, &writer).await;
    assert_eq!(crashes(&fixture, "i").await, None);
    assert_eq!(writer.dead_letters().await[0].crashes, 5);
    fixture.is_sound().await;
}

#[tokio::test]
async fn no_crash_is_counted_for_a_node_that_was_cut_off_or_a_server_that_was_restarted() {
    let fixture = Fixture::new().await;
    let (cut_off, restarted) = (fixture.writer().await, fixture.writer().await);
    resumes(&fixture, &cut_off, &[("i", 2)]).await;
    claimed(&cut_off, &["i"], true).await;
    fixture.remove(cut_off.incarnation, RemovalCause::Replaced).await;
    assert_eq!(crashes(&fixture, "i").await, Some(2));
    claimed(&restarted, &["i"], true).await;
    fixture
        .execute("UPDATE node SET postmaster_started_at = now() - interval '1 day'")
        .await;
    crash(&fixture, &restarted).await;
    assert_eq!(crashes(&fixture, "i").await, Some(2));
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_hung_node_counts_a_crash_only_against_the_rows_that_hang() {
    let fixture = Fixture::new().await;
    for expected in 1..=3 {
        let writer = fixture.writer().await;
        if expected == 1 {
            resumes(&fixture, &writer, &[("hangs", 0), ("there", 0), ("both", 0)]).await;
            let timer = "INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
                         VALUES ('', 'both', 'b', now(), now())";
            fixture.admin.client.execute(timer, &[]).await.unwrap();
        }
        claimed(&writer, &["hangs", "there", "both"], true).await;
        let hanging: Vec<_> = ["hangs", "both", "elsewhere"].map(key).into();
        let hanging = if expected == 1 { &hanging[..] } else { &hanging[..1] };
        node::record_hang(&fixture.admin.client, writer.incarnation, hanging)
            .await
            .unwrap();
        let state = removal::node_state(&fixture.admin.client, writer.incarnation)
            .await
            .unwrap();
        assert!(state.is_late && state.is_hung, "{state:?}");
        // Its sessions are gone, as after a crash.
        crash(&fixture, &writer).await;
        let dead = expected == 3;
        assert_eq!(crashes(&fixture, "hangs").await, Some(expected).filter(|_| !dead));
        assert_eq!(crashes(&fixture, "there").await, Some(0));
        let timer = "SELECT crashes::bigint FROM timer WHERE instance_id = 'both'";
        assert_eq!(
            (crashes(&fixture, "both").await, fixture.count(timer).await),
            (Some(1), 1)
        );
        assert_eq!(fixture.count("SELECT count(*) FROM crash").await, 0);
        let letters = writer.dead_letters().await;
        assert_eq!(letters.len(), usize::from(dead), "at its third crash");
        fixture.is_sound().await;
    }
}

#[tokio::test]
async fn a_dead_lettered_start_is_kept_by_its_dead_letter() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let insert = "INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body,
                                    crashes)
                  VALUES ('', 'i', 0, 'd', 'd1', 1, '{\"input\": {\"a\": 1}}', 2)";
    fixture.admin.client.execute(insert, &[]).await.unwrap();
    claimed(&writer, &["i"], true).await;
    crash(&fixture, &writer).await;
    assert_eq!(crashes(&fixture, "i").await, None);
    let tenant = TenantId::default();
    let dead_letter = &writer.dead_letters().await[0];
    assert_eq!(
        (dead_letter.kind, &dead_letter.body["input"]["a"]),
        ("start", &serde_json::json!(1))
    );
    dead_letter::replay(&writer.pool, &tenant, dead_letter.id)
        .await
        .unwrap();
    let back = "SELECT count(*) FROM work WHERE kind = 0 AND version_id = 'd1' AND body->'input'->>'a' = '1'";
    assert_eq!(fixture.count(back).await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_continued_start_returns_beside_another_start() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let rows = "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status,
                                      version, state)
                    VALUES ('', 'i', 'd', 'd1', 1, 0, 1, 1, '{}');
                INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, definition_id, body, failures,
                                         crashes)
                    VALUES ('', 'i', 4, 'failed', 4711, 'd', '{}', 20, 0);
                INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body)
                    VALUES ('', 'i', 0, 'd', 'd1', 1, '{}')";
    fixture.execute(rows).await;
    let tenant = TenantId::default();
    let dead_letters = writer.dead_letters().await;
    dead_letter::replay(&writer.pool, &tenant, dead_letters[0].id)
        .await
        .unwrap();
    assert_eq!(
        fixture.count("SELECT count(*) FROM work WHERE kind = 4").await,
        1,
        "it was lost"
    );
}

#[tokio::test]
async fn a_row_is_dead_lettered_at_its_twentieth_failure_but_never_for_transient_ones() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, &writer, &[("i", 0)]).await;
    let claim_it = async || {
        let found = claim::claim(&writer.pool, writer.incarnation, &[key("i")], false, ClaimBounds::NONE)
            .await
            .unwrap();
        let rows = found.get(&key("i")).map_or(&[][..], |found| &found.rows);
        rows.iter().map(|row| row.claim.clone()).collect::<Vec<Claim>>()
    };
    let give_back = async |claims: &[Claim], cause: ReleaseCause<'_>| {
        let pause = Duration::ZERO;
        claim::release(
            &writer.pool,
            writer.incarnation,
            &key("i"),
            claims,
            Release { cause, pause },
        )
        .await
        .unwrap();
    };
    let dead_letters = "SELECT count(*) FROM dead_letter";
    for _ in 0..30 {
        give_back(&claim_it().await, ReleaseCause::Transient).await;
    }
    assert_eq!(fixture.count("SELECT failures::bigint FROM work").await, 10);
    for _ in 11..20 {
        give_back(&claim_it().await, ReleaseCause::Row("it is bad")).await;
    }
    give_back(&claim_it().await, ReleaseCause::Transient).await;
    assert_eq!(fixture.count("SELECT failures::bigint FROM work").await, 19);
    assert_eq!(fixture.count(dead_letters).await, 0);
    let last = claim_it().await;
    give_back(&last, ReleaseCause::Row("it is bad")).await;
    // Sent again, as after a lost answer.
    give_back(&last, ReleaseCause::Row("it is bad")).await;
    assert_eq!(fixture.count(dead_letters).await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM work").await, 0);
    let tenant = TenantId::default();
    let dead_letter = &writer.dead_letters().await[0];
    assert_eq!((dead_letter.reason.as_str(), dead_letter.failures), ("it is bad", 20));
    dead_letter::delete(&writer.pool, &tenant, dead_letter.id)
        .await
        .unwrap();
    let again = dead_letter::delete(&writer.pool, &tenant, dead_letter.id).await;
    assert!(again.unwrap_err().is_not_found());
    fixture.is_sound().await;
}
