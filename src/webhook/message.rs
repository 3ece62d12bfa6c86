//! What a sink receives, in the form of Elsa: `{"eventType": …, "payload": …, "timestamp": …}`.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::EventType;
use crate::elsa_json::timestamp_text;

/// The id of an event. `parts`: the burst that causes it, whose commit is sent again under the same id, and what of the burst it is.
pub(crate) fn event_id(parts: &[&str]) -> Uuid {
    let mut hasher = Sha256::new();
    hasher.update(b"webhook");
    for part in parts {
        // With its length, so that the parts cannot run into each other.
        hasher.update(part.len().to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let digest: [u8; 32] = hasher.finalize().into();
    let (first, _) = digest.split_at(16);
    let mut bytes = [0u8; 16];
    bytes.copy_from_slice(first);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The body of a delivery, whose bytes are the same at each attempt. `payload` is JSON.
pub(crate) fn body(event_type: &str, mut payload: String, created_at: DateTime<Utc>) -> Vec<u8> {
    let (event_type, timestamp) = (json!(event_type), json!(timestamp_text(created_at)));
    // Around the payload in place: it may be large.
    payload.insert_str(0, &format!(r#"{{"eventType":{event_type},"payload":"#));
    payload.push_str(&format!(r#","timestamp":{timestamp}}}"#));
    payload.into_bytes()
}

/// What an event of an instance says: which one, and what it has come to; no values of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstanceEvent<'a> {
    pub(crate) instance: &'a str,
    pub(crate) definition: &'a str,
    pub(crate) version_id: &'a str,
    pub(crate) version: i32,
    pub(crate) tenant: &'a str,
    pub(crate) name: Option<&'a str>,
    pub(crate) correlation_id: Option<&'a str>,
    pub(crate) status: &'a str,
    pub(crate) sub_status: &'a str,
    pub(crate) incidents: i32,
}

impl InstanceEvent<'_> {
    /// The payload of an event of this type, as JSON.
    pub(crate) fn payload(&self, event: EventType) -> String {
        // One that begins has not come to anything yet, whatever the burst made of it.
        let (status, sub_status, incidents) = match event {
            EventType::Started => ("Running", "Executing", 0),
            _ => (self.status, self.sub_status, self.incidents),
        };
        json!({
            "workflowInstanceId": self.instance,
            "workflowDefinitionId": self.definition,
            "workflowDefinitionVersionId": self.version_id,
            "workflowDefinitionVersion": self.version,
            "tenantId": self.tenant,
            "workflowName": self.name,
            "correlationId": self.correlation_id,
            "status": status,
            "subStatus": sub_status,
            "incidentCount": incidents,
        })
        .to_string()
    }

    /// The payload of `Elsa.RunTask`, as Elsa has it.
    pub(crate) fn task(&self, id: &Value, name: &Value, payload: &Value) -> String {
        json!({
            "workflowInstanceId": self.instance,
            "workflowDefinitionId": self.definition,
            "tenantId": self.tenant,
            "workflowName": self.name,
            "correlationId": self.correlation_id,
            "taskId": id,
            "taskName": name,
            "taskPayload": payload,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_depends_on_each_part() {
        let id = event_id(&["i1", "2", "Elsa.RunTask"]);
        assert_eq!(id, event_id(&["i1", "2", "Elsa.RunTask"]));
        assert_ne!(id, event_id(&["i12", "", "Elsa.RunTask"]));
        assert_ne!(id, event_id(&["i1", "3", "Elsa.RunTask"]));
    }

    #[test]
    fn a_body_is_json_with_the_payload_as_it_is() {
        let at = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let text = String::from_utf8(body("a\"b", r#"{"n": 1.10}"#.to_owned(), at)).unwrap();
        assert!(text.contains(r#""payload":{"n": 1.10}"#), "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["eventType"], "a\"b");
        assert!(value["timestamp"].as_str().unwrap().starts_with("2023-11-14T22:13:20"));
    }
}
