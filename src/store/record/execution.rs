//! The activity executions of an instance, each as the newest record that touched it left it.
//!
//! Records are read from the newest one back, so the first state found of an execution is its current one; its start is in
//! an older record. Only the newest part of a very long history is read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::body::{self, Lines, RecordedActivity, StoredExecution};
use super::read::{MAX_BYTES, Reader, RecordPage, StoredRecord};
use crate::compute;
use crate::db::Pool;
use crate::id::{InstanceId, TenantId};
use crate::{Error, Result};

/// The bytes of records of a short history.
const SHORT_BYTES: u32 = 256 << 10;
/// The bytes of values that one read returns; the oldest executions give way.
const MAX_VALUE_BYTES: usize = 16 << 20;

/// The activity of an execution.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ActivityOf {
    pub(crate) activity_id: String,
    pub(crate) node_id: String,
    pub(crate) activity_type: String,
    pub(crate) activity_type_version: i32,
    pub(crate) activity_name: Option<String>,
}

/// What an execution left to be seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values {
    pub(crate) activity_state: Option<Value>,
    pub(crate) outputs: Option<Value>,
    pub(crate) payload: Option<Value>,
    pub(crate) properties: Option<Value>,
    pub(crate) exception: Option<Value>,
}

/// An execution.
#[derive(Clone, Debug)]
pub(crate) struct ExecutionRow {
    pub(crate) activity: Arc<ActivityOf>,
    pub(crate) status: &'static str,
    /// If its start is beyond what was read: the begin of the oldest burst that touched it.
    pub(crate) started_at: DateTime<Utc>,
    pub(crate) completed_at: Option<DateTime<Utc>>,
    pub(crate) has_bookmarks: bool,
    pub(crate) fault_count: i32,
    /// If they were asked for.
    pub(crate) values: Option<Box<Values>>,
    bytes: usize,
}

/// How an execution came to be.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) activity: Arc<ActivityOf>,
    pub(crate) parent: Option<u64>,
    scheduled_after: Option<u64>,
}

impl Link {
    /// The number of the execution that scheduled it: the one after whose end it was, or else its parent.
    pub(crate) fn scheduled_by(&self) -> Option<u64> {
        self.scheduled_after.or(self.parent)
    }
}

/// Which executions are read.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    /// All.
    All,
    /// Those of activities at these places of the definition.
    Nodes(HashSet<String>),
    /// Those of activities with this id.
    Activity(String),
    /// Those with these numbers.
    Numbers(HashSet<u64>),
}

/// How much is read of an execution; each has what the one before it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Detail {
    Summary,
    /// And the links of all executions of the instance.
    Links,
    Values,
}

/// What is read of them.
#[derive(Clone, Debug)]
pub(crate) struct ExecutionQuery {
    pub(crate) selection: Selection,
    /// At most so many, the newest ones.
    pub(crate) newest: usize,
    pub(crate) detail: Detail,
}

/// Executions by their numbers.
#[derive(Debug, Default)]
pub(crate) struct ExecutionRows {
    pub(crate) rows: BTreeMap<u64, ExecutionRow>,
    /// Of all executions, if they were asked for.
    pub(crate) links: BTreeMap<u64, Link>,
    /// How many the selection has in all, if all records were read.
    pub(crate) total: u64,
}

struct Collector {
    query: ExecutionQuery,
    found: ExecutionRows,
    value_bytes: usize,
    /// No execution up to this number is kept: there was no room for one.
    floor: u64,
    /// By the place in the definition.
    activities: HashMap<String, Arc<ActivityOf>>,
}

impl Collector {
    fn new(query: ExecutionQuery) -> Result<Self> {
        if query.newest == 0 {
            return Err(Error::internal("a read of no executions"));
        }
        Ok(Self {
            query,
            found: ExecutionRows::default(),
            value_bytes: 0,
            floor: 0,
            activities: HashMap::new(),
        })
    }

    fn add(&mut self, page: &RecordPage) -> Result<()> {
        for record in &page.records {
            let lines = Lines::read(&record.body)?;
            let executions = lines.executions()?;
            for (activity, execution) in executions.states() {
                self.add_state(record, activity, execution)?;
            }
        }
        Ok(())
    }

    /// Adds what one record has of an execution to the execution, if it is one of those that are read.
    fn add_state(
        &mut self,
        record: &StoredRecord,
        reference: &RecordedActivity<'_>,
        state: &StoredExecution<'_>,
    ) -> Result<()> {
        let number = reference.number;
        let at = |offset: i64| record.began_at + TimeDelta::microseconds(offset);
        if self.query.detail >= Detail::Links {
            let activity = self.activity(reference);
            let link = self.found.links.entry(number).or_insert(Link {
                activity,
                parent: reference.parent,
                scheduled_after: None,
            });
            link.scheduled_after = link.scheduled_after.or(reference.scheduled_after);
        }
        let is_selected = match &self.query.selection {
            Selection::All => true,
            Selection::Nodes(nodes) => nodes.contains(reference.node_id),
            Selection::Activity(id) => *id == reference.activity_id,
            Selection::Numbers(numbers) => numbers.contains(&number),
        };
        if !is_selected {
            return Ok(());
        }
        self.found.total += u64::from(state.started.is_some());
        if let Some(known) = self.found.rows.get_mut(&number) {
            known.started_at = state.started.map_or(record.began_at.min(known.started_at), at);
            return Ok(());
        }
        if number <= self.floor {
            return Ok(());
        }
        let values = [
            state.activity_state,
            state.outputs,
            state.payload,
            state.properties,
            state.exception,
        ];
        let has_values = self.query.detail == Detail::Values;
        let bytes = values.iter().flatten().map(|raw| raw.get().len()).sum::<usize>();
        let row = ExecutionRow {
            activity: self.activity(reference),
            status: status(state.status),
            started_at: state.started.map_or(record.began_at, at),
            completed_at: state.completed.map(at),
            has_bookmarks: state.has_bookmarks,
            fault_count: state.fault_count,
            values: if has_values {
                Some(Box::new(Values {
                    activity_state: body::value(state.activity_state)?,
                    outputs: body::value(state.outputs)?,
                    payload: body::value(state.payload)?,
                    properties: body::value(state.properties)?,
                    exception: body::value(state.exception)?,
                }))
            } else {
                None
            },
            bytes: if has_values { bytes } else { 0 },
        };
        self.value_bytes += row.bytes;
        self.found.rows.insert(number, row);
        let rows = &mut self.found.rows;
        while rows.len() > self.query.newest || (self.value_bytes > MAX_VALUE_BYTES && rows.len() > 1) {
            let Some((number, oldest)) = rows.pop_first() else {
                break;
            };
            self.floor = number;
            self.value_bytes = self.value_bytes.saturating_sub(oldest.bytes);
        }
        Ok(())
    }

    /// Equal activities share their texts.
    fn activity(&mut self, reference: &RecordedActivity<'_>) -> Arc<ActivityOf> {
        if let Some(known) = self.activities.get(reference.node_id) {
            return Arc::clone(known);
        }
        let activity = Arc::new(ActivityOf {
            activity_id: reference.activity_id.to_string(),
            node_id: reference.node_id.to_string(),
            activity_type: reference.activity_type.to_string(),
            activity_type_version: reference.activity_type_version,
            activity_name: reference.activity_name.map(str::to_owned),
        });
        self.activities.insert(activity.node_id.clone(), Arc::clone(&activity));
        activity
    }
}

fn status(word: &str) -> &'static str {
    let words = ["Running", "Completed", "Canceled", "Faulted"];
    words.into_iter().find(|one| *one == word).unwrap_or("Pending")
}

/// Reads executions of an instance whose history is short; `None` if it is longer.
pub(crate) async fn read_short(
    pool: &Pool,
    tenant: &TenantId,
    id: &InstanceId,
    query: ExecutionQuery,
) -> Result<Option<ExecutionRows>> {
    let mut collector = Collector::new(query)?;
    let mut reader = Reader::newest_first(pool, tenant, id).pages_of(SHORT_BYTES);
    let page = reader.next().await?;
    if !page.is_last {
        return Ok(None);
    }
    let collected = compute::run(page.is_long(), move || collector.add(&page).map(|()| collector.found));
    collected.await?.map(Some)
}

/// Reads executions of an instance.
pub(crate) async fn read(
    pool: &Pool,
    tenant: &TenantId,
    id: &InstanceId,
    query: ExecutionQuery,
) -> Result<ExecutionRows> {
    let mut reader = Reader::newest_first(pool, tenant, id);
    let mut collector = Collector::new(query)?;
    let mut bytes = 0;
    loop {
        let page = reader.next().await?;
        bytes += page.bytes;
        let is_last = page.is_last || page.records.is_empty() || bytes > MAX_BYTES;
        collector = compute::run(page.is_long(), move || collector.add(&page).map(|()| collector)).await??;
        if is_last {
            // A start beyond what was read was not counted.
            collector.found.total = collector.found.total.max(collector.found.rows.len() as u64);
            return Ok(collector.found);
        }
    }
}
