//! The body of a stored record, without copies of unused parts: values are text until they are requested.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Error, Result};

/// As [`super::ExecutionRef`].
pub(super) struct RecordedActivity<'a> {
    pub(super) number: u64,
    pub(super) parent: Option<u64>,
    pub(super) activity_id: Cow<'a, str>,
    pub(super) node_id: Cow<'a, str>,
    pub(super) activity_type: Cow<'a, str>,
    pub(super) activity_type_version: i32,
    pub(super) activity_name: Option<Cow<'a, str>>,
    pub(super) scheduled_after: Option<u64>,
}

/// As [`super::NewEntry`], after its place in the activities.
pub(super) struct StoredEntry<'a> {
    place: usize,
    pub(super) at: i64,
    pub(super) event_name: Cow<'a, str>,
    pub(super) message: Option<Cow<'a, str>>,
    pub(super) source: Option<Cow<'a, str>>,
    pub(super) activity_state: Option<&'a RawValue>,
    pub(super) payload: Option<&'a RawValue>,
}

/// As [`super::NewExecution`], after its place in the activities.
pub(super) struct StoredExecution<'a> {
    place: usize,
    pub(super) status: Cow<'a, str>,
    pub(super) started: Option<i64>,
    pub(super) completed: Option<i64>,
    pub(super) activity_state: Option<&'a RawValue>,
    pub(super) outputs: Option<&'a RawValue>,
    pub(super) payload: Option<&'a RawValue>,
    pub(super) properties: Option<&'a RawValue>,
    pub(super) exception: Option<&'a RawValue>,
    pub(super) has_bookmarks: bool,
    pub(super) fault_count: i32,
}

/// A body as it is written: the lines have indexes of values.
#[derive(Deserialize)]
struct Lines<'a> {
    #[serde(borrow)]
    values: Vec<&'a RawValue>,
    activities: Vec<ActivityLine>,
    journal: Vec<EntryLine>,
    executions: Vec<ExecutionLine>,
}

#[derive(Deserialize)]
struct ActivityLine {
    number: u64,
    parent: Option<u64>,
    node_id: usize,
    activity_type: usize,
    activity_type_version: i32,
    #[serde(default)]
    activity_name: Option<usize>,
    /// None: the end of the place in the definition.
    #[serde(default)]
    activity_id: Option<usize>,
    #[serde(default)]
    scheduled_after: Option<u64>,
}

#[derive(Deserialize)]
struct EntryLine {
    place: usize,
    at: i64,
    event_name: usize,
    #[serde(default)]
    activity_state: Option<usize>,
    #[serde(default)]
    payload: Option<usize>,
    #[serde(default)]
    message: Option<usize>,
    #[serde(default)]
    source: Option<usize>,
}

#[derive(Deserialize)]
struct ExecutionLine {
    place: usize,
    status: usize,
    #[serde(default)]
    started: Option<i64>,
    #[serde(default)]
    completed: Option<i64>,
    #[serde(default)]
    activity_state: Option<usize>,
    #[serde(default)]
    outputs: Option<usize>,
    #[serde(default)]
    payload: Option<usize>,
    #[serde(default)]
    properties: Option<usize>,
    #[serde(default)]
    exception: Option<usize>,
    /// None for false, and 1.
    #[serde(default)]
    has_bookmarks: Option<u8>,
    #[serde(default)]
    fault_count: Option<i32>,
}

/// The end of an activity's place in the definition: by convention its id.
pub(super) fn activity_of(node_id: &str) -> &str {
    node_id.rsplit_once(':').map_or(node_id, |(_, id)| id)
}

pub(super) fn unreadable() -> Error {
    Error::internal("the record of a burst cannot be read")
}

pub(super) fn parsed<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| unreadable().caused_by(error))
}

impl<'a> Lines<'a> {
    fn value(&self, at: usize) -> Result<&'a RawValue> {
        self.values.get(at).copied().ok_or_else(unreadable)
    }

    fn optional(&self, at: Option<usize>) -> Result<Option<&'a RawValue>> {
        at.map(|at| self.value(at)).transpose()
    }

    fn text(&self, at: usize) -> Result<Cow<'a, str>> {
        // By serde alone, a `Cow` is always a copy.
        #[derive(Deserialize)]
        struct Text<'b>(#[serde(borrow)] Cow<'b, str>);
        let Text(text) = parsed(self.value(at)?.get())?;
        Ok(text)
    }

    fn optional_text(&self, at: Option<usize>) -> Result<Option<Cow<'a, str>>> {
        at.map(|at| self.text(at)).transpose()
    }

    fn activities(&self) -> Result<Vec<RecordedActivity<'a>>> {
        let activity = |line: &ActivityLine| {
            let node_id = self.text(line.node_id)?;
            let activity_id = match (line.activity_id, &node_id) {
                (Some(at), _) => self.text(at)?,
                (None, Cow::Borrowed(node_id)) => Cow::Borrowed(activity_of(node_id)),
                (None, Cow::Owned(node_id)) => Cow::Owned(activity_of(node_id).to_owned()),
            };
            Ok(RecordedActivity {
                number: line.number,
                parent: line.parent,
                activity_id,
                node_id,
                activity_type: self.text(line.activity_type)?,
                activity_type_version: line.activity_type_version,
                activity_name: self.optional_text(line.activity_name)?,
                scheduled_after: line.scheduled_after,
            })
        };
        self.activities.iter().map(activity).collect()
    }

    /// The entries of the journal in order.
    fn entries(&self) -> impl Iterator<Item = Result<StoredEntry<'a>>> {
        self.journal.iter().map(|line| {
            Ok(StoredEntry {
                place: line.place,
                at: line.at,
                event_name: self.text(line.event_name)?,
                message: self.optional_text(line.message)?,
                source: self.optional_text(line.source)?,
                activity_state: self.optional(line.activity_state)?,
                payload: self.optional(line.payload)?,
            })
        })
    }

    /// The states of the executions.
    fn executions(&self) -> impl Iterator<Item = Result<StoredExecution<'a>>> {
        self.executions.iter().map(|line| {
            Ok(StoredExecution {
                place: line.place,
                status: self.text(line.status)?,
                started: line.started,
                completed: line.completed,
                activity_state: self.optional(line.activity_state)?,
                outputs: self.optional(line.outputs)?,
                payload: self.optional(line.payload)?,
                properties: self.optional(line.properties)?,
                exception: self.optional(line.exception)?,
                has_bookmarks: line.has_bookmarks.unwrap_or_default() != 0,
                fault_count: line.fault_count.unwrap_or_default(),
            })
        })
    }
}

/// The journal of a body.
pub(super) struct Journal<'a> {
    pub(super) activities: Vec<RecordedActivity<'a>>,
    journal: Vec<StoredEntry<'a>>,
}

impl<'a> Journal<'a> {
    pub(super) fn read(body: &'a str) -> Result<Self> {
        let lines = parsed::<Lines<'_>>(body)?;
        Ok(Self {
            activities: lines.activities()?,
            journal: lines.entries().collect::<Result<_>>()?,
        })
    }

    /// The entries in order, each with the place of its execution and the execution.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, &RecordedActivity<'a>, &StoredEntry<'a>)> {
        self.journal
            .iter()
            .filter_map(|entry| Some((entry.place, self.activities.get(entry.place)?, entry)))
    }
}

/// The activity executions of a body.
pub(super) struct Executions<'a> {
    activities: Vec<RecordedActivity<'a>>,
    executions: Vec<StoredExecution<'a>>,
}

impl<'a> Executions<'a> {
    pub(super) fn read(body: &'a str) -> Result<Self> {
        let lines = parsed::<Lines<'_>>(body)?;
        Ok(Self {
            activities: lines.activities()?,
            executions: lines.executions().collect::<Result<_>>()?,
        })
    }

    /// The states of the executions.
    pub(super) fn states(&self) -> impl Iterator<Item = (&RecordedActivity<'a>, &StoredExecution<'a>)> {
        self.executions
            .iter()
            .filter_map(|execution| Some((self.activities.get(execution.place)?, execution)))
    }
}

/// A value of a body; none for null.
pub(super) fn value(raw: Option<&RawValue>) -> Result<Option<serde_json::Value>> {
    let Some(raw) = raw else { return Ok(None) };
    let value: serde_json::Value = parsed(raw.get())?;
    Ok(Some(value).filter(|value| !value.is_null()))
}
