//! Events that other programs receive, and events that they send.

mod cluster;
mod events;
mod failures;
mod input;
mod kill;
mod queue;
mod sources;

use serde_json::{Value, json};

use crate::support::Http;
use crate::support::receiver::{SECRET, register, signature};

/// A sink as the API shows it.
pub(crate) async fn sink(http: &Http, id: &str) -> Value {
    http.get(&format!("webhook-sinks/{id}")).await.expect(200)
}

/// A definition that runs a task and ends.
pub(crate) fn task(id: &str) -> Value {
    json!({"definitionId": id, "name": "Weighing", "root": {"id": "root", "type": "Elsa.Sequence", "activities": [
        {"id": "task", "type": "Elsa.RunTask", "taskName": literal("Weigh"),
         "payload": {"typeName": "ObjectDictionary", "expression": {"type": "JavaScript", "value": "({parcel: 7})"}}},
    ]}})
}

/// A definition that ends at once.
pub(crate) fn short(id: &str) -> Value {
    json!({"definitionId": id, "root": {"id": "root", "type": "Elsa.Sequence", "activities": []}})
}

pub(crate) fn literal(text: &str) -> Value {
    json!({"typeName": "String", "expression": {"type": "Literal", "value": text}})
}
