//! Flowcharts that go on in another form of their definition: counts and tokens are those of connections and activities, not of
//! their places.

use std::sync::Arc;

use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition};
use crate::definition::WorkflowDefinition;
use crate::execution::{InstanceState, SubStatus};

const CONNECTIONS: [&str; 4] = ["s -> a", "s -> b", "a -> end", "b -> end"];

/// The same connections and activities in another order.
const REORDERED: [&str; 4] = ["a -> end", "s -> a", "b -> end", "s -> b"];

fn flowchart(mode: &str, activities: [&str; 4], connections: &[&str]) -> WorkflowDefinition {
    let activities = activities.map(|id| match id {
        "s" => json!({"id": "s", "type": "Elsa.Start"}),
        "end" => json!({"id": "end", "type": "Elsa.FlowJoin", "mode": "WaitAll"}),
        id => json!({"id": id, "type": "Elsa.Event", "eventName": id}),
    });
    let connections: Vec<Value> = connections
        .iter()
        .map(|text| {
            let (source, target) = text.split_once(" -> ").unwrap();
            json!({"source": {"activity": source, "port": "Done"}, "target": {"activity": target, "port": "In"}})
        })
        .collect();
    definition(json!({"customProperties": {"Flowchart:ExecutionMode": mode},
        "root": {"id": "f", "type": "Elsa.Flowchart", "activities": activities, "connections": connections}}))
}

/// An instance in which one of two branches has arrived at the join.
async fn half_way(mode: &str) -> InMemoryInstance {
    let mut instance = InMemoryInstance::new(&flowchart(mode, ["s", "a", "b", "end"], &CONNECTIONS));
    instance.start().await;
    assert_eq!(instance.event("a", Value::Null).await.sub_status, SubStatus::Suspended);
    assert!(!instance.completed().contains(&"end".to_owned()));
    instance
}

async fn assert_it_joins(instance: &mut InMemoryInstance) {
    let result = instance.event("b", Value::Null).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let joined = instance.completed().iter().filter(|id| *id == "end").count();
    assert_eq!(joined, 1, "{:?}", instance.completed());
}

#[tokio::test]
async fn a_join_reads_its_own_counts_where_the_order_differs() {
    for mode in ["CounterBased", "TokenBased"] {
        let mut instance = half_way(mode).await;
        let reordered = flowchart(mode, ["end", "b", "a", "s"], &REORDERED);
        instance.program = Arc::new(instance.interpreter.compile(&reordered).unwrap());
        assert_it_joins(&mut instance).await;
    }
}

/// The properties of the flowchart.
fn properties(state: &mut Value) -> &mut Value {
    let contexts = state["contexts"].as_object_mut().unwrap();
    let flowchart = contexts.values_mut().find(|context| context["nodeId"] == "Workflow1:f");
    &mut flowchart.unwrap()["properties"]
}

#[tokio::test]
async fn what_waits_with_counts_by_place_goes_on() {
    let by_place = [
        (
            "CounterBased",
            "FlowScope",
            json!({"a": {"2": 1, "3": 1}, "c": {"0": [1, true], "1": [1, true], "2": [1, true]}}),
        ),
        ("TokenBased", "FlowTokens", json!({"t": {"1": 1, "2": 1}, "b": {}})),
    ];
    for (mode, name, old) in by_place {
        let mut instance = half_way(mode).await;
        let mut state = serde_json::to_value(instance.state.take().unwrap()).unwrap();
        let new = std::mem::replace(&mut properties(&mut state)[name], old.clone());
        assert_ne!(new, old, "{mode}");
        let bytes = serde_json::to_vec(&state).unwrap();
        instance.state = Some(InstanceState::from_bytes(&bytes).unwrap());
        assert_it_joins(&mut instance).await;
    }
}

#[tokio::test]
async fn counts_by_place_are_written_by_id_at_the_next_step() {
    for (mode, name, old) in [
        (
            "CounterBased",
            "FlowScope",
            json!({"a": {"2": 1}, "c": {"0": [1, true], "1": [1, true]}}),
        ),
        ("TokenBased", "FlowTokens", json!({"t": {"0": 1, "1": 1}, "b": {}})),
    ] {
        let mut instance = InMemoryInstance::new(&flowchart(mode, ["s", "a", "b", "end"], &CONNECTIONS));
        instance.start().await;
        let mut state = serde_json::to_value(instance.state.take().unwrap()).unwrap();
        properties(&mut state)[name] = old;
        instance.state = Some(InstanceState::from_bytes(&serde_json::to_vec(&state).unwrap()).unwrap());
        instance.event("a", Value::Null).await;
        let expected = {
            let mut other = half_way(mode).await;
            let mut state = serde_json::to_value(other.state.take().unwrap()).unwrap();
            properties(&mut state)[name].clone()
        };
        let mut state = serde_json::to_value(instance.state.as_ref().unwrap()).unwrap();
        assert_eq!(properties(&mut state)[name], expected, "{mode}");
        let reordered = flowchart(mode, ["end", "b", "a", "s"], &REORDERED);
        instance.program = Arc::new(instance.interpreter.compile(&reordered).unwrap());
        assert_it_joins(&mut instance).await;
    }
}

#[tokio::test]
async fn a_sequence_goes_on_after_the_activity_that_ended() {
    let sequence = |ids: &[&str]| {
        let activities: Vec<Value> = ids
            .iter()
            .map(|id| json!({"id": id, "type": "Elsa.Event", "eventName": id}))
            .collect();
        definition(json!({"root": {"id": "q", "type": "Elsa.Sequence", "activities": activities}}))
    };
    let mut instance = InMemoryInstance::new(&sequence(&["a", "b", "c"]));
    instance.start().await;
    let longer = sequence(&["x", "y", "a", "b", "c"]);
    instance.program = Arc::new(instance.interpreter.compile(&longer).unwrap());
    for id in ["a", "b", "c"] {
        instance.event(id, Value::Null).await;
    }
    assert_eq!(instance.state.as_ref().unwrap().sub_status(), SubStatus::Finished);
    assert_eq!(instance.completed(), ["a", "b", "c", "q"]);
}

#[tokio::test]
async fn a_state_machine_takes_the_transition_of_its_trigger() {
    let machine = |transitions: &[(&str, &str, &str)]| {
        let transitions: Vec<Value> = transitions
            .iter()
            .map(|(from, to, event)| {
                json!({"from": from, "to": to, "trigger": {"id": event, "type": "Elsa.Event", "eventName": event}})
            })
            .collect();
        let states = json!([{"name": "A"}, {"name": "B"}, {"name": "C"}]);
        definition(
            json!({"root": {"id": "m", "type": "Elsa.StateMachine", "initialState": "A", "states": states,
            "transitions": transitions}}),
        )
    };
    let mut instance = InMemoryInstance::new(&machine(&[("A", "B", "e1"), ("A", "C", "e2"), ("C", "B", "e3")]));
    instance.start().await;
    let reordered = machine(&[("C", "B", "e3"), ("A", "C", "e2"), ("A", "B", "e1")]);
    instance.program = Arc::new(instance.interpreter.compile(&reordered).unwrap());
    let result = instance.event("e1", Value::Null).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.completed(), ["e1", "m"]);
}
