//! Bursts end, and so do endless loops.

use serde_json::{Map, Value, json};

use super::driver::{Driver, definition, object, start};
use crate::activity::Catalogue;
use crate::execution::{Instruction, Status, SubStatus};

fn forever(body: Value) -> Value {
    json!({"root": {"id": "loop", "type": "Elsa.While", "condition": true, "body": body}})
}

fn line() -> Value {
    json!({"id": "w", "type": "Elsa.WriteLine", "text": "again"})
}

#[tokio::test]
async fn an_endless_loop_is_stopped() {
    let mut driver = Driver::with(&definition(forever(line())), Catalogue::standard(), |options| {
        options.executions_without_wait = 5000;
    });
    let outcome = driver.burst(vec![start(Map::new())]).await;
    assert!(outcome.yielded);
    assert_eq!(
        (outcome.status, outcome.sub_status),
        (Status::Running, SubStatus::Executing)
    );
    let outcome = driver.run(Instruction::Continue).await;
    assert_eq!(outcome.sub_status, SubStatus::Faulted);
    assert!(outcome.state.incidents()[0].message.contains("5000"));
    assert!(
        outcome.state.to_bytes().unwrap().len() < 4000,
        "state stays small in loops"
    );
    assert_eq!(driver.lines().len(), 4998);
}

#[tokio::test]
async fn a_loop_that_waits_is_not() {
    let body = json!({"id": "d", "type": "Elsa.Event", "eventName": "Tick"});
    let mut driver = Driver::with(&definition(forever(body)), Catalogue::standard(), |options| {
        options.executions_without_wait = 10;
    });
    driver.start().await;
    for _ in 0..30 {
        let outcome = driver.event("Tick", json!(null)).await;
        assert_eq!(
            outcome.sub_status,
            SubStatus::Suspended,
            "{:?}",
            outcome.state.incidents()
        );
    }
}

#[tokio::test]
async fn a_burst_yields_by_bytes() {
    let mut driver = Driver::with(&definition(forever(line())), Catalogue::standard(), |options| {
        options.bytes_per_burst = 10_000;
    });
    let outcome = driver.burst(vec![start(Map::new())]).await;
    assert!(
        outcome.yielded && outcome.journal.len() < 100,
        "{}",
        outcome.journal.len()
    );
}

#[tokio::test]
async fn a_yield_loses_nothing() {
    let mut whole = Driver::sample("countdown");
    whole.start().await;
    let path = format!("{}/samples/countdown.json", env!("CARGO_MANIFEST_DIR"));
    let sample = crate::definition::WorkflowDefinition::from_json(&std::fs::read(path).unwrap()).unwrap();
    let mut cut = Driver::with(&sample, Catalogue::standard(), |options| {
        options.activities_per_burst = 1
    });
    cut.start().await;
    assert_eq!(whole.lines(), cut.lines());
    let short = |driver: &Driver| -> Vec<_> {
        driver
            .journal
            .iter()
            .map(|entry| (entry.sequence, entry.event_name, entry.activity_execution_id.clone()))
            .collect()
    };
    assert_eq!(short(&whole), short(&cut));
}

#[tokio::test]
async fn break_leaves_the_loop() {
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [
        {"id": "loop", "type": "Elsa.While", "condition": true, "body": {"id": "in", "type": "Elsa.Sequence", "activities": [
            {"id": "if", "type": "Elsa.If", "condition": true, "then": {"id": "b", "type": "Elsa.Break"}}, line()]}},
        {"id": "after", "type": "Elsa.WriteLine", "text": "after"}]});
    let mut driver = Driver::new(&definition(json!({"root": root})));
    assert_eq!(driver.start().await.sub_status, SubStatus::Finished);
    assert_eq!(driver.lines(), ["after"]);
}

#[tokio::test]
async fn finish_and_complete_end_the_workflow() {
    for (ending, outcomes) in [
        ("Elsa.Finish", json!(null)),
        ("Elsa.Complete", json!(["Good", "Better"])),
    ] {
        let root = json!({"id": "f", "type": "Elsa.Flowchart",
            "activities": [{"id": "s", "type": "Elsa.Start"}, {"id": "e", "type": "Elsa.Event", "eventName": "E"},
                {"id": "box", "type": "Elsa.FlowNode", "body": {"id": "end", "type": ending, "outcomes": {"typeName": "Object", "expression": {"type": "Literal", "value": outcomes}}}},
                {"id": "never", "type": "Elsa.WriteLine", "text": "never"}],
            "connections": [{"source": "s", "target": "e"}, {"source": "s", "target": "box"}, {"source": "box", "target": "never"}]});
        let mut driver = Driver::new(&definition(json!({"root": root})));
        let outcome = driver.start().await;
        assert_eq!(
            (outcome.status, outcome.sub_status),
            (Status::Finished, SubStatus::Finished)
        );
        assert!(driver.lines().is_empty());
        assert_eq!(driver.events("Canceled"), ["e"]);
        assert_eq!(driver.completed(), ["s", "end", "box", "f"]);
    }
}

#[tokio::test]
async fn scopes_shadow_each_other_and_inputs_are_typed() {
    let text = |script: &str| json!({"typeName": "String", "expression": {"type": "JavaScript", "value": script}});
    let inner = json!({"id": "in", "type": "Elsa.Sequence", "variables": [{"id": "v2", "name": "V", "typeName": "String", "value": "inner"}],
        "activities": [{"id": "a", "type": "Elsa.WriteLine", "text": text("getV()")},
            {"id": "set", "type": "Elsa.SetVariable", "variable": {"id": "v1", "name": "V"}, "value": "changed"}]});
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [inner,
        {"id": "b", "type": "Elsa.WriteLine", "text": text("getV() + (getInput('N') + 1)")}]});
    let value = json!({"root": root, "inputs": [{"name": "N", "type": "Int32"}],
        "variables": [{"id": "v1", "name": "V", "typeName": "String", "value": "outer"}]});
    let mut driver = Driver::new(&definition(value));
    let outcome = driver.run(start(object(json!({"N": "41"})))).await;
    assert_eq!(
        driver.lines(),
        ["inner", "changed42"],
        "{:?}",
        outcome.state.incidents()
    );
}

#[tokio::test]
async fn bad_values_at_the_start_are_an_incident() {
    let mut driver = Driver::new(&definition(json!({"root": line()})));
    let outcome = driver.run(start(object(json!({"N": "a\u{0}"})))).await;
    assert_eq!(outcome.sub_status, SubStatus::Faulted);
    assert!(outcome.state.input().is_empty());
}

#[tokio::test]
async fn nesting_up_to_the_bound_runs() {
    let depth = 60;
    let text = format!(
        "{{\"root\":{}{{\"id\":\"w\",\"type\":\"Elsa.WriteLine\",\"text\":\"deep\"}}{}}}",
        (0..depth)
            .map(|n| format!("{{\"id\":\"n{n}\",\"type\":\"Elsa.FlowNode\",\"body\":"))
            .collect::<String>(),
        "}".repeat(depth)
    );
    let deep = crate::definition::WorkflowDefinition::from_json(text.as_bytes()).unwrap();
    let mut driver = Driver::new(&deep);
    assert_eq!(driver.start().await.sub_status, SubStatus::Finished);
    assert_eq!(driver.lines(), ["deep"]);
}

#[tokio::test]
async fn a_default_that_is_too_deep_faults() {
    let mut deep = json!(1);
    for _ in 0..110 {
        deep = json!([deep]);
    }
    let value = json!({"root": line(), "variables": [{"id": "v", "name": "V", "typeName": "Object", "value": deep}]});
    let mut driver = Driver::new(&definition(value));
    assert_eq!(driver.start().await.sub_status, SubStatus::Faulted);
    let bytes = driver.state.unwrap().to_bytes().unwrap();
    assert!(crate::execution::InstanceState::from_bytes(&bytes).is_ok());
}

#[test]
fn a_burst_may_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let driver = Driver::sample("hello-world");
    let burst = crate::execution::Burst {
        instance_id: "i".into(),
        state: None,
        instructions: Vec::new(),
        attempt: 1,
        now: chrono::DateTime::UNIX_EPOCH,
    };
    is_send(&driver.interpreter.run(&driver.program, burst));
    is_send(&driver.interpreter.triggers(&driver.program));
}

#[tokio::test]
async fn long_chains_cost_no_stack() {
    let activities: Vec<Value> = (0..3000)
        .map(|n| json!({"id": format!("a{n}"), "type": "Elsa.FlowDecision"}))
        .collect();
    let arrows: Vec<Value> = (1..3000)
        .map(|n| json!({"source": format!("a{}", n - 1), "sourcePort": "True", "target": format!("a{n}")}))
        .collect();
    let root = json!({"id": "f", "type": "Elsa.Flowchart", "activities": activities, "connections": arrows});
    let mut driver = Driver::new(&definition(json!({"root": root})));
    assert_eq!(driver.start().await.sub_status, SubStatus::Finished);
    assert_eq!(driver.completed(), ["a0", "f"]);
}
