//! Children that ran in the burst of their parent: committed before it, under its fences, and waited for afterwards.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::assert_outcome;
use crate::id::{ClaimNo, InstanceId, InstanceVersion, TenantId, WorkId};
use crate::store::claim::{self, Release, ReleaseCause};
use crate::store::commit::{
    AwaitedRow, ChildEndRow, Claim, CommitOutcome, CommitRequest, NestedBurst, SendMode, WriterOptions,
};
use crate::store::instance::delete;
use crate::store::{check, work};
use crate::testing::store::{Fixture, Writer, burst, journal, occupy, spawn, waiting};

const CHILDREN: &str = "SELECT count(*) FROM child";
const ENDS: &str = "SELECT count(*) FROM work WHERE kind = 7 AND instance_id = 'p'";

/// The only burst of the child `c` of `p`, which ends it, in a burst of `p` with these claims.
fn child(expected: Option<i64>, claims: &[Claim]) -> CommitRequest {
    let mut request = journal(burst("c", None), 1);
    request.effects.parent = Some("p".into());
    let state = json!({"output": {"n": 1}});
    request.effects.state = serde_json::to_vec(&state).unwrap();
    request.nested = Some(Box::new(NestedBurst {
        root: "p".into(),
        expected: expected.map(InstanceVersion),
        claims: claims.to_vec(),
        lives: false,
        continues: false,
    }));
    request
}

/// The same for a child that waits for a stimulus.
fn living(expected: Option<i64>, claims: &[Claim]) -> CommitRequest {
    let mut request = waiting(child(expected, claims), "gate", 9);
    if let Some(nested) = &mut request.nested {
        nested.lives = true;
    }
    request
}

/// The burst of `p` that waits for `c` at the bookmark `b`.
fn awaits(expected: Option<i64>, claims: &[Claim], until_rest: bool) -> CommitRequest {
    let mut request = waiting(burst("p", expected), "b", 7);
    let bookmark = &mut request.effects.bookmarks_made[0];
    (bookmark.publishable, bookmark.name) = (false, "Elsa.ExecuteWorkflow".to_owned());
    request.claims = claims.to_vec();
    request.effects.awaited = vec![AwaitedRow {
        no: 0,
        child_id: "c".to_owned(),
        bookmark_id: "b".to_owned(),
        until_rest,
    }];
    request
}

/// A later burst of `c`, which ends it or lets it rest.
fn later(expected: i64, ends: bool) -> CommitRequest {
    let mut request = burst("c", Some(expected));
    if ends {
        request.effects.bookmarks_burned = vec!["gate".into()];
    } else {
        (request.effects.status, request.effects.sub_status) = (0, 2);
    }
    request.effects.child_end = Some(ChildEndRow {
        no: 0,
        ends,
        result: json!({"workflowInstanceId": "c", "subStatus": if ends { "Finished" } else { "Suspended" }}),
    });
    request
}

struct Nested {
    fixture: Fixture,
    writer: Arc<Writer>,
}

impl Nested {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let writer = Arc::new(fixture.writer().await);
        Self { fixture, writer }
    }

    /// A row of work of `p`, in its burst.
    async fn claim(&self) -> Claim {
        self.fixture.claimed_work("p", self.writer.incarnation).await
    }

    /// The start of `p`, in its burst.
    async fn start(&self) -> Claim {
        let start = "INSERT INTO work (tenant_id, instance_id, kind, definition_id, version_id, definition_version, body, claimed_by, claim_no, has_begun)
                     VALUES ('', 'p', 0, 'd', 'd1', 1, '{}', $1, 1, true) RETURNING id";
        let incarnation = self.writer.incarnation.0;
        let row = self.fixture.admin.client.query_one(start, &[&incarnation]).await;
        Claim::Work(WorkId(row.unwrap().get(0)), ClaimNo(1))
    }

    async fn results(&self) -> Vec<Value> {
        let query = "SELECT body->'result' FROM work WHERE kind = 7 AND instance_id = 'p' AND body->>'bookmarkId' = 'b' ORDER BY id";
        let rows = self.fixture.admin.client.query(query, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// The parent continues with the one result that it got.
    async fn goes_on_once(&self, sub_status: &str) {
        let results = self.results().await;
        let found: Vec<_> = results.iter().map(|result| result["subStatus"].clone()).collect();
        assert_eq!(found, [sub_status]);
        let own = "SELECT count(*) FROM work w JOIN instance i ON i.id = w.instance_id WHERE w.kind = 7
                   AND (w.body->>'generation')::bigint = (extract(epoch FROM i.created_at) * 1000000)::bigint";
        assert_eq!(self.fixture.count(own).await, 1);
        self.fixture.execute("DELETE FROM work WHERE instance_id = 'p'").await;
        let version = self.fixture.version("p").await;
        let mut request = burst("p", version);
        request.effects.bookmarks_burned = vec!["b".into()];
        self.writer.commits(request).await;
        self.fixture.is_sound().await;
    }

    /// Stops the insert of `c` in the middle of its statement.
    async fn stop_child(&self) -> crate::db::Session {
        let gate = "CREATE TABLE gate (no integer); INSERT INTO gate VALUES (1);
             CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 FROM gate FOR KEY SHARE; RETURN NEW; END';
             CREATE TRIGGER pass BEFORE INSERT ON instance FOR EACH ROW WHEN (NEW.id = 'c') EXECUTE FUNCTION pass()";
        self.fixture.execute(gate).await;
        self.fixture.begin("SELECT 1 FROM gate FOR UPDATE").await
    }
}

#[tokio::test]
async fn a_child_is_committed_before_its_parent_and_leaves_it_its_claims() {
    for send in [SendMode::Pipelined, SendMode::Stepwise] {
        let fixture = Fixture::new().await;
        let writer = Arc::new(fixture.sending(send).await);
        let family = Nested { fixture, writer };
        let (fixture, writer) = (&family.fixture, &family.writer);
        // In the first burst of its parent.
        let start = family.start().await;
        let commit = writer.commits(child(None, std::slice::from_ref(&start))).await;
        assert_eq!(commit.version, InstanceVersion(1));
        assert_eq!(fixture.count(CHILDREN).await, 0, "it has ended");
        let parent = "SELECT count(*) FROM instance WHERE id = 'c' AND parent_instance_id = 'p' AND status = 1";
        assert_eq!(fixture.count(parent).await, 1);
        let kept = "SELECT count(*) FROM work WHERE claimed_by IS NOT NULL AND claim_no = 1 AND kind = 0";
        assert_eq!(fixture.count(kept).await, 1);
        let mut first = waiting(burst("p", None), "first", 7);
        first.claims = vec![start];
        writer.commits(first).await;
        fixture.is_sound().await;
        // In a later one, with a timer.
        let timer = "INSERT INTO timer (tenant_id, instance_id, id, due, available_at, claimed_by, claim_no, has_begun)
                     VALUES ('', 'p', 'first', now(), now(), $1, 3, true)";
        fixture
            .admin
            .client
            .execute(timer, &[&writer.incarnation.0])
            .await
            .unwrap();
        let timer = Claim::Timer("first".into(), ClaimNo(3));
        let claims = [family.claim().await, timer];
        let mut second = living(Some(1), &claims);
        second.instance = "c2".into();
        writer.commits(second).await;
        assert_eq!(
            fixture
                .count("SELECT count(*) FROM child WHERE id = 'c2' AND rested")
                .await,
            1
        );
        assert_eq!(fixture.version("p").await, Some(1));
        let mut yields = living(Some(1), &claims);
        yields.instance = "c3".into();
        (yields.effects.bookmarks_made, yields.effects.sub_status) = (Vec::new(), 1);
        if let Some(nested) = &mut yields.nested {
            nested.continues = true;
        }
        writer.commits(yields).await;
        let goes_on = "SELECT count(*) FROM work WHERE instance_id = 'c3' AND kind = 4 AND claimed_by IS NULL";
        assert_eq!(fixture.count(goes_on).await, 1);
        assert_eq!(fixture.count("SELECT count(*) FROM child WHERE NOT rested").await, 1);
        fixture.is_sound().await;
    }
}

#[tokio::test]
async fn a_child_loses_with_the_burst_of_its_parent() {
    for send in [SendMode::Pipelined, SendMode::Stepwise] {
        let fixture = Fixture::new().await;
        let writer = Arc::new(fixture.sending(send).await);
        let family = Nested { fixture, writer };
        let (fixture, writer) = (&family.fixture, &family.writer);
        writer.commits(waiting(burst("p", None), "first", 7)).await;
        let claim = family.claim().await;
        let Claim::Work(work, _) = claim else { unreachable!() };
        let other = Claim::Work(work, ClaimNo(2));
        assert_outcome!(
            writer.write(living(Some(1), std::slice::from_ref(&other))).await,
            CommitOutcome::ClaimLost
        );
        let both = [claim.clone(), other];
        assert_outcome!(writer.write(living(Some(1), &both)).await, CommitOutcome::ClaimLost);
        assert_outcome!(
            writer.write(living(Some(2), std::slice::from_ref(&claim))).await,
            CommitOutcome::VersionConflict
        );
        let other = fixture.writer().await;
        assert_outcome!(
            other.write(living(Some(1), std::slice::from_ref(&claim))).await,
            CommitOutcome::ClaimLost
        );
        assert_eq!(fixture.version("c").await, None);
        assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 0);
        // Its id is taken, as by an earlier try of the same burst.
        writer.commits(child(Some(1), std::slice::from_ref(&claim))).await;
        assert_outcome!(
            writer.write(child(Some(1), std::slice::from_ref(&claim))).await,
            CommitOutcome::VersionConflict
        );
        assert_eq!(fixture.count("SELECT count(*) FROM journal").await, 1);
        fixture.execute("DELETE FROM fence").await;
        let mut late = living(Some(1), &[claim]);
        late.instance = "late".into();
        assert_outcome!(writer.write(late).await, CommitOutcome::Fenced);
        fixture.is_sound().await;
    }
}

#[tokio::test]
async fn children_of_several_parents_share_a_batch() {
    let family = Nested::new().await;
    let (fixture, writer) = (&family.fixture, &family.writer);
    let mut claims = Vec::new();
    for n in 0..4 {
        let parent = format!("p{n}");
        writer.commits(waiting(burst(&parent, None), "first", 7)).await;
        claims.push(fixture.claimed_work(&parent, writer.incarnation).await);
    }
    // One of them has lost its parent.
    fixture.execute("UPDATE instance SET version = 5 WHERE id = 'p2'").await;
    let (blocker, in_flight) = occupy(fixture, writer).await;
    let mut sent = Vec::new();
    for (n, claim) in claims.into_iter().enumerate() {
        let mut request = child(Some(1), &[claim]);
        request.instance = format!("c{n}").into();
        request.effects.parent = Some(format!("p{n}").into());
        if let Some(nested) = &mut request.nested {
            nested.root = format!("p{n}").into();
        }
        sent.push(spawn(writer, request));
    }
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    in_flight.await.unwrap();
    for (n, outcome) in sent.into_iter().enumerate() {
        match outcome.await.unwrap() {
            CommitOutcome::Committed(_) => assert_ne!(n, 2),
            outcome => {
                assert_eq!(n, 2);
                assert_outcome!(outcome, CommitOutcome::VersionConflict);
            }
        }
    }
    let batches = "SELECT count(DISTINCT at) FROM burst_record WHERE instance_id LIKE 'c%'";
    assert_eq!(fixture.count(batches).await, 1);
}

#[tokio::test]
async fn a_parent_is_woken_once_whether_its_child_ends_before_or_after_its_commit() {
    for (ends_before, is_first) in [(false, false), (true, false), (false, true), (true, true)] {
        let family = Nested::new().await;
        let writer = &family.writer;
        let (expected, claim) = if is_first {
            (None, family.start().await)
        } else {
            writer.commits(waiting(burst("p", None), "first", 7)).await;
            (Some(1), family.claim().await)
        };
        writer.commits(living(expected, std::slice::from_ref(&claim))).await;
        let parent = awaits(expected, &[claim], false);
        if ends_before {
            let mut end = later(1, true);
            end.effects.state = child(None, &[]).effects.state;
            writer.commits(end).await;
            assert_eq!(family.fixture.count(ENDS).await, 0, "nothing waits yet");
            writer.commits(parent).await;
            assert_eq!(family.results().await[0]["output"], json!({"n": 1}));
        } else {
            writer.commits(parent).await;
            assert_eq!(family.fixture.count(ENDS).await, 0);
            family.fixture.is_sound().await;
            writer.commits(later(1, true)).await;
        }
        if !is_first {
            let mut burn = burst("p", Some(2));
            (burn.effects.status, burn.effects.sub_status) = (0, 2);
            burn.effects.bookmarks_burned = vec!["first".into()];
            writer.commits(burn).await;
        }
        family.goes_on_once("Finished").await;
    }
}

#[tokio::test]
async fn a_parent_that_waits_for_the_rest_of_its_child_goes_on_with_it() {
    for rests_before in [false, true] {
        let family = Nested::new().await;
        let writer = &family.writer;
        let claim = family.start().await;
        // It has yielded.
        let mut yields = living(None, std::slice::from_ref(&claim));
        yields.effects.sub_status = 1;
        if let Some(nested) = &mut yields.nested {
            nested.continues = true;
        }
        writer.commits(yields).await;
        family.fixture.execute("DELETE FROM work WHERE instance_id = 'c'").await;
        let mut rests = later(1, false);
        let state = json!({"output": {}});
        rests.effects.state = serde_json::to_vec(&state).unwrap();
        let parent = awaits(None, &[claim], true);
        let order = if rests_before { [rests, parent] } else { [parent, rests] };
        for request in order {
            writer.commits(request).await;
        }
        let rested = "SELECT count(*) FROM child WHERE rested AND bookmark_id IS NULL";
        assert_eq!(family.fixture.count(rested).await, 1);
        family.goes_on_once("Suspended").await;
        // Its end wakes nothing more.
        writer.commits(later(2, true)).await;
        assert_eq!(family.fixture.count(ENDS).await, 0);
        family.fixture.is_sound().await;
    }
}

#[tokio::test]
async fn a_child_that_was_deleted_or_given_up_meanwhile_counts_as_faulted() {
    for deletes in [true, false] {
        let family = Nested::new().await;
        let (writer, tenant) = (&family.writer, TenantId::default());
        let claim = family.start().await;
        writer.commits(living(None, std::slice::from_ref(&claim))).await;
        if deletes {
            delete::delete(&writer.pool, &tenant, &"c".into()).await.unwrap();
        } else {
            let work = family.fixture.claimed_work("c", writer.incarnation).await;
            family
                .fixture
                .execute("UPDATE work SET failures = 19 WHERE instance_id = 'c'")
                .await;
            let given_up = Release {
                cause: ReleaseCause::Row("no"),
                pause: Duration::ZERO,
            };
            let key = (tenant, InstanceId::new("c"));
            claim::release(&writer.pool, writer.incarnation, &key, &[work], given_up)
                .await
                .unwrap();
        }
        writer.commits(awaits(None, &[claim], false)).await;
        family.goes_on_once("Faulted").await;
        if !deletes {
            writer.commits(later(1, true)).await;
            assert_eq!(family.fixture.count(ENDS).await, 0, "it was counted before");
        }
    }
}

#[tokio::test]
async fn the_end_of_a_child_and_the_wait_for_it_in_one_batch_wake_the_parent_once() {
    let family = Nested::new().await;
    let (fixture, writer) = (&family.fixture, &family.writer);
    let claim = family.start().await;
    writer.commits(living(None, std::slice::from_ref(&claim))).await;
    let (blocker, in_flight) = occupy(fixture, writer).await;
    let mut end = later(1, true);
    end.effects.state = child(None, &[]).effects.state;
    let requests = [spawn(writer, awaits(None, &[claim], false)), spawn(writer, end)];
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    in_flight.await.unwrap();
    for outcome in requests {
        assert_outcome!(outcome.await.unwrap(), CommitOutcome::Committed(_));
    }
    fixture
        .execute("DELETE FROM bookmark WHERE instance_id = 'occupied'; DELETE FROM instance WHERE id = 'occupied'")
        .await;
    family.goes_on_once("Finished").await;
}

/// A cancel of the parent against the commit of the child, in both orders, before and after the first commit of the parent.
#[tokio::test]
async fn a_cancel_of_the_parent_leaves_no_living_child() {
    let (tenant, parent) = (TenantId::default(), InstanceId::new("p"));
    for (is_first, cancel_first) in [(true, true), (true, false), (false, true), (false, false)] {
        let family = Nested::new().await;
        let (fixture, writer) = (&family.fixture, &family.writer);
        let (expected, claim) = if is_first {
            (None, family.start().await)
        } else {
            writer.commits(waiting(burst("p", None), "first", 7)).await;
            (Some(1), family.claim().await)
        };
        let request = living(expected, &[claim]);
        if cancel_first {
            // What the cancel writes, before it is committed.
            let fences = if is_first {
                "UPDATE work SET claimed_by = NULL, claim_no = claim_no + 1"
            } else {
                "UPDATE instance SET version = version + 1"
            };
            let cancel = fixture.begin(fences).await;
            let late = spawn(writer, request);
            fixture.a_session_waits().await;
            cancel.client.batch_execute("COMMIT").await.unwrap();
            match late.await.unwrap() {
                CommitOutcome::ClaimLost if is_first => {}
                CommitOutcome::VersionConflict if !is_first => {}
                outcome => panic!("{outcome:?}"),
            }
            assert_eq!(fixture.version("c").await, None);
            assert_eq!(fixture.count(CHILDREN).await, 0);
            continue;
        }
        let blocker = family.stop_child().await;
        let in_flight = spawn(writer, request);
        fixture.a_session_waits().await;
        let cancel = tokio::spawn({
            let (pool, tenant, parent) = (writer.pool.clone(), tenant.clone(), parent.clone());
            async move { work::accept_cancel(&pool, &tenant, &parent).await }
        });
        fixture.so_many_wait(2).await;
        blocker.client.batch_execute("ROLLBACK").await.unwrap();
        assert_outcome!(in_flight.await.unwrap(), CommitOutcome::Committed(_));
        cancel.await.unwrap().unwrap();
        // The burst of the cancel.
        fixture.execute("DELETE FROM work WHERE instance_id = 'p'").await;
        let mut cancelled = burst("p", fixture.version("p").await);
        cancelled.effects.sub_status = 4;
        cancelled.effects.cancels_children = true;
        if !is_first {
            cancelled.effects.bookmarks_burned = vec!["first".into()];
        }
        writer.commits(cancelled).await;
        let reached = "SELECT count(*) FROM work WHERE kind = 3 AND instance_id = 'c'";
        assert_eq!(fixture.count(reached).await, 1, "first: {is_first}");
        fixture.is_sound().await;
    }
}

#[tokio::test]
async fn what_ends_the_outermost_parent_reaches_children_whose_own_parents_were_not_committed() {
    for deletes in [false, true] {
        let family = Nested::new().await;
        let (fixture, writer) = (&family.fixture, &family.writer);
        let claim = family.start().await;
        // Of `m`, which runs in the burst of `p`.
        let mut request = living(None, std::slice::from_ref(&claim));
        request.effects.parent = Some("m".into());
        writer.commits(request).await;
        if deletes {
            delete::delete(&writer.pool, &TenantId::default(), &"p".into())
                .await
                .unwrap();
        } else {
            let mut cancelled = burst("p", None);
            cancelled.claims = vec![claim];
            cancelled.effects.sub_status = 4;
            cancelled.effects.cancels_children = true;
            writer.commits(cancelled).await;
        }
        let reached = "SELECT count(*) FROM work WHERE kind = 3 AND instance_id = 'c'";
        assert_eq!(fixture.count(reached).await, 1, "deletes: {deletes}");
        fixture.is_sound().await;
        if !deletes {
            fixture.execute("DELETE FROM work").await;
            let found = crate::store::check::check(&fixture.admin.client).await.unwrap();
            let names: Vec<&str> = found.iter().map(|violation| violation.invariant.as_str()).collect();
            assert!(names.contains(&"child-of-cancelled-parent"), "{names:?}");
        }
    }
}

#[tokio::test]
async fn a_delete_of_the_parent_before_its_first_commit_waits_for_the_child_and_reaches_it() {
    let family = Nested::new().await;
    let (fixture, writer) = (&family.fixture, &family.writer);
    let claim = family.start().await;
    let blocker = family.stop_child().await;
    let in_flight = spawn(writer, living(None, &[claim]));
    fixture.a_session_waits().await;
    let deleting = tokio::spawn({
        let pool = writer.pool.clone();
        async move { delete::delete(&pool, &TenantId::default(), &"p".into()).await }
    });
    fixture.so_many_wait(2).await;
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(in_flight.await.unwrap(), CommitOutcome::Committed(_));
    deleting.await.unwrap().unwrap();
    let reached = "SELECT count(*) FROM work WHERE kind = 3 AND instance_id = 'c'";
    assert_eq!(fixture.count(reached).await, 1);
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_child_in_doubt_is_found_though_its_parent_has_lost_since() {
    let fixture = Fixture::new().await;
    let (proxy, writer) = fixture.proxied(WriterOptions::default()).await;
    let family = Nested {
        fixture,
        writer: Arc::new(writer),
    };
    let claim = family.start().await;
    let blocker = family.stop_child().await;
    let in_doubt = spawn(&family.writer, child(None, &[claim]));
    family.fixture.a_session_waits().await;
    proxy.cut();
    family.fixture.so_many_wait(2).await;
    assert!(!in_doubt.is_finished(), "it has an outcome while that is still unknown");
    blocker.client.batch_execute("ROLLBACK").await.unwrap();
    assert_outcome!(in_doubt.await.unwrap(), CommitOutcome::Committed(_));
    assert_eq!(family.fixture.version("c").await, Some(1));
    assert_eq!(family.fixture.count("SELECT count(*) FROM journal").await, 1);
}

#[tokio::test]
async fn an_executed_child_that_its_parent_does_not_know_is_reported() {
    let fixture = Fixture::new().await;
    let instance = "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state,
                                          parent_instance_id, finished_at)
                    VALUES ('', 'p', 'd', 'd1', 1, 1, 3, 1, '{}', NULL, now()),
                           ('', 'c', 'd', 'd1', 1, 1, 3, 1, '{\"parent\": {\"startedBy\": {\"lineage\": \"0\"}}}', 'p', now())";
    fixture.execute(instance).await;
    let reported = async || {
        let found = check::check(&fixture.admin.client).await.unwrap();
        found
            .iter()
            .any(|violation| violation.invariant == "executed-child-of-no-burst")
    };
    assert!(reported().await);
    for known in [
        "UPDATE instance SET state = '{\"executedChildren\": 1}' WHERE id = 'p'",
        "UPDATE instance SET state = '{}', sub_status = 4 WHERE id = 'p'",
        "UPDATE instance SET sub_status = 3; INSERT INTO work (tenant_id, instance_id, kind, body, has_begun)
         VALUES ('', 'p', 1, '{}', true)",
    ] {
        fixture.execute(known).await;
        assert!(!reported().await, "{known}");
    }
}
