//! Bookmarks: several at once, burned ones, joins that do not wait, cancellation.

use serde_json::{Map, Value, json};

use super::driver::{Driver, definition, start};
use crate::execution::{Instruction, Status, SubStatus, event_hash};
use crate::id::BookmarkId;

fn event(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "Elsa.Event", "eventName": {"typeName": "String", "expression": {"type": "Literal", "value": name}}})
}

fn line(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": id})
}

fn arrow(source: &str, target: &str) -> Value {
    json!({"source": source, "target": target, "sourcePort": "Done", "targetPort": "In"})
}

fn stimulus(bookmark: Option<BookmarkId>, name: &str) -> Instruction {
    Instruction::Stimulus {
        bookmark_id: bookmark,
        hash: event_hash(name),
        payload: None,
    }
}

fn race(mode: &str) -> Driver {
    let join = json!({"id": "join", "type": "Elsa.FlowJoin",
        "mode": {"typeName": "FlowJoinMode", "expression": {"type": "Literal", "value": mode}}});
    let root = json!({"id": "f", "type": "Elsa.Flowchart",
        "activities": [{"id": "s", "type": "Elsa.Start"}, event("a", "A"), event("b", "B"), line("b2"), join, line("end")],
        "connections": [arrow("s", "a"), arrow("s", "b"), arrow("a", "join"), arrow("b", "b2"), arrow("b2", "join"), arrow("join", "end")]});
    Driver::new(&definition(json!({"root": root})))
}

#[tokio::test]
async fn a_join_that_takes_the_first_cancels_the_rest() {
    let mut driver = race("WaitAny");
    let waiting = driver.start().await;
    assert_eq!(waiting.bookmarks_created.len(), 2);
    let outcome = driver.event("A", json!(null)).await;
    assert_eq!(
        outcome.sub_status,
        SubStatus::Finished,
        "{:?}",
        outcome.state.incidents()
    );
    assert_eq!(driver.lines(), ["end"]);
    assert_eq!(driver.events("Canceled"), ["b"]);
    assert_eq!(outcome.bookmarks_burned.len(), 2);
}

#[tokio::test]
async fn a_branch_that_waits_is_cancelled_by_one_that_does_not() {
    let join = json!({"id": "join", "type": "Elsa.FlowJoin"});
    let root = json!({"id": "f", "type": "Elsa.Flowchart",
        "activities": [{"id": "s", "type": "Elsa.Start"}, line("a"), event("b", "B"), join, line("end")],
        "connections": [arrow("s", "a"), arrow("s", "b"), arrow("a", "join"), arrow("b", "join"), arrow("join", "end")]});
    let mut driver = Driver::new(&definition(json!({"root": root})));
    let outcome = driver.start().await;
    assert_eq!(outcome.sub_status, SubStatus::Finished);
    assert_eq!(driver.lines(), ["a", "end"]);
    assert!(outcome.bookmarks_created.is_empty());
}

#[tokio::test]
async fn a_join_that_waits_for_all_does() {
    let mut driver = race("WaitAll");
    driver.start().await;
    assert_eq!(driver.event("B", json!(null)).await.sub_status, SubStatus::Suspended);
    assert_eq!(driver.event("A", json!(null)).await.sub_status, SubStatus::Finished);
    assert_eq!(driver.lines(), ["b2", "end"]);
}

#[tokio::test]
async fn a_stimulus_whose_bookmark_is_gone_goes_to_another_of_the_same_hash() {
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [event("a", "Same"), event("b", "Same"), event("c", "Same")]});
    let mut driver = Driver::new(&definition(json!({"root": root})));
    let first = driver.start().await.bookmarks_created.remove(0).id;
    let twice = vec![
        stimulus(Some(first.clone()), "Same"),
        stimulus(Some(first.clone()), "Same"),
    ];
    let outcome = driver.burst(twice).await;
    assert_eq!(outcome.unmatched, Vec::<usize>::new());
    assert_eq!(driver.completed(), ["a", "b"]);
    let outcome = driver
        .burst(vec![stimulus(None, "Same"), stimulus(Some(first), "Same")])
        .await;
    assert_eq!(outcome.unmatched, [1]);
    assert_eq!(outcome.status, Status::Finished);
}

#[tokio::test]
async fn a_bookmark_is_resumed_once() {
    let mut driver = Driver::new(&definition(json!({"root": event("a", "A")})));
    let bookmark_id = driver.start().await.bookmarks_created.remove(0).id;
    let resume = Instruction::Resume {
        bookmark_id,
        input: Map::new(),
    };
    assert_eq!(driver.burst(vec![resume.clone(), resume.clone()]).await.unmatched, [1]);
    assert_eq!(driver.burst(vec![resume]).await.unmatched, [0]);
}

#[tokio::test]
async fn cancel_ends_everything() {
    let mut driver = race("WaitAll");
    driver.start().await;
    let outcome = driver.burst(vec![Instruction::Cancel, stimulus(None, "A")]).await;
    assert_eq!(
        (outcome.status, outcome.sub_status),
        (Status::Finished, SubStatus::Cancelled)
    );
    assert_eq!(outcome.bookmarks_burned.len(), 2);
    assert_eq!(outcome.unmatched, [1]);
    assert_eq!(driver.burst(vec![Instruction::Cancel]).await.unmatched, [0]);
    let ended: Vec<&str> = outcome
        .activity_executions
        .iter()
        .map(|execution| execution.status)
        .collect();
    assert!(ended.iter().all(|status| *status == "Canceled"), "{ended:?}");
}

#[tokio::test]
async fn a_start_is_only_for_new_instances() {
    let mut driver = Driver::new(&definition(json!({"root": event("a", "A")})));
    driver.start().await;
    assert_eq!(driver.burst(vec![start(Map::new())]).await.unmatched, [0]);
}

#[tokio::test]
async fn the_same_burst_gives_the_same_ids() {
    let ids = || async {
        let mut driver = race("WaitAll");
        let outcome = driver.start().await;
        let executions: Vec<_> = outcome
            .activity_executions
            .into_iter()
            .map(|execution| execution.id)
            .collect();
        (executions, outcome.bookmarks_created)
    };
    assert_eq!(ids().await, ids().await);
}
