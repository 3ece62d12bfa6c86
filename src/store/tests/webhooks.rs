//! The claims of sinks, and what is marked under them.

use std::time::Duration;

use uuid::Uuid;

use crate::id::TenantId;
use crate::store::commit::{DeliveryRow, Effects};
use crate::store::node::removal::RemovalCause;
use crate::store::webhook::delivery::{
    self, Attempt, DeliveryFilter, Marked, Retention, SinkClaim, SinkOutcome, SinkRoom,
};
use crate::store::webhook::sink::{self, SinkChange};
use crate::testing::store::{Fixture, Writer, burst};
use crate::webhook::{WebhookSecret, WebhookSink};

const KEPT: Retention = Retention {
    delivered: Duration::from_secs(60),
    dead: Duration::from_secs(60),
};

fn tenant() -> TenantId {
    TenantId::default()
}

async fn register(writer: &Writer, id: &str, types: &[&str]) {
    let mut made = WebhookSink::new(id, "https://crm.example", WebhookSecret::random());
    made.event_types = types.iter().map(|text| (*text).to_owned()).collect();
    sink::insert(&writer.pool, &tenant(), &made, false).await.unwrap();
}

/// Commits an instance that causes an event.
async fn commit(writer: &Writer, instance: &str, event_type: &str) -> Uuid {
    let id = Uuid::new_v4();
    let mut request = burst(instance, None);
    request.effects = Effects {
        deliveries: vec![DeliveryRow {
            id,
            event_type: event_type.to_owned(),
            payload: serde_json::json!({"of": instance}),
            ..DeliveryRow::default()
        }],
        ..request.effects
    };
    writer.commits(request).await;
    id
}

fn room(claim: SinkClaim, in_flight: &[Uuid]) -> SinkRoom {
    SinkRoom {
        claim,
        room: 10,
        in_flight: in_flight.to_vec(),
    }
}

/// The events that are due for a claimed sink; `None`: it must not be sent to.
async fn due(writer: &Writer, claim: SinkClaim, in_flight: &[Uuid]) -> Option<Vec<Uuid>> {
    let rooms = [room(claim, in_flight)];
    let found = delivery::due(&writer.pool, writer.incarnation, &rooms, 1 << 20)
        .await
        .unwrap();
    let of_sink = found.sinks.first()?;
    Some(of_sink.deliveries.iter().map(|delivery| delivery.id).collect())
}

async fn mark(writer: &Writer, claim: SinkClaim, outcome: SinkOutcome, id: Uuid, attempt: Attempt) {
    let marked = [Marked {
        sink: claim.number,
        id,
        attempt,
    }];
    delivery::complete(&writer.pool, writer.incarnation, &[(claim, outcome)], &marked, KEPT)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_event_is_written_for_the_sinks_that_want_it_and_only_by_a_burst_that_was_committed() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    register(&writer, "all", &[]).await;
    register(&writer, "tasks", &["Elsa.RunTask"]).await;
    commit(&writer, "i1", "Elsa.RunTask").await;
    commit(&writer, "i2", "WorkflowInstance.Started").await;
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_delivery").await, 3);
    // The id of an existing instance is taken: the burst loses, and writes no event.
    let mut lost = burst("i1", None);
    lost.effects.deliveries.push(DeliveryRow {
        id: Uuid::new_v4(),
        event_type: "Elsa.RunTask".to_owned(),
        ..DeliveryRow::default()
    });
    writer.write(lost).await;
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_delivery").await, 3);
    let change = SinkChange {
        event_types: Some(vec!["DeadLetter.Created".to_owned()]),
        ..SinkChange::default()
    };
    assert!(sink::update(&writer.pool, &tenant(), "all", &change).await.unwrap());
    assert!(sink::delete(&writer.pool, &tenant(), "tasks").await.unwrap());
    commit(&writer, "i3", "Elsa.RunTask").await;
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_delivery").await, 3);
}

#[tokio::test]
async fn one_node_has_a_sink_until_it_releases_it_or_is_removed() {
    let fixture = Fixture::new().await;
    let (one, two) = (fixture.writer().await, fixture.writer().await);
    register(&one, "crm", &[]).await;
    assert!(
        delivery::claim(&one.pool, one.incarnation).await.unwrap().is_empty(),
        "nothing is due"
    );
    let id = commit(&one, "i1", "Elsa.RunTask").await;
    let claims = delivery::claim(&one.pool, one.incarnation).await.unwrap();
    let [claim] = claims[..] else { panic!("{claims:?}") };
    assert!(delivery::claim(&two.pool, two.incarnation).await.unwrap().is_empty());
    assert_eq!(due(&one, claim, &[]).await, Some(vec![id]));
    assert_eq!(due(&one, claim, &[id]).await, Some(vec![]), "it is in flight");
    assert_eq!(due(&two, claim, &[]).await, None);
    fixture.remove(one.incarnation, RemovalCause::Replaced).await;
    let claims = delivery::claim(&two.pool, two.incarnation).await.unwrap();
    let [again] = claims[..] else { panic!("{claims:?}") };
    assert!(again.claim_no > claim.claim_no);
    // What the removed node has sent is sent again: it marks nothing any more.
    assert_eq!(due(&one, claim, &[]).await, None);
    mark(&one, claim, SinkOutcome::Takes, id, Attempt::Delivered(200)).await;
    assert_eq!(due(&two, again, &[]).await, Some(vec![id]));
    mark(&two, again, SinkOutcome::Takes, id, Attempt::Delivered(200)).await;
    assert_eq!(due(&two, again, &[]).await, Some(vec![]));
    delivery::release(&two.pool, two.incarnation, &[again]).await.unwrap();
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM webhook_sink WHERE claimed_by IS NOT NULL")
            .await,
        0
    );
}

#[tokio::test]
async fn a_sink_that_fails_rests_and_what_is_too_old_is_given_up_and_replayed() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    register(&writer, "crm", &[]).await;
    let id = commit(&writer, "i1", "Elsa.RunTask").await;
    let claim = delivery::claim(&writer.pool, writer.incarnation).await.unwrap()[0];
    let failed = |pause: u64| Attempt::Failed {
        status: Some(500),
        error: "no".to_owned(),
        pause: Duration::from_secs(pause),
    };
    let fails = || SinkOutcome::Fails {
        pause: Duration::from_secs(3600),
        note: "no".to_owned(),
    };
    mark(&writer, claim, fails(), id, failed(0)).await;
    assert_eq!(due(&writer, claim, &[]).await, None, "it rests");
    // A second round that was sent before counts once.
    mark(&writer, claim, fails(), id, failed(0)).await;
    let shown = sink::show(&writer.pool, &tenant(), Some("crm")).await.unwrap();
    assert_eq!(
        (shown[0].failures, shown[0].note.as_deref(), shown[0].pending),
        (1, Some("no"), 1)
    );
    delivery::release(&writer.pool, writer.incarnation, &[claim])
        .await
        .unwrap();
    assert!(
        delivery::claim(&writer.pool, writer.incarnation)
            .await
            .unwrap()
            .is_empty()
    );
    fixture.execute("UPDATE webhook_sink SET retry_at = now()").await;
    let claim = delivery::claim(&writer.pool, writer.incarnation).await.unwrap()[0];
    // The next attempt would come too late.
    mark(&writer, claim, fails(), id, failed(4 * 24 * 3600)).await;
    let of = tenant();
    let dead = || delivery::list(&writer.pool, &of, DeliveryFilter::DeadFor("crm"), None, 10);
    let list = dead().await.unwrap();
    assert_eq!((list.len(), list[0].id, list[0].attempts), (1, id, 3));
    let replayed = delivery::replay(&writer.pool, &tenant(), "crm", Some(id), 1)
        .await
        .unwrap();
    assert_eq!(replayed, Some(1));
    assert_eq!(
        delivery::replay(&writer.pool, &tenant(), "none", None, 1)
            .await
            .unwrap(),
        None
    );
    assert!(dead().await.unwrap().is_empty());
    // What waits behind a sink that is down is given up when its time is over, and purged later.
    fixture
        .execute("UPDATE webhook_delivery SET expires_at = now() - interval '1 second'")
        .await;
    delivery::expire(&writer.pool, Duration::from_secs(60)).await.unwrap();
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM webhook_delivery WHERE state = 2")
            .await,
        1
    );
    fixture
        .execute("UPDATE webhook_delivery SET expires_at = now() - interval '1 second'")
        .await;
    delivery::expire(&writer.pool, Duration::from_secs(60)).await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_delivery").await, 0);
}

#[tokio::test]
async fn a_sink_that_is_gone_gives_up_what_is_pending() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    register(&writer, "crm", &[]).await;
    let first = commit(&writer, "i1", "Elsa.RunTask").await;
    commit(&writer, "i2", "Elsa.RunTask").await;
    let claim = delivery::claim(&writer.pool, writer.incarnation).await.unwrap()[0];
    let (before, _) = sink::list(&writer.pool).await.unwrap();
    mark(&writer, claim, SinkOutcome::Gone, first, Attempt::Gone).await;
    let (after, sinks) = sink::list(&writer.pool).await.unwrap();
    assert!(after > before && sinks.is_empty(), "the nodes learn of it");
    delivery::expire(&writer.pool, Duration::from_secs(60)).await.unwrap();
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM webhook_delivery WHERE state = 2")
            .await,
        2
    );
    commit(&writer, "i3", "Elsa.RunTask").await;
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_delivery").await, 2);
    let change = SinkChange {
        paused: Some(false),
        ..SinkChange::default()
    };
    assert!(sink::update(&writer.pool, &tenant(), "crm", &change).await.unwrap());
    assert_eq!(sink::list(&writer.pool).await.unwrap().1.len(), 1);
}
