//! Fan-outs whose definition is retracted or deleted half-way, and what is reported of them.

use std::time::Duration;

use super::definitions::trigger;
use super::fan_out::{Crowd, HASH, MANY, event};
use crate::id::{DefinitionId, TenantId};
use crate::store::definition::delete::delete;
use crate::store::definition::retract::{RetractOutcome, retract};
use crate::store::fan_out::FanOutStep;
use crate::store::node;
use crate::testing::metrics::Recorded;

const STARTED: &str = "SELECT count(*) FROM work WHERE kind = 0";

fn turned(started: u64) -> FanOutStep {
    FanOutStep::Turned {
        started,
        refused: Vec::new(),
    }
}

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
            assert_eq!(delete(pool, crowd.class, &tenant, &id, None).await.unwrap().len(), 1);
        } else {
            let retracted = retract(pool, crowd.class, &tenant, &id).await.unwrap();
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
        let read = node::check_in(client, &check_in, incarnation, Duration::from_secs(10)).await;
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
