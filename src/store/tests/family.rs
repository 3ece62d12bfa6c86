//! Children: started with the commit of their parent, and counted once however they end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::activation::publish;
use crate::id::{ClaimNo, InstanceId, NodeId, TenantId, WorkId};
use crate::store::claim::{self, Release, ReleaseCause};
use crate::store::commit::{ChildEndRow, ChildRow, Claim, CommitOutcome, CommitRequest};
use crate::store::dead_letter;
use crate::store::instance::delete;
use crate::store::node::removal::{self, RemovalCause};
use crate::store::{check, work};
use crate::testing::store::{Fixture, Writer, burst, spawn, waiting};
use crate::{assert_outcome, failpoint};

const STARTS: &str = "SELECT count(*) FROM work WHERE kind = 0";
const ENDS: &str = "SELECT count(*) FROM work WHERE kind = 7 AND instance_id = 'p'";
const CHILDREN: &str = "SELECT count(*) FROM child";
const CANCELS: &str = "SELECT count(*) FROM work WHERE kind = 3";

fn child(id: &str, definition: &str, waits: bool) -> ChildRow {
    ChildRow {
        no: 0,
        id: id.to_owned(),
        definition_id: definition.to_owned(),
        correlation_id: None,
        body: json!({"parent": {"instanceId": "p", "depth": 0}}),
        bookmark_id: waits.then(|| "b".to_owned()),
    }
}

/// The first burst of the instance `p`, which waits for those of these children that have a bookmark.
fn parent(children: Vec<ChildRow>) -> CommitRequest {
    let mut request = waiting(burst("p", None), "b", 7);
    let bookmark = &mut request.effects.bookmarks_made[0];
    (bookmark.publishable, bookmark.name) = (false, "Elsa.DispatchWorkflow".to_owned());
    request.effects.children = children;
    request
}

/// The only burst of a child, which ends it.
fn last(instance: &str, claim: Claim) -> CommitRequest {
    let mut request = burst(instance, None);
    request.claims.push(claim);
    request.effects.parent = Some("p".into());
    request.effects.child_end = Some(ChildEndRow {
        no: 0,
        ends: true,
        result: json!({"workflowInstanceId": instance, "subStatus": "Finished"}),
    });
    request
}

struct Family {
    fixture: Fixture,
    writer: Arc<Writer>,
}

impl Family {
    async fn new(strategy: &str) -> Self {
        let fixture = Fixture::new().await;
        let writer = Arc::new(fixture.writer().await);
        publish(&fixture, &writer, strategy, &[]).await;
        Self { fixture, writer }
    }

    /// Claims the start of a child.
    async fn claim(&self, instance: &str) -> Claim {
        let claim = "UPDATE work SET claimed_by = $1, claim_no = 1, has_begun = true WHERE instance_id = $2 AND kind = 0 RETURNING id";
        let incarnation = self.writer.incarnation.0;
        let row = self
            .fixture
            .admin
            .client
            .query_one(claim, &[&incarnation, &instance])
            .await;
        Claim::Work(WorkId(row.unwrap().get(0)), ClaimNo(1))
    }

    async fn ends(&self, instance: &str) {
        let claim = self.claim(instance).await;
        self.writer.commits(last(instance, claim)).await;
    }

    async fn counts(&self) -> (i64, i64, i64) {
        let fixture = &self.fixture;
        (
            fixture.count(STARTS).await,
            fixture.count(CHILDREN).await,
            fixture.count(ENDS).await,
        )
    }

    /// The results that the parent is to continue with.
    async fn results(&self) -> Vec<Value> {
        let query = "SELECT body->'result' FROM work WHERE kind = 7 AND instance_id = 'p' ORDER BY id";
        let rows = self.fixture.admin.client.query(query, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// The burst that ends a cancelled instance: it consumes all its work.
    async fn ends_cancelled(&self, instance: &str, version: Option<i64>, bookmarks: &[&str]) {
        let mut request = self.cancelled(instance, version, bookmarks).await;
        if instance == "p" {
            request.effects.cancels_children = true;
        } else {
            request.effects.parent = Some("p".into());
            request.effects.child_end = Some(ChildEndRow {
                no: 0,
                ends: true,
                result: json!({"workflowInstanceId": instance, "subStatus": "Cancelled"}),
            });
        }
        self.writer.commits(request).await;
    }

    async fn cancelled(&self, instance: &str, version: Option<i64>, bookmarks: &[&str]) -> CommitRequest {
        let claim = "UPDATE work SET claimed_by = $1, claim_no = claim_no + 1, has_begun = true WHERE instance_id = $2 RETURNING id, claim_no";
        let incarnation = self.writer.incarnation.0;
        let client = &self.fixture.admin.client;
        let rows = client.query(claim, &[&incarnation, &instance]).await.unwrap();
        let mut request = burst(instance, version);
        let claims = rows
            .iter()
            .map(|row| Claim::Work(WorkId(row.get(0)), ClaimNo(row.get(1))));
        request.claims.extend(claims);
        request.effects.sub_status = 4;
        request.effects.bookmarks_burned = bookmarks.iter().map(|id| (*id).into()).collect();
        request
    }

    /// No child lives, and no cancel is left to do.
    async fn no_child_lives(&self) {
        let living = "SELECT count(*) FROM instance WHERE status = 0";
        assert_eq!(self.fixture.count(living).await, 0);
        assert_eq!(
            self.fixture.count(CHILDREN).await + self.fixture.count(CANCELS).await,
            0
        );
        self.fixture.is_sound().await;
    }

    /// Consumes what wakes the parent, and waits for nothing more.
    async fn parent_ends(&self) {
        self.fixture.execute("DELETE FROM work WHERE instance_id = 'p'").await;
        let mut request = burst("p", Some(1));
        request.effects.bookmarks_burned = vec!["b".into()];
        self.writer.commits(request).await;
        self.fixture.is_sound().await;
    }
}

#[tokio::test]
async fn children_start_with_the_commit_of_their_parent_and_each_wakes_it_once() {
    let family = Family::new("AllowAlways").await;
    family
        .writer
        .commits(parent(vec![
            child("one", "d", true),
            child("two", "d", true),
            child("free", "d", false),
        ]))
        .await;
    assert_eq!(family.counts().await, (3, 3, 0));
    family.fixture.is_sound().await;
    let bodies = "SELECT count(*) FROM work w JOIN definition d ON d.version_id = w.version_id AND d.version = w.definition_version
                  WHERE w.kind = 0 AND d.is_published AND w.definition_id = 'd'";
    assert_eq!(family.fixture.count(bodies).await, 3);
    family.ends("one").await;
    family.ends("free").await;
    assert_eq!(family.counts().await, (1, 1, 1), "only one is waited for");
    family.fixture.is_sound().await;
    family.ends("two").await;
    assert_eq!(family.counts().await, (0, 0, 2));
    assert_eq!(family.results().await[0]["workflowInstanceId"], "one");
    let body = "SELECT count(*) FROM work w JOIN instance i ON i.id = w.instance_id WHERE w.kind = 7 AND w.body->>'bookmarkId' = 'b'
                AND (w.body->>'generation')::bigint = (extract(epoch FROM i.created_at) * 1000000)::bigint";
    assert_eq!(family.fixture.count(body).await, 2);
    let parents = "SELECT count(*) FROM instance WHERE parent_instance_id = 'p'";
    assert_eq!(family.fixture.count(parents).await, 3);
    assert_eq!(family.fixture.version("p").await, Some(1));
    family.parent_ends().await;
}

#[tokio::test]
async fn a_later_burst_starts_children_under_the_generation_of_its_instance() {
    let family = Family::new("AllowAlways").await;
    family.writer.commits(parent(Vec::new())).await;
    let mut second = waiting(burst("p", Some(1)), "b2", 7);
    second.effects.children = vec![child("one", "d", true)];
    family.writer.commits(second).await;
    let same = "SELECT count(*) FROM child c JOIN instance i ON i.id = c.parent_instance_id
                WHERE c.parent_generation = (extract(epoch FROM i.created_at) * 1000000)::bigint";
    assert_eq!(family.fixture.count(same).await, 1);
}

#[tokio::test]
async fn a_child_that_may_not_start_counts_as_faulted() {
    let family = Family::new("Singleton").await;
    let children = vec![
        child("one", "d", true),
        child("two", "d", true),
        child("lost", "missing", true),
        child("free", "missing", false),
    ];
    let commit = family.writer.commits(parent(children)).await;
    assert_eq!(commit.refused_children, 3);
    assert_eq!(family.counts().await, (1, 1, 2));
    let results = family.results().await;
    assert!(
        results.iter().all(|result| result["subStatus"] == "Faulted"),
        "{results:?}"
    );
    assert!(
        results[0]["reason"].as_str().unwrap().contains("strategy"),
        "{results:?}"
    );
    assert!(
        results[1]["reason"].as_str().unwrap().contains("missing"),
        "{results:?}"
    );
    family.ends("one").await;
    assert_eq!(family.counts().await, (0, 0, 3));
    family.parent_ends().await;
}

#[tokio::test]
async fn a_child_at_rest_wakes_its_parent_and_lives() {
    let family = Family::new("AllowAlways").await;
    family.writer.commits(parent(vec![child("one", "d", true)])).await;
    let mut first = waiting(last("one", family.claim("one").await), "c", 8);
    first.effects.child_end.as_mut().unwrap().ends = false;
    family.writer.commits(first).await;
    assert_eq!(family.counts().await, (0, 1, 1));
    family.fixture.is_sound().await;
    let mut second = burst("one", Some(1));
    second.effects.bookmarks_burned = vec!["c".into()];
    second.effects.child_end = last("one", Claim::Work(WorkId(0), ClaimNo(0))).effects.child_end;
    family.writer.commits(second).await;
    assert_eq!(family.counts().await, (0, 0, 1));
    family.parent_ends().await;
}

#[tokio::test]
async fn a_deleted_child_counts_as_faulted_before_and_after_its_first_burst() {
    let family = Family::new("AllowAlways").await;
    family
        .writer
        .commits(parent(vec![child("one", "d", true), child("two", "d", true)]))
        .await;
    let claim = family.claim("two").await;
    let mut first = waiting(last("two", claim), "c", 8);
    first.effects.child_end = None;
    family.writer.commits(first).await;
    for instance in ["one", "two"] {
        let deleted = delete::delete(&family.writer.pool, &TenantId::default(), &InstanceId::new(instance)).await;
        assert_eq!(deleted.unwrap().unwrap().made, 1);
    }
    assert_eq!(family.counts().await, (0, 0, 2));
    assert!(
        family
            .results()
            .await
            .iter()
            .all(|result| result["subStatus"] == "Faulted")
    );
    family.parent_ends().await;
}

#[tokio::test]
async fn a_cancelled_or_deleted_parent_cancels_the_children_that_live() {
    for deletes in [false, true] {
        let family = Family::new("AllowAlways").await;
        let children = ["one", "two", "three"].map(|id| child(id, "d", id != "three"));
        family.writer.commits(parent(children.into())).await;
        family.ends("one").await;
        family.fixture.execute("DELETE FROM work WHERE kind = 7").await;
        if deletes {
            let deleted = delete::delete(&family.writer.pool, &TenantId::default(), &InstanceId::new("p")).await;
            assert_eq!(deleted.unwrap().unwrap().made, 2);
        } else {
            let mut cancel = burst("p", Some(1));
            cancel.effects.sub_status = 4;
            cancel.effects.bookmarks_burned = vec!["b".into()];
            cancel.effects.cancels_children = true;
            family.writer.commits(cancel).await;
        }
        assert_eq!(family.fixture.count(CANCELS).await, 2);
        family.fixture.is_sound().await;
        // It ends, and there is no parent to wake.
        family.ends("two").await;
        family.ends("three").await;
        assert_eq!(family.counts().await, (0, 0, 0), "deletes: {deletes}");
    }
}

/// A cancel of the parent against the commit that starts its child, and against the commit of the child, in both orders.
#[tokio::test]
async fn a_cancel_of_the_parent_leaves_no_living_child() {
    let family = Family::new("AllowAlways").await;
    let (writer, tenant, id) = (&family.writer, TenantId::default(), InstanceId::new("p"));
    // The cancel first: what would have started the child is fenced.
    writer.commits(parent(Vec::new())).await;
    work::accept_cancel(&writer.pool, &tenant, &id).await.unwrap();
    let mut late = waiting(burst("p", Some(1)), "b2", 7);
    late.effects.children = vec![child("late", "d", true)];
    assert_outcome!(writer.write(late).await, CommitOutcome::VersionConflict);
    assert_eq!(family.counts().await, (0, 0, 0));
    family.fixture.execute("DELETE FROM work").await;

    // The child first: it waits, and the cancel of its parent reaches it, while its next commit is in flight.
    let mut starts = waiting(burst("p", Some(2)), "b2", 7);
    starts.effects.children = vec![child("one", "d", true)];
    writer.commits(starts).await;
    let mut first = waiting(last("one", family.claim("one").await), "c", 8);
    first.effects.child_end = None;
    writer.commits(first).await;
    let blocker = family.fixture.stop_at("one").await;
    let other = Arc::new(family.fixture.writer().await);
    let in_flight = spawn(&other, waiting(burst("one", Some(1)), "c2", 9));
    family.fixture.a_session_waits().await;
    let mut cancel = burst("p", Some(3));
    cancel.effects.sub_status = 4;
    cancel.effects.bookmarks_burned = vec!["b".into(), "b2".into()];
    cancel.effects.cancels_children = true;
    writer.commits(cancel).await;
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(in_flight.await.unwrap(), CommitOutcome::Committed(_));
    let reached = "SELECT count(*) FROM work WHERE kind = 3 AND instance_id = 'one'";
    assert_eq!(family.fixture.count(reached).await, 1);
    family.ends_cancelled("one", Some(2), &["c", "c2"]).await;
    family.no_child_lives().await;
}

#[tokio::test]
async fn a_cancel_that_waits_behind_the_start_of_a_child_reaches_it() {
    let family = Family::new("AllowAlways").await;
    let (writer, tenant, id) = (&family.writer, TenantId::default(), InstanceId::new("p"));
    writer.commits(parent(Vec::new())).await;
    let blocker = family.fixture.stop_at("p").await;
    let mut starts = waiting(burst("p", Some(1)), "b2", 7);
    starts.effects.children = vec![child("one", "d", true)];
    let in_flight = spawn(writer, starts);
    family.fixture.so_many_wait(1).await;
    let pool = writer.pool.clone();
    let cancel = tokio::spawn(async move { work::accept_cancel(&pool, &tenant, &id).await });
    family.fixture.so_many_wait(2).await;
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(in_flight.await.unwrap(), CommitOutcome::Committed(_));
    cancel.await.unwrap().unwrap();
    assert_eq!(family.counts().await, (1, 1, 0));
    family.ends_cancelled("p", Some(3), &["b", "b2"]).await;
    family.ends_cancelled("one", None, &[]).await;
    family.no_child_lives().await;
}

#[tokio::test]
async fn a_child_that_is_committed_first_while_its_parent_is_cancelled_does_not_live_on() {
    let family = Family::new("AllowAlways").await;
    let writer = &family.writer;
    writer.commits(parent(vec![child("one", "d", true)])).await;
    let blocker = family.fixture.stop_at("p").await;
    let mut cancels = family.cancelled("p", Some(1), &["b"]).await;
    cancels.effects.cancels_children = true;
    let other = Arc::new(family.fixture.writer().await);
    let in_flight = spawn(&other, cancels);
    family.fixture.so_many_wait(1).await;
    // Its first commit, in which it is born, does not wait for the parent.
    let mut first = waiting(last("one", family.claim("one").await), "c", 8);
    first.effects.child_end = None;
    writer.commits(first).await;
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(in_flight.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!(family.fixture.count(CANCELS).await, 1);
    family.ends_cancelled("one", Some(1), &["c"]).await;
    family.no_child_lives().await;
}

#[tokio::test]
async fn the_dead_letter_of_a_child_wakes_its_parent_and_a_replay_does_not() {
    let family = Family::new("AllowAlways").await;
    family
        .writer
        .commits(parent(vec![child("one", "d", true), child("two", "d", true)]))
        .await;
    let (writer, tenant) = (&family.writer, TenantId::default());
    family
        .fixture
        .execute("UPDATE work SET failures = 19 WHERE instance_id = 'one'")
        .await;
    family
        .fixture
        .execute("UPDATE work SET crashes = 2 WHERE instance_id = 'two'")
        .await;
    let given_up = Release {
        cause: ReleaseCause::Row("no"),
        pause: Duration::ZERO,
    };
    let claim = family.claim("one").await;
    let key = (tenant.clone(), InstanceId::new("one"));
    claim::release(&writer.pool, writer.incarnation, &key, &[claim], given_up)
        .await
        .unwrap();
    assert_eq!(family.counts().await, (1, 2, 1));
    family.claim("two").await;
    family.fixture.remove(writer.incarnation, RemovalCause::Crashed).await;
    assert_eq!(family.counts().await, (0, 2, 2));
    family.fixture.is_sound().await;
    let family = Family {
        writer: Arc::new(family.fixture.writer().await),
        ..family
    };
    let all = family.writer.dead_letters().await;
    assert_eq!(all.len(), 2);
    for found in &all {
        if found.instance.as_ref().map(InstanceId::as_str) == Some("one") {
            dead_letter::replay(&family.writer.pool, &tenant, found.id)
                .await
                .unwrap();
        } else {
            dead_letter::delete(&family.writer.pool, &tenant, found.id)
                .await
                .unwrap();
        }
    }
    assert_eq!(family.counts().await, (1, 1, 2));
    family.fixture.is_sound().await;
    family.ends("one").await;
    assert_eq!(family.counts().await, (0, 0, 2), "it was counted before");
    family.parent_ends().await;
}

/// The parent commits that it waits for the child at another bookmark, at the moment of the dead letter.
#[tokio::test]
async fn a_dead_letter_of_a_child_wakes_its_parent_as_it_is_after_a_commit_beside_it() {
    let bind = "UPDATE child SET bookmark_id = 'later', parent_generation = 7 WHERE id = 'one'";
    for crashes in [false, true] {
        let family = Family::new("AllowAlways").await;
        family.writer.commits(parent(vec![child("one", "d", true)])).await;
        let last = "UPDATE work SET failures = 19, crashes = 9 WHERE instance_id = 'one'";
        family.fixture.execute(last).await;
        let claim = family.claim("one").await;
        let session = family.fixture.begin(bind).await;
        let given_up = Release {
            cause: ReleaseCause::Row("no"),
            pause: Duration::ZERO,
        };
        let key = (TenantId::default(), InstanceId::new("one"));
        let (pool, incarnation) = (family.writer.pool.clone(), family.writer.incarnation);
        if crashes {
            let (passed, mut points) = tokio::sync::mpsc::unbounded_channel();
            let removing = family.fixture.session().await;
            let removal = tokio::spawn(async move {
                let node = NodeId::new("test");
                let removes = removal::remove(&removing.client, incarnation, &node, RemovalCause::Crashed);
                failpoint::watched(passed, removes).await
            });
            // The child is locked while the first claims are released.
            while points.recv().await.unwrap() != "removal.releasing" {}
            session.client.batch_execute("COMMIT").await.unwrap();
            removal.await.unwrap().unwrap();
        } else {
            let claims = [claim];
            claim::release(&pool, incarnation, &key, &claims, given_up)
                .await
                .unwrap();
            assert_eq!(family.counts().await, (1, 1, 0), "it fails once more");
            session.client.batch_execute("COMMIT").await.unwrap();
            let claims = [family.claim("one").await];
            claim::release(&pool, incarnation, &key, &claims, given_up)
                .await
                .unwrap();
        }
        assert_eq!(family.counts().await, (0, 1, 1), "crashes: {crashes}");
        let woken = "SELECT count(*) FROM work WHERE kind = 7 AND body->>'bookmarkId' = 'later'";
        assert_eq!(family.fixture.count(woken).await, 1, "crashes: {crashes}");
        let given_up = "SELECT count(*) FROM child WHERE given_up AND bookmark_id IS NULL";
        assert_eq!(family.fixture.count(given_up).await, 1, "crashes: {crashes}");
    }
}

#[tokio::test]
async fn the_end_of_a_child_waits_for_a_dead_letter_that_counts_it() {
    let family = Family::new("AllowAlways").await;
    family.writer.commits(parent(vec![child("one", "d", true)])).await;
    let claim = family.claim("one").await;
    let counts = "UPDATE child SET bookmark_id = NULL; INSERT INTO work (tenant_id, instance_id, kind, body)
                  SELECT tenant_id, parent_instance_id, 7, child_end('b', parent_generation, '{}') FROM child";
    let session = family.fixture.begin(counts).await;
    let commits = spawn(&family.writer, last("one", claim));
    family.fixture.a_session_waits().await;
    session.client.batch_execute("COMMIT").await.unwrap();
    assert_outcome!(commits.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!(family.counts().await, (0, 0, 1));
    family.parent_ends().await;
}

#[tokio::test]
async fn each_broken_invariant_of_children_is_reported() {
    for (broken, breaks) in [
        ("child-without-instance", "DELETE FROM work WHERE instance_id = 'one'"),
        (
            "orphaned-child",
            "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state,
                                   parent_instance_id)
             VALUES ('', 'o', 'd', 'd1', 1, 0, 1, 1, '{}', 'p'); INSERT INTO work (tenant_id, instance_id, kind, body)
             VALUES ('', 'o', 1, '{}')",
        ),
        (
            "child-of-cancelled-parent",
            "UPDATE instance SET status = 1, sub_status = 4, finished_at = now(); DELETE FROM bookmark",
        ),
        ("waiting-without-child", "DELETE FROM child; DELETE FROM work"),
    ] {
        let family = Family::new("AllowAlways").await;
        family.writer.commits(parent(vec![child("one", "d", true)])).await;
        family.fixture.is_sound().await;
        family.fixture.execute(breaks).await;
        let found = check::check(&family.fixture.admin.client).await.unwrap();
        let names: Vec<&str> = found.iter().map(|violation| violation.invariant.as_str()).collect();
        assert!(names.contains(&broken), "{broken}: {names:?}");
    }
}
