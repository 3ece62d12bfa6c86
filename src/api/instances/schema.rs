//! Instances as the OpenAPI document shows them.
#![allow(dead_code, clippy::large_enum_variant, reason = "schemas")]

use chrono::{DateTime, Utc};
use utoipa::{IntoParams, ToSchema};

use crate::api::execute::WorkflowState;
use crate::api::openapi::Started;
use crate::runtime::{InstanceList, InstanceSummary};

/// An instance with its state.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstanceView {
    #[serde(flatten)]
    summary: InstanceSummary,
    /// A node holds a claim on work of it: a burst runs, or is about to.
    is_executing: bool,
    /// Its version of the workflow belongs to the system.
    is_system: bool,
    /// The state.
    workflow_state: WorkflowState,
}

/// `skip` and `take`, instead of `page` and `pageSize`.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RangeQuery {
    /// The entries before the first one of the response.
    #[param(minimum = 0, maximum = 2147483647)]
    skip: Option<u32>,
    /// The maximum number of entries; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    take: Option<u32>,
}

/// Which entries of a journal.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct JournalFields {
    /// The criteria.
    filter: Option<JournalCriteria>,
    /// The number of the page, from 0.
    #[schema(minimum = 0, maximum = 2147483647)]
    page: Option<u32>,
    /// The size of a page; 100 if absent.
    #[schema(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// The entries before the first one of the response.
    #[schema(minimum = 0, maximum = 2147483647)]
    skip: Option<u32>,
    /// The maximum number of entries; 100 if absent.
    #[schema(minimum = 1, maximum = 1000)]
    take: Option<u32>,
}

/// Which entries: those that meet all criteria.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
struct JournalCriteria {
    /// Only of these activities.
    activity_ids: Option<Vec<String>>,
    /// Only at these places of the definition.
    activity_node_ids: Option<Vec<String>>,
    /// Not of these types.
    excluded_activity_types: Option<Vec<String>>,
    /// Only these events: `Started`, `Completed`, `Faulted`, …
    event_names: Option<Vec<String>>,
}

/// Which instances: those that meet all criteria.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub(super) struct InstanceQuery {
    /// Only this one.
    id: Option<String>,
    /// Only these.
    ids: Option<Vec<String>>,
    /// Only of this version, by its own id.
    definition_version_id: Option<String>,
    /// Only of these versions, by their own ids.
    definition_version_ids: Option<Vec<String>>,
    /// Only with one of these correlation ids.
    correlation_ids: Option<Vec<String>>,
    /// Only with this name, as a list of one.
    names: Option<Vec<String>>,
    /// Only of this definition.
    definition_id: Option<String>,
    /// Only of these definitions.
    definition_ids: Option<Vec<String>>,
    /// Only with this correlation id.
    correlation_id: Option<String>,
    /// Only with this name.
    name: Option<String>,
    /// Only of versions with this number.
    #[param(minimum = 0, maximum = 2147483647)]
    #[schema(minimum = 0, maximum = 2147483647)]
    version: Option<u32>,
    /// Only with, or only without, incidents.
    has_incidents: Option<bool>,
    /// True: only of versions that belong to the system. False has no effect.
    is_system: Option<bool>,
    /// `Running` or `Finished`.
    status: Option<String>,
    /// `Running`, `Finished`.
    statuses: Option<Vec<String>>,
    /// `Pending`, `Executing`, `Suspended`, `Finished`, `Cancelled` or `Faulted`; `Interrupted` finds nothing.
    sub_status: Option<String>,
    /// Several of these.
    sub_statuses: Option<Vec<String>>,
    /// Only with this text in an id, the name, the definition or the correlation id, in any case.
    search_term: Option<String>,
    /// `Created`, `UpdatedAt`, `Finished` or `Name`.
    order_by: Option<String>,
    /// `Ascending` or `Descending`.
    order_direction: Option<String>,
    /// Instead of `page`: the cursor of a response, for the page after it.
    cursor: Option<String>,
}

/// The list of instances.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstanceListFields {
    #[serde(flatten)]
    criteria: InstanceQuery,
    /// Comparisons of times, all of which must hold.
    timestamp_filters: Option<Vec<TimestampFilter>>,
    /// The number of the page, from 0.
    #[schema(minimum = 0, maximum = 2147483647)]
    page: Option<u32>,
    /// The size of a page; 100 if absent.
    #[schema(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
}

/// A comparison of a time.
#[derive(ToSchema)]
struct TimestampFilter {
    /// `CreatedAt`, `UpdatedAt` or `FinishedAt`.
    column: String,
    /// `Is` (if absent), `IsNot`, `GreaterThan`, `GreaterThanOrEqual`, `LessThan` or `LessThanOrEqual`.
    operator: Option<String>,
    /// With an offset.
    timestamp: DateTime<Utc>,
}

/// A page of instances, or the instance that was started.
#[derive(ToSchema)]
#[serde(untagged)]
pub(super) enum ListedOrStarted {
    /// A page of instances.
    Listed(InstanceList),
    /// The instance that was started.
    Started(Started),
}
