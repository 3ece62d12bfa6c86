//! Fan-outs whose definition is retracted or deleted halfway, whose bookmarks end between the turn and their page, and what
//! is reported of them.

use std::time::Duration;

use super::definitions::trigger;
use super::fan_out::{Crowd, HASH, MANY, correlated, event, loops, turned};
use crate::id::{BookmarkId, DefinitionId, TenantId};
use crate::store::commit::{CommitRequest, WaitingBookmark};
use crate::store::definition::delete::{DeleteGuard, delete};
use crate::store::definition::retract::{RetractOutcome, retract};
use crate::store::fan_out::FanOutStep;
use crate::store::node::{self, QueueStart};
use crate::testing::metrics::Recorded;
use crate::testing::store::{burst, waiting};

const STARTED: &str = "SELECT count(*) FROM work WHERE kind = 0";

#[tokio::test]
async fn what_a_turn_started_stays_when_the_definition_is_retracted_or_deleted_half_way() {
    let (tenant, id) = (TenantId::default(), DefinitionId::new("open"));
    for is_delete in [false, true] {
        let crowd = Crowd::of(MANY).await;
        crowd.publish_definition("open", &[trigger(HASH)]).await;
        crowd.defers(&event("a")).await;
        crowd.defers(&event("b")).await;
        assert_eq!(crowd.step().await, turned(1));
        crowd.step().await;
        let pool = &crowd.writer.pool;
        if is_delete {
            assert_eq!(
                delete(pool, crowd.class, &tenant, &id, None, DeleteGuard::None)
                    .await
                    .unwrap()
                    .len(),
                1
            );
        } else {
            let retracted = retract(pool, crowd.class, &tenant, &id, false).await.unwrap();
            assert!(matches!(retracted, RetractOutcome::Retracted(_)));
        }
        crowd.fixture.is_sound().await;
        crowd.finish().await;
        assert_eq!(crowd.fixture.count(STARTED).await, 1, "deleted: {is_delete}");
        let resumed = "SELECT min(resumed) FROM fan_out";
        assert_eq!(crowd.fixture.count(resumed).await, MANY);
        assert_eq!(crowd.rows().await, 2 * MANY);
        // Nothing waits and nothing is triggered any more: the inbox keeps the next event.
        crowd
            .fixture
            .execute("DELETE FROM work; DELETE FROM bookmark; DELETE FROM instance")
            .await;
        assert!(crowd.publish(&event("c")).await.kept);
        crowd.fixture.is_sound().await;
    }
}

#[tokio::test]
async fn a_check_in_reports_how_many_fan_outs_are_unfinished_and_what_is_left_of_them() {
    let recorded = Recorded::default();
    let crowd = Crowd::of(MANY).await;
    let client = &crowd.fixture.admin.client;
    let check_in = node::prepare_check_in(client).await.unwrap();
    let gauges = async || {
        let _guard = metrics::set_default_local_recorder(&recorded);
        let incarnation = crowd.writer.incarnation;
        let read = node::check_in(
            client,
            &check_in,
            incarnation,
            QueueStart::WHOLE,
            Duration::from_secs(10),
        )
        .await;
        let [unfinished, left] =
            ["mainspring_fan_outs_unfinished", "mainspring_fan_out_numbers_left"].map(|name| recorded.gauge(name));
        assert_eq!(read.unwrap().has_fan_outs, unfinished > 0.0);
        (unfinished, left)
    };
    assert_eq!(gauges().await, (0.0, 0.0));
    crowd.defers(&event("a")).await;
    crowd.defers(&event("b")).await;
    assert_eq!(gauges().await, (2.0, 0.0));
    crowd.step().await;
    let (unfinished, whole) = gauges().await;
    assert!(unfinished == 2.0 && whole >= MANY as f64, "{unfinished} {whole}");
    crowd.step().await;
    assert_eq!(gauges().await, (2.0, whole - 500.0));
    crowd.finish().await;
    assert_eq!(gauges().await, (0.0, 0.0));
}

/// A burst that ends a bookmark and continues without one, or ends the instance.
fn burns(instance: &str, version: i64, bookmark: &str, ends: bool) -> CommitRequest {
    let mut request = burst(instance, Some(version));
    if !ends {
        (request.effects.status, request.effects.sub_status) = (0, 1);
    }
    request.effects.bookmarks_burned = vec![BookmarkId::new(bookmark)];
    request
}

/// A burst in which the instance takes another correlation id, while its bookmark stays.
fn correlates(instance: &str, version: i64, id: &str) -> CommitRequest {
    let mut request = burst(instance, Some(version));
    (request.effects.status, request.effects.sub_status) = (0, 2);
    request.effects.correlation_id = Some(id.to_owned());
    request.effects.rematched = vec![WaitingBookmark {
        bookmark: "b".to_owned(),
        hash: event("a").hash,
    }];
    request
}

const OWED: &str = "SELECT count(*) FROM fan_out_owed";

#[tokio::test]
async fn a_bookmark_that_ends_between_the_turn_and_its_page_is_not_missed() {
    let crowd = Crowd::of(MANY).await;
    crowd.defers(&event("a")).await;
    assert_eq!(crowd.step().await, turned(0));
    crowd.step().await;
    let writer = &crowd.writer;
    // Behind the page and before it: the wait ends in one commit, and begins again in the next one, or later, or never.
    for instance in ["i1", "i999", "i1000", "i1001"] {
        writer.commits(burns(instance, 1, "b", false)).await;
    }
    for instance in ["i1", "i999"] {
        writer.commits(waiting(burst(instance, Some(2)), "c", HASH)).await;
        writer.commits(loops(instance, 3, "c", "d")).await;
    }
    writer.commits(waiting(burst("i1000", Some(2)), "c", HASH + 1)).await;
    // One that has ended meanwhile needs none, as one that ends with its bookmark.
    writer.commits(burst("i1001", Some(2))).await;
    writer.commits(burns("i998", 1, "b", true)).await;
    crowd.finish().await;
    crowd.assert_each_once(MANY - 2).await;
    let met = "SELECT resumed FROM fan_out";
    assert_eq!(
        (crowd.fixture.count(met).await, crowd.fixture.count(OWED).await),
        (MANY - 2, 0)
    );
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn the_bookmarks_of_an_event_for_one_instance_or_correlation_are_not_missed_either() {
    let crowd = Crowd::new().await;
    crowd.gather("o", MANY, "e", Some("order")).await;
    crowd.defers(&correlated("a", "order")).await;
    assert_eq!(crowd.step().await, turned(0));
    let writer = &crowd.writer;
    // It changes, and changes back before its page; it has another one at its page; it ends.
    writer.commits(correlates("o5", 1, "other")).await;
    writer.commits(correlates("o5", 2, "order")).await;
    writer.commits(correlates("o6", 1, "other")).await;
    writer.commits(correlates("o7", 1, "other")).await;
    writer.commits(waiting(burns("o7", 2, "b", false), "c", HASH + 1)).await;
    crowd.finish().await;
    crowd.assert_each_once(MANY).await;
    crowd.fixture.execute("DELETE FROM work").await;

    crowd.gather("m", 1, "e", None).await;
    crowd.bookmarks("m1", MANY, "g").await;
    let mut targeted = event("b");
    targeted.instance = Some("m1".into());
    crowd.defers(&targeted).await;
    assert_eq!(crowd.step().await, turned(0));
    writer.commits(burns("m1", 1, "7", false)).await;
    writer.commits(waiting(burst("m1", Some(2)), "zz", HASH)).await;
    crowd.finish().await;
    let bookmarks = "SELECT count(DISTINCT body->>'bookmarkId') FROM work";
    // With the one of `gather`.
    assert_eq!(
        (crowd.rows().await, crowd.fixture.count(bookmarks).await),
        (MANY + 1, MANY + 1)
    );
    assert_eq!(crowd.fixture.count(OWED).await, 0);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn instances_that_loop_in_two_commits_during_a_fan_out_neither_miss_it_nor_get_it_twice() {
    let crowd = Crowd::of(MANY).await;
    crowd.defers(&event("a")).await;
    assert_eq!(crowd.step().await, turned(0));
    let writer = &crowd.writer;
    let loop_of = async |n: i64| {
        let instance = format!("i{n}");
        for round in 0..3 {
            let (burned, made) = (format!("b{round}"), format!("b{}", round + 1));
            let burned = if round == 0 { "b" } else { &burned };
            writer.commits(burns(&instance, 2 * round + 1, burned, false)).await;
            writer
                .commits(waiting(burst(&instance, Some(2 * round + 2)), &made, HASH))
                .await;
        }
    };
    let all = futures_util::future::join_all((1..=MANY).step_by(3).map(loop_of));
    let pages = async { while crowd.step_by(20).await != FanOutStep::Idle {} };
    tokio::join!(all, pages);
    crowd.assert_each_once(MANY).await;
    crowd.fixture.is_sound().await;
}
