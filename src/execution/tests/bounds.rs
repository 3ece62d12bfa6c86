//! The bounds of a burst and of an instance.

use serde_json::{Map, Value, json};

use super::in_memory::{InMemoryInstance, definition, object, start};
use crate::activity::Catalogue;
use crate::execution::bookmark::event_hash;
use crate::execution::{Instruction, Status, SubStatus};

fn endless_loop(body: Value) -> Value {
    json!({"root": {"id": "loop", "type": "Elsa.While", "condition": true, "body": body}})
}

fn line() -> Value {
    json!({"id": "w", "type": "Elsa.WriteLine", "text": "again"})
}

#[tokio::test]
async fn an_endless_loop_is_stopped() {
    let mut instance = InMemoryInstance::with(&definition(endless_loop(line())), Catalogue::standard(), |options| {
        options.executions_without_wait = 5000;
    });
    let result = instance.burst(vec![start(Map::new())]).await;
    assert!(result.yielded);
    assert_eq!(
        (result.status, result.sub_status),
        (Status::Running, SubStatus::Executing)
    );
    let result = instance.run(Instruction::Continue).await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    let message = &result.state.incidents()[0].message;
    assert!(
        message.contains("5000") && message.contains("the setting executions-without-wait"),
        "{message}"
    );
    assert!(
        result.state.to_bytes().unwrap().len() < 4000,
        "the state is bounded in loops"
    );
    assert_eq!(instance.lines().len(), 4998);
}

#[tokio::test]
async fn a_loop_that_waits_is_not_stopped() {
    let body = json!({"id": "d", "type": "Elsa.Event", "eventName": "Tick"});
    let mut instance = InMemoryInstance::with(&definition(endless_loop(body)), Catalogue::standard(), |options| {
        options.executions_without_wait = 10;
    });
    instance.start().await;
    for _ in 0..30 {
        let result = instance.event("Tick", json!(null)).await;
        assert_eq!(
            result.sub_status,
            SubStatus::Suspended,
            "{:?}",
            result.state.incidents()
        );
    }
}

/// A cancel ends the instance all the same.
#[tokio::test]
async fn a_burst_that_is_stopped_yields_before_its_next_activity_and_goes_on_there() {
    let model = definition(json!({"root": {"id": "s", "type": "Elsa.Sequence", "activities": [
        line(), {"id": "e", "type": "Elsa.Event", "eventName": "Tick"}, line()]}}));
    let mut instance = InMemoryInstance::with(&model, Catalogue::standard(), |_| {});
    instance.interpreter.stop_bursts(true);
    let result = instance.burst(vec![start(Map::new())]).await;
    assert!(result.yielded && instance.lines().is_empty());
    let result = instance.burst(vec![Instruction::Continue]).await;
    assert!(result.yielded && instance.lines().is_empty());
    instance.interpreter.stop_bursts(false);
    let result = instance.burst(vec![Instruction::Continue]).await;
    assert_eq!((result.sub_status, instance.lines().len()), (SubStatus::Suspended, 1));
    instance.interpreter.stop_bursts(true);
    let result = instance.burst(vec![Instruction::Cancel]).await;
    assert_eq!((result.sub_status, result.yielded), (SubStatus::Cancelled, false));
}

#[tokio::test]
async fn a_burst_yields_by_bytes() {
    let mut instance = InMemoryInstance::with(&definition(endless_loop(line())), Catalogue::standard(), |options| {
        options.bytes_per_burst = 10_000;
    });
    let result = instance.burst(vec![start(Map::new())]).await;
    assert!(result.yielded && result.journal.len() < 100, "{}", result.journal.len());
}

#[tokio::test]
async fn stimuli_behind_a_yield_follow_the_continue() {
    let model = definition(json!({"root": {"id": "s", "type": "Elsa.Sequence", "activities": [
        {"id": "a", "type": "Elsa.Event", "eventName": "Same"}, {"id": "b", "type": "Elsa.Event", "eventName": "Same"},
        {"id": "c", "type": "Elsa.Event", "eventName": "Same"}]}}));
    let mut instance = InMemoryInstance::with(&model, Catalogue::standard(), |options| options.bytes_per_burst = 1);
    instance.start().await;
    let stimulus = |name: &str| Instruction::Stimulus {
        bookmark_id: None,
        hash: event_hash(name),
        name: name.to_owned(),
        payload: None,
    };
    let mut next = vec![stimulus("Same"), stimulus("Other"), stimulus("Same"), stimulus("Same")];
    let (mut held, mut unmatched) = (Vec::new(), Vec::new());
    let last = loop {
        let result = instance.burst(next).await;
        unmatched.extend(result.unmatched.iter().map(|(_, stimulus)| stimulus.clone()));
        if !result.yielded {
            break result;
        }
        held.push(result.held_over.len());
        let held_over = result.held_over.into_iter().map(|(_, stimulus)| stimulus);
        next = std::iter::once(Instruction::Continue).chain(held_over).collect();
    };
    assert_eq!(held.first(), Some(&3), "{held:?}");
    assert_eq!((last.status, last.held_over.len()), (Status::Finished, 0));
    let events = instance.completed();
    assert_eq!(events, ["a", "b", "c", "s"]);
    assert_eq!(
        unmatched,
        [stimulus("Other")],
        "it matched nothing while the instance waited"
    );
}

#[tokio::test]
async fn a_yield_loses_nothing() {
    let mut whole = InMemoryInstance::sample("countdown");
    whole.start().await;
    let path = format!("{}/samples/countdown.json", env!("CARGO_MANIFEST_DIR"));
    let sample = crate::definition::WorkflowDefinition::from_json(&std::fs::read(path).unwrap()).unwrap();
    let mut cut = InMemoryInstance::with(&sample, Catalogue::standard(), |options| {
        options.activities_per_burst = 1
    });
    cut.start().await;
    assert_eq!(whole.lines(), cut.lines());
    let short = |instance: &InMemoryInstance| -> Vec<_> {
        instance
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
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
    assert_eq!(instance.start().await.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["after"]);
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
        let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
        let result = instance.start().await;
        assert_eq!(
            (result.status, result.sub_status),
            (Status::Finished, SubStatus::Finished)
        );
        assert!(instance.lines().is_empty());
        assert_eq!(instance.events("Canceled"), ["e"]);
        assert_eq!(instance.completed(), ["s", "end", "box", "f"]);
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
    let mut instance = InMemoryInstance::new(&definition(value));
    let result = instance.run(start(object(json!({"N": "41"})))).await;
    assert_eq!(
        instance.lines(),
        ["inner", "changed42"],
        "{:?}",
        result.state.incidents()
    );
}

#[tokio::test]
async fn invalid_values_at_the_start_are_an_incident() {
    let mut instance = InMemoryInstance::new(&definition(json!({"root": line()})));
    let result = instance.run(start(object(json!({"N": "a\u{0}"})))).await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    assert!(result.state.input().is_empty());
}

#[tokio::test]
async fn nesting_within_the_bound_runs() {
    let depth = 60;
    let text = format!(
        "{{\"root\":{}{{\"id\":\"w\",\"type\":\"Elsa.WriteLine\",\"text\":\"deep\"}}{}}}",
        (0..depth)
            .map(|n| format!("{{\"id\":\"n{n}\",\"type\":\"Elsa.FlowNode\",\"body\":"))
            .collect::<String>(),
        "}".repeat(depth)
    );
    let deep = crate::definition::WorkflowDefinition::from_json(text.as_bytes()).unwrap();
    let mut instance = InMemoryInstance::new(&deep);
    assert_eq!(instance.start().await.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["deep"]);
}

#[tokio::test]
async fn a_default_that_is_too_deep_faults() {
    let mut deep = json!(1);
    for _ in 0..110 {
        deep = json!([deep]);
    }
    let value = json!({"root": line(), "variables": [{"id": "v", "name": "V", "typeName": "Object", "value": deep}]});
    let mut instance = InMemoryInstance::new(&definition(value));
    assert_eq!(instance.start().await.sub_status, SubStatus::Faulted);
    let bytes = instance.state.unwrap().to_bytes().unwrap();
    assert!(crate::execution::InstanceState::from_bytes(&bytes).is_ok());
}

#[test]
fn a_burst_may_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let instance = InMemoryInstance::sample("hello-world");
    let burst = crate::execution::Burst {
        instance_id: "i".into(),
        state: None,
        instructions: Vec::new(),
        attempt: 1,
        is_followed: false,
        trace: None,
        now: chrono::DateTime::UNIX_EPOCH,
        child_seed: 0,
        origins: Vec::new(),
    };
    is_send(&instance.interpreter.run(&instance.program, burst));
    is_send(&instance.interpreter.triggers(&instance.program));
}

#[tokio::test]
async fn long_chains_use_no_stack() {
    let activities: Vec<Value> = (0..3000)
        .map(|n| json!({"id": format!("a{n}"), "type": "Elsa.FlowDecision"}))
        .collect();
    let arrows: Vec<Value> = (1..3000)
        .map(|n| json!({"source": format!("a{}", n - 1), "sourcePort": "True", "target": format!("a{n}")}))
        .collect();
    let root = json!({"id": "f", "type": "Elsa.Flowchart", "activities": activities, "connections": arrows});
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
    assert_eq!(instance.start().await.sub_status, SubStatus::Finished);
    assert_eq!(instance.completed(), ["a0", "f"]);
}

#[tokio::test]
async fn many_items_are_an_incident_that_names_the_loop_its_input_and_what_to_do() {
    let items: Vec<usize> = (0..100_000).collect();
    let over = |type_name: &str, more: Value| {
        let mut each = json!({"id": "each", "type": type_name, "items": items.clone(), "body": line()});
        each.as_object_mut().unwrap().extend(object(more));
        InMemoryInstance::with(&definition(json!({"root": each})), Catalogue::standard(), |options| {
            options.executions_without_wait = 1500;
        })
    };
    for (type_name, more, activity, parts) in [
        (
            "Elsa.ForEach",
            json!({}),
            "w",
            vec![
                "the input Items of each (Elsa.ForEach) has 100000 items",
                "BulkDispatchWorkflows",
            ],
        ),
        (
            "Elsa.ParallelForEach",
            json!({}),
            "each",
            vec!["The input Items has 100000 items", "MainspringDegreeOfParallelism"],
        ),
        (
            "Elsa.ParallelForEach",
            json!({"mainspringDegreeOfParallelism": 1_000}),
            "w",
            vec![
                "the input Items of each (Elsa.ParallelForEach) has 100000 items",
                "let its body wait",
            ],
        ),
    ] {
        let result = over(type_name, more).start().await;
        assert_eq!(result.sub_status, SubStatus::Faulted);
        let incident = &result.state.incidents()[0];
        assert_eq!(incident.activity_id.as_str(), activity);
        for part in parts {
            assert!(incident.message.contains(part), "{}", incident.message);
        }
    }
}

#[tokio::test]
async fn too_many_open_rounds_name_their_items() {
    let body = json!({"id": "e", "type": "Elsa.Event", "eventName": "Tick"});
    let each = json!({"id": "each", "type": "Elsa.ParallelForEach", "items": [1, 2, 3, 4, 5], "body": body});
    let mut instance = InMemoryInstance::with(&definition(json!({"root": each})), Catalogue::standard(), |options| {
        options.open_executions = 5;
    });
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    let message = &result.state.incidents()[0].message;
    for part in [
        "the setting open-executions",
        "the input Items of each",
        "5 items",
        "MainspringDegreeOfParallelism",
    ] {
        assert!(message.contains(part), "{message}");
    }
}
