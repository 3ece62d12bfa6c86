//! The record of a burst as one row: its journal entries and the activity executions that it touched; and the journal.
//!
//! The body has each activity execution once; entries and states refer to it by index. The views `journal` and
//! `activity_execution` (V8) read the same form.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::db::{Pool, columns};
use crate::id::{InstanceId, TenantId};
use crate::{Error, Result};
use chrono::{DateTime, TimeDelta, Utc};

const LIST: &str = include_str!("../../sql/queries/record/list_journal.sql");

/// A record as it is written.
#[derive(Clone, Debug)]
pub(crate) struct RecordRow {
    /// The number of the first entry in the instance's journal.
    pub(crate) first_entry: i64,
    pub(crate) entries: i32,
    pub(crate) body: String,
}

/// Identifies an activity execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecutionRef<'a> {
    pub(crate) id: &'a str,
    pub(crate) parent_id: Option<&'a str>,
    pub(crate) activity_id: &'a str,
    pub(crate) node_id: &'a str,
    pub(crate) activity_type: &'a str,
    pub(crate) activity_type_version: i32,
    pub(crate) activity_name: Option<&'a str>,
}

/// An entry of the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Microseconds since the burst began.
    pub(crate) at: i64,
    pub(crate) event_name: &'a str,
    pub(crate) message: Option<&'a str>,
    pub(crate) source: Option<&'a str>,
    pub(crate) activity_state: Option<&'a Value>,
    pub(crate) payload: Option<&'a Value>,
}

/// The state of an activity execution after the burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Execution<'a> {
    pub(crate) status: &'a str,
    /// Microseconds since the burst began; none: in an earlier commit.
    pub(crate) started: Option<i64>,
    pub(crate) completed: Option<i64>,
    pub(crate) activity_state: &'a Value,
    pub(crate) outputs: &'a Value,
    pub(crate) payload: Option<&'a Value>,
    pub(crate) properties: Option<&'a Value>,
    pub(crate) exception: Option<&'a Value>,
    pub(crate) has_bookmarks: bool,
    pub(crate) fault_count: i32,
}

impl Serialize for ExecutionRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (
            self.id,
            self.parent_id,
            self.activity_id,
            self.node_id,
            self.activity_type,
            self.activity_type_version,
            self.activity_name,
        )
            .serialize(serializer)
    }
}

/// With its place in `activities`.
struct Indexed<T>(usize, T);

impl Serialize for Indexed<Entry<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Self(index, entry) = self;
        (
            index,
            entry.at,
            entry.event_name,
            entry.message,
            entry.source,
            entry.activity_state,
            entry.payload,
        )
            .serialize(serializer)
    }
}

impl Serialize for Indexed<Execution<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Self(index, execution) = self;
        (
            index,
            execution.status,
            execution.started,
            execution.completed,
            execution.activity_state,
            execution.outputs,
            execution.payload,
            execution.properties,
            execution.exception,
            execution.has_bookmarks,
            execution.fault_count,
        )
            .serialize(serializer)
    }
}

/// Builds the record of a burst.
#[derive(Default)]
pub(crate) struct Record<'a> {
    indexes: HashMap<&'a str, usize>,
    body: Body<'a>,
}

#[derive(Default, Serialize)]
struct Body<'a> {
    activities: Vec<ExecutionRef<'a>>,
    journal: Vec<Indexed<Entry<'a>>>,
    executions: Vec<Indexed<Execution<'a>>>,
}

impl<'a> Record<'a> {
    pub(crate) fn entry(&mut self, reference: ExecutionRef<'a>, entry: Entry<'a>) {
        let index = self.index(reference);
        self.body.journal.push(Indexed(index, entry));
    }

    pub(crate) fn execution(&mut self, reference: ExecutionRef<'a>, execution: Execution<'a>) {
        let index = self.index(reference);
        self.body.executions.push(Indexed(index, execution));
    }

    fn index(&mut self, reference: ExecutionRef<'a>) -> usize {
        let next = self.body.activities.len();
        match self.indexes.entry(reference.id) {
            Slot::Occupied(known) => *known.get(),
            Slot::Vacant(new) => {
                new.insert(next);
                self.body.activities.push(reference);
                next
            }
        }
    }

    /// The row; none if nothing was recorded.
    pub(crate) fn into_row(self, first_entry: i64) -> Result<Option<RecordRow>> {
        if self.body.activities.is_empty() {
            return Ok(None);
        }
        let body = serde_json::to_string(&self.body)
            .map_err(|error| Error::internal("the record of a burst cannot be written").caused_by(error))?;
        Ok(Some(RecordRow {
            first_entry,
            entries: i32::try_from(self.body.journal.len()).unwrap_or(i32::MAX),
            body,
        }))
    }
}

/// The journal of a stored record.
#[derive(Deserialize)]
pub(super) struct Journal {
    activities: Vec<StoredExecutionRef>,
    journal: Vec<StoredEntry>,
}

/// As [`ExecutionRef`].
#[derive(Deserialize)]
pub(super) struct StoredExecutionRef(
    pub(super) String,
    pub(super) Option<String>,
    pub(super) String,
    pub(super) String,
    pub(super) String,
    pub(super) i32,
    pub(super) Option<String>,
);

/// As [`Entry`], after the place in `activities`.
#[derive(Deserialize)]
pub(super) struct StoredEntry(
    usize,
    pub(super) i64,
    pub(super) String,
    pub(super) Option<String>,
    pub(super) Option<String>,
    pub(super) Option<Value>,
    pub(super) Option<Value>,
);

impl Journal {
    pub(super) fn read(body: &str) -> Result<Self> {
        serde_json::from_str(body)
            .map_err(|error| Error::internal("the record of a burst cannot be read").caused_by(error))
    }

    /// The entries in order, each with its execution.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&StoredExecutionRef, &StoredEntry)> {
        self.journal
            .iter()
            .filter_map(|entry| Some((self.activities.get(entry.0)?, entry)))
    }
}

/// An entry of the journal.
#[derive(Clone, Debug)]
pub(crate) struct JournalEntryRow {
    pub(crate) sequence: i64,
    pub(crate) happened_at: DateTime<Utc>,
    pub(crate) event_name: String,
    pub(crate) activity_execution_id: String,
    pub(crate) parent_activity_execution_id: Option<String>,
    pub(crate) activity_id: String,
    pub(crate) activity_type: String,
    pub(crate) activity_type_version: i32,
    pub(crate) activity_name: Option<String>,
    pub(crate) node_id: String,
    pub(crate) message: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) activity_state: Option<Value>,
    pub(crate) payload: Option<Value>,
}

/// Reads a page of an instance's journal in order, with the total number of entries.
pub(crate) async fn list_journal(
    pool: &Pool,
    tenant: &TenantId,
    id: &InstanceId,
    limit: i64,
    offset: i64,
) -> Result<(u64, Vec<JournalEntryRow>)> {
    let rows = pool
        .query(LIST, &[&tenant.as_str(), &id.as_str(), &limit, &offset])
        .await?;
    let at = columns!(rows; total, earlier, first_entry, began_at, body)?;
    let total = rows
        .first()
        .map_or(0, |row| u64::try_from(row.get::<_, i64>(at.total)).unwrap_or(0));
    let mut entries = Vec::new();
    for row in rows {
        let (earlier, first, began): (i64, i64, DateTime<Utc>) =
            (row.get(at.earlier), row.get(at.first_entry), row.get(at.began_at));
        let journal = Journal::read(row.get(at.body))?;
        for (place, (reference, entry)) in (0..).zip(journal.entries()) {
            if earlier + place < offset || earlier + place >= offset + limit {
                continue;
            }
            entries.push(JournalEntryRow {
                sequence: first + place,
                happened_at: began + TimeDelta::microseconds(entry.1),
                event_name: entry.2.clone(),
                activity_execution_id: reference.0.clone(),
                parent_activity_execution_id: reference.1.clone(),
                activity_id: reference.2.clone(),
                activity_type: reference.4.clone(),
                activity_type_version: reference.5,
                activity_name: reference.6.clone(),
                node_id: reference.3.clone(),
                message: entry.3.clone(),
                source: entry.4.clone(),
                activity_state: entry.5.clone(),
                payload: entry.6.clone(),
            });
        }
    }
    Ok((total, entries))
}
