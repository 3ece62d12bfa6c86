//! One activity alone: what it sees, what runs with it, and its bounds.

use std::time::Duration;

use chrono::DateTime;
use serde_json::{Map, Value, json};

use super::in_memory::{InMemoryInstance, definition};
use crate::activity::Catalogue;
use crate::execution::journal::ActivityExecution;
use crate::execution::{ActivityHandle, test_values};
use crate::id::ActivityId;

async fn run(instance: &InMemoryInstance, id: &str, variables: Map<String, Value>) -> ActivityExecution {
    let handle = ActivityHandle::Id(ActivityId::new(id));
    let node_id = instance.program.node_id_of(&handle).unwrap();
    let test = instance
        .interpreter
        .test_activity(&instance.program, node_id, variables, DateTime::UNIX_EPOCH);
    test.await.unwrap()
}

fn line(id: &str, script: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": script}}})
}

#[tokio::test]
async fn what_follows_an_activity_does_not_run() {
    let inner = json!({"id": "inner", "type": "Elsa.Sequence", "variables": [{"id": "l", "name": "Local", "value": "local"}],
        "activities": [line("a", "getOwn() + getLocal()"), line("b", "setOwn('changed')"), line("c", "getOwn()")]});
    let definition = definition(json!({
        "root": {"id": "root", "type": "Elsa.Sequence", "activities": [inner, line("after", "'after'")]},
        "variables": [{"id": "o", "name": "Own", "value": "default"}, {"id": "x", "name": "X", "value": 1}],
        // Neither journal nor executions, and a commit after each activity.
        "options": {"journal": "off", "commitStrategyName": "ActivityExecuted"},
        "customProperties": {"variableTestValues": {"o": "given ", "none": 1}},
    }));
    let instance = InMemoryInstance::new(&definition);
    let done = run(&instance, "a", Map::new()).await;
    assert_eq!(
        (done.status, &done.activity_state["Text"]),
        ("Completed", &json!("defaultlocal"))
    );
    let done = run(&instance, "inner", test_values(&definition)).await;
    assert_eq!(
        (done.status, done.payload),
        ("Completed", Some(json!({"Outcomes": ["Done"]})))
    );
    assert_eq!(instance.lines(), ["defaultlocal", "given local", "", "changed"]);
}

#[tokio::test]
async fn a_test_is_bounded() {
    let endless = json!({"id": "loop", "type": "Elsa.While", "condition": true, "body": line("in", "'x'")});
    let waits = json!({"id": "delay", "type": "Elsa.Delay", "timeSpan": "01:00:00"});
    let root = json!({"id": "root", "type": "Elsa.Sequence", "activities": [endless, waits]});
    let definition = definition(json!({ "root": root }));
    let instance = InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
        options.activities_per_burst = 10;
    });
    assert_eq!(run(&instance, "loop", Map::new()).await.status, "Running");
    assert_eq!(instance.lines().len(), 9);
    let waiting = run(&instance, "delay", Map::new()).await;
    assert_eq!((waiting.status, waiting.has_bookmarks), ("Running", true));
    let instance = InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
        options.activity_timeout = Duration::from_millis(50);
        (options.activities_per_burst, options.executions_without_wait) = (usize::MAX, u64::MAX);
        options.bytes_per_burst = usize::MAX;
    });
    let stopped = run(&instance, "loop", Map::new()).await;
    assert_eq!(
        (stopped.status, &stopped.exception.unwrap()["code"]),
        ("Faulted", &json!("activity-timeout"))
    );
}
