//! Events: how many bookmarks receive them at once, whom they are for, and how long their keys are remembered.

use std::time::Duration;

use serde_json::Value;

use super::fan_out::{Crowd, HASH, MANY, event};
use crate::id::{InstanceId, TenantId};
use crate::store::dead_letter::stimulus;
use crate::store::event::NewEvent;
use crate::store::fan_out::{FanOutStep, MAX_DIRECT_BYTES};
use crate::store::instance::delete::delete;
use crate::store::maintenance;
use crate::store::request::IdempotencyKey;
use crate::testing::store::{burst, waiting};

const LIFETIME: Duration = Duration::from_secs(60);

/// An event with a payload of so many bytes.
fn large(key: &str, bytes: usize) -> NewEvent {
    NewEvent {
        payload: Some(Value::String("x".repeat(bytes))),
        ..event(key)
    }
}

/// The bytes of all rows of work, as they are stored.
const COPIED: &str = "SELECT coalesce(sum(pg_column_size(body)), 0)::bigint FROM work";

#[tokio::test]
async fn an_event_whose_copies_take_many_bytes_is_given_page_by_page() {
    let crowd = Crowd::of(50).await;
    assert_eq!(crowd.publish(&event("small")).await.resumed, 50);
    // As many copies as fit.
    assert_eq!(crowd.publish(&large("fits", 330_000)).await.resumed, 50);
    crowd.fixture.execute("DELETE FROM work").await;
    crowd.defers(&large("large", 1 << 20)).await;
    crowd.finish().await;
    crowd.assert_each_once(50).await;
    assert!(crowd.fixture.count(COPIED).await < 1 << 20);
    // One copy is always made.
    let mut targeted = large("targeted", 10 << 20);
    targeted.instance = Some(InstanceId::new("i7"));
    assert_eq!(crowd.publish(&targeted).await.resumed, 1);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn ten_megabytes_for_a_thousand_bookmarks_are_accepted_once_and_kept_once() {
    let crowd = Crowd::of(MANY).await;
    let large = large("a", 10 << 20);
    let id = crowd.defers(&large).await;
    assert!(crowd.publish(&large).await.fan_out.is_none(), "once under its key");
    crowd.finish().await;
    crowd.assert_each_once(MANY).await;
    let kept = format!("SELECT count(*) FROM fan_out WHERE id = {id} AND octet_length(payload::text) > 10000000");
    assert_eq!(crowd.fixture.count(&kept).await, 1);
    assert_eq!(crowd.fixture.count("SELECT count(*) FROM fan_out").await, 1);
    assert!(crowd.fixture.count(COPIED).await < 1 << 20);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn the_replay_of_a_large_event_is_given_page_by_page_too() {
    let crowd = Crowd::new().await;
    let mut kept = large("a", 1 << 20);
    kept.correlation_id = Some("order".to_owned());
    assert!(crowd.publish(&kept).await.kept);
    crowd.fixture.execute("UPDATE inbox SET expires_at = now()").await;
    maintenance::purge_expired(&crowd.writer.pool, maintenance::Retention::of(LIFETIME))
        .await
        .unwrap();
    crowd.gather("i", 50, "e", Some("order")).await;
    let id = crowd.writer.dead_letters().await[0].id;
    let (pool, tenant) = (&crowd.writer.pool, TenantId::default());
    let replayed = stimulus::replay(pool, crowd.class, &tenant, id, LIFETIME).await;
    assert!(replayed.unwrap().unwrap().published.unwrap().fan_out.is_some());
    crowd.finish().await;
    crowd.assert_each_once(50).await;
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn the_id_of_an_activity_execution_names_its_instance() {
    let crowd = Crowd::new().await;
    for instance in ["i1", "i2"] {
        let mut request = waiting(burst(instance, None), "b", HASH);
        request.effects.bookmarks_made[0].activity_execution_id = format!("{instance}:7");
        crowd.writer.commits(request).await;
    }
    let execution = |key: &str, id: &str| NewEvent {
        activity_execution_id: Some(id.to_owned()),
        ..event(key)
    };
    assert_eq!(crowd.publish(&execution("fits", "i1:7")).await.resumed, 1);
    let of = "SELECT count(*) FROM work WHERE instance_id = 'i1'";
    assert_eq!(crowd.fixture.count(of).await, 1);
    // Another execution, another instance than that of the execution, and texts that are no ids of an execution.
    let mut other = execution("other", "i1:7");
    other.instance = Some(InstanceId::new("i2"));
    assert!(crowd.publish(&other).await.kept);
    for id in ["i1:8", "i1:07", "i1", ":7", "i3:7"] {
        assert!(crowd.publish(&execution(id, id)).await.kept, "{id}");
    }
    assert_eq!(crowd.rows().await, 1);
    let targets = "SELECT string_agg(coalesce(instance_id, '-'), ',' ORDER BY id) FROM inbox";
    let targets: String = crowd.fixture.admin.client.query_one(targets, &[]).await.unwrap().get(0);
    assert_eq!(targets, "i2,i1,-,-,-,i3");
    // An instance that begins to wait takes what is for its execution; one that is deleted takes it along.
    let mut request = waiting(burst("i3", None), "b", HASH);
    request.effects.bookmarks_made[0].activity_execution_id = "i3:7".to_owned();
    crowd.writer.commits(request).await;
    assert_eq!(crowd.rows().await, 2);
    let deleted = delete(&crowd.writer.pool, &TenantId::default(), &InstanceId::new("i1")).await;
    assert!(deleted.unwrap().is_some());
    assert_eq!(crowd.fixture.count("SELECT count(*) FROM inbox").await, 4);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn an_empty_correlation_id_is_one() {
    let crowd = Crowd::new().await;
    let named = |key: &str, id: &str| NewEvent {
        correlation_id: Some(id.to_owned()),
        ..event(key)
    };
    crowd.writer.commits(waiting(burst("none", None), "b", HASH)).await;
    assert!(crowd.publish(&named("early", "")).await.kept);
    let mut request = waiting(burst("empty", None), "b", HASH);
    request.effects.correlation_id = Some(String::new());
    crowd.writer.commits(request).await;
    crowd.assert_each_once(1).await;
    assert!(crowd.publish(&named("other", "order")).await.kept);
    assert_eq!(crowd.publish(&named("late", "")).await.resumed, 1);
    let of = "SELECT count(*) FROM work WHERE instance_id = 'empty'";
    assert_eq!(crowd.fixture.count(of).await, 2);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_for_an_instance_that_is_deleted_meanwhile_ends_with_it() {
    let crowd = Crowd::of(2).await;
    crowd.bookmarks("i1", MANY, "g").await;
    let targeted = |key: &str| NewEvent {
        instance: Some(InstanceId::new("i1")),
        ..event(key)
    };
    crowd.defers(&targeted("a")).await;
    crowd.defers(&targeted("b")).await;
    crowd.step().await;
    assert!(matches!(crowd.step().await, FanOutStep::Paged { resumed: 500, .. }));
    // The first is halfway, the second had no turn.
    let deletes = async || delete(&crowd.writer.pool, &TenantId::default(), &InstanceId::new("i1")).await;
    assert!(deletes().await.unwrap().is_some());
    crowd.finish().await;
    assert_eq!(crowd.rows().await, 0);
    // What nothing waited for at its turn is kept, as any event is, until it expires.
    let kept = "SELECT count(*) FROM inbox WHERE instance_id = 'i1'";
    assert_eq!(crowd.fixture.count(kept).await, 1);
    crowd.fixture.is_sound().await;
    crowd.fixture.execute("UPDATE inbox SET expires_at = now()").await;
    maintenance::purge_expired(&crowd.writer.pool, maintenance::Retention::of(LIFETIME))
        .await
        .unwrap();
    assert_eq!(crowd.writer.dead_letters().await.len(), 1);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn a_key_is_remembered_while_its_retry_can_come() {
    let crowd = Crowd::new().await;
    let mut random = event("r");
    random.request = IdempotencyKey::random("event");
    random.correlation_id = Some("order".to_owned());
    assert!(crowd.publish(&random).await.kept);
    let mut given = event("client");
    given.request.fingerprint = vec![1; 32];
    assert!(crowd.publish(&given).await.kept);
    let seconds = |which: &str| {
        format!(
            "SELECT round(extract(epoch FROM max(expires_at) - now()) / 10)::bigint * 10 FROM idempotency_key WHERE {which}"
        )
    };
    assert_eq!(crowd.fixture.count(&seconds("key LIKE '~%'")).await, 60);
    assert_eq!(crowd.fixture.count(&seconds("key = 'client'")).await, 24 * 60 * 60);
    // The dead letter itself keeps a replay from being published twice.
    let expire = "UPDATE inbox SET expires_at = now() WHERE correlation_id IS NOT NULL";
    crowd.fixture.execute(expire).await;
    let (pool, tenant) = (&crowd.writer.pool, TenantId::default());
    maintenance::purge_expired(pool, maintenance::Retention::of(LIFETIME))
        .await
        .unwrap();
    let id = crowd.writer.dead_letters().await[0].id;
    let replays = async || {
        stimulus::replay(pool, crowd.class, &tenant, id, LIFETIME)
            .await
            .unwrap()
    };
    assert!(replays().await.unwrap().published.unwrap().kept);
    assert_eq!(crowd.fixture.count(&seconds("route = 'replay'")).await, 60);
    assert!(replays().await.is_none());
    crowd
        .fixture
        .execute("UPDATE idempotency_key SET expires_at = expires_at - interval '61 seconds'")
        .await;
    maintenance::purge_expired(pool, maintenance::Retention::of(LIFETIME))
        .await
        .unwrap();
    let left = "SELECT count(*) FROM idempotency_key WHERE key <> 'client'";
    assert_eq!(crowd.fixture.count(left).await, 0);
    assert!(replays().await.is_none());
    assert!(!crowd.publish(&given).await.kept, "the client's key is remembered");
    assert_eq!(crowd.fixture.count("SELECT count(*) FROM inbox").await, 2);
    crowd.fixture.is_sound().await;
}

/// How long the server takes for a targeted event, the median of nine: what it costs beside other bookmarks of the instance.
#[tokio::test]
async fn an_event_for_an_instance_reads_only_the_bookmarks_that_wait_for_it() {
    let crowd = Crowd::of(1).await;
    // Of another stimulus each.
    let others =
        "INSERT INTO bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash,
                                        payload, publishable)
        SELECT '', 'i1', 'z' || n, 'a', 'w:a', 'i1:' || n, 'Elsa.Event', sha256(n::text::bytea), '{}', true
        FROM generate_series(1, 5000) n";
    crowd.fixture.execute(others).await;
    crowd.fixture.execute("ANALYZE bookmark").await;
    let client = &crowd.fixture.admin.client;
    let text = crate::store::event::PUBLISHES[2].as_str();
    let mut times = Vec::new();
    let mut pages = 0;
    for n in 0..9 {
        let explain = format!(
            "DEALLOCATE ALL; SET plan_cache_mode = force_generic_plan; PREPARE p AS {text};
             EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
             EXECUTE p('', 'event', 'k{n}', '', decode(repeat('0{HASH}', 32), 'hex'), 'Elsa.Event', '{{}}', null, 'i1', null,
                       1000000, 1000, 60000000, {MAX_DIRECT_BYTES}, true, null)"
        );
        let messages = client.simple_query(&explain).await.unwrap();
        let lines = messages.iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let plan: Value = serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap();
        times.push(plan[0]["Execution Time"].as_f64().unwrap());
        pages = plan[0]["Plan"]["Shared Hit Blocks"].as_i64().unwrap();
    }
    times.sort_by(f64::total_cmp);
    println!("{} ms, {pages} pages", times[4]);
    assert_eq!(crowd.rows().await, 9);
    assert!(pages < 60, "{pages} pages of an instance with 5,000 bookmarks");
}
