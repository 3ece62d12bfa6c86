//! Activities as JSON. An id is also the text of a line, and the name of an event.

use serde_json::{Map, Value, json};

use super::in_memory::{InMemoryInstance, definition, object};
use crate::execution::SubStatus;

pub(super) fn line(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": id})
}

/// A line with the value of a script.
pub(super) fn says(id: &str, script: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": script_of("String", script)})
}

pub(super) fn script_of(type_name: &str, script: &str) -> Value {
    json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": script}})
}

pub(super) fn literal(type_name: &str, value: impl Into<Value>) -> Value {
    let value: Value = value.into();
    json!({"typeName": type_name, "expression": {"type": "Literal", "value": value}})
}

pub(super) fn text(value: &str) -> Value {
    literal("String", value)
}

pub(super) fn event(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.Event", "eventName": id})
}

pub(super) fn delay(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.Delay", "timeSpan": "00:01:00"})
}

pub(super) fn sequence(id: &str, activities: &[Value]) -> Value {
    json!({"id": id, "type": "Elsa.Sequence", "activities": activities})
}

pub(super) fn parallel(id: &str, activities: &[Value]) -> Value {
    json!({"id": id, "type": "Elsa.Parallel", "activities": activities})
}

/// A loop that only a break leaves.
pub(super) fn endless(body: Value) -> Value {
    json!({"id": "loop", "type": "Elsa.While", "condition": true, "body": body})
}

pub(super) fn break_loop(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.Break"})
}

/// A fault with its id as the message.
pub(super) fn fails(id: &str, code: &str, category: &str) -> Value {
    json!({"id": id, "type": "Elsa.Fault", "message": id, "code": code, "category": category})
}

/// A try with these parts; null for one that it does not have.
pub(super) fn guarded(id: &str, [first, catch, finally]: [Value; 3]) -> Value {
    json!({"id": id, "type": "Mainspring.Try", "try": first, "catch": catch, "finally": finally})
}

/// An activity with further properties.
pub(super) fn with(activity: &Value, further: Value) -> Value {
    let mut fields: Map<String, Value> = activity.as_object().unwrap().clone();
    fields.extend(object(further));
    Value::Object(fields)
}

pub(super) fn instance_of(root: &Value) -> InMemoryInstance {
    InMemoryInstance::new(&definition(json!({"root": root})))
}

/// The lines of a workflow that finishes in its first burst.
pub(super) async fn lines(root: &Value) -> Vec<String> {
    let mut instance = instance_of(root);
    let result = instance.start().await;
    assert_eq!(
        result.sub_status,
        SubStatus::Finished,
        "{root}: {:?}",
        result.state.incidents()
    );
    assert_eq!(result.incident_count, 0, "{root}");
    instance.lines()
}

/// The errors that keep a workflow from being published.
pub(super) fn errors(root: &Value) -> Vec<String> {
    let model = definition(json!({"root": root}));
    let found = InMemoryInstance::new(&model).interpreter.validate(&model);
    found
        .into_iter()
        .map(|error| format!("{}: {}", error.activity_id, error.message))
        .collect()
}
