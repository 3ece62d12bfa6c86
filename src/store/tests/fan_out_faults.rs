//! Fan-outs whose pages or rows fail, and what the check reports of them.

use std::time::Duration;

use serde_json::json;

use super::definitions::trigger;
use super::fan_out::{Crowd, HASH, MANY, event, loops};
use crate::db::Pool;
use crate::id::{FanOutId, InstanceId, TenantId};
use crate::store::check;
use crate::store::claim::{self, ClaimBounds, InstanceKey, Release, ReleaseCause};
use crate::store::commit::{Claim, WaitingBookmark};
use crate::store::dead_letter::{self, stimulus};
use crate::store::event::NewEvent;
use crate::store::fan_out::{self, FanOutPage, FanOutStep, FanOutTurn};
use crate::store::node::removal::RemovalCause;
use crate::testing::store::{burst, waiting};

const REFUSE: &str = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''23000''; END';
    CREATE TRIGGER refuse BEFORE INSERT ON work FOR EACH ROW WHEN (NEW.instance_id = 'i777' AND NEW.fan_out IS NOT NULL)
        EXECUTE FUNCTION refuse()";

#[tokio::test]
async fn a_bookmark_that_cannot_be_resumed_becomes_a_dead_letter_and_all_others_go_on() {
    let crowd = Crowd::of(MANY).await;
    let id = crowd.defers(&event("a")).await;
    crowd.fixture.execute(REFUSE).await;
    let step =
        async |page: FanOutPage| fan_out::step(&crowd.writer.pool, crowd.class, FanOutId(0), &[], |_| page).await;
    step(FanOutPage::Rows(500)).await.unwrap();
    step(FanOutPage::Rows(500)).await.unwrap();
    let failed = step(FanOutPage::Rows(500)).await.unwrap_err();
    assert_eq!((failed.fan_out, failed.at_page), (Some(id), true));
    assert!(!failed.error.is_transient(), "{}", failed.error);
    assert_eq!(crowd.rows().await, 500, "a page is written whole or not at all");
    step(FanOutPage::Rows(276)).await.unwrap();
    step(FanOutPage::Rows(1)).await.unwrap_err();
    let (_, step) = step(FanOutPage::RowOrDeadLetter).await.unwrap();
    let expected = FanOutStep::Paged {
        resumed: 0,
        dead_letters: 1,
    };
    assert_eq!(step, expected);
    crowd.finish().await;
    crowd.assert_each_once(MANY - 1).await;
    let found = crowd.writer.dead_letters().await;
    assert_eq!((found.len(), &found[0].body["payload"]["said"]), (1, &json!("a")));
    assert_eq!(found[0].instance, Some(InstanceId::new("i777")));
    assert!(found[0].reason.contains("no"), "{}", found[0].reason);
    crowd.fixture.is_sound().await;
    let (pool, tenant) = (&crowd.writer.pool, TenantId::default());
    let replayed = stimulus::replay(pool, crowd.class, &tenant, found[0].id, Duration::from_secs(60)).await;
    assert_eq!(replayed.unwrap().unwrap().published.unwrap().resumed, 1);
    crowd.assert_each_once(MANY).await;
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn a_bookmark_behind_the_one_that_was_given_up_elsewhere_gets_its_event() {
    let crowd = Crowd::of(MANY).await;
    crowd.defers(&event("a")).await;
    crowd.fixture.execute(REFUSE).await;
    crowd.step_by(1).await;
    crowd.step_by(776).await;
    // Two nodes have halved the same page, and both are about to give up the same bookmark.
    let nodes = [1, 2].map(|_| Pool::new(&crowd.fixture.base, 2).unwrap());
    let mut steps = Vec::new();
    for pool in &nodes {
        let step = fan_out::step(pool, crowd.class, FanOutId(0), &[], |_| FanOutPage::RowOrDeadLetter).await;
        steps.push(step.unwrap().1);
    }
    let paged = |resumed, dead_letters| FanOutStep::Paged { resumed, dead_letters };
    assert_eq!(steps, [paged(0, 1), paged(1, 0)]);
    crowd.finish().await;
    crowd.assert_each_once(MANY - 1).await;
    let found = crowd.writer.dead_letters().await;
    assert_eq!((found.len(), &found[0].instance), (1, &Some(InstanceId::new("i777"))));
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_whose_turn_is_refused_becomes_a_dead_letter_and_the_next_one_has_its_turn() {
    let crowd = Crowd::of(MANY).await;
    crowd.publish_definition("open", &[trigger(HASH)]).await;
    let ids = [crowd.defers(&event("a")).await, crowd.defers(&event("b")).await];
    let refuse = "ALTER TABLE work ADD CONSTRAINT refuse CHECK (kind <> 0 OR body->'payload'->>'said' <> 'a')";
    crowd.fixture.execute(refuse).await;
    let step =
        async |page: FanOutPage| fan_out::step(&crowd.writer.pool, crowd.class, FanOutId(0), &[], |_| page).await;
    let failed = step(FanOutPage::Rows(500)).await.unwrap_err();
    assert_eq!((failed.fan_out, failed.at_page), (Some(ids[0]), false));
    let (id, given_up) = step(FanOutPage::RowOrDeadLetter).await.unwrap();
    let expected = FanOutTurn {
        is_given_up: true,
        ..FanOutTurn::default()
    };
    assert_eq!((id, given_up), (Some(ids[0]), FanOutStep::Turned(expected)));
    crowd.finish().await;
    crowd.assert_each_once(MANY).await;
    let found = crowd.writer.dead_letters().await;
    assert_eq!((found.len(), &found[0].body["payload"]["said"]), (1, &json!("a")));
    assert!(found[0].reason.contains("refuse"), "{}", found[0].reason);
    crowd.fixture.execute("ALTER TABLE work DROP CONSTRAINT refuse").await;
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn the_dead_letter_of_a_row_of_a_fan_out_has_its_payload() {
    let crowd = Crowd::of(MANY).await;
    crowd.defers(&event("a")).await;
    crowd.finish().await;
    let (pool, incarnation) = (&crowd.writer.pool, crowd.writer.incarnation);
    // One row fails for the twentieth time, another one crashes its process for the third.
    crowd
        .fixture
        .execute("UPDATE work SET failures = 19 WHERE instance_id = 'i1'")
        .await;
    let key: InstanceKey = (TenantId::default(), InstanceId::new("i1"));
    let claimed = claim::claim(pool, incarnation, std::slice::from_ref(&key), false, ClaimBounds::NONE).await;
    let claims: Vec<Claim> = claimed.unwrap()[&key]
        .rows
        .iter()
        .map(|row| row.claim.clone())
        .collect();
    let release = Release {
        cause: ReleaseCause::Row("broken"),
        pause: Duration::ZERO,
    };
    claim::release(pool, incarnation, &key, &claims, release).await.unwrap();
    let crashes = format!(
        "UPDATE work SET crashes = 2, claimed_by = {incarnation}, claim_no = 1 WHERE instance_id IN ('i2', 'i3')"
    );
    crowd.fixture.execute(&crashes).await;
    // The burst that consumed it has yielded: what it continues has no payload.
    let continues = "UPDATE work SET kind = 4, body = '{}' WHERE instance_id = 'i3'";
    crowd.fixture.execute(continues).await;
    crowd.fixture.remove(incarnation, RemovalCause::Crashed).await;
    let mut found = crowd.writer.dead_letters().await;
    assert_eq!(found.len(), 3);
    crowd.fixture.is_sound().await;
    found.retain(|dead_letter| {
        dead_letter.instance != Some(InstanceId::new("i3")) || !dead_letter.body["payload"].is_null()
    });
    assert_eq!(found.len(), 2);
    // Without the fan-out a replay still has it.
    let gone = "DELETE FROM work; UPDATE fan_out SET finished_at = now() - interval '1 hour'";
    crowd.fixture.execute(gone).await;
    fan_out::purge(pool).await.unwrap();
    for dead_letter in found {
        assert_eq!(dead_letter.body["payload"]["said"], "a");
        dead_letter::replay(pool, &TenantId::default(), dead_letter.id)
            .await
            .unwrap();
    }
    let whole = "SELECT count(*) FROM work WHERE fan_out IS NULL AND body->'payload'->>'said' = 'a' AND body->>'bookmarkId' = 'b'";
    assert_eq!(crowd.fixture.count(whole).await, 2);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn instances_that_are_deleted_meanwhile_get_nothing() {
    let crowd = Crowd::of(MANY).await;
    let mut targeted = event("a");
    targeted.instance = Some(InstanceId::new("i9"));
    crowd.defers(&event("b")).await;
    crowd.step().await;
    crowd.step().await;
    // One that has its row of work, and one that a later page would have met.
    for instance in ["i1", "i1001"] {
        let gone = format!(
            "DELETE FROM work WHERE instance_id = '{instance}'; DELETE FROM bookmark WHERE instance_id = '{instance}';
             DELETE FROM instance WHERE id = '{instance}'"
        );
        crowd.fixture.execute(&gone).await;
    }
    crowd.finish().await;
    crowd.assert_each_once(MANY - 2).await;
    assert_eq!(crowd.publish(&targeted).await.resumed, 1);
    crowd.fixture.is_sound().await;
}

/// Longer than an entry of an index, also when it is compressed.
fn long_id() -> String {
    (0..10_000)
        .map(|_| char::from(rand::random_range(b'a'..=b'z')))
        .collect()
}

#[tokio::test]
async fn a_correlation_id_of_ten_thousand_bytes_is_one_like_any_other() {
    let crowd = Crowd::new().await;
    let id = long_id();
    let other = format!("{id}?");
    let named = |key: &str, id: &str| NewEvent {
        correlation_id: Some(id.to_owned()),
        ..event(key)
    };
    assert!(crowd.publish(&named("kept", &id)).await.kept);
    let both = NewEvent {
        instance: Some(InstanceId::new("i")),
        ..named("both", &id)
    };
    assert!(crowd.publish(&both).await.kept);
    let waits = |instance: &str, id: &str| {
        let mut request = waiting(waiting(burst(instance, None), "b", HASH), "c", HASH);
        request.effects.correlation_id = Some(id.to_owned());
        request
    };
    crowd.writer.commits(waits("j", &other)).await;
    assert_eq!(crowd.rows().await, 0);
    crowd.writer.commits(waits("i", &id)).await;
    assert_eq!(
        (
            crowd.rows().await,
            crowd.fixture.count("SELECT count(*) FROM inbox").await
        ),
        (2, 0)
    );
    assert_eq!(crowd.publish(&named("now", &id)).await.resumed, 2);
    assert_eq!(crowd.publish(&named("other", &other)).await.resumed, 2);
    crowd.gather("k", MANY, "e", Some(&id)).await;
    crowd.defers(&named("crowd", &id)).await;
    crowd.finish().await;
    let of_crowd = "SELECT count(*) FROM work WHERE fan_out IS NOT NULL";
    assert_eq!(crowd.fixture.count(of_crowd).await, MANY + 2);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn an_instance_that_loses_its_correlation_id_gets_no_event_of_it() {
    let crowd = Crowd::new().await;
    crowd.gather("i", 1, "e", Some("order")).await;
    let mut request = burst("i1", Some(1));
    (request.effects.status, request.effects.sub_status) = (0, 2);
    request.effects.rematched = vec![WaitingBookmark {
        bookmark: "b".to_owned(),
        hash: event("a").hash,
    }];
    crowd.writer.commits(request).await;
    let mut correlated = event("a");
    correlated.correlation_id = Some("order".to_owned());
    assert!(crowd.publish(&correlated).await.kept);
    crowd.writer.commits(loops("i1", 2, "b", "c")).await;
    assert_eq!(crowd.rows().await, 0);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn broken_fan_outs_and_bookmarks_of_another_correlation_are_reported() {
    let crowd = Crowd::of(MANY).await;
    for key in ["a", "b"] {
        crowd.defers(&event(key)).await;
    }
    let begun = "UPDATE fan_out SET began_at = now(), cut = 100";
    for (broken, invariant) in [
        (
            "INSERT INTO work (tenant_id, instance_id, kind, fan_out, body) VALUES ('', 'i1', 2, 4711, '{}')"
                .to_owned(),
            "work-of-missing-fan-out",
        ),
        (
            "INSERT INTO fan_out_owed VALUES (4711, 1, '', 'i1', now(), 'b', 'e')".to_owned(),
            "owed-by-missing-fan-out",
        ),
        (begun.to_owned(), "fan-outs-of-one-stimulus"),
        (
            format!("{begun}, cursor = 101 WHERE id = (SELECT min(id) FROM fan_out)"),
            "fan-out-past-its-cut",
        ),
        (
            "UPDATE bookmark SET correlation_id = 'x' WHERE instance_id = 'i1'".to_owned(),
            "bookmark-of-another-correlation",
        ),
    ] {
        crowd.fixture.execute(&format!("BEGIN; {broken}")).await;
        let found = check::check(&crowd.fixture.admin.client).await.unwrap();
        crowd.fixture.execute("ROLLBACK").await;
        let found: Vec<_> = found.into_iter().map(|found| found.invariant).collect();
        assert_eq!(found, [invariant]);
    }
    crowd.fixture.is_sound().await;
}
