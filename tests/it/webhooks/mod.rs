//! Events that other programs receive, and events that they send.

mod cluster;
mod events;
mod failures;
mod input;
mod kill;
mod queue;
pub(crate) mod receiver;
mod sources;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::Http;

/// A secret of 24 bytes.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The signature of a webhook, as its receiver computes it.
pub(crate) fn signature(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Registers a sink; what its registration answers.
pub(crate) async fn register(http: &Http, id: &str, url: &str, more: Value) -> Value {
    let mut sink = json!({"id": id, "url": url, "secret": SECRET});
    sink.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    http.post("webhook-sinks", &sink).await.expect(201)
}

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
