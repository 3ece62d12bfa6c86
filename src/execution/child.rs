//! Children: instances that an activity of another instance starts.
//!
//! A burst names its children, and its commit starts them; or it runs a child itself, which is committed before the
//! burst. The id of a child follows from what started it, so that a repeated burst names the same one.

use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::bookmark::canonical;
use crate::activity::{AllPublished, PublishedDefinitions};
use crate::id::{ActivityId, BookmarkId, DefinitionId, InstanceId};
use crate::trace::TraceContext;
use crate::{Error, Result};

/// What a child knows of its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentLink {
    /// The instance whose activity started this one.
    pub instance_id: InstanceId,
    /// The execution that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<Box<StartedBy>>,
    /// The parent waits until this instance waits or ends, not only until it ends.
    #[serde(default, skip_serializing_if = "is_false")]
    pub until_rest: bool,
    /// How many instances above this one run or wait for their child.
    #[serde(default)]
    pub depth: u32,
}

/// The execution of a parent that started a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedBy {
    /// Its number.
    pub execution: u64,
    /// Its activity.
    pub activity_id: ActivityId,
    /// For an executed child, the lineage of the burst that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<String>,
    /// For an executed child, the hash of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// For an executed child, whether it rested after its first burst.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rested: bool,
}

impl ParentLink {
    /// What the state of an instance says of its parent, without reading the rest.
    pub fn of_state(state: &[u8]) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct OfState {
            #[serde(default)]
            parent: Option<ParentLink>,
        }
        let read: serde_json::Result<OfState> = serde_json::from_slice(state);
        read.map(|state| state.parent)
            .map_err(|error| Error::internal("the stored state cannot be read").caused_by(error))
    }
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
    /// Its parent waits for it.
    pub waits: bool,
    /// The bookmark at which the parent waits for it; `None` when it does not wait.
    pub bookmark_id: Option<BookmarkId>,
    /// The span of the activity that starts it, or the trace that it belongs to.
    pub trace: Option<TraceContext>,
}

/// The hash of the request for an executed child, in hexadecimal digits.
pub(super) fn digest(
    definition_id: &DefinitionId,
    correlation_id: &Option<String>,
    input: &Map<String, Value>,
) -> String {
    let asked = json!([definition_id, correlation_id, canonical(&Value::Object(input.clone()))]);
    let hash = Sha256::digest(asked.to_string());
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A living child that was committed before the burst of its parent and that the parent waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct AwaitedChild {
    /// The child.
    pub id: InstanceId,
    /// The bookmark at which the parent waits for it.
    pub bookmark_id: BookmarkId,
    /// The parent waits only until the child waits itself.
    pub until_rest: bool,
}

/// Runs the children of a burst; implemented by the engine.
pub(crate) trait Children: PublishedDefinitions {
    /// Runs a child until it waits, yields or ends, and commits it, or finds the child that an earlier try of the burst
    /// committed.
    fn run<'a>(&'a self, child: &'a ChildStart) -> Pin<Box<dyn Future<Output = ChildRun> + Send + 'a>>;

    /// Whether the burst yields before its next activity because its lock is lost.
    fn must_yield(&self) -> bool {
        false
    }
}

/// Without a database no child runs within a burst.
impl Children for AllPublished {
    fn run<'a>(&'a self, _child: &'a ChildStart) -> Pin<Box<dyn Future<Output = ChildRun> + Send + 'a>> {
        Box::pin(std::future::ready(ChildRun::Elsewhere))
    }
}

/// How the run of a child ended.
#[derive(Debug)]
pub(crate) enum ChildRun {
    Committed(CommittedChild),
    /// It cannot run here; the commit of the burst starts it.
    Elsewhere,
    /// Its definition has no published version.
    NotPublished,
    /// A burst of another lineage has already used this id to ask for a different child.
    OfAnotherLineage,
    /// No capacity for a script was free. Nothing of the child is kept, and the burst is retried after this time.
    Deferred(Duration),
    /// The burst can no longer be committed. Nothing of the child is kept.
    Stopped,
}

/// A child after its commit.
#[derive(Debug)]
pub(crate) struct CommittedChild {
    /// `{workflowInstanceId, status, subStatus, output}`.
    pub(crate) result: Value,
    pub(crate) has_ended: bool,
    /// It waits for something. A child that neither waits nor has ended has yielded.
    pub(crate) rests: bool,
    /// Activities that it and its children executed.
    pub(crate) executed: usize,
    /// Estimated bytes of their journal.
    pub(crate) bytes: usize,
}

/// What the parent of an instance continues with.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildEnd {
    /// The instance has ended; otherwise it waits for something.
    pub ends: bool,
    /// `{workflowInstanceId, status, subStatus, output}`.
    pub result: Value,
}
