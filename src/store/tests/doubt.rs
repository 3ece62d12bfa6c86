//! Resumes and events whose answer is lost: the outcome is looked up where possible; one that stays in doubt is never
//! reported as failed.

use serde_json::json;

use crate::db::Pool;
use crate::id::{InstanceId, LinkId, TenantId, WorkId};
use crate::store::event::{self, NewEvent};
use crate::store::link::LinkUse;
use crate::store::request::IdempotencyKey;
use crate::store::work::{self, AcceptedCancel, AcceptedResume};
use crate::testing::Proxy;
use crate::testing::store::{self, Fixture, burst, idempotency_key, waiting};

fn event(name: &str) -> NewEvent {
    NewEvent {
        payload: Some(json!(name)),
        ..store::event(name, 7)
    }
}

/// A pool of one connection, through a proxy.
async fn through(fixture: &Fixture) -> (Proxy, Pool) {
    let proxy = Proxy::start(fixture.server_port()).await;
    let pool = Pool::new(&fixture.through(proxy.port), 1).unwrap();
    (proxy, pool)
}

#[tokio::test]
async fn an_event_whose_answer_is_lost_is_published_once() {
    let fixture = Fixture::new().await;
    let class = fixture.base.schema().lock_class();
    let (proxy, pool) = through(&fixture).await;
    // So that its statements are prepared.
    assert!(!event::publish(&pool, class, &event("before")).await.unwrap().doubted);
    proxy.swallow_up_to_commit();
    let published = event::publish(&pool, class, &event("swallowed")).await.unwrap();
    assert!(published.doubted && !published.kept, "{published:?}");

    // The former backend continues after the second one has asked.
    let holder = fixture.session().await;
    let locks = "BEGIN; LOCK TABLE inbox IN ACCESS EXCLUSIVE MODE";
    holder.client.batch_execute(locks).await.unwrap();
    let publishes = tokio::spawn({
        let pool = pool.clone();
        async move { event::publish(&pool, class, &event("cut")).await }
    });
    fixture.so_many_wait(1).await;
    proxy.cut();
    fixture.so_many_wait(2).await;
    holder.client.batch_execute("ROLLBACK").await.unwrap();
    assert!(publishes.await.unwrap().unwrap().doubted);
    for name in ["before", "swallowed", "cut"] {
        let kept = format!("SELECT count(*) FROM inbox WHERE payload::text = '\"{name}\"'");
        assert_eq!(fixture.count(&kept).await, 1, "{name}");
    }
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_resume_whose_answer_is_lost_is_unknown_unless_its_key_resolves_it() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let (tenant, instance) = (TenantId::default(), InstanceId::new("i"));
    writer.commits(waiting(burst("i", None), "b", 7)).await;
    let (proxy, pool) = through(&fixture).await;
    let resume = async |request: Option<&IdempotencyKey>| {
        work::accept_resume(&pool, &tenant, &instance, &json!({}), request, None).await
    };
    let rows = async || fixture.count("SELECT count(*) FROM work").await;
    resume(None).await.unwrap();
    proxy.swallow_next_answer();
    let unknown = resume(None).await.unwrap_err();
    assert!(unknown.is_unknown_outcome() && !unknown.is_transient(), "{unknown}");
    assert_eq!(unknown.instance_id(), Some("i"));
    assert_eq!(rows().await, 2);

    resume(Some(&idempotency_key("resume", "before"))).await.unwrap();
    proxy.swallow_next_answer();
    let answer = resume(Some(&idempotency_key("resume", "k"))).await.unwrap();
    assert_eq!(rows().await, 4);
    let newest = WorkId(fixture.count("SELECT max(id) FROM work").await);
    assert_eq!(answer, AcceptedResume::New(newest));
    assert_eq!(
        resume(Some(&idempotency_key("resume", "k"))).await.unwrap(),
        AcceptedResume::Existing(Some(newest))
    );
    assert_eq!(rows().await, 4);
    // By a link: each is one use, and one entry of the audit.
    let by = LinkUse {
        id: LinkId(uuid::Uuid::from_u128(1)),
        key: 1,
        client: None,
    };
    let make = "INSERT INTO resume_link (id, tenant_id, instance_id, generation, bookmark_id, uses, uses_left, expires_at, signed_by)
                SELECT '00000000-0000-0000-0000-000000000001', '', 'i', (extract(epoch FROM created_at) * 1000000)::bigint, 'b', 2, 2,
                       now() + interval '1 day', 1 FROM instance";
    fixture.execute(make).await;
    let by_link = async || {
        let key = IdempotencyKey::random("link");
        work::accept_resume(&pool, &tenant, &instance, &json!({}), Some(&key), Some(&by)).await
    };
    // So that its statements are prepared.
    assert!(matches!(by_link().await.unwrap(), AcceptedResume::New(_)));
    proxy.swallow_next_answer();
    assert!(matches!(by_link().await.unwrap(), AcceptedResume::New(_)));
    assert_eq!(rows().await, 6);
    assert_eq!(fixture.count("SELECT uses_left::bigint FROM resume_link").await, 0);
    assert_eq!(fixture.count("SELECT count(*) FROM audit").await, 2);
    fixture.admin.client.execute("DELETE FROM work", &[]).await.unwrap();

    let cancel = async || work::accept_cancel(&pool, &tenant, &instance).await;
    assert!(matches!(cancel().await.unwrap(), AcceptedCancel::Accepted(_)));
    proxy.swallow_next_answer();
    assert!(cancel().await.unwrap_err().is_unknown_outcome());
    fixture.is_sound().await;
}
