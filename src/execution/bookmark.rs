//! Bookmarks, and the hash by which a stimulus finds them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::id::{ActivityExecutionId, ActivityId, BookmarkId, StimulusHash};

/// A point at which an instance waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bookmark {
    /// Unique, and the same if the burst is run again.
    pub id: BookmarkId,
    /// The activity that waits.
    pub activity_id: ActivityId,
    /// The activity's path in the tree.
    pub node_id: String,
    /// The execution that waits.
    pub activity_execution_id: ActivityExecutionId,
    /// The name of the stimulus: most often the activity's type.
    pub name: String,
    /// The hash that a stimulus must have.
    pub hash: StimulusHash,
    /// The payload, which is hashed unless there is a key.
    pub payload: Value,
    /// What is hashed in place of the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Value>,
    /// Whether published stimuli can match it; false for delays.
    pub publishable: bool,
    /// A timer resumes it this long after the commit's `now()`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "nanoseconds")]
    pub delay: Option<Duration>,
    /// A timer resumes it at this time of the database's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<DateTime<Utc>>,
    /// Whether it is removed when a stimulus matches it.
    pub auto_burn: bool,
}

/// The hash of a stimulus: SHA-256 over `name|payload[|activity execution id]`, the payload as JSON with sorted keys,
/// so that equal payloads have equal hashes.
pub fn stimulus_hash(name: &str, payload: &Value, execution: Option<&ActivityExecutionId>) -> StimulusHash {
    let mut hasher = Sha256::new();
    hasher.update(name.as_bytes());
    hasher.update(b"|");
    hasher.update(canonical(payload).to_string().as_bytes());
    if let Some(execution) = execution {
        hasher.update(b"|");
        hasher.update(execution.as_str().as_bytes());
    }
    StimulusHash(hasher.finalize().into())
}

/// The hash of a published event.
pub fn event_hash(name: &str) -> StimulusHash {
    stimulus_hash("Elsa.Event", &json!({ "eventName": name }), None)
}

/// The value with sorted keys. The recursion is bounded by the depth that values may have in state.
pub(super) fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            Value::Object(
                sorted
                    .into_iter()
                    .map(|(name, field)| (name.clone(), canonical(field)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(delay: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = delay.map(|delay| (delay.as_secs(), delay.subsec_nanos()));
        parts.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let parts = Option::<(u64, u32)>::deserialize(deserializer)?;
        Ok(parts
            .map(|(seconds, nanos)| Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let a = stimulus_hash("n", &json!({"a": 1, "b": [{"c": 1, "d": 2}]}), None);
        let b = stimulus_hash("n", &json!({"b": [{"d": 2, "c": 1}], "a": 1}), None);
        assert_eq!(a, b);
        assert_ne!(a, stimulus_hash("n", &json!({"a": 1}), None));
        assert_ne!(event_hash("A"), event_hash("a"));
    }
}
