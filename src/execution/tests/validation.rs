//! What a publish refuses.

use serde_json::{Value, json};

use super::driver::{Driver, definition, options};
use crate::activity::Catalogue;
use crate::execution::Interpreter;

fn complaints(value: Value) -> Vec<(String, String)> {
    let (options, _) = options();
    let interpreter = Interpreter::new(Catalogue::standard(), options);
    let errors = interpreter.validate(&definition(value));
    errors
        .into_iter()
        .map(|error| (error.activity_id, error.message))
        .collect()
}

fn one(value: Value) -> (String, String) {
    let mut all = complaints(value);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn write(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": "Literal", "value": "x"}}})
}

#[test]
fn a_missing_root() {
    assert!(one(json!({"definitionId": "d"})).1.contains("root"));
}

#[test]
fn an_unknown_type_is_named() {
    let (activity, message) = one(json!({"root": {"id": "a", "type": "Acme.Fly"}}));
    assert_eq!(activity, "a");
    assert!(message.contains("Acme.Fly"));
}

#[test]
fn ids_are_unique() {
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [write("a"), write("a"), write("a")]});
    assert_eq!(one(json!({"root": root})).0, "a");
}

#[test]
fn a_connection_leads_somewhere() {
    let root = json!({"id": "f", "type": "Elsa.Flowchart", "activities": [write("a")],
        "connections": [{"source": {"activity": "a", "port": "Done"}, "target": {"activity": "b", "port": "In"}}]});
    let (activity, message) = one(json!({"root": root}));
    assert_eq!(activity, "f");
    assert!(message.contains(" b,"), "{message}");
}

#[test]
fn a_literal_has_the_right_type() {
    let root = json!({"id": "d", "type": "Elsa.Delay", "timeSpan": {"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "soon"}}});
    let (activity, message) = one(json!({"root": root}));
    assert_eq!(activity, "d");
    assert!(message.contains("TimeSpan") && message.contains("soon"), "{message}");
}

#[test]
fn an_expression_runs_here() {
    for kind in ["CSharp", "C#", "Python", "Liquid"] {
        let root = json!({"id": "w", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": kind, "value": "1"}}});
        let (activity, message) = one(json!({"root": root}));
        assert_eq!(activity, "w");
        assert!(
            message.contains("Text") && message.contains(kind) && message.contains("JavaScript"),
            "{message}"
        );
    }
}

#[test]
fn token_mode_is_not_there_yet() {
    let value = json!({"root": write("a"), "customProperties": {"Flowchart:ExecutionMode": "TokenBased"}});
    assert!(one(value).1.contains("TokenBased"));
}

#[test]
fn ids_are_made_up_as_elsa_does() {
    let root =
        json!({"type": "Elsa.Sequence", "activities": [write("WriteLine1"), {"type": "Elsa.WriteLine", "text": null}]});
    let driver = Driver::new(&definition(json!({"root": root})));
    let paths: Vec<&str> = driver.program.tree().iter().map(|node| node.node_id()).collect();
    assert_eq!(
        paths,
        [
            "Workflow1",
            "Workflow1:Sequence1",
            "Workflow1:Sequence1:WriteLine1",
            "Workflow1:Sequence1:WriteLine2"
        ]
    );
}
