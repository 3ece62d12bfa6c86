//! The requests to the engine and their results. Field names are Elsa's, in camel case in JSON.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::definition::ValidationError;
use crate::elsa_json;
use crate::execution::{InstanceState, InstanceTimestamps};
use crate::id::{ActivityId, BookmarkId, DefinitionId, FanOutId, InstanceId, VersionId};
use crate::{Error, Result};

/// The `Idempotency-Key` of a client, with the fingerprint of its request. The same key with another fingerprint is
/// refused; the same key with the same fingerprint gets the first answer again.
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// The key, 1 to 255 characters.
    pub key: String,
    /// SHA-256 over the route and the body.
    pub fingerprint: [u8; 32],
}

/// Starts a workflow by its definition id: the published version, as resolved by the statement that accepts it, or another
/// one.
#[derive(Clone, Debug, Default)]
pub struct StartRequest {
    /// Which workflow.
    pub definition_id: DefinitionId,
    /// Which version; the published one if absent. A draft runs under its own version id, has no triggers or schedules, and
    /// never changes after its first start: the next save replaces it with a draft that has another id.
    pub version: Option<VersionOptions>,
    /// The caller's own id for the new instance; random when absent.
    pub instance_id: Option<InstanceId>,
    /// The correlation id of the new instance.
    pub correlation_id: Option<String>,
    /// The name of the new instance.
    pub name: Option<String>,
    /// Inputs by name.
    pub input: Map<String, Value>,
    /// Initial values of variables by name.
    pub variables: Map<String, Value>,
    /// The trigger activity to start from; the root if absent.
    pub trigger_activity_id: Option<ActivityId>,
    /// The trigger by its node id, instead of its id; with both, the activity with that node id must have the id.
    pub trigger_node_id: Option<String>,
    /// Makes a client's retry safe.
    pub idempotency: Option<Idempotency>,
}

/// The result of a burst that a request has waited for.
#[derive(Clone, Debug)]
pub struct Executed {
    /// The instance that was started.
    pub instance_id: InstanceId,
    /// Whether the run faulted.
    pub faulted: bool,
    /// The burst had not ended by the answer timeout: it continues, and the state is that of the last commit.
    pub pending: bool,
    pub(crate) state: ExecutedState,
}

/// The state after a burst, formatted only where it is read.
#[derive(Clone, Debug)]
pub(crate) enum ExecutedState {
    Committed(Box<InstanceState>, InstanceTimestamps),
    Shown(Value),
}

impl Executed {
    /// Elsa's sub-status of the instance.
    pub fn sub_status(&self) -> Option<&str> {
        match &self.state {
            ExecutedState::Committed(state, _) => Some(state.sub_status().as_str()),
            ExecutedState::Shown(shown) => shown.get("subStatus").and_then(Value::as_str),
        }
    }

    /// Elsa's `workflowState`, formatted on each call.
    pub fn workflow_state(&self) -> Value {
        match &self.state {
            ExecutedState::Committed(state, meta) => state.workflow_state(*meta),
            ExecutedState::Shown(shown) => shown.clone(),
        }
    }
}

/// Resumes an instance at one of its bookmarks.
#[derive(Clone, Debug, Default)]
pub struct ResumeRequest {
    /// The instance.
    pub instance_id: InstanceId,
    /// The bookmark; if absent, the instance must have exactly one.
    pub bookmark_id: Option<BookmarkId>,
    /// The input of the waiting activity.
    pub input: Map<String, Value>,
    /// Makes a client's retry safe.
    pub idempotency: Option<Idempotency>,
}

/// Publishes an event to waiting instances and to triggers.
#[derive(Clone, Debug, Default)]
pub struct EventRequest {
    /// The name of the event; case matters.
    pub name: String,
    /// Only instances with this correlation id.
    pub correlation_id: Option<String>,
    /// Only this instance.
    pub instance_id: Option<InstanceId>,
    /// Only this execution of an activity, whose id names its instance.
    pub activity_execution_id: Option<String>,
    /// The payload.
    pub input: Option<Value>,
    /// Makes a client's retry safe.
    pub idempotency: Option<Idempotency>,
}

/// The result of publishing an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventAccepted {
    /// Bookmarks that waited for it and will be resumed.
    pub resumed: u64,
    /// Instances that triggers will start.
    pub started: u64,
    /// Whether it was kept in the inbox because no bookmark waited for it.
    pub kept: bool,
    /// Starts that the activation strategies of their workflows refused; they are not repeated.
    pub refused: u64,
    /// Set if more than a thousand bookmarks wait for it, or so many that the copies of its payload would take more than 16
    /// MiB, or an earlier event of this kind has not been given to all yet: it is accepted, and given page by page to the
    /// bookmarks that wait when its turn comes. The other counts are then zero.
    pub fan_out: Option<FanOutId>,
}

/// Which version of a definition is meant (Elsa's `VersionOptions`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionOptions {
    /// The newest one, draft or not.
    #[default]
    Latest,
    /// The published one.
    Published,
    /// The newest and the published one; where only one is possible, the published one, otherwise the newest.
    LatestOrPublished,
    /// The newest one, if it is published.
    LatestAndPublished,
    /// Drafts.
    Draft,
    /// All of them.
    All,
    /// This one.
    Specific(i32),
}

/// One page of a list: `page` counts from 0. A `page_size` of 0 means Elsa's default.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Which page, from 0.
    pub page: u32,
    /// Rows per page, 1 to 1,000.
    pub page_size: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            page: 0,
            page_size: Self::DEFAULT_SIZE,
        }
    }
}

impl Page {
    /// Elsa's default.
    const DEFAULT_SIZE: u32 = 100;
    /// The most rows of one page.
    pub(crate) const MAX_SIZE: u32 = 1000;

    /// Limit and offset of the page.
    pub(crate) fn window(self) -> (i64, i64) {
        let size = match self.page_size {
            0 => Self::DEFAULT_SIZE,
            size => size.min(Self::MAX_SIZE),
        };
        (i64::from(size), i64::from(size) * i64::from(self.page))
    }
}

/// Rows of one page, and the total number of rows.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Listed<T> {
    /// The rows of this page.
    pub items: Vec<T>,
    /// How many rows match.
    pub total_count: u64,
}

/// The order of a list of definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefinitionOrder {
    /// By name, regardless of case.
    #[default]
    Name,
    /// By the time when the version was created.
    Created,
    /// By the number of the version.
    Version,
}

/// Which definitions to list, and in which order.
#[derive(Clone, Debug, Default)]
pub struct DefinitionFilter {
    /// Which versions.
    pub versions: VersionOptions,
    /// Only versions with these version ids, including deleted ones while they are kept for instances.
    pub version_ids: Vec<VersionId>,
    /// Only these.
    pub definition_ids: Vec<DefinitionId>,
    /// Only those that belong, or do not belong, to the system.
    pub is_system: Option<bool>,
    /// Part of the name, the description or an id, regardless of case.
    pub search_term: Option<String>,
    /// The order.
    pub order: DefinitionOrder,
    /// The order is reversed.
    pub descending: bool,
}

/// A definition in a list.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DefinitionSummary {
    /// The version's own id.
    pub id: VersionId,
    /// The id that all versions share.
    pub definition_id: DefinitionId,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Counts from 1.
    pub version: i32,
    /// The version of the tool that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_version: Option<String>,
    /// The newest version.
    pub is_latest: bool,
    /// The published version.
    pub is_published: bool,
    /// Read only.
    pub is_readonly: bool,
    /// Belongs to the system.
    pub is_system: bool,
    /// When the version was created.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub created_at: DateTime<Utc>,
}

/// The result of a bulk cancel or delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkResult {
    /// This many instances were deleted or cancelled.
    Done(u64),
    /// More than 1,000 instances match: a bulk action with this id continues, page by page.
    Accepted(String),
}

/// The instances of a bulk cancel or delete: those that match all given criteria.
#[derive(Clone, Debug, Default)]
pub struct InstanceSelection {
    /// Only these.
    pub ids: Option<Vec<InstanceId>>,
    /// Only of these definitions.
    pub definition_ids: Option<Vec<DefinitionId>>,
    /// Only of this version, by its own id.
    pub version_id: Option<VersionId>,
    /// Only of versions with this number.
    pub version: Option<i32>,
}

/// An entry of an instance's journal (Elsa's `WorkflowExecutionLogRecord`).
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct JournalRecord {
    /// Its id.
    pub id: String,
    /// The activity execution that it is about.
    pub activity_instance_id: String,
    /// The activity execution that scheduled that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_activity_instance_id: Option<String>,
    /// The activity.
    pub activity_id: String,
    /// Its type.
    pub activity_type: String,
    /// Its type's version.
    pub activity_type_version: i32,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_name: Option<String>,
    /// Its place in the definition.
    pub node_id: String,
    /// When it happened, by the database's clock.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub timestamp: DateTime<Utc>,
    /// Grows within the instance.
    pub sequence: i64,
    /// `Started`, `Completed`, `Suspended`, `Resumed`, `Faulted`, `Canceled`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_name: Option<String>,
    /// A message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The activity's evaluated inputs and outputs by name, in Pascal case (`Text`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_state: Option<Value>,
    /// Additional data about the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

/// The result of a save or a publish.
#[derive(Clone, Debug)]
pub struct Published {
    /// The newest version, as the API shows a definition.
    pub definition: Value,
    /// It had been published before, and nothing was written.
    pub already_published: bool,
    /// The warnings of this publish: activities that do less than they seem to, each with the remedy.
    pub warnings: Vec<ValidationError>,
    /// The definitions that use it as an activity and were updated with it.
    pub consumers_updated: Vec<DefinitionId>,
}

/// The result of a refresh of published definitions.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Refreshed {
    /// Their triggers are written as this build computes them, and so are the schedules that differ.
    pub refreshed: Vec<DefinitionId>,
    /// No version of them is published.
    pub not_found: Vec<DefinitionId>,
    /// What starts them cannot be computed or written, and stays as it is; why, by id. At most 1,000.
    #[cfg_attr(feature = "http", schema(value_type = HashMap<String, String>))]
    pub failed: BTreeMap<DefinitionId, String>,
    /// This node already refreshes all definitions for another request: nothing was done for this one.
    #[serde(skip)]
    pub is_in_progress: bool,
}

/// Whether the node accepts work.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// The database answered within the check-in tolerance.
    pub database: bool,
    /// This incarnation is registered and not draining.
    pub registered: bool,
    /// Which part of the node does not answer, or why the database refuses its commits, for reasons unrelated to single
    /// instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The services whose server is away: `locks`, `signal`, `wake`, `mail`, `openid`. The node is still ready.
    pub away: Vec<&'static str>,
    /// Why they are away, by their names, where that is known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<&'static str, String>,
}

impl Readiness {
    /// Whether the node accepts work.
    pub fn ready(&self) -> bool {
        self.database && self.registered && self.reason.is_none()
    }
}

/// The message for a field that fails [`is_plain`].
pub(crate) const NO_CONTROLS: &str = "must have no control characters";

/// Whether a text can be an id: ids appear in logs and on terminals.
pub(crate) fn is_plain(id: &str) -> bool {
    !id.chars().any(char::is_control)
}

/// Refuses a correlation id with control characters. A workflow may set one itself: logs escape it.
pub(crate) fn plain_correlation_id(id: Option<&str>) -> Result<()> {
    if id.is_none_or(is_plain) {
        return Ok(());
    }
    let message = "a correlation id has no control characters";
    Err(Error::invalid("invalid-correlation-id", message).field("correlationId", NO_CONTROLS))
}
