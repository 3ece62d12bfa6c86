//! Events that many instances wait for: each waiting bookmark gets them once, in order, page by page.

use std::time::Duration;

use serde_json::{Value, json};

use super::definitions::{definition, trigger};
use crate::db::Pool;
use crate::id::{BookmarkId, DefinitionId, FanOutId, InstanceId};
use crate::store::commit::CommitRequest;
use crate::store::definition::{self, StartSources, TriggerRow};
use crate::store::event::{self, NewEvent, PublishedEvent};
use crate::store::fan_out::{self, FanOutPage, FanOutStep, FanOutTurn, PAGE_ROWS};
use crate::store::{activation, maintenance};
use crate::testing::store::{self, Fixture, Writer, burst, waiting};

pub(super) const HASH: u8 = 9;

/// One bookmark more than an event is given to at once.
pub(super) const MANY: i64 = 1001;

pub(super) struct Crowd {
    pub(super) fixture: Fixture,
    pub(super) writer: Writer,
    pub(super) class: i32,
}

impl Crowd {
    pub(super) async fn new() -> Self {
        let fixture = Fixture::new().await;
        let writer = fixture.writer().await;
        let class = fixture.base.schema().lock_class();
        Self { fixture, writer, class }
    }

    /// So many instances that wait, in the order of their bookmarks.
    pub(super) async fn of(count: i64) -> Self {
        let crowd = Self::new().await;
        crowd.gather("i", count, "e", None).await;
        crowd
    }

    /// Makes so many instances wait: this prefix and a number from 1 on.
    pub(super) async fn gather(&self, prefix: &str, count: i64, execution: &str, correlation: Option<&str>) {
        let correlation = correlation.map_or("NULL".to_owned(), |id| format!("'{id}'"));
        let instances = format!(
            "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version,
                                   correlation_id, state)
             SELECT '', '{prefix}' || n, 'd', 'd1', 1, 0, 2, 1, {correlation}, '' FROM generate_series(1, {count}) n"
        );
        let bookmarks = format!(
            "INSERT INTO bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash,
                                   payload, publishable, correlation_id)
             SELECT '', '{prefix}' || n, 'b', 'a', 'w:a', '{execution}', 'Elsa.Event', decode(repeat('0{HASH}', 32), 'hex'),
                    '{{}}', true, {correlation} FROM generate_series(1, {count}) n"
        );
        self.fixture.execute(&instances).await;
        self.fixture.execute(&bookmarks).await;
    }

    /// Makes an instance wait at so many bookmarks of an execution.
    pub(super) async fn bookmarks(&self, instance: &str, count: i64, execution: &str) {
        let bookmarks = format!(
            "INSERT INTO bookmark (tenant_id, instance_id, id, activity_id, node_id, activity_execution_id, name, hash, payload,
                                   publishable)
             SELECT '', '{instance}', CASE WHEN n > 64 THEN 'z' ELSE '' END || n, 'a', 'w:a', '{execution}', 'Elsa.Event',
                    decode(repeat('0{HASH}', 32), 'hex'), '{{}}', true
             FROM generate_series(1, {count}) n"
        );
        self.fixture.execute(&bookmarks).await;
    }

    pub(super) async fn publish(&self, event: &NewEvent) -> PublishedEvent {
        event::publish(&self.writer.pool, self.class, event).await.unwrap()
    }

    /// Publishes an event that becomes a fan-out.
    pub(super) async fn defers(&self, event: &NewEvent) -> FanOutId {
        let published = self.publish(event).await;
        assert_eq!((published.resumed, published.started, published.kept), (0, 0, false));
        published.fan_out.unwrap()
    }

    pub(super) async fn step(&self) -> FanOutStep {
        self.step_by(PAGE_ROWS).await
    }

    pub(super) async fn step_by(&self, rows: i64) -> FanOutStep {
        let step = fan_out::step(&self.writer.pool, self.class, FanOutId(0), &[], |_| {
            FanOutPage::Rows(rows)
        })
        .await;
        step.unwrap().1
    }

    /// Steps until all fan-outs are finished.
    pub(super) async fn finish(&self) {
        while self.step().await != FanOutStep::Idle {}
        let unfinished = "SELECT count(*) FROM fan_out WHERE finished_at IS NULL";
        assert_eq!(self.fixture.count(unfinished).await, 0);
    }

    pub(super) async fn rows(&self) -> i64 {
        self.fixture.count("SELECT count(*) FROM work WHERE kind = 2").await
    }

    /// So many instances have a row of work, each one.
    pub(super) async fn assert_each_once(&self, instances: i64) {
        let once =
            "SELECT count(*) FROM (SELECT 1 FROM work WHERE kind = 2 GROUP BY instance_id HAVING count(*) = 1) o";
        let found = (self.rows().await, self.fixture.count(once).await);
        assert_eq!(found, (instances, instances), "rows of work, instances with one");
    }

    pub(super) async fn publish_definition(&self, id: &str, triggers: &[TriggerRow]) {
        let mut new = definition(id);
        new.definition_id = DefinitionId::new(id);
        new.body = json!({"edition": rand::random::<u64>().to_string()}).into();
        let sources = Some(StartSources::by(triggers));
        definition::save(&self.writer.pool, self.class, &new, sources)
            .await
            .unwrap();
    }
}

pub(super) fn event(key: &str) -> NewEvent {
    NewEvent {
        payload: Some(json!({"said": key})),
        ..store::event(key, HASH)
    }
}

pub(super) fn correlated(key: &str, id: &str) -> NewEvent {
    NewEvent {
        correlation_id: Some(id.to_owned()),
        ..event(key)
    }
}

/// A burst that ends one bookmark and waits for the same stimulus again.
pub(super) fn loops(instance: &str, version: i64, burned: &str, made: &str) -> CommitRequest {
    let mut request = waiting(burst(instance, Some(version)), made, HASH);
    request.effects.bookmarks_burned = vec![BookmarkId::new(burned)];
    request
}

fn paged(resumed: u64) -> FanOutStep {
    FanOutStep::Paged {
        resumed,
        dead_letters: 0,
    }
}

pub(super) fn turned(started: u64) -> FanOutStep {
    FanOutStep::Turned(FanOutTurn {
        started,
        ..FanOutTurn::default()
    })
}

#[tokio::test]
async fn an_event_for_more_than_a_thousand_bookmarks_is_given_to_them_page_by_page() {
    let crowd = Crowd::of(MANY).await;
    crowd.defers(&event("a")).await;
    let accepted = "SELECT (SELECT count(*) FROM fan_out) * 10 + (SELECT count(*) FROM idempotency_key)";
    assert_eq!((crowd.fixture.count(accepted).await, crowd.rows().await), (11, 0));
    // Another time under its key it is nothing.
    let again = crowd.publish(&event("a")).await;
    assert!(again.fan_out.is_none() && !again.kept);
    let steps = [turned(0), paged(500), paged(500), paged(1), FanOutStep::Idle];
    for expected in steps {
        assert_eq!(crowd.step().await, expected);
        crowd.fixture.is_sound().await;
    }
    assert_eq!(crowd.fixture.count(accepted).await, 11);
    crowd.assert_each_once(MANY).await;
    let listed = fan_out::list(&crowd.writer.pool, 10).await.unwrap();
    assert_eq!(
        (listed.len(), listed[0].resumed, listed[0].numbers_left),
        (1, MANY, Some(0))
    );
    assert!(listed[0].finished_at.is_some());
}

#[tokio::test]
async fn an_event_for_a_thousand_bookmarks_is_given_to_them_at_once() {
    let crowd = Crowd::of(MANY - 1).await;
    let published = crowd.publish(&event("a")).await;
    assert_eq!((published.resumed, published.fan_out), (1000, None));
    crowd.assert_each_once(MANY - 1).await;
    assert_eq!(crowd.step().await, FanOutStep::Idle);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_behind_an_unfinished_one_waits_for_its_turn_though_few_wait_for_it() {
    let crowd = Crowd::of(MANY).await;
    let first = crowd.defers(&event("a")).await;
    let others = "DELETE FROM bookmark WHERE substr(instance_id, 2)::int > 60;
                  DELETE FROM instance WHERE substr(id, 2)::int > 60";
    crowd.fixture.execute(others).await;
    let second = crowd.defers(&event("b")).await;
    assert!(first.0 < second.0);
    // Events for a part of the bookmarks are not events of the same key.
    let mut targeted = event("c");
    targeted.instance = Some(InstanceId::new("i1"));
    assert_eq!(crowd.publish(&targeted).await.resumed, 1);
    crowd.fixture.execute("DELETE FROM work").await;
    assert_eq!(crowd.step().await, turned(0));
    let other_node = fan_out::step(&crowd.writer.pool, crowd.class, FanOutId(0), &[first], |_| {
        FanOutPage::Rows(1)
    })
    .await;
    assert_eq!(other_node.unwrap().1, FanOutStep::Idle, "the second before the first");
    crowd.finish().await;
    let in_order =
        "SELECT count(*) FROM work a JOIN work b USING (instance_id) WHERE a.fan_out < b.fan_out AND a.id < b.id";
    assert_eq!((crowd.rows().await, crowd.fixture.count(in_order).await), (120, 60));
    // With nothing unfinished it is given directly again.
    assert_eq!(crowd.publish(&event("d")).await.resumed, 60);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn a_turn_for_which_few_wait_writes_their_page() {
    let crowd = Crowd::of(50).await;
    let of_workflow = "INSERT INTO fan_out (tenant_id, hash, name, payload, expires_at)
                       SELECT '', decode(repeat('09', 32), 'hex'), 'Elsa.Event', '{}', now() + interval '1 minute'";
    crowd.fixture.execute(of_workflow).await;
    let whole = FanOutTurn {
        resumed: 50,
        ..FanOutTurn::default()
    };
    let steps = (crowd.step().await, crowd.step().await);
    assert_eq!(steps, (FanOutStep::Turned(whole), FanOutStep::Idle));
    crowd.assert_each_once(50).await;
    crowd.fixture.execute("DELETE FROM work").await;
    // One more than few, and a page that is refused.
    crowd.gather("j", 1, "e", None).await;
    crowd.fixture.execute(of_workflow).await;
    assert_eq!((crowd.step().await, crowd.step().await), (turned(0), paged(51)));
    crowd
        .fixture
        .execute("DELETE FROM work; DELETE FROM bookmark WHERE instance_id = 'j1'")
        .await;
    crowd.fixture.execute("DELETE FROM instance WHERE id = 'j1'").await;
    let refuse = "ALTER TABLE work ADD CONSTRAINT refuse CHECK (instance_id <> 'i7')";
    crowd.fixture.execute(refuse).await;
    crowd.fixture.execute(of_workflow).await;
    assert_eq!((crowd.step().await, crowd.rows().await), (turned(0), 0));
    crowd.fixture.execute("ALTER TABLE work DROP CONSTRAINT refuse").await;
    assert_eq!(crowd.step().await, paged(50));
    crowd.assert_each_once(50).await;
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn a_bookmark_made_after_the_turn_gets_the_next_event_only() {
    let crowd = Crowd::of(MANY).await;
    crowd.defers(&event("a")).await;
    crowd.writer.commits(waiting(burst("before", None), "b", HASH)).await;
    assert_eq!(crowd.step().await, turned(0));
    crowd.writer.commits(waiting(burst("after", None), "b", HASH)).await;
    crowd.finish().await;
    crowd.assert_each_once(MANY + 1).await;
    assert_eq!(
        crowd
            .fixture
            .count("SELECT count(*) FROM work WHERE instance_id = 'after'")
            .await,
        0
    );
    crowd.defers(&event("b")).await;
    crowd.finish().await;
    assert_eq!(
        crowd
            .fixture
            .count("SELECT count(*) FROM work WHERE instance_id = 'after'")
            .await,
        1
    );
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn a_bookmark_that_is_replaced_in_one_commit_keeps_its_number_and_gets_the_event_once() {
    let crowd = Crowd::of(MANY).await;
    crowd.defers(&event("a")).await;
    assert_eq!(crowd.step().await, turned(0));
    assert_eq!(crowd.step().await, paged(500));
    let numbers = "SELECT sum(number)::bigint FROM bookmark WHERE instance_id IN ('i1', 'i1001')";
    let before = crowd.fixture.count(numbers).await;
    // One that has got it and loops, and one whose timer ended the wait before it got it.
    for instance in ["i1", "i1001"] {
        crowd.writer.commits(loops(instance, 1, "b", "c")).await;
        crowd.writer.commits(loops(instance, 2, "c", "d")).await;
    }
    assert_eq!(crowd.fixture.count(numbers).await, before);
    // A second bookmark of the same stimulus is a new one.
    let mut forks = waiting(loops("i2", 1, "b", "c"), "d", HASH);
    forks.effects.bookmarks_made[1].activity_id = "other".to_owned();
    crowd.writer.commits(forks).await;
    crowd.finish().await;
    crowd.assert_each_once(MANY).await;
    let to = "SELECT count(*) FROM work WHERE instance_id = 'i1001' AND body->>'bookmarkId' = 'd'";
    assert_eq!(crowd.fixture.count(to).await, 1);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn instances_that_loop_during_a_fan_out_neither_miss_it_nor_get_it_twice() {
    let crowd = Crowd::of(MANY).await;
    crowd.defers(&event("a")).await;
    assert_eq!(crowd.step().await, turned(0));
    let writer = &crowd.writer;
    let loop_of = async |n: i64| {
        let instance = format!("i{n}");
        for version in 1..=5 {
            let (burned, made) = (format!("b{}", version - 1), format!("b{version}"));
            let burned = if version == 1 { "b" } else { &burned };
            writer.commits(loops(&instance, version, burned, &made)).await;
        }
    };
    let all = futures_util::future::join_all((1..=MANY).step_by(5).map(loop_of));
    let pages = async { while crowd.step_by(40).await != FanOutStep::Idle {} };
    tokio::join!(all, pages);
    crowd.assert_each_once(MANY).await;
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn an_event_for_which_nothing_waits_at_its_turn_is_kept_and_not_lost_when_it_has_expired() {
    for before_turn in [true, false] {
        let crowd = Crowd::new().await;
        crowd.gather("i", MANY, "e", Some("order")).await;
        crowd.defers(&correlated("a", "order")).await;
        if !before_turn {
            assert_eq!(crowd.step().await, turned(0));
        }
        crowd
            .fixture
            .execute("DELETE FROM bookmark; DELETE FROM instance")
            .await;
        if !before_turn {
            assert_eq!(crowd.step().await, paged(0));
        }
        assert_eq!(crowd.step().await, turned(0));
        assert_eq!(crowd.step().await, FanOutStep::Idle);
        let kept = "SELECT count(*) FROM inbox WHERE correlation_id = 'order' AND payload->>'said' = 'a'";
        assert_eq!((crowd.fixture.count(kept).await, crowd.rows().await), (1, 0));
        crowd.fixture.execute("UPDATE inbox SET expires_at = now()").await;
        maintenance::purge_expired(&crowd.writer.pool, maintenance::Retention::of(Duration::from_secs(60)))
            .await
            .unwrap();
        assert_eq!(crowd.writer.dead_letters().await[0].body["payload"]["said"], "a");
        crowd.fixture.is_sound().await;
    }
}

#[tokio::test]
async fn an_event_that_expires_half_way_goes_on_and_one_that_expired_before_its_turn_is_given() {
    let crowd = Crowd::of(MANY).await;
    for key in ["a", "b"] {
        crowd.defers(&event(key)).await;
    }
    assert_eq!((crowd.step().await, crowd.step().await), (turned(0), paged(500)));
    crowd.fixture.execute("UPDATE fan_out SET expires_at = now()").await;
    maintenance::purge_expired(&crowd.writer.pool, maintenance::Retention::of(Duration::from_secs(60)))
        .await
        .unwrap();
    crowd.finish_beside_bursts().await;
    let got = "SELECT min(resumed) FROM fan_out";
    assert_eq!(crowd.fixture.count(got).await, MANY);
    crowd.fixture.is_sound().await;
}

impl Crowd {
    /// Finishes all, while the rows of work are consumed.
    async fn finish_beside_bursts(&self) {
        loop {
            match self.step().await {
                FanOutStep::Idle => return,
                FanOutStep::Full => self.fixture.execute("DELETE FROM work").await,
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn a_fan_out_starts_what_its_triggers_start_once_and_reports_what_is_refused() {
    let crowd = Crowd::of(MANY).await;
    let activation_of = |strategy| super::activation::publish(&crowd.fixture, &crowd.writer, strategy, &[]);
    activation_of("AllowAlways").await;
    // The instances that wait run this version.
    let runs = "UPDATE definition SET version_id = 'd1' WHERE definition_id = 'd'";
    crowd.fixture.execute(runs).await;
    super::activation::publish(&crowd.fixture, &crowd.writer, "Singleton", &[trigger(HASH)]).await;
    crowd.publish_definition("open", &[trigger(HASH)]).await;
    activation::finish_all_publishes(&crowd.writer.pool, crowd.class)
        .await
        .unwrap();
    crowd.defers(&event("a")).await;
    let turned = FanOutTurn {
        started: 1,
        refused: vec!["d".to_owned()],
        ..FanOutTurn::default()
    };
    assert_eq!(crowd.step().await, FanOutStep::Turned(turned));
    // Halfway the definition is published without its trigger: a later event starts nothing, the started one stays.
    crowd.defers(&event("b")).await;
    assert_eq!(crowd.step().await, paged(500));
    crowd.publish_definition("open", &[]).await;
    super::activation::publish(&crowd.fixture, &crowd.writer, "AllowAlways", &[]).await;
    crowd.finish_beside_bursts().await;
    let resumed = "SELECT min(resumed) FROM fan_out";
    let started = "SELECT sum(started)::bigint FROM fan_out";
    assert_eq!(
        (crowd.fixture.count(resumed).await, crowd.fixture.count(started).await),
        (MANY, 2)
    );
}

#[tokio::test]
async fn a_fan_out_is_for_those_whom_its_event_names() {
    let crowd = Crowd::new().await;
    crowd.gather("order", MANY, "e", Some("order")).await;
    crowd.gather("other", 1, "f", Some("other")).await;
    crowd.gather("n", 1, "g", None).await;
    let instance =
        "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status,
                                          version, state)
                        VALUES ('', 'm', 'd', 'd1', 1, 0, 2, 1, '')";
    crowd.fixture.execute(instance).await;
    crowd.bookmarks("m", MANY, "g").await;
    crowd.bookmarks("n1", MANY, "n1:7").await;
    let targeted = NewEvent {
        instance: Some(InstanceId::new("m")),
        ..event("b")
    };
    let execution = NewEvent {
        activity_execution_id: Some("n1:7".to_owned()),
        ..event("c")
    };
    let got = "SELECT count(DISTINCT instance_id || '/' || (body->>'bookmarkId')) FROM work";
    for (event, prefix) in [(correlated("a", "order"), "order"), (targeted, "m"), (execution, "n1")] {
        crowd.defers(&event).await;
        crowd.finish().await;
        let strangers = format!("SELECT count(*) FROM work WHERE instance_id NOT LIKE '{prefix}%'");
        let found = (
            crowd.fixture.count(got).await,
            crowd.rows().await,
            crowd.fixture.count(&strangers).await,
        );
        assert_eq!(found, (MANY, MANY, 0), "{prefix}");
        crowd.fixture.is_sound().await;
        crowd.fixture.execute("DELETE FROM work").await;
    }
}

#[tokio::test]
async fn at_most_so_many_rows_of_a_fan_out_are_unclaimed() {
    let crowd = Crowd::of(2600).await;
    crowd.defers(&event("a")).await;
    assert_eq!(crowd.step().await, turned(0));
    for _ in 0..4 {
        assert_eq!(crowd.step().await, paged(500));
    }
    assert_eq!(crowd.step().await, FanOutStep::Full);
    let claim = format!(
        "UPDATE work SET claimed_by = {}, claim_no = 1, has_begun = true WHERE id IN (SELECT id FROM work ORDER BY id LIMIT 300)",
        crowd.writer.incarnation
    );
    crowd.fixture.execute(&claim).await;
    assert_eq!((crowd.step().await, crowd.step().await), (paged(300), FanOutStep::Full));
    crowd.fixture.execute("DELETE FROM work WHERE claimed_by IS NULL").await;
    assert_eq!((crowd.step().await, crowd.step().await), (paged(300), FanOutStep::Idle));
    assert_eq!(crowd.fixture.count("SELECT resumed FROM fan_out").await, 2600);
    crowd.assert_each_once(600).await;
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn nodes_that_step_at_once_write_no_page_twice() {
    let crowd = Crowd::of(1900).await;
    for key in ["a", "b"] {
        let mut event = event(key);
        event.correlation_id = None;
        crowd.defers(&event).await;
    }
    let pools: Vec<Pool> = (0..3).map(|_| Pool::new(&crowd.fixture.base, 2).unwrap()).collect();
    let unfinished = "SELECT count(*) FROM fan_out WHERE finished_at IS NULL";
    let node = async |pool: &Pool| {
        while crowd.fixture.count(unfinished).await > 0 {
            let step = fan_out::step(pool, crowd.class, FanOutId(0), &[], |_| FanOutPage::Rows(90)).await;
            step.unwrap();
        }
    };
    tokio::join!(node(&pools[0]), node(&pools[1]), node(&pools[2]));
    let twice = "SELECT count(*) FROM (SELECT 1 FROM work GROUP BY instance_id HAVING count(DISTINCT fan_out) = 2 AND count(*) = 2) o";
    assert_eq!((crowd.rows().await, crowd.fixture.count(twice).await), (3800, 1900));
    let in_order =
        "SELECT count(*) FROM work a JOIN work b USING (instance_id) WHERE a.fan_out < b.fan_out AND a.id < b.id";
    assert_eq!(crowd.fixture.count(in_order).await, 1900);
    crowd.fixture.is_sound().await;
}

#[tokio::test]
async fn the_payload_of_a_fan_out_is_stored_once_and_stays_while_a_row_needs_it() {
    let crowd = Crowd::of(MANY).await;
    let large = json!({"text": "x".repeat(1 << 20)});
    let mut event = event("a");
    event.payload = Some(large.clone());
    let id = crowd.defers(&event).await;
    crowd.finish().await;
    let copied = "SELECT sum(pg_column_size(body))::bigint FROM work";
    assert!(crowd.fixture.count(copied).await < 1 << 20);
    let old = "UPDATE fan_out SET finished_at = now() - interval '1 hour'";
    crowd.fixture.execute(old).await;
    crowd
        .fixture
        .execute("DELETE FROM work WHERE instance_id <> 'i77'")
        .await;
    fan_out::purge(&crowd.writer.pool).await.unwrap();
    let payloads = fan_out::payloads(&crowd.writer.pool, &[id]).await.unwrap();
    let found: Vec<Option<Value>> = payloads.into_iter().map(|(_, payload)| payload).collect();
    assert_eq!(found, [Some(large)]);
    crowd.fixture.is_sound().await;
    crowd.fixture.execute("DELETE FROM work").await;
    fan_out::purge(&crowd.writer.pool).await.unwrap();
    assert_eq!(crowd.fixture.count("SELECT count(*) FROM fan_out").await, 0);
}
