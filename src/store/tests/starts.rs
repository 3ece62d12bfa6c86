//! Starts of one id, and starts whose answer is lost: each is accepted once, and its caller gets its outcome.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use super::definitions::{definition, start};
use crate::id::{ClaimNo, Incarnation, InstanceId, TenantId, WorkId};
use crate::store::claim::{self, ClaimBounds, InstanceKey};
use crate::store::commit::{Claim, CommitOutcome};
use crate::store::definition::{self as definitions, StartSources};
use crate::store::start::{AcceptedStart, Acceptor, NewStart};
use crate::store::work::{self, WorkStatus};
use crate::testing::Proxy;
use crate::testing::store::{Fixture, Writer, burst, spawn, waiting};
use crate::{Result, assert_outcome};

struct Bench {
    fixture: Fixture,
    writer: Writer,
}

impl Bench {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let writer = fixture.writer().await;
        let class = fixture.base.schema().lock_class();
        definitions::save(&writer.pool, class, &definition("n"), Some(StartSources::by(&[])))
            .await
            .unwrap();
        Self { fixture, writer }
    }

    fn acceptor(&self, flushed: bool) -> (Acceptor, AbortOnDropHandle<()>) {
        let Writer {
            connector,
            pool,
            incarnation,
            ..
        } = &self.writer;
        Acceptor::start(connector, pool, *incarnation, flushed)
    }

    /// An acceptor whose connection goes through a proxy, and has prepared its statement.
    async fn through(&self, proxy: &Proxy, of: impl Fn(&str) -> NewStart) -> (Acceptor, AbortOnDropHandle<()>) {
        let node = crate::id::NodeId::new("test");
        let far = self.fixture.through(proxy.port).of(self.writer.incarnation, &node);
        let (acceptor, task) = Acceptor::start(&far, &self.writer.pool, self.writer.incarnation, true);
        acceptor.accept(of("before")).await.unwrap();
        (acceptor, task)
    }

    /// A session that holds the row of a start until it is rolled back.
    async fn holds(&self, sql: &str) -> crate::db::Session {
        let session = self.fixture.session().await;
        session.client.batch_execute(&format!("BEGIN; {sql}")).await.unwrap();
        session
    }

    /// The start of an instance is claimed, and its first burst committed.
    async fn runs(&self, instance: &str) {
        let key: InstanceKey = (TenantId::default(), InstanceId::new(instance));
        let keys = std::slice::from_ref(&key);
        let mut claimed = claim::claim(
            &self.writer.pool,
            self.writer.incarnation,
            keys,
            false,
            ClaimBounds::NONE,
        )
        .await
        .unwrap();
        let mut request = waiting(burst(instance, None), "b", 7);
        request.claims = claimed
            .remove(&key)
            .unwrap()
            .rows
            .into_iter()
            .map(|row| row.claim)
            .collect();
        self.writer.commits(request).await;
    }
}

fn chosen(instance: &str, key: Option<&str>) -> NewStart {
    NewStart {
        has_chosen_id: true,
        claimed: false,
        ..start(instance, key)
    }
}

fn send(acceptor: &Acceptor, start: NewStart) -> JoinHandle<Result<AcceptedStart>> {
    let acceptor = acceptor.clone();
    tokio::spawn(async move { acceptor.accept(start).await })
}

fn row_of(instance: &str) -> String {
    format!(
        "INSERT INTO work (tenant_id, instance_id, kind, definition_id, body) VALUES ('', '{instance}', 0, 'd', '{{}}')"
    )
}

/// The second start has its snapshot when the first one is neither a row of work nor an instance, and writes its row when it
/// is an instance, and no row any more.
#[tokio::test]
async fn a_start_whose_competitor_started_and_ended_meanwhile_is_refused() {
    let bench = Bench::new().await;
    let (first, _first) = bench.acceptor(true);
    let (second, _second) = bench.acceptor(true);

    // It stops at its idempotency key.
    let remembers = "INSERT INTO idempotency_key (tenant_id, route, key, fingerprint) VALUES ('', 'start', 'k', '')";
    let holder = bench.holds(remembers).await;
    let late = send(&second, chosen("keyed", Some("k")));
    bench.fixture.a_session_waits().await;
    first.accept(chosen("keyed", None)).await.unwrap();
    bench.runs("keyed").await;
    holder.client.batch_execute("ROLLBACK").await.unwrap();
    let refused = late.await.unwrap().map(drop).expect_err("both were accepted");
    assert_eq!(refused.code(), "instance-id-taken");

    // It stops at the row before its own, in the same batch, as the lane is in flight when both are sent.
    let in_flight = bench.holds(&row_of("in-flight")).await;
    let occupies = send(&second, chosen("in-flight", None));
    bench.fixture.a_session_waits().await;
    let holder = bench.holds(&row_of("ahead")).await;
    let (late, ahead) = (
        send(&second, chosen("plain", None)),
        send(&second, chosen("ahead", None)),
    );
    in_flight.client.batch_execute("ROLLBACK").await.unwrap();
    occupies.await.unwrap().unwrap();
    bench.fixture.a_session_waits().await;
    first.accept(chosen("plain", None)).await.unwrap();
    bench.runs("plain").await;
    holder.client.batch_execute("ROLLBACK").await.unwrap();
    let refused = late.await.unwrap().map(drop).expect_err("both were accepted");
    assert_eq!(refused.code(), "instance-id-taken");
    // The other start of the batch is accepted.
    ahead.await.unwrap().unwrap();

    assert_eq!(bench.fixture.count("SELECT count(*) FROM idempotency_key").await, 0);
    assert_eq!(bench.fixture.count("SELECT count(*) FROM work").await, 2);
    bench.fixture.is_sound().await;
}

fn new(accepted: AcceptedStart) -> WorkId {
    match accepted {
        AcceptedStart::New { work, .. } => work,
        AcceptedStart::Existing { instance } => panic!("{instance} was there before"),
    }
}

/// Its row exists once, and is unchanged since its insert.
async fn is_accepted_once(bench: &Bench, instance: &str, work: WorkId) {
    let query = "SELECT id, claimed_by, claim_no FROM work WHERE instance_id = $1";
    let rows = bench.fixture.admin.client.query(query, &[&instance]).await.unwrap();
    let shown: Vec<(i64, Option<i64>, i64)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(shown, [(work.0, Some(bench.writer.incarnation.0), 1)], "{instance}");
}

#[tokio::test]
async fn a_start_whose_answer_is_lost_is_looked_up() {
    let bench = Bench::new().await;
    for key in [None, Some("k")] {
        let of = |what: &str| {
            let id = format!("{what}-{key:?}");
            start(&id, key.map(|_| id.clone()).as_deref())
        };
        let proxy = Proxy::start(bench.fixture.server_port()).await;
        let (acceptor, _task) = bench.through(&proxy, of).await;
        // Committed, and the answer lost.
        proxy.swallow_next_answer();
        let lost = of("lost");
        let work = new(acceptor.accept(lost.clone()).await.unwrap());
        is_accepted_once(&bench, lost.instance.as_str(), work).await;

        // Cut before the server begins: the former backend and the next one reach the row together.
        let holder = bench.holds("LOCK TABLE definition IN ACCESS EXCLUSIVE MODE").await;
        let cut = of("cut");
        let answer = send(&acceptor, cut.clone());
        bench.fixture.so_many_wait(1).await;
        proxy.cut();
        bench.fixture.so_many_wait(2).await;
        holder.client.batch_execute("ROLLBACK").await.unwrap();
        let work = new(answer.await.unwrap().unwrap());
        is_accepted_once(&bench, cut.instance.as_str(), work).await;
        // Both have ended.
        bench.fixture.so_many_wait(0).await;
        is_accepted_once(&bench, cut.instance.as_str(), work).await;
    }
    bench.fixture.is_sound().await;
}

/// Under a chosen id there may be a competing start.
#[tokio::test]
async fn a_start_of_a_chosen_id_whose_answer_is_lost_is_unknown() {
    let bench = Bench::new().await;
    let proxy = Proxy::start(bench.fixture.server_port()).await;
    let (acceptor, _task) = bench.through(&proxy, |id| chosen(id, None)).await;
    proxy.swallow_next_answer();
    let unknown = acceptor.accept(chosen("mine", None)).await.map(drop).unwrap_err();
    assert!(unknown.is_unknown_outcome(), "{unknown}");
    assert_eq!(unknown.instance_id(), Some("mine"));
    new(acceptor.accept(chosen("next", None)).await.unwrap());
    bench.fixture.is_sound().await;
}

/// A lost start left no trace, nor did the registration of its node; a deleted one is recognised by the registration.
#[tokio::test]
async fn a_start_without_a_trace_is_unknown_only_if_the_server_may_have_crashed() {
    let bench = Bench::new().await;
    let (pool, tenant, here) = (&bench.writer.pool, TenantId::default(), bench.writer.incarnation);
    let status = async |instance: &str, by: Incarnation| {
        let instance = InstanceId::new(instance);
        work::start_status(pool, &tenant, &instance, by).await.unwrap()
    };
    assert_eq!(status("nowhere", here).await, WorkStatus::Deleted);
    assert_eq!(status("nowhere", Incarnation(0)).await, WorkStatus::Unknown);
    let (acceptor, _task) = bench.acceptor(true);
    let work = new(acceptor.accept(start("there", None)).await.unwrap());
    assert_eq!(status("there", Incarnation(0)).await, WorkStatus::Pending);
    // An incarnation number that is reused after a crash proves nothing about the earlier one.
    let of = async |instance: &str| {
        let instance = InstanceId::new(instance);
        work::status(pool, &tenant, &instance, work).await.unwrap()
    };
    assert_eq!(of("there").await, WorkStatus::Pending);
    assert_eq!(of("nowhere").await, WorkStatus::Consumed);
    let mut request = burst("there", None);
    request.claims.push(Claim::Work(work, ClaimNo(1)));
    bench.writer.commits(request).await;
    assert_eq!(status("there", Incarnation(0)).await, WorkStatus::Pending);
    let dead_letter = "INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, failures, crashes)
                  VALUES ('', 'dead_letter', 0, 'test', 1, 20, 0)";
    bench.fixture.execute(dead_letter).await;
    assert_eq!(status("dead_letter", Incarnation(0)).await, WorkStatus::DeadLettered);
    bench.fixture.is_sound().await;
}

/// Both come through a statement of their own, whose snapshot need not show the other.
#[tokio::test]
async fn of_a_start_and_an_import_of_one_id_the_later_one_is_refused() {
    let bench = Bench::new().await;
    let writer = Arc::new(bench.fixture.writer().await);
    let import = |id: &str| spawn(&writer, waiting(burst(id, None), "b", 7));
    // The start is in its transaction.
    let start =
        "INSERT INTO work (tenant_id, instance_id, kind, body, definition_id) VALUES ('', 'first', 0, '{}', 'd');
                 SELECT raise_if_instance_exists('', 'first')";
    let session = bench.fixture.begin(start).await;
    let imports = import("first");
    bench.fixture.a_session_waits().await;
    session.client.batch_execute("COMMIT").await.unwrap();
    assert_outcome!(imports.await.unwrap(), CommitOutcome::VersionConflict);
    assert_eq!(
        bench
            .fixture
            .count("SELECT count(*) FROM instance WHERE id = 'first'")
            .await,
        0
    );
    // The import is.
    let lock = "SELECT raise_if_start_exists('', 'second');
                INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version, state,
                                      finished_at)
                VALUES ('', 'second', 'd', 'd1', 1, 1, 3, 1, '{}', now())";
    let session = bench.fixture.begin(lock).await;
    let (acceptor, _task) = bench.acceptor(false);
    let accepts = send(&acceptor, chosen("second", None));
    bench.fixture.a_session_waits().await;
    session.client.batch_execute("COMMIT").await.unwrap();
    assert!(accepts.await.unwrap().map(drop).unwrap_err().is_conflict());
    assert_eq!(
        bench
            .fixture
            .count("SELECT count(*) FROM work WHERE instance_id = 'second'")
            .await,
        0
    );
    // Committed before.
    assert_outcome!(import("first").await.unwrap(), CommitOutcome::VersionConflict);
    assert_outcome!(import("third").await.unwrap(), CommitOutcome::Committed(_));
}
