//! The record of a burst as one row: its entries of the journal, and the executions that it touched.
//!
//! What entries and executions say of an activity stands in the body once. The views `journal` and
//! `activity_execution` (V8) read the same form.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::{Error, Result};

/// A record on its way to the database.
#[derive(Clone, Debug)]
pub(crate) struct RecordRow {
    /// The number of the first entry in the instance's journal.
    pub(crate) first_entry: i64,
    pub(crate) entries: i32,
    pub(crate) body: String,
}

/// Which execution of which activity is spoken of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
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

/// The present state of an execution.
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

impl Serialize for Who<'_> {
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

/// With its place in `who`.
struct Placed<T>(usize, T);

impl Serialize for Placed<Entry<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Self(who, entry) = self;
        (
            who,
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

impl Serialize for Placed<Execution<'_>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Self(who, execution) = self;
        (
            who,
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

/// A record in the making.
#[derive(Default)]
pub(crate) struct Record<'a> {
    places: HashMap<&'a str, usize>,
    body: Body<'a>,
}

#[derive(Default, Serialize)]
struct Body<'a> {
    who: Vec<Who<'a>>,
    journal: Vec<Placed<Entry<'a>>>,
    executions: Vec<Placed<Execution<'a>>>,
}

impl<'a> Record<'a> {
    pub(crate) fn entry(&mut self, who: Who<'a>, entry: Entry<'a>) {
        let place = self.place(who);
        self.body.journal.push(Placed(place, entry));
    }

    pub(crate) fn execution(&mut self, who: Who<'a>, execution: Execution<'a>) {
        let place = self.place(who);
        self.body.executions.push(Placed(place, execution));
    }

    fn place(&mut self, who: Who<'a>) -> usize {
        let next = self.body.who.len();
        match self.places.entry(who.id) {
            Place::Occupied(known) => *known.get(),
            Place::Vacant(new) => {
                new.insert(next);
                self.body.who.push(who);
                next
            }
        }
    }

    /// The row; none if nothing was recorded.
    pub(crate) fn into_row(self, first_entry: i64) -> Result<Option<RecordRow>> {
        if self.body.who.is_empty() {
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

/// The journal of a record that was read.
#[derive(Deserialize)]
pub(super) struct Journal {
    who: Vec<WhoRead>,
    journal: Vec<EntryRead>,
}

/// As [`Who`].
#[derive(Deserialize)]
pub(super) struct WhoRead(
    pub(super) String,
    pub(super) Option<String>,
    pub(super) String,
    pub(super) String,
    pub(super) String,
    pub(super) i32,
    pub(super) Option<String>,
);

/// As [`Entry`], after the place in `who`.
#[derive(Deserialize)]
pub(super) struct EntryRead(
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

    /// The entries in order, each with whom it is about.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&WhoRead, &EntryRead)> {
        self.journal
            .iter()
            .filter_map(|entry| Some((self.who.get(entry.0)?, entry)))
    }
}
