//! The claims of sinks, and what is marked under them.

use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use uuid::Uuid;

use crate::id::TenantId;
use crate::store::commit::{DeliveryRow, Effects};
use crate::store::node::removal::RemovalCause;
use crate::store::webhook::delivery::{
    self, Attempt, DeliveryFilter, Marked, Replayed, Retention, SinkClaim, SinkOutcome, SinkRoom,
};
use crate::store::webhook::sink;
use crate::testing::store::{Fixture, Writer, burst};
use crate::webhook::{WebhookSecret, WebhookSink, WebhookSinkChange};

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
async fn commit(writer: &Writer, instance: &str, event_type: &'static str) -> Uuid {
    let id = Uuid::new_v4();
    let mut request = burst(instance, None);
    request.effects = Effects {
        deliveries: vec![DeliveryRow {
            id,
            event_type,
            payload: format!(r#"{{"of":"{instance}"}}"#),
            ..DeliveryRow::default()
        }],
        ..request.effects
    };
    writer.commits(request).await;
    id
}

/// Claims sinks as a node that holds none.
async fn claimed(writer: &Writer) -> Vec<SinkClaim> {
    delivery::claim(&writer.pool, writer.incarnation, &[]).await.unwrap()
}

fn room(claim: SinkClaim, in_flight: &[Uuid]) -> SinkRoom {
    SinkRoom {
        claim,
        room: 10,
        bytes: 1 << 20,
        in_flight: in_flight.to_vec(),
        since: None,
    }
}

/// The events that are due for a claimed sink; `None`: it must not be sent to.
async fn due(writer: &Writer, claim: SinkClaim, in_flight: &[Uuid]) -> Option<Vec<Uuid>> {
    let rooms = [room(claim, in_flight)];
    let found = delivery::due(&writer.pool, writer.incarnation, &rooms).await.unwrap();
    let of_sink = found.sinks.first()?;
    Some(of_sink.deliveries.iter().map(|delivery| delivery.id).collect())
}

async fn mark(writer: &Writer, claim: SinkClaim, outcome: SinkOutcome, id: Uuid, attempt: Attempt) {
    let of_event = "SELECT instance_id FROM webhook_delivery WHERE id = $1";
    let row = writer.pool.query_opt(of_event, &[&id]).await.unwrap();
    let marked = [Marked {
        sink: claim.number,
        instance: row.map_or_else(String::new, |row| row.get("instance_id")),
        id,
        attempt,
    }];
    delivery::complete(
        &writer.pool,
        writer.incarnation,
        &[(claim, outcome)],
        marked.iter(),
        KEPT,
    )
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
        event_type: "Elsa.RunTask",
        payload: "{}".to_owned(),
        ..DeliveryRow::default()
    });
    writer.write(lost).await;
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_delivery").await, 3);
    let change = WebhookSinkChange {
        event_types: Some(vec!["DeadLetter.Created".to_owned()]),
        ..WebhookSinkChange::default()
    };
    assert!(
        sink::update(&writer.pool, &tenant(), "all", &change, None)
            .await
            .unwrap()
    );
    assert!(sink::delete(&writer.pool, &tenant(), "tasks").await.unwrap());
    commit(&writer, "i3", "Elsa.RunTask").await;
    assert_eq!(fixture.count("SELECT count(*) FROM webhook_delivery").await, 3);
}

#[tokio::test]
async fn one_node_has_a_sink_until_it_releases_it_or_is_removed() {
    let fixture = Fixture::new().await;
    let (one, two) = (fixture.writer().await, fixture.writer().await);
    register(&one, "crm", &[]).await;
    assert!(claimed(&one).await.is_empty(), "nothing is due");
    let id = commit(&one, "i1", "Elsa.RunTask").await;
    let claims = claimed(&one).await;
    let [claim] = claims[..] else { panic!("{claims:?}") };
    assert!(claimed(&two).await.is_empty());
    assert_eq!(due(&one, claim, &[]).await, Some(vec![id]));
    assert_eq!(due(&one, claim, &[id]).await, Some(vec![]), "it is in flight");
    assert_eq!(due(&two, claim, &[]).await, None);
    fixture.remove(one.incarnation, RemovalCause::Replaced).await;
    let claims = claimed(&two).await;
    let [again] = claims[..] else { panic!("{claims:?}") };
    assert!(again.claim_no > claim.claim_no);
    // What the removed node has sent is sent again: it marks nothing any more.
    assert_eq!(due(&one, claim, &[]).await, None);
    mark(&one, claim, SinkOutcome::Takes, id, Attempt::Delivered(200)).await;
    assert_eq!(due(&two, again, &[]).await, Some(vec![id]));
    mark(&two, again, SinkOutcome::Takes, id, Attempt::Delivered(200)).await;
    assert_eq!(due(&two, again, &[]).await, Some(vec![]));
    let without_payload = "SELECT count(*) FROM webhook_delivery WHERE state = 1 AND payload IS NULL";
    assert_eq!(fixture.count(without_payload).await, 1, "nothing sends it again");
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
    let claim = claimed(&writer).await[0];
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
        (1, Some("no"), Some(1))
    );
    delivery::release(&writer.pool, writer.incarnation, &[claim])
        .await
        .unwrap();
    assert!(claimed(&writer).await.is_empty());
    fixture.execute("UPDATE webhook_sink SET retry_at = now()").await;
    let claim = claimed(&writer).await[0];
    // The next attempt would come too late.
    mark(&writer, claim, fails(), id, failed(4 * 24 * 3600)).await;
    let of = tenant();
    let dead = || delivery::list(&writer.pool, &of, DeliveryFilter::DeadFor("crm"), None, 10);
    let list = dead().await.unwrap();
    assert_eq!((list.len(), list[0].id, list[0].attempts), (1, id, 3));
    let replayed = delivery::replay(&writer.pool, &tenant(), "crm", Some(id), 1)
        .await
        .unwrap();
    assert_eq!(replayed, Replayed::Dead(1));
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM webhook_delivery WHERE payload IS NOT NULL")
            .await,
        1
    );
    assert_eq!(
        delivery::replay(&writer.pool, &tenant(), "none", None, 1)
            .await
            .unwrap(),
        Replayed::NoSink
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
    let second = commit(&writer, "i2", "Elsa.RunTask").await;
    let claim = claimed(&writer).await[0];
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
    let replayed = delivery::replay(&writer.pool, &tenant(), "crm", None, 9).await.unwrap();
    assert_eq!(replayed, Replayed::Disabled);
    // Answers that come after it change nothing of that, but what has arrived is delivered.
    let fails = SinkOutcome::Fails {
        pause: Duration::ZERO,
        note: "late".to_owned(),
    };
    mark(&writer, claim, fails, Uuid::new_v4(), Attempt::Delivered(200)).await;
    mark(&writer, claim, SinkOutcome::Takes, second, Attempt::Delivered(200)).await;
    assert!(
        sink::list(&writer.pool).await.unwrap().1.is_empty(),
        "it is still disabled"
    );
    let shown = sink::show(&writer.pool, &tenant(), Some("crm")).await.unwrap();
    assert!(shown[0].disabled_at.is_some() && shown[0].note.as_deref().unwrap().contains("410"));
    let delivered = "SELECT count(*) FROM webhook_delivery WHERE state = 1";
    assert_eq!(fixture.count(delivered).await, 1);
    let change = WebhookSinkChange {
        paused: Some(false),
        ..WebhookSinkChange::default()
    };
    assert!(
        sink::update(&writer.pool, &tenant(), "crm", &change, None)
            .await
            .unwrap()
    );
    assert_eq!(sink::list(&writer.pool).await.unwrap().1.len(), 1);
}

#[tokio::test]
async fn an_answer_that_a_sink_is_gone_and_a_change_of_it_lock_in_one_order() {
    let fixture = Fixture::new().await;
    let writer = Arc::new(fixture.writer().await);
    register(&writer, "crm", &[]).await;
    let id = commit(&writer, "i1", "Elsa.RunTask").await;
    let claim = claimed(&writer).await[0];
    // The answer has what it locks first, and waits for the sink; the change comes behind it.
    let gate = fixture.begin("SELECT 1 FROM webhook_sink FOR UPDATE").await;
    let marking = Arc::clone(&writer);
    let marks = tokio::spawn(async move {
        mark(&marking, claim, SinkOutcome::Gone, id, Attempt::Gone).await;
    });
    fixture.so_many_wait(1).await;
    let changing = Arc::clone(&writer);
    let changes = tokio::spawn(async move {
        let change = WebhookSinkChange {
            name: Some(Some("CRM".to_owned())),
            ..WebhookSinkChange::default()
        };
        sink::update(&changing.pool, &tenant(), "crm", &change, None).await
    });
    fixture.so_many_wait(2).await;
    crate::testing::store::execute(&gate, "ROLLBACK").await;
    marks.await.unwrap();
    assert!(changes.await.unwrap().unwrap());
    let shown = sink::show(&writer.pool, &tenant(), Some("crm")).await.unwrap();
    assert!(shown[0].disabled_at.is_some() && shown[0].name.as_deref() == Some("CRM"));
    fixture.is_sound().await;
}

#[tokio::test]
async fn an_answer_from_a_former_url_disables_nothing_and_another_url_enables() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    register(&writer, "crm", &[]).await;
    let first = commit(&writer, "i1", "Elsa.RunTask").await;
    let moves = async |url: &str| {
        let change = WebhookSinkChange {
            url: Some(url.to_owned()),
            ..WebhookSinkChange::default()
        };
        assert!(
            sink::update(&writer.pool, &tenant(), "crm", &change, None)
                .await
                .unwrap()
        );
    };
    let before = claimed(&writer).await[0];
    moves("http://moved.example/hooks").await;
    mark(&writer, before, SinkOutcome::Gone, first, Attempt::Gone).await;
    assert_eq!(sink::list(&writer.pool).await.unwrap().1.len(), 1, "it has moved");
    let now = claimed(&writer).await[0];
    assert!(now.claim_no > before.claim_no);
    mark(&writer, now, SinkOutcome::Gone, first, Attempt::Gone).await;
    assert!(sink::list(&writer.pool).await.unwrap().1.is_empty());
    moves("http://again.example/hooks").await;
    let shown = sink::show(&writer.pool, &tenant(), Some("crm")).await.unwrap();
    assert!(shown[0].disabled_at.is_none() && shown[0].note.is_none());
    fixture.is_sound().await;
}

#[tokio::test]
async fn a_read_does_not_walk_over_what_is_due_before_its_begin() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    register(&writer, "crm", &[]).await;
    let early = commit(&writer, "i1", "Elsa.RunTask").await;
    fixture
        .execute("UPDATE webhook_delivery SET due_at = now() - interval '1 hour'")
        .await;
    let late = commit(&writer, "i2", "Elsa.RunTask").await;
    let claim = claimed(&writer).await[0];
    let read = async |since: Option<TimeDelta>| {
        let rooms = [SinkRoom {
            since: since.map(|before| Utc::now() - before),
            ..room(claim, &[])
        }];
        let found = delivery::due(&writer.pool, writer.incarnation, &rooms).await.unwrap();
        let of_sink = found.sinks[0].deliveries.iter();
        of_sink.map(|delivery| delivery.id).collect::<Vec<_>>()
    };
    assert_eq!(read(Some(TimeDelta::minutes(30))).await, [late]);
    assert_eq!(read(Some(TimeDelta::minutes(90))).await, [early, late]);
    assert_eq!(read(None).await, [early, late]);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_made_again() {
    let fixture = Fixture::new().await;
    let (one, two) = (fixture.writer().await, fixture.writer().await);
    register(&one, "crm", &[]).await;
    let id = commit(&one, "i1", "Elsa.RunTask").await;
    let lost = claimed(&one).await[0];
    assert!(claimed(&two).await.is_empty());
    let again = claimed(&one).await[0];
    assert_eq!((again.number, again.claim_no), (lost.number, lost.claim_no + 1));
    assert_eq!(due(&one, lost, &[]).await, None, "the lost one is fenced");
    assert_eq!(due(&one, again, &[]).await, Some(vec![id]));
    // What it knows that it holds is not claimed.
    let held = delivery::claim(&one.pool, one.incarnation, &[again.number])
        .await
        .unwrap();
    assert!(held.is_empty());
}

#[tokio::test]
async fn a_pause_that_a_sink_asked_for_is_not_ended_by_what_it_took_before() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    register(&writer, "crm", &[]).await;
    let (first, second) = (
        commit(&writer, "i1", "Elsa.RunTask").await,
        commit(&writer, "i2", "Elsa.RunTask").await,
    );
    let claim = claimed(&writer).await[0];
    let fails = SinkOutcome::Fails {
        pause: Duration::from_secs(600),
        note: "busy".to_owned(),
    };
    let failed = Attempt::Failed {
        status: Some(429),
        error: "busy".to_owned(),
        pause: Duration::ZERO,
    };
    mark(&writer, claim, fails, first, failed.clone()).await;
    mark(&writer, claim, SinkOutcome::Takes, second, Attempt::Delivered(200)).await;
    assert_eq!(due(&writer, claim, &[]).await, None, "it rests");
    let delivered = "SELECT count(*) FROM webhook_delivery WHERE state = 1";
    assert_eq!(fixture.count(delivered).await, 1);
    // A refusal is the delivery's own.
    fixture
        .execute("UPDATE webhook_sink SET retry_at = now(), failures = 0")
        .await;
    let refused = Attempt::Failed {
        status: Some(422),
        error: "no".to_owned(),
        pause: Duration::from_secs(60),
    };
    mark(&writer, claim, SinkOutcome::Refuses, first, refused).await;
    assert_eq!(due(&writer, claim, &[]).await, Some(vec![]), "only the delivery waits");
    let shown = sink::show(&writer.pool, &tenant(), Some("crm")).await.unwrap();
    assert_eq!(shown[0].failures, 0);
}

#[tokio::test]
async fn the_settings_change_their_sinks_and_nothing_of_how_they_fare() {
    let fixture = Fixture::new().await;
    let writer = fixture.writer().await;
    let made = |id: &str| WebhookSink::new(id, "https://crm.example", WebhookSecret::random());
    let configure = async |sinks: &[WebhookSink]| sink::configure(&writer.pool, &tenant(), sinks).await.unwrap();
    let (mut one, two) = (made("one"), made("two"));
    assert!(configure(&[one.clone(), two.clone()]).await.is_empty());
    // As many as there may be: those of the settings can still begin.
    fixture
        .execute(
            "INSERT INTO webhook_sink (tenant_id, id, url, event_types, definitions, secret, retry_for)
             SELECT '', 's' || n, 'https://crm.example', '{}', '{}', 'x', '1 day' FROM generate_series(1, 98) n;
             UPDATE webhook_sink SET failures = 3, note = 'down', retry_at = now() + interval '1 hour'",
        )
        .await;
    let old = one.secret.clone();
    one.secret = WebhookSecret::random();
    configure(&[one.clone(), two.clone()]).await;
    let shown = async |id: &'static str| sink::show(&writer.pool, &tenant(), Some(id)).await.unwrap().remove(0);
    let of_one = shown("one").await;
    assert_eq!((of_one.failures, of_one.note.as_deref()), (3, Some("down")));
    let (_, sinks) = sink::list(&writer.pool).await.unwrap();
    let listed = sinks.iter().find(|sink| sink.id == "one").unwrap();
    assert_eq!(listed.secret, one.secret);
    assert_eq!(listed.previous.as_ref().map(|(secret, _)| secret), Some(&old));
    // One that has left the settings waits, and can be deleted; one that comes back is sent to.
    commit(&writer, "i1", "Elsa.RunTask").await;
    assert_eq!(configure(std::slice::from_ref(&one)).await, ["two"]);
    let left = shown("two").await;
    assert!(left.paused && !left.is_configured && left.note.is_some());
    assert_eq!(left.pending, Some(1));
    configure(&[one.clone(), two]).await;
    let back = shown("two").await;
    assert!(!back.paused && back.is_configured && back.note.is_none());
    configure(&[one]).await;
    assert!(sink::delete(&writer.pool, &tenant(), "two").await.unwrap());
    assert!(!sink::delete(&writer.pool, &tenant(), "one").await.unwrap());
}
