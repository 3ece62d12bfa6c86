//! Work is claimed once, in bounded numbers, and loaded by a snapshot that is newer than the lock.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;

use crate::db::Pool;
use crate::id::{ClaimNo, Incarnation, InstanceId, TenantId, WorkId};
use crate::store::claim::{self, ClaimBounds, InstanceKey, Release, ReleaseCause, Shard};
use crate::store::commit::Claim;
use crate::testing::store::Fixture;

fn key(instance: &str) -> InstanceKey {
    (TenantId::default(), InstanceId::new(instance))
}

async fn execute(fixture: &Fixture, sql: &str) {
    fixture.execute(sql).await;
}

/// Resumes for `instances` instances, `rows` each.
async fn resumes(fixture: &Fixture, instances: u32, rows: u32) {
    execute(
        fixture,
        &format!(
            "INSERT INTO work (tenant_id, instance_id, kind, body)
             SELECT '', 'i' || n % {instances}, 1, '{{}}' FROM generate_series(1, {}) n",
            instances * rows
        ),
    )
    .await;
}

/// Delays of one instance that came due.
async fn delays(fixture: &Fixture, instance: &str, rows: u32) {
    execute(
        fixture,
        &format!(
            "INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
             SELECT '', '{instance}', 't' || n, now(), now() FROM generate_series(1, {rows}) n"
        ),
    )
    .await;
}

/// A claim need not be flushed; what follows it on its connection must, as far as the server asks for.
#[tokio::test]
async fn a_claim_leaves_its_connection_as_it_was() {
    for (theirs, ours) in [("off", "on"), ("remote_write", "remote_write")] {
        let fixture = Fixture::new().await;
        let set = format!(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = {theirs}', current_database()); END $$"
        );
        execute(&fixture, &set).await;
        let pool = Pool::new(&fixture.base, 1).unwrap();
        resumes(&fixture, 1, 1).await;
        for keys in [&[][..], &[key("i0")]] {
            claim::claim(&pool, Incarnation(1), keys, false, ClaimBounds::NONE)
                .await
                .unwrap();
            for (show, wanted) in [("SHOW synchronous_commit", ours), ("SHOW plan_cache_mode", "auto")] {
                assert_eq!(pool.query_one(show, &[]).await.unwrap().get::<_, String>(0), wanted);
            }
        }
    }
}

#[tokio::test]
async fn one_burst_takes_a_bounded_number_of_rows() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, 1, 250).await;
    delays(&fixture, "i0", 150).await;
    let mut taken = Vec::new();
    for _ in 0..4 {
        let found = claim::claim(&writer.pool, writer.incarnation, &[key("i0")], false, ClaimBounds::NONE)
            .await
            .unwrap();
        let rows = found.get(&key("i0")).map_or(&[][..], |instance| &instance.rows);
        let works = rows.iter().filter(|row| matches!(row.claim, Claim::Work(..))).count();
        taken.push((works, rows.len() - works));
        let once =
            "SELECT (SELECT count(*) FROM work WHERE claim_no > 1) + (SELECT count(*) FROM timer WHERE claim_no > 1)";
        assert_eq!(fixture.count(once).await, 0);
        execute(
            &fixture,
            "DELETE FROM work WHERE claimed_by IS NOT NULL; DELETE FROM timer WHERE claimed_by IS NOT NULL",
        )
        .await;
    }
    assert_eq!(taken, [(100, 100), (100, 50), (50, 0), (0, 0)]);
}

#[tokio::test]
async fn two_claimers_over_the_same_instances_take_each_row_once() {
    let fixture = Fixture::new().await;
    let writers = [Arc::new(fixture.writer().await), Arc::new(fixture.writer().await)];
    resumes(&fixture, 10, 120).await;
    for n in 0..10 {
        delays(&fixture, &format!("i{n}"), 20).await;
    }
    let keys: Vec<_> = (0..10).map(|n| key(&format!("i{n}"))).collect();
    let mut tasks = Vec::new();
    for n in 0..8 {
        let (writer, keys) = (Arc::clone(&writers[n % 2]), keys.clone());
        tasks.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let found = claim::claim(&writer.pool, writer.incarnation, &keys, false, ClaimBounds::NONE)
                    .await
                    .unwrap();
                let rows: usize = found.values().map(|instance| instance.rows.len()).sum();
                if rows == 0 {
                    return mine;
                }
                assert!(mine.len() <= 1400, "rows are claimed again and again");
                for (key, instance) in found {
                    mine.extend(instance.rows.into_iter().map(|row| (key.clone(), row.claim)));
                }
            }
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    let unique: HashSet<_> = all.iter().cloned().collect();
    assert_eq!(all.len(), unique.len(), "a row was claimed twice");
    // An empty claim is no proof of an empty queue: what the others had locked at that moment may be left.
    let claimed = "SELECT (SELECT count(*) FROM work WHERE claimed_by IS NOT NULL AND claim_no = 1)
                        + (SELECT count(*) FROM timer WHERE claimed_by IS NOT NULL AND claim_no = 1)";
    assert_eq!(fixture.count(claimed).await, all.len() as i64);
    let untouched = "SELECT (SELECT count(*) FROM work WHERE claimed_by IS NULL AND claim_no = 0)
                          + (SELECT count(*) FROM timer WHERE claimed_by IS NULL AND claim_no = 0)";
    assert_eq!(fixture.count(untouched).await, 1400 - all.len() as i64);
    for writer in writers {
        assert_eq!(
            claim::claimed_by(&writer.pool, writer.incarnation).await.unwrap().len() as i64,
            fixture
                .count(&format!(
                    "SELECT (SELECT count(*) FROM work WHERE claimed_by = {0})
                          + (SELECT count(*) FROM timer WHERE claimed_by = {0})",
                    writer.incarnation
                ))
                .await
        );
    }
}

#[tokio::test]
async fn a_claim_that_is_not_yet_committed_is_stepped_over() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, 2, 1).await;
    for instance in ["i0", "i1"] {
        delays(&fixture, instance, 1).await;
    }
    let other = fixture
        .begin(
            "UPDATE work SET claimed_by = 4711, claim_no = 1 WHERE instance_id = 'i0';
             UPDATE timer SET claimed_by = 4711, claim_no = 1 WHERE instance_id = 'i0'",
        )
        .await;
    let keys = [key("i0"), key("i1")];
    let claims = claim::claim(&writer.pool, writer.incarnation, &keys, false, ClaimBounds::NONE);
    let found = tokio::time::timeout(Duration::from_secs(60), claims)
        .await
        .expect("it waits for another claimer's rows")
        .unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), [&key("i1")]);
    assert_eq!(found[&key("i1")].rows.len(), 2);
    other.client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM work WHERE claimed_by = 4711 AND claim_no = 1")
            .await,
        1
    );
}

#[tokio::test]
async fn what_is_not_due_yet_is_neither_seen_nor_claimed() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, 3, 1).await;
    delays(&fixture, "i3", 1).await;
    delays(&fixture, "i4", 1).await;
    delays(&fixture, "i5", 1).await;
    execute(
        &fixture,
        "UPDATE work SET available_at = now() + interval '1 hour' WHERE instance_id = 'i0';
         UPDATE timer SET available_at = now() + interval '1 hour' WHERE instance_id = 'i3';
         UPDATE work SET available_at = now() - interval '1 hour' WHERE instance_id = 'i2'",
    )
    .await;
    execute(
        &fixture,
        "UPDATE timer SET available_at = now() + interval '30 minutes' WHERE instance_id = 'i5'",
    )
    .await;
    let found = claim::poll_work(&writer.pool, 10, &[], false, DateTime::UNIX_EPOCH, Shard::WHOLE)
        .await
        .unwrap();
    is_due_in(found.next_due, 30);
    let seen = found.instances;
    assert_eq!(seen.first(), Some(&key("i2")), "the oldest comes first");
    assert_eq!(
        seen.iter().collect::<HashSet<_>>(),
        HashSet::from([&key("i1"), &key("i2"), &key("i4")])
    );
    assert_eq!(
        claim::poll_work(&writer.pool, 1, &[], false, DateTime::UNIX_EPOCH, Shard::WHOLE)
            .await
            .unwrap()
            .instances,
        [key("i2")]
    );
    let mut parts = HashSet::new();
    for number in 0..3 {
        let share = Shard {
            count: 3,
            index: number,
        };
        let part = claim::poll_work(&writer.pool, 10, &[], false, DateTime::UNIX_EPOCH, share)
            .await
            .unwrap();
        assert!(part.instances.len() < 3, "the parts are not disjoint");
        for instance in part.instances {
            assert!(parts.insert(instance), "an instance is in two parts");
        }
    }
    assert_eq!(parts, seen.iter().cloned().collect(), "an instance is in no part");
    assert_eq!(
        claim::poll_work(
            &writer.pool,
            10,
            &[key("i2"), key("i4")],
            false,
            DateTime::UNIX_EPOCH,
            Shard::WHOLE
        )
        .await
        .unwrap()
        .instances,
        [key("i1")]
    );
    let keys: Vec<_> = (0..5).map(|n| key(&format!("i{n}"))).collect();
    let found = claim::claim(&writer.pool, writer.incarnation, &keys, false, ClaimBounds::NONE)
        .await
        .unwrap();
    assert_eq!(found.len(), 3);
    assert!(!found.contains_key(&key("i0")) && !found.contains_key(&key("i3")));
    // Also without work that is due: the next due row, a delay or an instruction.
    for (sooner, minutes) in [
        ("", 30),
        ("UPDATE work SET available_at = now() + interval '10 minutes'", 10),
    ] {
        execute(&fixture, sooner).await;
        let seen = claim::poll_work(&writer.pool, 10, &[], false, DateTime::UNIX_EPOCH, Shard::WHOLE)
            .await
            .unwrap();
        assert!(seen.instances.is_empty());
        is_due_in(seen.next_due, minutes);
    }
    execute(&fixture, "DELETE FROM work; DELETE FROM timer").await;
    let seen = claim::poll_work(&writer.pool, 10, &[], false, DateTime::UNIX_EPOCH, Shard::WHOLE)
        .await
        .unwrap();
    assert_eq!((seen.instances, seen.next_due), (vec![], None));
}

/// The next row is due after so many minutes, less what has passed since they were written.
#[track_caller]
fn is_due_in(next: Option<Duration>, minutes: u64) {
    let whole = Duration::from_secs(60 * minutes);
    let next = next.unwrap();
    assert!(next <= whole && next > whole - Duration::from_secs(240), "{next:?}");
}

#[tokio::test]
async fn an_instance_with_many_rows_does_not_hide_that_there_are_others() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    resumes(&fixture, 1, 20).await;
    delays(&fixture, "i1", 1).await;
    execute(
        &fixture,
        "UPDATE work SET available_at = now() - interval '1 hour';
         INSERT INTO work (tenant_id, instance_id, kind, body) VALUES ('', 'i2', 1, '{}')",
    )
    .await;
    let seen = claim::poll_work(&writer.pool, 10, &[], false, DateTime::UNIX_EPOCH, Shard::WHOLE)
        .await
        .unwrap();
    assert_eq!(
        seen.instances,
        [key("i0"), key("i1")],
        "i2 is queued after the rows of i0"
    );
    assert!(seen.full, "the others would wait for the poll at the next check-in");
    let seen = claim::poll_work(
        &writer.pool,
        10,
        &seen.instances,
        false,
        DateTime::UNIX_EPOCH,
        Shard::WHOLE,
    )
    .await
    .unwrap();
    assert_eq!((seen.instances, seen.full), (vec![key("i2")], false));
}

#[tokio::test]
async fn only_the_holder_of_a_claim_releases_or_discards_it() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let other = fixture.writer().await;
    resumes(&fixture, 1, 1).await;
    delays(&fixture, "i0", 1).await;
    let found = claim::claim(&writer.pool, writer.incarnation, &[key("i0")], false, ClaimBounds::NONE)
        .await
        .unwrap();
    let mine: Vec<Claim> = found[&key("i0")].rows.iter().map(|row| row.claim.clone()).collect();
    assert_eq!(mine.len(), 2);
    let older: Vec<Claim> = mine
        .iter()
        .map(|claim| match claim {
            Claim::Work(id, ClaimNo(number)) => Claim::Work(WorkId(id.0), ClaimNo(number - 1)),
            Claim::Timer(id, ClaimNo(number)) => Claim::Timer(id.clone(), ClaimNo(number - 1)),
        })
        .collect();
    let claimed = "SELECT (SELECT count(*) FROM work WHERE claimed_by IS NOT NULL)
                        + (SELECT count(*) FROM timer WHERE claimed_by IS NOT NULL)";
    for (incarnation, claims) in [(writer.incarnation, &older), (other.incarnation, &mine)] {
        claim::release(&writer.pool, incarnation, &key("i0"), claims, Release::IMMEDIATE)
            .await
            .unwrap();
        claim::discard_work(&writer.pool, incarnation, &TenantId::default(), claims)
            .await
            .unwrap();
        assert_eq!(fixture.count(claimed).await, 2);
    }
    let own_failure = Release {
        cause: ReleaseCause::Row("it failed"),
        pause: Duration::from_secs(3600),
    };
    claim::release(&writer.pool, writer.incarnation, &key("i0"), &mine, own_failure)
        .await
        .unwrap();
    assert_eq!(fixture.count(claimed).await, 0);
    assert_eq!(
        fixture
            .count(
                "SELECT (SELECT count(*) FROM work WHERE failures = 1 AND available_at > now() + interval '50 minutes')
                      + (SELECT count(*) FROM timer WHERE failures = 1 AND available_at > now() + interval '50 minutes')"
            )
            .await,
        2
    );
}
