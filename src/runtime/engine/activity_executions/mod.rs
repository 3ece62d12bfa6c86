//! Reads of the activity executions of an instance.

mod call_stack;
mod origin;
mod times;

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value};

pub use self::call_stack::CallStack;
use self::origin::{Origin, Origins, scheduled_by};
use super::Engine;
use crate::db::bounded_list;
use crate::elsa_json;
use crate::execution::ParentLink;
use crate::id::{ActivityExecutionId, ActivityId, InstanceId};
use crate::store::instance;
use crate::store::record::execution::{self, Detail, ExecutionQuery, ExecutionRow, ExecutionRows, Link, Selection};
use crate::{Error, Result, compute};

/// Executions of one read with their values.
const MAX_DETAILED: usize = 1_000;
/// Executions of one read without values.
const MAX_SUMMARIES: usize = 10_000;
/// Places in the definition whose executions an observer receives.
const MAX_OBSERVED: usize = 1_000;
/// In bytes: a longer state is read on another thread.
const LONG_STATE: usize = 64 << 10;
/// Executions that a report counts.
const MAX_REPORTED: usize = 1_000_000;

/// An execution of an activity in short (Elsa's `ActivityExecutionRecordSummary`).
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityExecutionSummary {
    /// Its id.
    pub id: ActivityExecutionId,
    /// The instance.
    pub workflow_instance_id: InstanceId,
    /// The activity.
    pub activity_id: String,
    /// Its place in the definition.
    pub activity_node_id: String,
    /// Its type.
    pub activity_type: String,
    /// Its type's version.
    pub activity_type_version: i32,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_name: Option<String>,
    /// When it started, by the database's clock.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub started_at: DateTime<Utc>,
    /// When it completed or was cancelled.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "elsa_json::timestamp")]
    pub completed_at: Option<DateTime<Utc>>,
    /// Whether it waits at a bookmark.
    pub has_bookmarks: bool,
    /// `Running`, `Completed`, `Canceled`, `Faulted`.
    pub status: &'static str,
    /// Its faults and those of the activities in it.
    pub aggregate_fault_count: i32,
    /// Always empty.
    pub metadata: Map<String, Value>,
}

/// An execution of an activity (Elsa's `ActivityExecutionRecord`).
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityExecutionDetail {
    /// What a list shows.
    #[serde(flatten)]
    pub summary: ActivityExecutionSummary,
    /// Evaluated inputs by name, in Pascal case (`Text`).
    pub activity_state: Value,
    /// The outcomes, once it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Outputs by name, in Pascal case.
    pub outputs: Value,
    /// What the activity stores for itself.
    pub properties: Value,
    /// The exception of its fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<Value>,
    /// The execution that scheduled it: the one after whose end it was scheduled, or else the one that contains it; for a
    /// child workflow, the one that started its instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_activity_execution_id: Option<ActivityExecutionId>,
    /// The activity of that execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_activity_id: Option<String>,
    /// The instance of that execution, if it is another one: for a child workflow, its parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_workflow_instance_id: Option<InstanceId>,
    /// How many executions of its instance precede it in its call stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_stack_depth: Option<u32>,
}

/// How often an activity was executed (Elsa's `ActivityExecutionStats`).
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityExecutionStats {
    /// The activity.
    pub activity_id: String,
    /// Its place in the definition.
    pub activity_node_id: String,
    /// Executions that started.
    pub started_count: u64,
    /// Those that completed or were cancelled.
    pub completed_count: u64,
    /// Executions that did not: they run, wait or have faulted.
    pub uncompleted_count: u64,
    /// Whether one waits at a bookmark.
    pub is_blocked: bool,
    /// Whether one faulted.
    pub is_faulted: bool,
    /// Faults of the last execution and of the activities in it.
    pub aggregate_fault_count: i32,
    /// Always empty.
    pub metadata: Map<String, Value>,
}

/// Executions, oldest first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ActivityExecutionList<T> {
    /// The executions, or the newest of them if there are many.
    pub items: Vec<T>,
    /// How many executions exist in all.
    pub count: u64,
}

/// Which executions of an instance to read.
#[derive(Clone, Debug, Default)]
pub struct ActivityExecutionFilter {
    /// The instance.
    pub instance_id: InstanceId,
    /// Only of the activity at this place of the definition.
    pub activity_node_id: Option<String>,
    /// Only of this activity.
    pub activity_id: Option<ActivityId>,
    /// Only those that have ended, or only those that have not.
    pub completed: Option<bool>,
}

impl ActivityExecutionFilter {
    fn selection(&self) -> Selection {
        match (&self.activity_node_id, &self.activity_id) {
            (Some(node), _) => Selection::Nodes(HashSet::from([node.clone()])),
            (None, Some(activity)) => Selection::Activity(activity.as_str().to_owned()),
            (None, None) => Selection::All,
        }
    }

    fn admits(&self, row: &ExecutionRow) -> bool {
        let is_activity = self
            .activity_id
            .as_ref()
            .is_none_or(|id| id.as_str() == row.activity.activity_id);
        is_activity
            && self
                .completed
                .is_none_or(|completed| completed == row.completed_at.is_some())
    }

    /// How many there are, if `admitted` of the rows that were read are.
    fn total(&self, read: &ExecutionRows, admitted: usize) -> u64 {
        let is_exact = self.completed.is_none() && (self.activity_node_id.is_none() || self.activity_id.is_none());
        if is_exact { read.total } else { admitted as u64 }
    }
}

impl Engine {
    /// Counts the executions of activities of an instance by their places in the definition; each executed place has one
    /// entry.
    pub async fn activity_execution_report(
        &self,
        id: &InstanceId,
        node_ids: impl IntoIterator<Item = String>,
    ) -> Result<Vec<ActivityExecutionStats>> {
        let selection = Selection::Nodes(node_ids.into_iter().collect());
        self.report(id, selection).await
    }

    /// Counts the executions of activities of an instance by their places in the definition, of at most 1,000 places, for
    /// those who observe it. Cancellation safe.
    pub async fn observed_activities(&self, id: &InstanceId) -> Result<Vec<ActivityExecutionStats>> {
        let mut stats = self.report(id, Selection::All).await?;
        stats.truncate(MAX_OBSERVED);
        Ok(stats)
    }

    async fn report(&self, id: &InstanceId, selection: Selection) -> Result<Vec<ActivityExecutionStats>> {
        let read = self.executions(id, selection, MAX_REPORTED, Detail::Summary).await?;
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut stats: Vec<ActivityExecutionStats> = Vec::new();
        for row in read.rows.values() {
            let next = stats.len();
            let place = *places.entry(&row.activity.node_id).or_insert(next);
            if place == next {
                stats.push(ActivityExecutionStats {
                    activity_id: row.activity.activity_id.clone(),
                    activity_node_id: row.activity.node_id.clone(),
                    ..ActivityExecutionStats::default()
                });
            }
            let Some(of_node) = stats.get_mut(place) else { continue };
            let is_completed = row.completed_at.is_some();
            of_node.started_count += 1;
            of_node.completed_count += u64::from(is_completed);
            of_node.uncompleted_count += u64::from(!is_completed);
            of_node.is_blocked |= row.has_bookmarks;
            of_node.is_faulted |= row.status == "Faulted";
            of_node.aggregate_fault_count = row.fault_count;
        }
        Ok(stats)
    }

    /// Lists executions with their values, oldest first; if there are more than 1,000, or more than 16 MiB of values, only
    /// the newest.
    pub async fn activity_executions(
        &self,
        filter: &ActivityExecutionFilter,
    ) -> Result<ActivityExecutionList<ActivityExecutionDetail>> {
        let id = &filter.instance_id;
        let mut read = self
            .executions(id, filter.selection(), MAX_DETAILED, Detail::Values)
            .await?;
        read.rows.retain(|_, row| filter.admits(row));
        let count = filter.total(&read, read.rows.len());
        let rows = std::mem::take(&mut read.rows);
        let origins = self.origins(id, &rows, &read.links).await?;
        let items = rows
            .into_iter()
            .map(|(number, row)| detail(id, number, row, origins.of(number)))
            .collect();
        Ok(ActivityExecutionList { items, count })
    }

    /// Lists executions in short, oldest first; if there are more than 10,000, only the newest.
    pub async fn activity_execution_summaries(
        &self,
        filter: &ActivityExecutionFilter,
    ) -> Result<ActivityExecutionList<ActivityExecutionSummary>> {
        let id = &filter.instance_id;
        let mut read = self
            .executions(id, filter.selection(), MAX_SUMMARIES, Detail::Summary)
            .await?;
        read.rows.retain(|_, row| filter.admits(row));
        let count = filter.total(&read, read.rows.len());
        let items = read
            .rows
            .into_iter()
            .map(|(number, row)| summary(id, number, &row))
            .collect();
        Ok(ActivityExecutionList { items, count })
    }

    /// Counts executions.
    pub async fn count_activity_executions(&self, filter: &ActivityExecutionFilter) -> Result<u64> {
        let id = &filter.instance_id;
        let mut read = self
            .executions(id, filter.selection(), MAX_REPORTED, Detail::Summary)
            .await?;
        read.rows.retain(|_, row| filter.admits(row));
        Ok(filter.total(&read, read.rows.len()))
    }

    /// Reads an execution (code `activity-execution-not-found` if there is none).
    pub async fn activity_execution(&self, id: &ActivityExecutionId) -> Result<ActivityExecutionDetail> {
        let (instance, number) = instance_of(id)?;
        let selection = Selection::Numbers(HashSet::from([number]));
        let mut read = self.executions(&instance, selection, 1, Detail::Values).await?;
        let origins = self.origins(&instance, &read.rows, &read.links).await?;
        let row = read.rows.remove(&number).ok_or_else(|| no_execution(id))?;
        Ok(detail(&instance, number, row, origins.of(number)))
    }

    /// Reads an execution in short (code `activity-execution-not-found` if there is none).
    pub async fn activity_execution_summary(&self, id: &ActivityExecutionId) -> Result<ActivityExecutionSummary> {
        let (instance, number) = instance_of(id)?;
        let selection = Selection::Numbers(HashSet::from([number]));
        let mut read = self.executions(&instance, selection, 1, Detail::Summary).await?;
        let row = read.rows.remove(&number).ok_or_else(|| no_execution(id))?;
        Ok(summary(&instance, number, &row))
    }

    /// Where the executions of an instance come from; its parent is read if the instance's first one is among the rows.
    async fn origins<'a>(
        &self,
        id: &'a InstanceId,
        rows: &BTreeMap<u64, ExecutionRow>,
        links: &'a BTreeMap<u64, Link>,
    ) -> Result<Origins<'a>> {
        let has_first = rows.keys().any(|number| scheduled_by(links, *number).is_none());
        let parent = if has_first { self.parent(id).await? } else { None };
        Ok(Origins::new(id, links, parent))
    }

    /// What an instance knows of its parent, if it has one.
    async fn parent(&self, id: &InstanceId) -> Result<Option<ParentLink>> {
        let node = self.node()?;
        let reading = instance::state_of_child(node.database.reads.lists(), &self.tenant, id);
        let Some(state) = bounded_list(reading).await? else {
            return Ok(None);
        };
        compute::run(state.len() > LONG_STATE, move || ParentLink::of_state(&state)).await?
    }

    async fn executions(
        &self,
        id: &InstanceId,
        selection: Selection,
        newest: usize,
        detail: Detail,
    ) -> Result<ExecutionRows> {
        let query = ExecutionQuery {
            selection,
            newest,
            detail,
        };
        let node = self.node()?;
        bounded_list(execution::read(node.database.reads.lists(), &self.tenant, id, query)).await
    }
}

fn instance_of(id: &ActivityExecutionId) -> Result<(InstanceId, u64)> {
    let parts = id.parts().map(|(instance, number)| (InstanceId::new(instance), number));
    parts.ok_or_else(|| no_execution(id))
}

fn no_execution(id: &ActivityExecutionId) -> Error {
    let message = format!("no activity execution has the id {:?}", id.as_str());
    Error::not_found("activity-execution-not-found", message)
}

fn summary(instance: &InstanceId, number: u64, row: &ExecutionRow) -> ActivityExecutionSummary {
    ActivityExecutionSummary {
        id: ActivityExecutionId::of(instance.as_str(), number),
        workflow_instance_id: instance.clone(),
        activity_id: row.activity.activity_id.clone(),
        activity_node_id: row.activity.node_id.clone(),
        activity_type: row.activity.activity_type.clone(),
        activity_type_version: row.activity.activity_type_version,
        activity_name: row.activity.activity_name.clone(),
        started_at: row.started_at,
        completed_at: row.completed_at,
        has_bookmarks: row.has_bookmarks,
        status: row.status,
        aggregate_fault_count: row.fault_count,
        metadata: Map::new(),
    }
}

fn detail(instance: &InstanceId, number: u64, mut row: ExecutionRow, origin: Origin) -> ActivityExecutionDetail {
    let values = row.values.take().map(|values| *values).unwrap_or_default();
    let object = |value: Option<Value>| value.unwrap_or_else(|| Value::Object(Map::new()));
    ActivityExecutionDetail {
        summary: summary(instance, number, &row),
        activity_state: object(values.activity_state),
        payload: values.payload,
        outputs: object(values.outputs),
        properties: object(values.properties),
        exception: values.exception,
        scheduling_activity_execution_id: origin.execution,
        scheduling_activity_id: origin.activity,
        scheduling_workflow_instance_id: origin.instance,
        call_stack_depth: origin.depth,
    }
}
