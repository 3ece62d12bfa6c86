//! The kept events are weighed, and an event that may not be kept changes nothing.

use std::time::Duration;

use serde_json::Value;

use super::fan_out::{Crowd, HASH, event};
use crate::id::{StimulusHash, TenantId};
use crate::store::event::NewEvent;
use crate::store::inbox::{self, InboxBudget, InboxWeight, WEIGH};
use crate::store::maintenance;
use crate::testing::store;

const BUDGET: InboxBudget = InboxBudget {
    tenant: 3 << 20,
    stimulus: 1 << 20,
};

fn large(key: &str, hash: u8, bytes: usize) -> NewEvent {
    NewEvent {
        payload: Some(Value::String("x".repeat(bytes))),
        ..store::event(key, hash)
    }
}

impl Crowd {
    async fn weigh(&self) -> Vec<InboxWeight> {
        let mut weights = inbox::weigh(&self.writer.pool, BUDGET).await.unwrap();
        weights.sort_by_key(|weight| weight.hash);
        weights
    }
}

#[tokio::test]
async fn kept_events_weigh_their_payload_and_the_row() {
    let crowd = Crowd::new().await;
    assert_eq!(crowd.weigh().await, []);
    assert!(crowd.publish(&store::event("small", 1)).await.kept);
    let weights = crowd.weigh().await;
    let [all] = weights.as_slice() else {
        panic!("{weights:?}")
    };
    assert_eq!((all.hash, all.bytes, all.is_full), (None, 256, false));
    for n in 0..2 {
        assert!(crowd.publish(&large(&format!("a{n}"), HASH, 600_000)).await.kept);
    }
    let weights = crowd.weigh().await;
    let [all, name] = weights.as_slice() else {
        panic!("{weights:?}")
    };
    assert_eq!((all.bytes - name.bytes, all.is_full), (256, false));
    assert_eq!((name.hash, name.is_full), (Some(StimulusHash([HASH; 32])), true));
    assert!((1_200_512..1_200_600).contains(&name.bytes), "{name:?}");
    // Many names, none of which reaches its own budget, reach that of the tenant.
    for n in 0..2 {
        assert!(crowd.publish(&large(&format!("b{n}"), 20 + n, 1_000_000)).await.kept);
    }
    let weights = crowd.weigh().await;
    assert!(weights.iter().any(|of| of.hash.is_none() && of.is_full), "{weights:?}");
    assert_eq!(weights.len(), 2, "{weights:?}");
    // Room again.
    crowd.fixture.execute("UPDATE inbox SET expires_at = now()").await;
    maintenance::purge_expired(&crowd.writer.pool, maintenance::Retention::of(Duration::from_secs(60)))
        .await
        .unwrap();
    assert_eq!(crowd.weigh().await, []);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn without_room_only_an_event_that_nothing_waits_for_is_refused() {
    let crowd = Crowd::new().await;
    let refused = |key: &str| NewEvent {
        may_keep: false,
        ..event(key)
    };
    // It changes nothing: the same key is taken once there is room.
    let published = crowd.publish(&refused("k")).await;
    assert!(published.no_room && !published.kept);
    assert_eq!(crowd.fixture.count("SELECT count(*) FROM inbox").await, 0);
    assert_eq!(crowd.fixture.count("SELECT count(*) FROM idempotency_key").await, 0);
    let published = crowd.publish(&event("k")).await;
    assert!(published.kept && !published.no_room);
    // A repetition of what was accepted is no refusal.
    let published = crowd.publish(&refused("k")).await;
    assert!(!published.no_room && !published.kept);
    assert_eq!(crowd.fixture.count("SELECT count(*) FROM inbox").await, 1);
    // An event for which an instance waits is given to it.
    crowd.gather("i", 1, "e", None).await;
    let published = crowd.publish(&refused("waited")).await;
    assert_eq!((published.resumed, published.no_room), (1, false));
    assert_eq!(crowd.fixture.count("SELECT count(*) FROM work").await, 1);
    crowd.fixture.is_sound().await;
}

/// A fifth of the rows of the least weight that the default budget of a tenant has room for.
#[tokio::test]
async fn a_full_inbox_is_weighed_without_its_payloads() {
    let crowd = Crowd::new().await;
    crowd.fixture.execute("SET statement_timeout = '2min'").await;
    let fill = "INSERT INTO inbox (tenant_id, hash, name, payload, expires_at)
                SELECT '', sha256((n % 1000)::text::bytea), 'Elsa.Event', '{}', now() + interval '1 day'
                FROM generate_series(1, 200000) n";
    crowd.fixture.execute(fill).await;
    let large = "INSERT INTO inbox (tenant_id, hash, name, payload, expires_at)
                 SELECT '', sha256('large'), 'Elsa.Event', to_json(repeat('x', 950000)), now() + interval '1 day'
                 FROM generate_series(1, 20) n";
    crowd.fixture.execute(large).await;
    crowd.fixture.execute("VACUUM ANALYZE inbox").await;
    let weights = crowd.weigh().await;
    assert_eq!(weights.len(), 2);
    assert_eq!(weights[0].tenant, TenantId::default());
    let total = weights.iter().find(|of| of.hash.is_none()).map(|of| of.bytes);
    assert!(total.is_some_and(|bytes| bytes > 200_020 * 256), "{weights:?}");
    // The payloads, which are not read, take 2,400 pages.
    let explain =
        format!("PREPARE weigh AS {WEIGH}; EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE weigh(268435456, 67108864)");
    let messages = crowd.fixture.admin.client.simple_query(&explain).await.unwrap();
    let lines = messages.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: serde_json::Value = serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap();
    let read = |name: &str| plan[0]["Plan"][name].as_i64().unwrap();
    let pages = crowd.fixture.count("SELECT pg_relation_size('inbox') / 8192").await;
    let read = read("Shared Hit Blocks") + read("Shared Read Blocks");
    assert!(read < pages + 100, "{read} pages of a table of {pages}");
}
