//! Children: instances that an activity of another instance starts.
//!
//! A burst only names its children; its commit makes their starts. The id of a child follows from what started it, so that
//! a repeated burst names the same one.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{BookmarkId, DefinitionId, InstanceId};

/// What a child knows of its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentLink {
    /// The instance whose activity started this one.
    pub instance_id: InstanceId,
    /// The parent waits until this instance waits or ends, not only until it ends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub until_rest: bool,
    /// How many instances above this one wait for their child.
    #[serde(default)]
    pub depth: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

/// A child that a burst starts.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildStart {
    /// Its id.
    pub id: InstanceId,
    /// The definition that it runs, in the version that is published when the burst is committed.
    pub definition_id: DefinitionId,
    /// Its correlation id.
    pub correlation_id: Option<String>,
    /// Its inputs.
    pub input: Map<String, Value>,
    /// What it knows of its parent.
    pub parent: ParentLink,
    /// The bookmark at which the parent waits for it; none: it does not.
    pub bookmark_id: Option<BookmarkId>,
}

/// What the parent of an instance goes on with.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildEnd {
    /// The instance has ended; otherwise it waits for something.
    pub ends: bool,
    /// `{workflowInstanceId, status, subStatus, output}`.
    pub result: Value,
}
