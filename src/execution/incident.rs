//! What an instance shows of a fault that no guard has caught.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{ActivityExecutionId, ActivityId};

/// A fault of an activity or, with the workflow's ids, of the instance as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// The activity.
    pub activity_id: ActivityId,
    /// Its path in the tree.
    pub activity_node_id: String,
    /// Its type.
    pub activity_type: String,
    /// The execution that faulted.
    pub activity_instance_id: ActivityExecutionId,
    /// A message for people.
    pub message: String,
    /// `{type, message, code, category, faultType}`.
    pub exception: Value,
    /// The guard that has held the fault up, which a retry executes: what is inside is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard_instance_id: Option<ActivityExecutionId>,
}
