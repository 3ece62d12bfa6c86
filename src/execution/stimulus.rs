//! What a stimulus and a bookmark have in common: a hash.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::id::{ActivityExecutionId, StimulusHash};

/// The hash of a stimulus: SHA-256 over `name|payload[|activity execution id]`, the payload as JSON with sorted keys,
/// so that two writers of the same payload agree.
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

/// Bounded by the depth that values may have in state.
fn canonical(value: &Value) -> Value {
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
