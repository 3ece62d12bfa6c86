//! The record of a burst as one row: its journal entries and the activity executions that it touched.
//!
//! The body has each activity execution once; entries and states refer to it by index. An execution is named by its number
//! within the instance, because the row has the instance. `body` reads it, as the views `journal` and `activity_execution`
//! do; `journal` and `execution` read the records of an instance, and `merge` makes one record of them. `times` has the times
//! between which they are.

mod body;
pub(crate) mod execution;
pub(crate) mod journal;
pub(crate) mod merge;
mod read;
pub(crate) mod times;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{Error, Result};

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
    pub(crate) number: u64,
    pub(crate) parent: Option<u64>,
    /// The execution after whose end the parent scheduled it, in the burst in which it started.
    pub(crate) scheduled_after: Option<u64>,
    pub(crate) activity_id: &'a str,
    pub(crate) node_id: &'a str,
    pub(crate) activity_type: &'a str,
    pub(crate) activity_type_version: i32,
    pub(crate) activity_name: Option<&'a str>,
}

/// An entry of the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEntry<'a> {
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
pub(crate) struct NewExecution<'a> {
    pub(crate) status: &'a str,
    /// Microseconds since the burst began; `None` if it began in an earlier commit.
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
        let fields = (
            self.number,
            self.parent,
            self.activity_id,
            self.node_id,
            self.activity_type,
            self.activity_type_version,
            self.activity_name,
        );
        let Some(after) = self.scheduled_after else {
            return fields.serialize(serializer);
        };
        let (number, parent, activity, node, type_name, version, name) = fields;
        (number, parent, activity, node, type_name, version, name, after).serialize(serializer)
    }
}

/// With its place in `activities`.
struct Indexed<T>(usize, T);

impl Serialize for Indexed<NewEntry<'_>> {
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

impl Serialize for Indexed<NewExecution<'_>> {
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
    indexes: HashMap<u64, usize>,
    body: Body<'a>,
}

#[derive(Default, Serialize)]
struct Body<'a> {
    activities: Vec<ExecutionRef<'a>>,
    journal: Vec<Indexed<NewEntry<'a>>>,
    executions: Vec<Indexed<NewExecution<'a>>>,
}

impl<'a> Record<'a> {
    pub(crate) fn entry(&mut self, reference: ExecutionRef<'a>, entry: NewEntry<'a>) {
        let index = self.index(reference);
        self.body.journal.push(Indexed(index, entry));
    }

    pub(crate) fn execution(&mut self, reference: ExecutionRef<'a>, execution: NewExecution<'a>) {
        let index = self.index(reference);
        self.body.executions.push(Indexed(index, execution));
    }

    fn index(&mut self, reference: ExecutionRef<'a>) -> usize {
        let next = self.body.activities.len();
        match self.indexes.entry(reference.number) {
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
