//! A pause against each statement that accepts or claims, in both orders: what began before is in when the pause returns,
//! and what begins afterwards changes nothing.

use std::sync::Arc;

use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::definitions::{definition, start};
use crate::Result;
use crate::id::{FanOutId, InstanceId, TenantId};
use crate::store::claim::{self, ClaimBounds, InstanceKey, Shard};
use crate::store::definition::{self as definitions, StartSources};
use crate::store::event::{self as events, NewEvent};
use crate::store::pause::{self, PauseMode};
use crate::store::start::{AcceptedStart, Acceptor, NewStart};
use crate::store::{dead_letter, fan_out, inbox_match, work};
use crate::testing::store::{Fixture, Writer, burst, event, idempotency_key, waiting};

/// Whatever writes a row of work or of the inbox stops at the gate, after its snapshot.
const GATE: &str = "
    CREATE TABLE gate (no integer);
    INSERT INTO gate VALUES (1);
    CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM 1 FROM gate FOR KEY SHARE; RETURN NEW; END';
    CREATE TRIGGER pass BEFORE INSERT OR UPDATE ON work FOR EACH ROW EXECUTE FUNCTION pass();
    CREATE TRIGGER pass BEFORE INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION pass();";

const ROWS: &str = "SELECT (SELECT count(*) FROM work) + (SELECT count(*) FROM inbox)
                         + (SELECT count(*) FROM work WHERE claimed_by IS NOT NULL)";

#[derive(Clone, Copy, Debug)]
enum Way {
    StartClaimed,
    StartQueued,
    StartWithKey,
    StartOfChosenId,
    Resume,
    Event,
    Replay,
    ReplayOfMany,
    Claim,
}

const WAYS: [Way; 9] = [
    Way::StartClaimed,
    Way::StartQueued,
    Way::StartWithKey,
    Way::StartOfChosenId,
    Way::Resume,
    Way::Event,
    Way::Replay,
    Way::ReplayOfMany,
    Way::Claim,
];

struct Bench {
    fixture: Fixture,
    writer: Writer,
    acceptor: Acceptor,
    class: i32,
    _task: AbortOnDropHandle<()>,
}

impl Bench {
    async fn new() -> Arc<Self> {
        let fixture = Fixture::new().await;
        let writer = fixture.writer().await;
        let class = fixture.base.schema().lock_class();
        definitions::save(&writer.pool, class, &definition("n"), Some(StartSources::by(&[])))
            .await
            .unwrap();
        writer.commits(waiting(burst("i", None), "b", 7)).await;
        fixture.execute(GATE).await;
        let (acceptor, task) = Acceptor::start(&writer.connector, &writer.pool, writer.incarnation, true);
        Arc::new(Self {
            fixture,
            writer,
            acceptor,
            class,
            _task: task,
        })
    }

    async fn pause(&self, mode: PauseMode) -> bool {
        pause::set(&self.writer.pool, mode, Some("to test"), "a test")
            .await
            .unwrap()
    }

    /// Goes this way once; how many rows were accepted or claimed.
    async fn go(&self, way: Way, n: usize) -> Result<usize> {
        let (pool, tenant, instance) = (&self.writer.pool, TenantId::default(), InstanceId::new("i"));
        let id = format!("{way:?}-{n}");
        let started = |new: NewStart| async move {
            let accepted = self.acceptor.accept(new).await?;
            assert!(matches!(accepted, AcceptedStart::New { .. }), "{way:?}");
            Ok(1)
        };
        match way {
            Way::StartClaimed => started(start(&id, None)).await,
            Way::StartQueued => {
                let queued = start(&id, None);
                started(NewStart {
                    claimed: false,
                    ..queued
                })
                .await
            }
            Way::StartWithKey => started(start(&id, Some(&id))).await,
            Way::StartOfChosenId => {
                let chosen = start(&id, None);
                started(NewStart {
                    claimed: false,
                    has_chosen_id: true,
                    ..chosen
                })
                .await
            }
            Way::Resume => {
                let key = idempotency_key("resume", &id);
                work::accept_resume(pool, &tenant, &instance, &json!({}), Some(&key), None).await?;
                Ok(1)
            }
            Way::Event => {
                events::publish(pool, self.class, &of_a_client(&id)).await?;
                Ok(1)
            }
            Way::Replay => {
                let dead_letter = self.dead_letter().await;
                dead_letter::replay(pool, &tenant, dead_letter).await?;
                Ok(1)
            }
            Way::ReplayOfMany => {
                let dead_letter = self.dead_letter().await;
                let replayed = dead_letter::replay_many(pool, &tenant, &[dead_letter]).await?;
                Ok(usize::try_from(replayed.rows).unwrap())
            }
            Way::Claim => {
                let key: InstanceKey = (tenant, instance);
                let keys = std::slice::from_ref(&key);
                let claimed = claim::claim(pool, self.writer.incarnation, keys, false, ClaimBounds::NONE).await?;
                Ok(claimed.get(&key).map_or(0, |claimed| claimed.rows.len()))
            }
        }
    }

    async fn dead_letter(&self) -> i64 {
        self.fixture
            .count(
                "INSERT INTO dead_letter (tenant_id, instance_id, kind, reason, work_id, body, failures, crashes)
                 VALUES ('', 'i', 1, 'test', nextval('work_id_seq'), '{}', 20, 0) RETURNING id",
            )
            .await
    }

    /// Rows that may be claimed, of this instance.
    async fn offer(&self) {
        self.fixture
            .execute(
                "DELETE FROM work; INSERT INTO work (tenant_id, instance_id, kind, body) VALUES ('', 'i', 1, '{}')",
            )
            .await;
    }

    async fn listed(&self) -> usize {
        let since = chrono::DateTime::UNIX_EPOCH;
        let polled = claim::poll_work(&self.writer.pool, 10, &[], false, since, Shard::WHOLE).await;
        polled.unwrap().instances.len()
    }
}

/// An event under a key of its client's.
fn of_a_client(key: &str) -> NewEvent {
    let mut new = event(key, 9);
    new.request.fingerprint = vec![1; 32];
    new
}

#[tokio::test]
async fn what_began_before_a_pause_is_in_and_afterwards_nothing_is_accepted_or_claimed() {
    let bench = Bench::new().await;
    let fixture = &bench.fixture;
    for way in WAYS {
        bench.offer().await;
        let before = fixture.count(ROWS).await;
        let gate = fixture.begin("SELECT 1 FROM gate FOR UPDATE").await;
        let going = tokio::spawn({
            let bench = Arc::clone(&bench);
            async move { bench.go(way, 0).await }
        });
        fixture.a_session_waits().await;
        let pausing = tokio::spawn({
            let bench = Arc::clone(&bench);
            async move {
                assert!(bench.pause(PauseMode::Paused).await);
                // The answer comes after what was under way.
                let session = bench.fixture.session().await;
                session.client.query_one(ROWS, &[]).await.unwrap().get::<_, i64>(0)
            }
        });
        fixture.until(1, "SELECT mode::bigint FROM cluster_pause").await;
        gate.client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(going.await.unwrap().unwrap(), 1, "{way:?}");
        let paused = pausing.await.unwrap();
        assert!(paused > before, "{way:?}: the pause did not wait");
        assert_eq!(fixture.count(ROWS).await, paused, "{way:?}");

        bench.offer().await;
        let before = fixture.count(ROWS).await;
        match bench.go(way, 1).await {
            Ok(rows) => assert_eq!(rows, 0, "{way:?} claimed"),
            Err(error) => {
                assert!(
                    error.is_paused() && error.message().contains("to test"),
                    "{way:?}: {error:?}"
                );
            }
        }
        assert_eq!(fixture.count(ROWS).await, before, "{way:?}");
        assert_eq!(bench.listed().await, 0);
        assert!(bench.pause(PauseMode::Running).await);
        assert_eq!(bench.listed().await, 1);
    }
}

/// Under its key a request that was accepted before gets its first answer; a cancel is accepted, listed and claimed.
#[tokio::test]
async fn a_paused_cluster_repeats_answers_and_cancels() {
    let bench = Bench::new().await;
    let (fixture, pool, tenant) = (&bench.fixture, &bench.writer.pool, TenantId::default());
    bench.go(Way::StartWithKey, 0).await.unwrap();
    bench.go(Way::Event, 0).await.unwrap();
    bench.offer().await;
    assert!(bench.pause(PauseMode::Paused).await);
    assert!(!bench.pause(PauseMode::Paused).await, "the first one counts");
    let again = bench
        .acceptor
        .accept(start("StartWithKey-0", Some("StartWithKey-0")))
        .await;
    assert!(matches!(again.unwrap(), AcceptedStart::Existing { .. }));
    events::publish(pool, bench.class, &of_a_client("Event-0"))
        .await
        .unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM inbox").await, 1);

    // Neither is there a page of a fan-out or of the inbox.
    fixture
        .execute(
            "INSERT INTO fan_out (tenant_id, hash, name, expires_at) VALUES ('', sha256(''), 'Elsa.Event', now());
             INSERT INTO inbox_match (tenant_id, definition_id, hash, cut) VALUES ('', 'd', sha256(''), 1)",
        )
        .await;
    let page = |_| fan_out::FanOutPage::Rows(1);
    let step = fan_out::step(pool, bench.class, FanOutId(0), &[], page).await.unwrap();
    assert_eq!(step.1, fan_out::FanOutStep::Idle);
    assert!(inbox_match::page(pool).await.unwrap().is_none());

    assert_eq!(bench.listed().await, 0);
    assert_eq!(bench.go(Way::Claim, 0).await.unwrap(), 0);
    let cancelled = work::accept_cancel(pool, &tenant, &InstanceId::new("i")).await.unwrap();
    assert!(matches!(cancelled, work::AcceptedCancel::Accepted(_)));
    assert_eq!(bench.listed().await, 1);
    assert_eq!(bench.go(Way::Claim, 0).await.unwrap(), 1, "the cancel");

    // A drain is more than a pause, and a pause ends no drain.
    assert!(bench.pause(PauseMode::Draining).await);
    assert!(!bench.pause(PauseMode::Paused).await);
    let row = pause::read(pool).await.unwrap();
    assert_eq!((row.pause.mode, row.pause.generation), (PauseMode::Draining, 2));
    assert!(row.paused_at.is_some() && row.drain_started_at.is_some());
    assert_eq!(row.requested_by.as_deref(), Some("a test"));
    assert!(bench.pause(PauseMode::Running).await);
    assert!(!bench.pause(PauseMode::Running).await);
    assert_eq!(
        fan_out::step(pool, bench.class, FanOutId(0), &[], page)
            .await
            .unwrap()
            .0,
        Some(crate::id::FanOutId(1))
    );
}
