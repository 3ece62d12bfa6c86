//! What a published definition offers to the rest of the house: its triggers, and what is wrong with it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{ActivityId, StimulusHash};

/// Something that keeps a definition from being published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidationError {
    /// The activity concerned; empty when it is the definition as a whole.
    pub activity_id: String,
    /// What is wrong, and what to do about it.
    pub message: String,
}

impl ValidationError {
    /// An error about one activity.
    pub fn of(activity_id: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            activity_id: activity_id.into(),
            message: message.into(),
        }
    }
}

/// A way in which a published definition starts by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// The activity at which an instance then begins.
    pub activity_id: ActivityId,
    /// Its type, which is the name of the stimulus: `Elsa.Event`.
    pub activity_type: String,
    /// What a stimulus must hash to.
    pub hash: StimulusHash,
    /// What it waits for: `{"eventName": …}`.
    pub payload: Value,
}
