//! The body of a stored record, without copies of unused parts: values are text until they are requested.

use std::borrow::Cow;
use std::cell::OnceCell;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Error, Result};

/// As [`super::ExecutionRef`].
pub(super) struct RecordedActivity<'a> {
    pub(super) number: u64,
    pub(super) parent: Option<u64>,
    pub(super) activity_id: &'a str,
    pub(super) node_id: &'a str,
    pub(super) activity_type: &'a str,
    pub(super) activity_type_version: i32,
    pub(super) activity_name: Option<&'a str>,
    pub(super) scheduled_after: Option<u64>,
}

/// As [`super::NewEntry`], after its place in the activities.
pub(super) struct StoredEntry<'a> {
    place: usize,
    pub(super) at: i64,
    pub(super) event_name: &'a str,
    pub(super) message: Option<&'a str>,
    pub(super) source: Option<&'a str>,
    pub(super) activity_state: Option<&'a RawValue>,
    pub(super) payload: Option<&'a RawValue>,
}

/// As [`super::NewExecution`], after its place in the activities.
pub(super) struct StoredExecution<'a> {
    place: usize,
    pub(super) status: &'a str,
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
pub(super) struct Lines<'a> {
    #[serde(borrow)]
    values: Vec<&'a RawValue>,
    activities: Vec<ActivityLine>,
    journal: Vec<EntryLine>,
    executions: Vec<ExecutionLine>,
    /// The values that were read as texts: each is decoded once, whatever names it.
    #[serde(skip)]
    texts: Vec<OnceCell<Cow<'a, str>>>,
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
    /// Left out for false, and 1.
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
    pub(super) fn read(body: &'a str) -> Result<Self> {
        let mut lines: Self = parsed(body)?;
        lines.texts.resize_with(lines.values.len(), OnceCell::new);
        Ok(lines)
    }

    fn value(&self, at: usize) -> Result<&'a RawValue> {
        self.values.get(at).copied().ok_or_else(unreadable)
    }

    fn optional(&self, at: Option<usize>) -> Result<Option<&'a RawValue>> {
        at.map(|at| self.value(at)).transpose()
    }

    fn text(&self, at: usize) -> Result<&str> {
        // By serde alone, a `Cow` is always a copy.
        #[derive(Deserialize)]
        struct Text<'b>(#[serde(borrow)] Cow<'b, str>);
        let known = self.texts.get(at).ok_or_else(unreadable)?;
        if let Some(text) = known.get() {
            return Ok(text);
        }
        let Text(text) = parsed(self.value(at)?.get())?;
        Ok(known.get_or_init(|| text))
    }

    fn optional_text(&self, at: Option<usize>) -> Result<Option<&str>> {
        at.map(|at| self.text(at)).transpose()
    }

    fn activities(&self) -> Result<Vec<RecordedActivity<'_>>> {
        let activity = |line: &ActivityLine| {
            let node_id = self.text(line.node_id)?;
            Ok(RecordedActivity {
                number: line.number,
                parent: line.parent,
                activity_id: self
                    .optional_text(line.activity_id)?
                    .unwrap_or_else(|| activity_of(node_id)),
                node_id,
                activity_type: self.text(line.activity_type)?,
                activity_type_version: line.activity_type_version,
                activity_name: self.optional_text(line.activity_name)?,
                scheduled_after: line.scheduled_after,
            })
        };
        self.activities.iter().map(activity).collect()
    }

    pub(super) fn journal(&self) -> Result<Journal<'_>> {
        let entry = |line: &EntryLine| {
            Ok(StoredEntry {
                place: line.place,
                at: line.at,
                event_name: self.text(line.event_name)?,
                message: self.optional_text(line.message)?,
                source: self.optional_text(line.source)?,
                activity_state: self.optional(line.activity_state)?,
                payload: self.optional(line.payload)?,
            })
        };
        Ok(Journal {
            activities: self.activities()?,
            journal: self.journal.iter().map(entry).collect::<Result<_>>()?,
        })
    }

    pub(super) fn executions(&self) -> Result<Executions<'_>> {
        let execution = |line: &ExecutionLine| {
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
                has_bookmarks: line.has_bookmarks.is_some(),
                fault_count: line.fault_count.unwrap_or_default(),
            })
        };
        Ok(Executions {
            activities: self.activities()?,
            executions: self.executions.iter().map(execution).collect::<Result<_>>()?,
        })
    }
}

/// The journal of a body.
pub(super) struct Journal<'a> {
    pub(super) activities: Vec<RecordedActivity<'a>>,
    journal: Vec<StoredEntry<'a>>,
}

impl<'a> Journal<'a> {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{ExecutionRef, NewEntry, NewExecution, Record};
    use super::*;

    #[test]
    fn odd_texts_and_values_are_read_as_they_were_written() {
        let odd = "a\"b\\c\n\u{1}é😀:d";
        let values = [json!({}), json!(odd), json!({odd: [1.5, null, ""]}), Value::Null];
        let who = |number, node_id, activity_id| ExecutionRef {
            number,
            parent: Some(u64::MAX),
            scheduled_after: Some(7),
            activity_id,
            node_id,
            activity_type: odd,
            activity_type_version: 2,
            activity_name: Some(""),
        };
        let (first, second) = (who(1, odd, "d"), who(2, "w:x", odd));
        let mut record = Record::default();
        let execution = NewExecution {
            status: "Running",
            started: None,
            completed: Some(-3),
            activity_state: &values[2],
            outputs: &values[3],
            payload: Some(&values[1]),
            properties: None,
            exception: Some(&values[2]),
            has_bookmarks: true,
            fault_count: 4,
        };
        let entry = NewEntry {
            at: 5,
            event_name: odd,
            message: None,
            source: Some(odd),
            activity_state: Some(&values[0]),
            payload: Some(&values[3]),
        };
        record.execution(first, execution).unwrap();
        record.entry(second, entry).unwrap();
        let row = record.into_row(0).unwrap().unwrap();
        let lines = Lines::read(&row.body).unwrap();
        let (journal, executions) = (lines.journal().unwrap(), lines.executions().unwrap());
        let ids = |activity: &RecordedActivity<'_>| (activity.node_id.to_owned(), activity.activity_id.to_owned());
        let found: Vec<_> = journal.activities.iter().map(ids).collect();
        assert_eq!(
            found,
            [(odd.to_owned(), "d".to_owned()), ("w:x".to_owned(), odd.to_owned())]
        );
        let (place, activity, entry) = journal.entries().next().unwrap();
        assert_eq!(
            (place, activity.activity_name, activity.scheduled_after),
            (1, Some(""), Some(7))
        );
        assert_eq!((entry.event_name, entry.message, entry.source), (odd, None, Some(odd)));
        assert_eq!(value(entry.activity_state).unwrap().as_ref(), Some(&values[0]));
        assert_eq!(value(entry.payload).unwrap(), None);
        let (_, state) = executions.states().next().unwrap();
        assert_eq!(
            (state.status, state.started, state.completed),
            ("Running", None, Some(-3))
        );
        assert_eq!(value(state.activity_state).unwrap().as_ref(), Some(&values[2]));
        assert_eq!(
            (value(state.outputs).unwrap(), value(state.properties).unwrap()),
            (None, None)
        );
        assert_eq!(value(state.payload).unwrap().as_ref(), Some(&values[1]));
        assert_eq!((state.has_bookmarks, state.fault_count), (true, 4));
    }
}
