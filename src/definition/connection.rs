//! The arrows of a flowchart, in both generations of Elsa's JSON.
//!
//! Elsa 3.0 wrote `{source: id, sourcePort, target: id, targetPort}`, later ones write
//! `{source: {activity, port}, target: {activity, port}}`. A port that is missing means `Done` at the source and `In`
//! at the target.

use serde_json::Value;

/// One end of an arrow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The id of the activity.
    pub activity: String,
    /// The outcome (at the source) or the entrance (at the target).
    pub port: String,
}

/// An arrow from one activity's outcome to another activity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    /// Where it starts.
    pub source: Endpoint,
    /// Where it leads.
    pub target: Endpoint,
}

impl Connection {
    /// Reads what stands under `connections`. Doubles are dropped; entries that name no activities come back with
    /// empty ids, so that validation can complain about them.
    pub fn list(value: Option<&Value>) -> Vec<Self> {
        let mut connections: Vec<Self> = Vec::new();
        for entry in value.and_then(Value::as_array).into_iter().flatten() {
            let connection = Self {
                source: Endpoint::read(entry, "source", "sourcePort", "Done"),
                target: Endpoint::read(entry, "target", "targetPort", "In"),
            };
            if !connections.contains(&connection) {
                connections.push(connection);
            }
        }
        connections
    }
}

impl Endpoint {
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
    fn both_generations_say_the_same() {
        let flat = json!([{"source": "a", "target": "b", "sourcePort": "True", "targetPort": "In"}]);
        let nested = json!([
            {"source": {"activity": "a", "port": "True"}, "target": {"activity": "b"}, "vertices": []},
            {"source": {"activity": "a", "port": "True"}, "target": {"activity": "b", "port": "In"}}
        ]);
        assert_eq!(Connection::list(Some(&flat)), Connection::list(Some(&nested)));
        assert_eq!(Connection::list(Some(&nested)).len(), 1);
    }
}
