//! The part of SignalR's JSON protocol that the hub needs: text frames of records, each ended by U+001E.

use serde_json::{Map, Value, json};

use crate::id::InstanceId;

/// Ends each record.
const SEPARATOR: char = '\u{1e}';

/// The longest instance id, in bytes.
const LONGEST_ID: usize = 255;

/// The most records of one frame.
const MOST_RECORDS: usize = 64;

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientMessage {
    /// `ObserveInstanceAsync`; answered if it has an invocation id.
    Observe {
        instance: InstanceId,
        invocation: Option<String>,
    },
    /// A call that cannot be made; answered if it has an invocation id.
    Refused {
        invocation: Option<String>,
        why: &'static str,
    },
    /// A ping, or what the server has no use for.
    Ping,
    Close,
}

/// The records of a frame. An error: the frame does not end with one.
pub(super) fn records(frame: &str) -> Result<Vec<&str>, &'static str> {
    let records = frame
        .strip_suffix(SEPARATOR)
        .ok_or("A frame must end with U+001E.")?
        .split(SEPARATOR)
        .collect::<Vec<_>>();
    if records.len() > MOST_RECORDS {
        return Err("A frame has too many records.");
    }
    Ok(records)
}

fn object(record: &str) -> Result<Map<String, Value>, &'static str> {
    match serde_json::from_str(record) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err("A record must be a JSON object."),
    }
}

/// Checks the handshake.
pub(super) fn handshake(record: &str) -> Result<(), &'static str> {
    let object = object(record)?;
    if object.get("protocol").and_then(Value::as_str) != Some("json") {
        return Err("The protocol must be json.");
    }
    if object.get("version").and_then(Value::as_i64) != Some(1) {
        return Err("The version of the protocol must be 1.");
    }
    Ok(())
}

/// Reads a record after the handshake.
pub(super) fn message(record: &str) -> Result<ClientMessage, &'static str> {
    let object = object(record)?;
    let kind = object.get("type").and_then(Value::as_i64);
    match kind.ok_or("A record must have a type.")? {
        1 => Ok(invocation(&object)),
        2..=6 => Ok(ClientMessage::Ping),
        7 => Ok(ClientMessage::Close),
        _ => Err("The type of a record is unknown."),
    }
}

fn invocation(object: &Map<String, Value>) -> ClientMessage {
    let invocation = object.get("invocationId").and_then(Value::as_str).map(str::to_owned);
    let refused = |why| ClientMessage::Refused {
        invocation: invocation.clone(),
        why,
    };
    if object.get("target").and_then(Value::as_str) != Some("ObserveInstanceAsync") {
        return refused("The hub has only the method ObserveInstanceAsync.");
    }
    let arguments = object.get("arguments").and_then(Value::as_array).map(Vec::as_slice);
    let Some([Value::String(id)]) = arguments else {
        return refused("ObserveInstanceAsync takes one instance id.");
    };
    if id.is_empty() || id.len() > LONGEST_ID || id.chars().any(char::is_control) {
        return refused("An instance id has 1 to 255 bytes and no control characters.");
    }
    ClientMessage::Observe {
        instance: InstanceId::new(id.as_str()),
        invocation,
    }
}

fn record(value: &Value) -> String {
    format!("{value}{SEPARATOR}")
}

/// The answer to the handshake.
pub(super) fn handshake_answer(error: Option<&str>) -> String {
    record(&error.map_or_else(|| json!({}), |error| json!({"error": error})))
}

pub(super) fn ping() -> String {
    record(&json!({"type": 6}))
}

/// The end. `again`: the client may connect again.
pub(super) fn close(error: Option<&str>, again: bool) -> String {
    let mut message = json!({"type": 7});
    if let Some(object) = message.as_object_mut() {
        object.extend(error.map(|error| ("error".to_owned(), json!(error))));
        if again {
            object.insert("allowReconnect".to_owned(), json!(true));
        }
    }
    record(&message)
}

/// The answer to a call.
pub(super) fn completion(invocation: &str, error: Option<&str>) -> String {
    record(&match error {
        None => json!({"type": 3, "invocationId": invocation, "result": null}),
        Some(error) => json!({"type": 3, "invocationId": invocation, "error": error}),
    })
}

/// The messages for a changed instance, as one frame.
pub(super) fn changed(instance: &InstanceId, stats: &Value) -> String {
    let call = |target: &str, argument: Value| record(&json!({"type": 1, "target": target, "arguments": [argument]}));
    [
        call("WorkflowExecutionLogUpdatedAsync", json!({})),
        call("ActivityExecutionLogUpdatedAsync", json!({"stats": stats})),
        call("WorkflowInstanceUpdatedAsync", json!({"workflowInstanceId": instance})),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_records_that_signalr_sends_are_read() {
        assert_eq!(records("{}\u{1e}{\"a\":1}\u{1e}"), Ok(vec!["{}", "{\"a\":1}"]));
        assert!(records("{}").is_err() && records("").is_err() && records(&"\u{1e}".repeat(65)).is_err());
        assert_eq!(handshake(r#"{"protocol":"json","version":1}"#), Ok(()));
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"protocol":"messagepack","version":1}"#,
            r#"{"protocol":"json","version":2}"#,
        ] {
            assert!(handshake(bad).is_err(), "{bad}");
        }
        let observe = |id: &str, more: &str| {
            message(&format!(
                r#"{{"type":1,"target":"ObserveInstanceAsync","arguments":[{id}]{more}}}"#
            ))
            .unwrap()
        };
        let (instance, invocation) = (InstanceId::new("i"), Some("7".to_owned()));
        assert_eq!(
            observe(r#""i""#, r#","invocationId":"7""#),
            ClientMessage::Observe { instance, invocation }
        );
        let long = format!("\"{}\"", "x".repeat(256));
        for bad in ["", "1", "null", r#""""#, r#""a","b""#, r#""\n""#, &long] {
            assert!(matches!(observe(bad, ""), ClientMessage::Refused { .. }), "{bad}");
        }
        let other = message(r#"{"type":1,"target":"Other","arguments":[]}"#).unwrap();
        assert!(matches!(other, ClientMessage::Refused { invocation: None, .. }));
        assert_eq!(message(r#"{"type":6}"#), Ok(ClientMessage::Ping));
        assert_eq!(message(r#"{"type":7}"#), Ok(ClientMessage::Close));
        for bad in ["", "7", "{}", r#"{"type":"1"}"#, r#"{"type":8}"#, &"[".repeat(10_000)] {
            assert!(message(bad).is_err());
        }
    }

    #[test]
    fn the_server_sends_what_signalr_reads() {
        assert_eq!(handshake_answer(None), "{}\u{1e}");
        assert_eq!(ping(), "{\"type\":6}\u{1e}");
        assert_eq!(close(None, true), "{\"type\":7,\"allowReconnect\":true}\u{1e}");
        assert_eq!(
            completion("1", None),
            "{\"type\":3,\"invocationId\":\"1\",\"result\":null}\u{1e}"
        );
        let frame = changed(&InstanceId::new("i"), &json!([]));
        let targets: Vec<Value> = records(&frame)
            .unwrap()
            .into_iter()
            .map(|record| serde_json::from_str::<Value>(record).unwrap()["target"].clone())
            .collect();
        let all = [
            "WorkflowExecutionLogUpdatedAsync",
            "ActivityExecutionLogUpdatedAsync",
            "WorkflowInstanceUpdatedAsync",
        ];
        assert_eq!(targets, all);
    }
}
