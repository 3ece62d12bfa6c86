//! The connections of a flowchart, in both forms of Elsa's JSON.
//!
//! Elsa 3.0 wrote `{source: id, sourcePort, target: id, targetPort}`, later ones write
//! `{source: {activity, port}, target: {activity, port}}`. A missing port means `Done` at the source and `In` at the
//! target.

use std::collections::HashSet;

use serde_json::Value;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionEnd {
    /// The id of the activity.
    pub activity: String,
    /// The outcome (at the source) or the input port (at the target).
    pub port: String,
}

/// A connection from an outcome of one activity to another activity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    /// The outcome that it starts at.
    pub source: ConnectionEnd,
    /// The activity that it leads to.
    pub target: ConnectionEnd,
}

impl Connection {
    /// Reads the value of `connections`. Duplicates are dropped; an entry without an activity gets an empty id, which
    /// validation reports.
    pub fn list(value: Option<&Value>) -> Vec<Self> {
        let entries = value.and_then(Value::as_array).into_iter().flatten();
        let read = entries.map(|entry| Self {
            source: ConnectionEnd::read(entry, "source", "sourcePort", "Done"),
            target: ConnectionEnd::read(entry, "target", "targetPort", "In"),
        });
        let mut seen = HashSet::new();
        read.filter(|connection| seen.insert(connection.clone())).collect()
    }
}

impl ConnectionEnd {
    fn read(entry: &Value, end: &str, flat_port: &str, default: &str) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let (activity, port) = match entry.get(end) {
            Some(Value::Object(nested)) => (text(nested.get("activity")), text(nested.get("port"))),
            flat => (text(flat), text(entry.get(flat_port))),
        };
        let port = if port.is_empty() { default.to_owned() } else { port };
        Self { activity, port }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_have_the_same_meaning() {
        let flat = json!([{"source": "a", "target": "b", "sourcePort": "True", "targetPort": "In"}]);
        let nested = json!([
            {"source": {"activity": "a", "port": "True"}, "target": {"activity": "b"}, "vertices": []},
            {"source": {"activity": "a", "port": "True"}, "target": {"activity": "b", "port": "In"}}
        ]);
        assert_eq!(Connection::list(Some(&flat)), Connection::list(Some(&nested)));
        assert_eq!(Connection::list(Some(&nested)).len(), 1);
    }
}
