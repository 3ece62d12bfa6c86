//! The body of a stored record, without copies of unused parts: values are text until they are requested.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Error, Result};

/// As [`super::ExecutionRef`].
#[derive(Deserialize)]
pub(super) struct RecordedActivity<'a> {
    pub(super) number: u64,
    pub(super) parent: Option<u64>,
    #[serde(borrow)]
    pub(super) activity_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) node_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) activity_type: Cow<'a, str>,
    pub(super) activity_type_version: i32,
    pub(super) activity_name: Option<String>,
    #[serde(default)]
    pub(super) scheduled_after: Option<u64>,
}

/// As [`super::NewEntry`], after its place in the activities.
#[derive(Deserialize)]
pub(super) struct StoredEntry<'a> {
    place: usize,
    pub(super) at: i64,
    #[serde(borrow)]
    pub(super) event_name: Cow<'a, str>,
    pub(super) message: Option<String>,
    pub(super) source: Option<String>,
    #[serde(borrow)]
    pub(super) activity_state: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) payload: Option<&'a RawValue>,
}

/// As [`super::NewExecution`], after its place in the activities.
#[derive(Deserialize)]
pub(super) struct StoredExecution<'a> {
    place: usize,
    #[serde(borrow)]
    pub(super) status: Cow<'a, str>,
    pub(super) started: Option<i64>,
    pub(super) completed: Option<i64>,
    #[serde(borrow)]
    pub(super) activity_state: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) outputs: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) payload: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) properties: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) exception: Option<&'a RawValue>,
    pub(super) has_bookmarks: bool,
    pub(super) fault_count: i32,
}

/// The journal of a body.
#[derive(Deserialize)]
pub(super) struct Journal<'a> {
    #[serde(borrow)]
    pub(super) activities: Vec<RecordedActivity<'a>>,
    #[serde(borrow)]
    journal: Vec<StoredEntry<'a>>,
}

/// The activity executions of a body.
#[derive(Deserialize)]
pub(super) struct Executions<'a> {
    #[serde(borrow)]
    activities: Vec<RecordedActivity<'a>>,
    #[serde(borrow)]
    executions: Vec<StoredExecution<'a>>,
}

/// Reads one of the two from a body.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T> {
    serde_json::from_str(body).map_err(|error| Error::internal("the record of a burst cannot be read").caused_by(error))
}

impl<'a> Journal<'a> {
    /// The entries in order, each with the place of its execution and the execution.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, &RecordedActivity<'a>, &StoredEntry<'a>)> {
        self.journal
            .iter()
            .filter_map(|entry| Some((entry.place, self.activities.get(entry.place)?, entry)))
    }
}

impl<'a> Executions<'a> {
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
    let value: serde_json::Value = serde_json::from_str(raw.get())
        .map_err(|error| Error::internal("the record of a burst cannot be read").caused_by(error))?;
    Ok(Some(value).filter(|value| !value.is_null()))
}
