//! The requests for lists of instances, and their results.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request::Page;
use crate::elsa_json;
use crate::id::{DefinitionId, InstanceId, VersionId};

/// An instance in a list.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstanceSummary {
    /// Its id.
    pub id: InstanceId,
    /// Which workflow it runs.
    pub definition_id: DefinitionId,
    /// Which version of it, by id.
    pub definition_version_id: VersionId,
    /// Which version of it, by number.
    pub version: i32,
    /// `Running` or `Finished`.
    pub status: String,
    /// `Pending`, `Executing`, `Suspended`, `Finished`, `Cancelled`, `Faulted`.
    pub sub_status: String,
    /// The instance whose activity started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_workflow_instance_id: Option<InstanceId>,
    /// Its correlation id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many incidents it has.
    pub incident_count: i32,
    /// When it was first committed.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub created_at: DateTime<Utc>,
    /// When it was last committed.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub updated_at: DateTime<Utc>,
    /// When it finished.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub finished_at: Option<DateTime<Utc>>,
}

/// An instance with its state (Elsa's `workflowState`).
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstanceDetail {
    /// What a list shows.
    #[serde(flatten)]
    pub summary: InstanceSummary,
    /// A node holds a claim on work of it: a burst runs, or is about to.
    pub is_executing: bool,
    /// Its version of the workflow belongs to the system.
    pub is_system: bool,
    /// Elsa's `workflowState`.
    pub workflow_state: Value,
}

/// Which instances to select: those that match all given criteria. An empty list means any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceFilter {
    /// Only these.
    pub ids: Vec<InstanceId>,
    /// Only of these definitions.
    pub definition_ids: Vec<DefinitionId>,
    /// Only of these versions, by their own ids.
    pub version_ids: Vec<VersionId>,
    /// Only of versions with this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    /// Only with one of these correlation ids.
    pub correlation_ids: Vec<String>,
    /// Only with this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only of versions that belong to the system.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_system: bool,
    /// Only children of one of these.
    pub parent_ids: Vec<InstanceId>,
    /// Only with, or without, incidents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_incidents: Option<bool>,
    /// `Running`, `Finished`.
    pub statuses: Vec<String>,
    /// `Pending`, `Executing`, `Suspended`, `Finished`, `Cancelled`, `Faulted`.
    pub sub_statuses: Vec<String>,
    /// Only those that match all of these.
    pub time_filters: Vec<TimeFilter>,
    /// Part of the name or the correlation id, or of the id of the definition or version, regardless of case; or the
    /// beginning of the id. Unless an operator has made indexes of trigrams, the beginning of the name or the correlation
    /// id, in the same case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_term: Option<String>,
}

/// Compares a time of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeFilter {
    /// Which time.
    pub column: InstanceTime,
    /// How it compares.
    pub operator: TimeOperator,
    /// The time to compare with.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub timestamp: DateTime<Utc>,
}

/// A time of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InstanceTime {
    /// When it was first committed.
    CreatedAt,
    /// When it was last committed.
    UpdatedAt,
    /// When it finished. An unfinished instance meets only [`TimeOperator::IsNot`].
    FinishedAt,
}

/// How a time compares, to the microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TimeOperator {
    /// It is this.
    Is,
    /// It is not this.
    IsNot,
    /// It is later.
    GreaterThan,
    /// It is this or later.
    GreaterThanOrEqual,
    /// It is earlier.
    LessThan,
    /// It is this or earlier.
    LessThanOrEqual,
}

/// The order of a list of instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstanceOrder {
    /// By the time of the first commit.
    #[default]
    Created,
    /// By the time of the last commit.
    Updated,
    /// By the end; unfinished instances come last, or first if descending.
    Finished,
    /// By name; instances without one count as nameless.
    Name,
}

/// Which part of a list of instances.
#[derive(Clone, Debug)]
pub struct InstancePage {
    /// Its size, and its number without a cursor.
    pub page: Page,
    /// The order.
    pub order: InstanceOrder,
    /// Greatest first.
    pub descending: bool,
    /// [`InstanceList::next_cursor`] of the previous page, in the same order; the page number is then ignored.
    pub cursor: Option<String>,
}

impl Default for InstancePage {
    /// The newest first.
    fn default() -> Self {
        Self {
            page: Page::default(),
            order: InstanceOrder::default(),
            descending: true,
            cursor: None,
        }
    }
}

/// A page of instances.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstanceList {
    /// The rows of this page.
    pub items: Vec<InstanceSummary>,
    /// How many instances match, exact up to 10,000.
    pub total_count: u64,
    /// More than 10,000 match, and the count is an estimate.
    #[cfg_attr(feature = "http", schema(required = false))]
    pub total_count_is_estimate: bool,
    /// Where the next page begins; `None` on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
