//! A burst that began is repeated before anything else of its instance, with the same rows in the same order.

use std::sync::Arc;
use std::time::Duration;

use crate::failpoint;
use crate::id::{InstanceId, TenantId};
use crate::store::claim::{self, ClaimBounds, ClaimedInstance, ClaimedRow, InstanceKey, Release, ReleaseCause};
use crate::store::code::WorkKind;
use crate::store::commit::Claim;
use crate::store::node::removal::RemovalCause;
use crate::store::{check, work};
use crate::testing::store::{Fixture, Writer, burst, waiting};

fn key() -> InstanceKey {
    (TenantId::default(), InstanceId::new("i"))
}

/// A row by what it was made as.
fn name(row: &ClaimedRow) -> String {
    match (&row.claim, &row.instruction) {
        (Claim::Timer(timer, _), _) => timer.to_string(),
        (_, Some((WorkKind::Continue, _))) => "continue".to_owned(),
        (_, Some((WorkKind::Cancel, _))) => "cancel".to_owned(),
        (_, Some((WorkKind::Start, _))) => "start".to_owned(),
        (_, body) => body
            .as_ref()
            .map_or("?", |(_, body)| body["n"].as_str().unwrap_or("?"))
            .to_owned(),
    }
}

/// The instance `i`, which waits, and a node.
struct Order {
    fixture: Fixture,
    writer: Arc<Writer>,
}

impl Order {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let writer = Arc::new(fixture.writer().await);
        writer.commits(waiting(burst("i", None), "b", 7)).await;
        Self { fixture, writer }
    }

    /// Adds a row of work.
    async fn add(&self, name: &str) {
        let insert = format!(
            "INSERT INTO work (tenant_id, instance_id, kind, body) VALUES ('', 'i', 1, '{{\"n\": \"{name}\"}}')"
        );
        self.fixture.execute(&insert).await;
    }

    /// The same with other values of columns.
    async fn add_with(&self, name: &str, columns: &str) {
        self.add(name).await;
        let update = format!("UPDATE work SET {columns} WHERE id = (SELECT max(id) FROM work)");
        self.fixture.execute(&update).await;
    }

    async fn timer(&self, name: &str) {
        let insert = format!(
            "INSERT INTO timer (tenant_id, instance_id, id, due, available_at) VALUES ('', 'i', '{name}', now(), now())"
        );
        self.fixture.execute(&insert).await;
    }

    async fn timer_with(&self, name: &str, columns: &str) {
        self.timer(name).await;
        let update = format!("UPDATE timer SET {columns} WHERE id = '{name}'");
        self.fixture.execute(&update).await;
    }

    async fn claim_within(&self, isolated: bool, bounds: ClaimBounds) -> ClaimedInstance {
        let (pool, incarnation) = (&self.writer.pool, self.writer.incarnation);
        let mut found = claim::claim(pool, incarnation, &[key()], isolated, bounds)
            .await
            .unwrap();
        found.remove(&key()).unwrap_or_default()
    }

    async fn claim(&self) -> ClaimedInstance {
        self.claim_within(false, ClaimBounds::NONE).await
    }

    /// The rows that a claim takes, in the order of their burst; they are released as if it were lost.
    async fn rows(&self, isolated: bool) -> Vec<String> {
        let claimed = self.claim_within(isolated, ClaimBounds::NONE).await;
        self.release(&claimed, Release::IMMEDIATE).await;
        claimed.rows.iter().map(name).collect()
    }

    async fn release(&self, claimed: &ClaimedInstance, how: Release<'_>) {
        let claims: Vec<Claim> = claimed.rows.iter().map(|row| row.claim.clone()).collect();
        claim::release(&self.writer.pool, self.writer.incarnation, &key(), &claims, how)
            .await
            .unwrap();
    }

    async fn give_back(&self, claimed: &ClaimedInstance) {
        let claims: Vec<Claim> = claimed.rows.iter().map(|row| row.claim.clone()).collect();
        let begun: Vec<bool> = claimed.rows.iter().map(|row| row.had_begun).collect();
        let (pool, incarnation) = (&self.writer.pool, self.writer.incarnation);
        claim::release_as(pool, incarnation, &key(), &claims, &begun, Release::IMMEDIATE)
            .await
            .unwrap();
    }

    async fn consume(&self, claimed: &ClaimedInstance) {
        for row in &claimed.rows {
            let delete = match &row.claim {
                Claim::Work(id, _) => format!("DELETE FROM work WHERE id = {id}"),
                Claim::Timer(id, _) => format!("DELETE FROM timer WHERE id = '{id}'"),
            };
            self.fixture.execute(&delete).await;
        }
    }
}

#[tokio::test]
async fn a_lost_burst_is_repeated_by_itself_in_its_order_and_what_came_meanwhile_follows() {
    let order = Order::new().await;
    order.add("one").await;
    order.timer_with("t2", "due = now() - interval '1 minute'").await;
    order.timer_with("t1", "due = now() - interval '2 minutes'").await;
    order.add("two").await;
    let began = ["t1", "t2", "one", "two"];
    assert_eq!(order.rows(false).await, began);
    // Whatever is due meanwhile, and earlier.
    order.timer_with("t0", "due = now() - interval '1 hour'").await;
    order.add("three").await;
    assert_eq!(order.rows(false).await, began);
    let last = order.claim().await;
    assert!(last.rows.iter().all(|row| row.had_begun));
    order.consume(&last).await;
    assert_eq!(order.rows(false).await, ["t0", "three"]);
}

#[tokio::test]
async fn what_is_behind_a_row_in_backoff_waits_for_it() {
    let order = Order::new().await;
    order.add("one").await;
    let claimed = order.claim().await;
    let how = Release {
        cause: ReleaseCause::Row("it fails"),
        pause: Duration::from_secs(3600),
    };
    order.release(&claimed, how).await;
    order.add("two").await;
    let claimed = order.claim().await;
    assert!(claimed.rows.is_empty());
    let wait = claimed.blocked.unwrap();
    assert!(
        wait > Duration::from_secs(3000) && wait <= Duration::from_secs(3600),
        "{wait:?}"
    );
    order.fixture.execute("UPDATE work SET available_at = now()").await;
    assert_eq!(order.rows(false).await, ["one"]);
}

#[tokio::test]
async fn what_is_behind_a_claim_of_another_node_waits_until_it_is_released() {
    let order = Order::new().await;
    let other = order.fixture.writer().await;
    order.add("one").await;
    order.add("two").await;
    claim::claim(&other.pool, other.incarnation, &[key()], false, ClaimBounds::NONE)
        .await
        .unwrap();
    order.add("three").await;
    let claimed = order.claim().await;
    assert_eq!((claimed.rows.len(), claimed.blocked), (0, Some(Duration::ZERO)));
    order.fixture.remove(other.incarnation, RemovalCause::Crashed).await;
    assert_eq!(order.rows(false).await, ["one", "two"]);
    // One of them is still claimed, as between two pages of a release.
    order
        .fixture
        .execute("UPDATE work SET claimed_by = 4711 WHERE body->>'n' = 'two'")
        .await;
    assert_eq!(order.rows(false).await, ["one"]);
    order
        .fixture
        .execute("UPDATE work SET claimed_by = CASE WHEN body->>'n' = 'one' THEN 4711 END")
        .await;
    assert_eq!(order.rows(false).await, [""; 0]);
}

#[tokio::test]
async fn a_locked_row_keeps_those_behind_it_from_being_claimed() {
    let order = Order::new().await;
    order.timer("t").await;
    order.add("one").await;
    order.add("two").await;
    order.rows(false).await;
    for (locked, claimed) in [
        ("work WHERE body->>'n' = 'one'", &["t"][..]),
        ("timer", &[]),
        ("work WHERE body->>'n' = 'two'", &["t", "one"]),
    ] {
        let session = order.fixture.begin(&format!("SELECT 1 FROM {locked} FOR UPDATE")).await;
        assert_eq!(order.rows(false).await, claimed, "{locked}");
        session.client.batch_execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test]
async fn what_was_given_back_before_its_burst_began_keeps_nothing_waiting() {
    let order = Order::new().await;
    order.add("one").await;
    let claimed = order.claim().await;
    order.give_back(&claimed).await;
    order.add("two").await;
    assert_eq!(order.rows(false).await, ["one", "two"], "and both begin");
    let claimed = order.claim().await;
    order.give_back(&claimed).await;
    order.add("three").await;
    assert_eq!(order.rows(false).await, ["one", "two"], "they had begun before");
}

#[tokio::test]
async fn isolated_rows_are_repeated_one_by_one_in_their_order() {
    let order = Order::new().await;
    order.add("one").await;
    order.add_with("go on", "kind = 4").await;
    order.timer("t").await;
    let began = order.rows(false).await;
    assert_eq!(began, ["t", "one", "continue"]);
    order
        .fixture
        .execute("UPDATE work SET crashes = 2; UPDATE timer SET crashes = 2")
        .await;
    order.add("new").await;
    assert_eq!(order.rows(false).await, [""; 0]);
    let claimed = order.claim_within(true, ClaimBounds::NONE).await;
    assert_eq!(
        claimed.rows.iter().map(name).collect::<Vec<_>>(),
        ["t", "continue"],
        "which has no content"
    );
    order.consume(&claimed).await;
    assert_eq!(order.rows(true).await, ["one"]);
    // One that is not isolated is not behind those that are.
    order.fixture.execute("UPDATE work SET crashes = 0").await;
    order
        .timer_with("u", "crashes = 2, has_begun = true, due = now() + interval '1 hour'")
        .await;
    assert_eq!(order.rows(true).await, ["u"], "timers come first");
    order
        .fixture
        .execute("UPDATE timer SET crashes = 0; UPDATE work SET crashes = 2 WHERE has_begun")
        .await;
    assert_eq!(order.rows(true).await, ["u"]);
}

#[tokio::test]
async fn what_goes_on_after_a_yield_is_joined_by_what_arrives_only_before_its_burst_begins() {
    let order = Order::new().await;
    order.add_with("go on", "kind = 4").await;
    order.add("one").await;
    let claimed = order.claim().await;
    assert_eq!(claimed.rows.len(), 2);
    order.release(&claimed, Release::IMMEDIATE).await;
    order.add("two").await;
    assert_eq!(order.rows(false).await, ["continue", "one"]);
}

#[tokio::test]
async fn a_cancel_is_claimed_before_all_and_with_the_start_alone() {
    let order = Order::new().await;
    order.add("one").await;
    order.rows(false).await;
    order
        .fixture
        .execute("UPDATE work SET available_at = now() + interval '1 hour'")
        .await;
    let (pool, tenant) = (&order.writer.pool, TenantId::default());
    work::accept_cancel(pool, &tenant, &InstanceId::new("i")).await.unwrap();
    assert_eq!(order.rows(false).await, ["cancel"]);
    order
        .fixture
        .execute("INSERT INTO work (tenant_id, instance_id, kind, body, definition_id) VALUES ('', 'n', 0, '{}', 'd'), ('', 'n', 1, '{}', NULL)")
        .await;
    work::accept_cancel(pool, &tenant, &InstanceId::new("n")).await.unwrap();
    let new = (TenantId::default(), InstanceId::new("n"));
    let incarnation = order.writer.incarnation;
    let found = claim::claim(pool, incarnation, std::slice::from_ref(&new), false, ClaimBounds::NONE)
        .await
        .unwrap();
    let names: Vec<String> = found[&new].rows.iter().map(name).collect();
    assert_eq!(names, ["cancel", "start"]);
}

#[tokio::test]
async fn isolated_cancels_are_claimed_one_by_one() {
    let order = Order::new().await;
    order.writer.commits(waiting(burst("other", None), "b", 8)).await;
    let cancels = "INSERT INTO work (tenant_id, id, instance_id, kind, body, crashes) OVERRIDING SYSTEM VALUE
                   VALUES ('', -3, 'i', 3, '{}', 2), ('', -2, 'i', 3, '{}', 2), ('', -1, 'other', 3, '{}', 2)";
    order.fixture.execute(cancels).await;
    let keys = [key(), (TenantId::default(), InstanceId::new("other"))];
    let (pool, incarnation) = (&order.writer.pool, order.writer.incarnation);
    let found = claim::claim(pool, incarnation, &keys, false, ClaimBounds::NONE)
        .await
        .unwrap();
    assert_eq!(found.values().map(|found| found.rows.len()).sum::<usize>(), 0);
    for left in [2, 1, 0] {
        let found = claim::claim(pool, incarnation, &keys, true, ClaimBounds::NONE)
            .await
            .unwrap();
        let rows: Vec<&ClaimedRow> = found.values().flat_map(|found| &found.rows).collect();
        assert_eq!(rows.iter().map(|row| name(row)).collect::<Vec<_>>(), ["cancel"]);
        for found in found.values() {
            order.consume(found).await;
        }
        assert_eq!(order.fixture.count("SELECT count(*) FROM work").await, left);
    }
}

/// Whatever is committed first: the burst claims the cancel, or it has loaded a version that it cannot commit.
#[tokio::test]
async fn a_cancel_that_is_accepted_during_a_claim_fences_the_burst() {
    for locked in ["work", "instance"] {
        let order = Order::new().await;
        // The preparation of a statement would wait for the lock, too.
        order.claim().await;
        order.add("one").await;
        let session = order
            .fixture
            .begin(&format!("LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE"))
            .await;
        let claims = tokio::spawn({
            let writer = Arc::clone(&order.writer);
            async move {
                claim::claim(&writer.pool, writer.incarnation, &[key()], false, ClaimBounds::NONE)
                    .await
                    .unwrap()
            }
        });
        order.fixture.a_session_waits().await;
        let cancel = "UPDATE instance SET version = version + 1 WHERE id = 'i';
                      INSERT INTO work (tenant_id, id, instance_id, kind, body) OVERRIDING SYSTEM VALUE
                      VALUES ('', -1000, 'i', 3, '{}'); COMMIT";
        session.client.batch_execute(cancel).await.unwrap();
        let found = claims.await.unwrap().remove(&key()).unwrap();
        let rows: Vec<String> = found.rows.iter().map(name).collect();
        let version = found.loaded.unwrap().version.0;
        assert!(
            rows == ["cancel"] || version == 1,
            "{locked}: {rows:?} on version {version}"
        );
    }
}

#[tokio::test]
async fn the_rows_of_a_lost_burst_are_claimed_within_the_bytes_that_are_free() {
    let order = Order::new().await;
    for name in ["one", "two", "three"] {
        order.add(&format!("{name}\", \"text\": \"{}", "x".repeat(1000))).await;
    }
    assert_eq!(order.rows(false).await, ["one", "two", "three"]);
    let bounds = |share, room, is_idle| ClaimBounds { share, room, is_idle };
    for (bounds, taken) in [
        (bounds(2500, 0, false), &["one", "two"][..]),
        (bounds(100, 1500, false), &["one"]),
        (bounds(100, 100, false), &[]),
        (bounds(100, 100, true), &["one"]),
        (bounds(100, 5000, false), &["one", "two", "three"]),
    ] {
        let claimed = order.claim_within(false, bounds).await;
        let names: Vec<String> = claimed.rows.iter().map(name).collect();
        assert_eq!(names, taken, "{bounds:?}");
        assert_eq!(claimed.is_left_out, taken.len() < 3, "{bounds:?}");
        // It waits for room, not for a row.
        assert_eq!(claimed.blocked, None, "{bounds:?}");
        assert!(claimed.rows.iter().all(|row| row.is_followed == (taken.len() < 3)));
        order.release(&claimed, Release::IMMEDIATE).await;
    }
}

#[tokio::test]
async fn a_claim_in_order_that_fails_leaves_the_other_claims() {
    let order = Order::new().await;
    order.add_with("one", "has_begun = true").await;
    order.writer.commits(waiting(burst("other", None), "b", 8)).await;
    let insert = "INSERT INTO work (tenant_id, instance_id, kind, body) VALUES ('', 'other', 1, '{\"n\": \"two\"}')";
    order.fixture.execute(insert).await;
    let keys = [key(), (TenantId::default(), InstanceId::new("other"))];
    let (pool, incarnation) = (&order.writer.pool, order.writer.incarnation);
    let claims = claim::claim(pool, incarnation, &keys, false, ClaimBounds::NONE);
    let mut found = failpoint::failing("claim.in_order", claims).await.unwrap();
    let [ordered, other] = keys.map(|key| found.remove(&key).unwrap());
    assert_eq!(other.rows.iter().map(name).collect::<Vec<_>>(), ["two"]);
    assert!(ordered.rows.is_empty() && ordered.blocked.is_some());
    assert_eq!(order.rows(false).await, ["one"]);
}

#[tokio::test]
async fn nothing_is_claimed_in_order_while_the_cluster_is_paused() {
    let order = Order::new().await;
    order.add("one").await;
    order.rows(false).await;
    order.fixture.execute("UPDATE cluster_pause SET mode = 1").await;
    assert_eq!(order.rows(false).await, [""; 0]);
    order.fixture.execute("UPDATE cluster_pause SET mode = 0").await;
    assert_eq!(order.rows(false).await, ["one"]);
}

/// A claim that exceeds its room claims nothing, timers included: the second form of it may fail.
#[tokio::test]
async fn a_claim_that_exceeds_its_room_leaves_no_timer_claimed() {
    let order = Order::new().await;
    order.timer("t").await;
    order.add(&format!("one\", \"text\": \"{}", "x".repeat(1000))).await;
    let session = order.fixture.session().await;
    let client = &session.client;
    client.batch_execute("BEGIN").await.unwrap();
    let (tenants, instances) = (vec![""], vec!["i"]);
    let found = client
        .query(&*claim::TOGETHER, &[&1i64, &tenants, &instances, &100i64, &10i64])
        .await
        .unwrap();
    let left_out: Vec<Option<String>> = found.iter().map(|row| row.get("left_out")).collect();
    assert_eq!(left_out, [Some("bytes".to_owned())]);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(
        order
            .fixture
            .count("SELECT count(*) FROM timer WHERE claimed_by IS NOT NULL")
            .await,
        0
    );
}

#[tokio::test]
async fn a_claim_that_is_not_marked_is_reported() {
    let order = Order::new().await;
    order
        .add_with(
            "one",
            &format!("claimed_by = {}, claim_no = 1", order.writer.incarnation),
        )
        .await;
    let found = check::check(&order.fixture.admin.client).await.unwrap();
    assert!(
        found
            .iter()
            .any(|violation| violation.invariant == "claim-without-mark"),
        "{found:?}"
    );
}
