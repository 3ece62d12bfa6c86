//! The record of a burst as one row: its journal entries and the activity executions that it touched.
//!
//! The body has lines of numbers, without the nulls at their ends, and a table of the texts and values to which they refer by
//! index. It has each activity execution once; entries and states refer to it by index, too. An execution is named by its number
//! within the instance, because the row has the instance. `body` reads it, as the views `journal` and `activity_execution`
//! do; `journal` and `execution` read the records of an instance, and `merge` makes one record of them. `times` has the times
//! between which they are.

mod body;
pub(crate) mod execution;
pub(crate) mod journal;
pub(crate) mod merge;
mod read;
pub(crate) mod times;
mod values;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use self::body::activity_of;
use self::values::Values;
use crate::Result;

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

/// Lines of numbers, as the elements of a JSON array.
#[derive(Default)]
struct Lines {
    text: String,
    count: i32,
}

impl Lines {
    fn push(&mut self, fields: &[Option<i64>]) {
        let length = fields.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.text.push_str(if self.count > 0 { ",[" } else { "[" });
        for (at, field) in fields.iter().take(length).enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            // Writing to a `String` cannot fail.
            _ = match field {
                Some(number) => write!(self.text, "{number}"),
                None => self.text.write_str("null"),
            };
        }
        self.text.push(']');
        self.count += 1;
    }
}

/// Builds the record of a burst.
#[derive(Default)]
pub(crate) struct Record {
    indexes: HashMap<u64, i64>,
    values: Values,
    activities: Lines,
    journal: Lines,
    executions: Lines,
}

impl Record {
    pub(crate) fn entry(&mut self, reference: ExecutionRef<'_>, entry: NewEntry<'_>) -> Result<()> {
        let line = [
            Some(self.index(reference)?),
            Some(entry.at),
            Some(self.values.place(entry.event_name)?),
            self.json(entry.activity_state)?,
            self.json(entry.payload)?,
            self.optional(entry.message)?,
            self.optional(entry.source)?,
        ];
        self.journal.push(&line);
        Ok(())
    }

    pub(crate) fn execution(&mut self, reference: ExecutionRef<'_>, execution: NewExecution<'_>) -> Result<()> {
        let line = [
            Some(self.index(reference)?),
            Some(self.values.place(execution.status)?),
            execution.started,
            execution.completed,
            self.json(Some(execution.activity_state))?,
            self.json(Some(execution.outputs))?,
            self.json(execution.payload)?,
            self.json(execution.properties)?,
            self.json(execution.exception)?,
            execution.has_bookmarks.then_some(1),
            Some(execution.fault_count.into()).filter(|count| *count != 0),
        ];
        self.executions.push(&line);
        Ok(())
    }

    fn optional<T: Serialize + ?Sized>(&mut self, value: Option<&T>) -> Result<Option<i64>> {
        value.map(|value| self.values.place(value)).transpose()
    }

    /// Null is left out.
    fn json(&mut self, value: Option<&Value>) -> Result<Option<i64>> {
        self.optional(value.filter(|value| !value.is_null()))
    }

    fn index(&mut self, reference: ExecutionRef<'_>) -> Result<i64> {
        let next = i64::from(self.activities.count);
        match self.indexes.entry(reference.number) {
            Slot::Occupied(known) => return Ok(*known.get()),
            Slot::Vacant(new) => _ = new.insert(next),
        }
        // The place in the definition ends with the id.
        let id = Some(reference.activity_id).filter(|id| *id != activity_of(reference.node_id));
        let line = [
            Some(number(reference.number)),
            reference.parent.map(number),
            Some(self.values.place(reference.node_id)?),
            Some(self.values.place(reference.activity_type)?),
            Some(reference.activity_type_version.into()),
            self.optional(reference.activity_name)?,
            self.optional(id)?,
            reference.scheduled_after.map(number),
        ];
        self.activities.push(&line);
        Ok(next)
    }

    /// The row; none if nothing was recorded.
    pub(crate) fn into_row(self, first_entry: i64) -> Result<Option<RecordRow>> {
        if self.activities.count == 0 {
            return Ok(None);
        }
        let [activities, journal, executions] = [&self.activities, &self.journal, &self.executions].map(|it| &it.text);
        let values = self.values.into_json()?;
        let body = format!(
            r#"{{"values":[{values}],"activities":[{activities}],"journal":[{journal}],"executions":[{executions}]}}"#
        );
        Ok(Some(RecordRow {
            first_entry,
            entries: self.journal.count,
            body,
        }))
    }
}

/// A number of an execution as a field; they are counted from 1, and no instance has so many.
fn number(of: u64) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}
