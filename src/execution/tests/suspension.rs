//! Suspended instances: several bookmarks, burned bookmarks, joins, cancellation.

use serde_json::{Map, Value, json};

use super::activities::line;
use super::in_memory::{InMemoryInstance, definition, start};
use crate::execution::{Instruction, Status, SubStatus, event_hash};
use crate::id::BookmarkId;

fn event(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "Elsa.Event", "eventName": {"typeName": "String", "expression": {"type": "Literal", "value": name}}})
}

fn arrow(source: &str, target: &str) -> Value {
    json!({"source": source, "target": target, "sourcePort": "Done", "targetPort": "In"})
}

fn stimulus(bookmark: Option<BookmarkId>, name: &str) -> Instruction {
    Instruction::Stimulus {
        bookmark_id: bookmark,
        hash: event_hash(name),
        name: name.to_owned(),
        payload: None,
    }
}

/// The positions of instructions.
fn positions(instructions: &[(usize, Instruction)]) -> Vec<usize> {
    instructions.iter().map(|(position, _)| *position).collect()
}

fn race(mode: &str) -> InMemoryInstance {
    let join = json!({"id": "join", "type": "Elsa.FlowJoin",
        "mode": {"typeName": "FlowJoinMode", "expression": {"type": "Literal", "value": mode}}});
    let root = json!({"id": "f", "type": "Elsa.Flowchart",
        "activities": [{"id": "s", "type": "Elsa.Start"}, event("a", "A"), event("b", "B"), line("b2"), join, line("end")],
        "connections": [arrow("s", "a"), arrow("s", "b"), arrow("a", "join"), arrow("b", "b2"), arrow("b2", "join"), arrow("join", "end")]});
    InMemoryInstance::new(&definition(json!({"root": root})))
}

#[tokio::test]
async fn a_join_that_takes_the_first_cancels_the_rest() {
    let mut instance = race("WaitAny");
    let waiting = instance.start().await;
    assert_eq!(waiting.bookmarks_created.len(), 2);
    let result = instance.event("A", json!(null)).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines(), ["end"]);
    assert_eq!(instance.events("Canceled"), ["b"]);
    assert_eq!(result.bookmarks_burned.len(), 2);
}

#[tokio::test]
async fn a_suspended_branch_is_cancelled_by_a_join_that_does_not_wait() {
    let join = json!({"id": "join", "type": "Elsa.FlowJoin"});
    let root = json!({"id": "f", "type": "Elsa.Flowchart",
        "activities": [{"id": "s", "type": "Elsa.Start"}, line("a"), event("b", "B"), join, line("end")],
        "connections": [arrow("s", "a"), arrow("s", "b"), arrow("a", "join"), arrow("b", "join"), arrow("join", "end")]});
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["a", "end"]);
    assert!(result.bookmarks_created.is_empty());
}

#[tokio::test]
async fn a_join_that_waits_for_all_ends_with_the_last() {
    let mut instance = race("WaitAll");
    instance.start().await;
    assert_eq!(instance.event("B", json!(null)).await.sub_status, SubStatus::Suspended);
    assert_eq!(instance.event("A", json!(null)).await.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["b2", "end"]);
}

#[tokio::test]
async fn a_stimulus_whose_bookmark_was_removed_matches_another_of_the_same_hash() {
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [event("a", "Same"), event("b", "Same"), event("c", "Same")]});
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
    let first = instance.start().await.bookmarks_created.remove(0).id;
    let twice = vec![
        stimulus(Some(first.clone()), "Same"),
        stimulus(Some(first.clone()), "Same"),
    ];
    let result = instance.burst(twice).await;
    assert_eq!(positions(&result.unmatched), Vec::<usize>::new());
    assert_eq!(instance.completed(), ["a", "b"]);
    let result = instance
        .burst(vec![stimulus(None, "Same"), stimulus(Some(first), "Same")])
        .await;
    assert_eq!(positions(&result.unmatched), [1]);
    assert_eq!(result.status, Status::Finished);
}

#[tokio::test]
async fn a_bookmark_is_resumed_once() {
    let mut instance = InMemoryInstance::new(&definition(json!({"root": event("a", "A")})));
    let bookmark_id = instance.start().await.bookmarks_created.remove(0).id;
    let resume = Instruction::Resume {
        bookmark_id,
        input: Map::new(),
        payload: None,
        request: None,
    };
    assert_eq!(
        positions(&instance.burst(vec![resume.clone(), resume.clone()]).await.unmatched),
        [1]
    );
    assert_eq!(positions(&instance.burst(vec![resume]).await.unmatched), [0]);
}

#[tokio::test]
async fn cancel_ends_all_executions() {
    let mut instance = race("WaitAll");
    instance.start().await;
    let result = instance.burst(vec![Instruction::Cancel, stimulus(None, "A")]).await;
    assert_eq!(
        (result.status, result.sub_status),
        (Status::Finished, SubStatus::Cancelled)
    );
    assert_eq!(result.bookmarks_burned.len(), 2);
    assert_eq!(positions(&result.unmatched), [1]);
    assert_eq!(
        positions(&instance.burst(vec![Instruction::Cancel]).await.unmatched),
        [0]
    );
    let ended: Vec<&str> = result
        .activity_executions
        .iter()
        .map(|execution| execution.status)
        .collect();
    assert!(ended.iter().all(|status| *status == "Canceled"), "{ended:?}");
}

#[tokio::test]
async fn a_start_is_only_for_new_instances() {
    let mut instance = InMemoryInstance::new(&definition(json!({"root": event("a", "A")})));
    instance.start().await;
    assert_eq!(positions(&instance.burst(vec![start(Map::new())]).await.unmatched), [0]);
}

#[tokio::test]
async fn the_same_burst_gives_the_same_ids() {
    let ids = || async {
        let mut instance = race("WaitAll");
        let result = instance.start().await;
        let executions: Vec<_> = result
            .activity_executions
            .into_iter()
            .map(|execution| execution.id)
            .collect();
        (executions, result.bookmarks_created)
    };
    assert_eq!(ids().await, ids().await);
}

/// A lookup by instance reads all bookmarks that are not crowded: so there are few of them.
#[tokio::test]
async fn a_bookmark_beside_many_others_is_crowded() {
    let id = |n: usize| format!("e{n}");
    let waits = (0..100).map(|n| event(&id(n), &id(n)));
    let activities: Vec<Value> = std::iter::once(json!({"id": "s", "type": "Elsa.Start"}))
        .chain(waits)
        .collect();
    let connections: Vec<Value> = (0..100).map(|n| arrow("s", &id(n))).collect();
    let root = json!({"id": "f", "type": "Elsa.Flowchart", "activities": activities, "connections": connections});
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
    let result = instance.start().await;
    let ids = || result.state.bookmarks().iter().map(|bookmark| bookmark.id.as_str());
    assert_eq!(ids().collect::<std::collections::HashSet<_>>().len(), 100);
    let crowded: Vec<bool> = ids().map(|id| id.starts_with('z')).collect();
    assert_eq!(crowded, [vec![false; 64], vec![true; 36]].concat());
    let plain = |id: &str| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(ids().all(|id| plain(id.strip_prefix('z').unwrap_or(id))));
}
