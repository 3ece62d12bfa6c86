//! Large definitions: what a save, a publish and a read do with one takes processor time in proportion to it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::activity::Catalogue;
use crate::definition::WorkflowDefinition;
use crate::execution::{Interpreter, InterpreterOptions};
use crate::testing::thread_time;

/// Of a debug build, which takes two or three seconds; with quadratic work it takes minutes.
const LIMIT: Duration = Duration::from_secs(20);

fn literal(value: &str) -> Value {
    json!({"typeName": "String", "expression": {"type": "Literal", "value": value}})
}

fn names(count: usize) -> Vec<Value> {
    let name = |n: usize| json!({"id": format!("a{n}"), "type": "Elsa.SetName", "value": literal("x")});
    (0..count).map(name).collect()
}

/// Decisions and joins that wait for all of their inputs, in turn.
fn decisions_and_joins(count: usize) -> Vec<Value> {
    let one = |n: usize| match n % 2 {
        0 => json!({"id": format!("a{n}"), "type": "Elsa.FlowDecision",
            "condition": {"typeName": "Boolean", "expression": {"type": "Literal", "value": true}}}),
        _ => json!({"id": format!("a{n}"), "type": "Elsa.FlowJoin",
            "mode": {"typeName": "FlowJoinMode", "expression": {"type": "Literal", "value": "WaitAll"}}}),
    };
    (0..count).map(one).collect()
}

/// A flowchart of these activities, with these connections.
fn flowchart(activities: Vec<Value>, edges: impl Iterator<Item = (usize, String, usize)>) -> Value {
    let connections: Vec<Value> = edges
        .map(|(from, port, to)| {
            json!({"source": {"activity": format!("a{from}"), "port": port},
                "target": {"activity": format!("a{to}"), "port": "In"}})
        })
        .collect();
    json!({"id": "flow", "type": "Elsa.Flowchart", "activities": activities, "connections": connections})
}

fn state_machine(states: usize, transitions: usize) -> Value {
    let all: Vec<Value> = (0..states).map(|n| json!({"name": format!("s{n}")})).collect();
    let transitions: Vec<Value> = (0..transitions)
        .map(|n| {
            json!({"from": format!("s{}", n % states), "to": format!("s{}", n / states % states),
                "trigger": {"id": format!("t{n}"), "type": "Elsa.Event", "eventName": literal("E")}})
        })
        .collect();
    json!({"id": "machine", "type": "Elsa.StateMachine", "initialState": "s0", "states": all, "transitions": transitions})
}

/// Guards of categories that no activity has, and faults with as many categories.
fn guards(count: usize) -> Value {
    let names: Vec<String> = (0..200).map(|n| format!("No such category {n}")).collect();
    let guard = |n: usize| {
        json!({"id": format!("g{n}"), "type": "Mainspring.Try",
            "catchCategories": {"typeName": "String[]", "expression": {"type": "Object", "value": names}},
            "try": {"id": format!("f{n}"), "type": "Elsa.Fault", "category": literal(&format!("Category of {n}"))},
            "catch": {"id": format!("c{n}"), "type": "Elsa.SetName", "value": literal("x")}})
    };
    let guards: Vec<Value> = (0..count).map(guard).collect();
    json!({"id": "all", "type": "Elsa.Sequence", "activities": guards})
}

#[test]
fn the_work_of_a_publish_grows_with_its_graph() {
    let done = |n: usize| (n / 20, "Done".to_owned(), (n * 7919 + n / 20) % 3_000);
    let complete = (0..180).flat_map(|a| (0..180).map(move |b| (a, "Done".to_owned(), b)));
    let back = |n: usize| {
        (
            n % 3_000,
            format!("p{}", n / 3_000),
            (n % 3_000 + 1 + n / 3_000 * 2_900) % 3_000,
        )
    };
    for (what, root, problems) in [
        ("a complete graph", flowchart(names(180), complete), 0),
        ("many connections", flowchart(names(3_000), (0..60_000).map(done)), 0),
        (
            "a chain with ways back",
            flowchart(names(3_000), (0..60_000).map(back)),
            0,
        ),
        ("connections to nothing", flowchart(names(10), (0..60_000).map(done)), 0),
        (
            "decisions and joins",
            flowchart(decisions_and_joins(3_000), (0..60_000).map(done)),
            0,
        ),
        ("a state machine", state_machine(300, 20_000), 0),
        ("guards", guards(2_000), 100),
    ] {
        let body = json!({"definitionId": "large", "root": root});
        let began = thread_time();
        let definition = WorkflowDefinition::from_value(body).unwrap();
        let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
        let program = interpreter.compile(&definition).unwrap();
        let found = interpreter.validate_compiled(&definition, &program);
        let warnings = interpreter.warnings(&program, &definition);
        let mut shown = definition.root.clone().unwrap();
        interpreter.remove_node_ids(&mut shown);
        interpreter.check_ids(&shown).unwrap();
        interpreter.show_to_designers(&[], &mut shown);
        let took = thread_time() - began;
        println!("{what}: {took:?}");
        assert_eq!(found.len(), problems, "{what}: {:?}", found.first());
        assert!(warnings.len() <= 100 && took < LIMIT, "{what}: {took:?}");
    }
}
