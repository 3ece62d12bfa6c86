//! The history of an instance as one record, which an export contains and an import writes.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::RecordRow;
use super::body::{self, Lines};
use super::read::{Reader, StoredRecord, is_long};
use super::values::{MAX_SHARED, Values};
use crate::db::Pool;
use crate::id::{InstanceId, TenantId};
use crate::{Error, Result, compute};

/// The bytes of records of one export.
const MAX_BYTES: usize = 16 << 20;

/// The fields of a stored execution: its state, where it started, and where it completed.
const STARTED: usize = 2;
const COMPLETED: usize = 3;

/// The microseconds of a thousand years.
const MAX_AT: u64 = 1000 * 366 * 86_400 * 1_000_000;

/// The fields that are places of values.
const OF_ACTIVITY: &[usize] = &[2, 3, 5, 6];
const OF_ENTRY: &[usize] = &[2, 3, 4, 5, 6];
const OF_EXECUTION: &[usize] = &[1, 4, 5, 6, 7, 8];

/// Numbers, and null.
type Line = Vec<Option<i64>>;

/// What the bursts of an instance did, as one burst would have recorded it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct History {
    /// Times in the body count from here.
    pub(crate) began_at: DateTime<Utc>,
    /// The number of the first entry.
    pub(crate) first_entry: i64,
    pub(crate) body: Body,
}

/// As the column of a record, not typed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Body<V = Value> {
    values: Vec<V>,
    activities: Vec<Line>,
    journal: Vec<Line>,
    executions: Vec<Line>,
}

#[derive(Default)]
struct Merge {
    base: Option<(DateTime<Utc>, i64)>,
    values: Values,
    /// Of each execution its place in the activities.
    places: HashMap<u64, i64>,
    activities: Vec<Line>,
    journal: Vec<Line>,
    /// The newest state of each, by its place.
    executions: BTreeMap<i64, Line>,
}

impl Merge {
    fn add(&mut self, record: &StoredRecord) -> Result<()> {
        let mut body: Body<&RawValue> = body::parsed(&record.body)?;
        let (began_at, _) = *self.base.get_or_insert((record.began_at, record.first_entry));
        let shift = (record.began_at - began_at).num_microseconds().unwrap_or(i64::MAX);
        let values = body.values.iter().map(|value| self.values.place(value));
        let values = values.collect::<Result<Vec<_>>>()?;
        body.each_value(|at| at_place(&values, at))
            .ok_or_else(body::unreadable)?;
        let mut places = Vec::with_capacity(body.activities.len());
        for activity in body.activities {
            let number = first(&activity).ok_or_else(body::unreadable)?;
            let next = i64::try_from(self.activities.len()).map_err(|_| body::unreadable())?;
            let place = *self.places.entry(number.unsigned_abs()).or_insert(next);
            if place == next {
                self.activities.push(activity);
            }
            places.push(place);
        }
        let place_of = |line: &Line| at_place(&places, first(line)?);
        for mut entry in body.journal {
            let place = place_of(&entry).ok_or_else(body::unreadable)?;
            replace(&mut entry, 0, |_| Some(place));
            replace(&mut entry, 1, |at| moved(at, shift));
            self.journal.push(entry);
        }
        for mut execution in body.executions {
            let place = place_of(&execution).ok_or_else(body::unreadable)?;
            replace(&mut execution, 0, |_| Some(place));
            let earlier = self.executions.get(&place);
            let started = earlier.and_then(|earlier| earlier.get(STARTED).copied().flatten());
            replace(&mut execution, STARTED, |at| moved(at, shift).or(started));
            replace(&mut execution, COMPLETED, |at| moved(at, shift));
            self.executions.insert(place, execution);
        }
        Ok(())
    }

    fn into_history(self) -> Result<Option<History>> {
        let Some((began_at, first_entry)) = self.base else {
            return Ok(None);
        };
        let values = format!("[{}]", self.values.into_json()?);
        let all: Vec<&RawValue> = body::parsed(&values)?;
        let mut body = Body {
            values: Vec::new(),
            activities: self.activities,
            journal: self.journal,
            executions: self.executions.into_values().collect(),
        };
        // Values of states that newer ones replaced are left out.
        let mut used = Vec::new();
        let mut places = HashMap::new();
        body.each_value(|at| {
            Some(*places.entry(at).or_insert_with(|| {
                used.push(at);
                used.len() as i64 - 1
            }))
        });
        for at in used {
            let value = at_place(&all, at).ok_or_else(body::unreadable)?;
            body.values.push(body::parsed(value.get())?);
        }
        Ok(Some(History {
            began_at,
            first_entry,
            body,
        }))
    }
}

impl<V> Body<V> {
    /// Replaces the place of each value; `None` if one has no new place.
    fn each_value(&mut self, mut new: impl FnMut(i64) -> Option<i64>) -> Option<()> {
        let parts = [
            (&mut self.activities, OF_ACTIVITY),
            (&mut self.journal, OF_ENTRY),
            (&mut self.executions, OF_EXECUTION),
        ];
        for (lines, fields) in parts {
            for line in lines {
                for field in fields {
                    if let Some(Some(at)) = line.get_mut(*field) {
                        *at = new(*at)?;
                    }
                }
            }
        }
        Some(())
    }
}

fn first(line: &Line) -> Option<i64> {
    line.first().copied().flatten()
}

fn at_place<T: Copy>(list: &[T], at: i64) -> Option<T> {
    list.get(usize::try_from(at).ok()?).copied()
}

/// Replaces a field where there is a new number.
fn replace(line: &mut Line, at: usize, with: impl FnOnce(Option<i64>) -> Option<i64>) {
    let Some(new) = with(line.get(at).copied().flatten()) else {
        return;
    };
    if line.len() <= at {
        line.resize(at + 1, None);
    }
    if let Some(field) = line.get_mut(at) {
        *field = Some(new);
    }
}

fn moved(at: Option<i64>, by: i64) -> Option<i64> {
    at.map(|at| at.saturating_add(by))
}

/// Reads what the commits of an instance up to a version recorded; `None` if they recorded nothing.
pub(crate) async fn read(pool: &Pool, tenant: &TenantId, id: &InstanceId, version: i64) -> Result<Option<History>> {
    let mut reader = Reader::oldest_first(pool, tenant, id).up_to(version);
    let mut merge = Merge::default();
    let mut bytes = 0;
    loop {
        let part = reader.next().await?;
        bytes += part.bytes;
        if bytes > MAX_BYTES {
            let message = format!("the journal has more than {MAX_BYTES} bytes: export the instance without it");
            return Err(Error::too_large("journal-too-long", message).instance(id.as_str()));
        }
        let is_last = part.is_last || part.records.is_empty();
        merge = compute::run(part.is_long(), move || {
            part.records
                .iter()
                .try_for_each(|record| merge.add(record))
                .map(|()| merge)
        })
        .await??;
        if is_last {
            return compute::run(is_long(bytes), move || merge.into_history()).await?;
        }
    }
}

impl History {
    /// The row of a history from a file, if it is one that bursts of an instance can have recorded: with executions up to
    /// `counter`, and entries up to the one before `sequence`.
    pub(crate) fn into_row(mut self, counter: u64, sequence: i64) -> std::result::Result<RecordRow, String> {
        self.has_each_value_named()?;
        let (entries, executions) = (&self.body.journal, &self.body.executions);
        let times = entries.iter().filter_map(|line| line.get(1));
        let times = times.chain(executions.iter().flat_map(|line| line.iter().skip(STARTED).take(2)));
        if times.flatten().any(|at| at.unsigned_abs() > MAX_AT) {
            return Err("a time in it is more than a thousand years from its begin".to_owned());
        }
        let body = serde_json::to_string(&self.body).map_err(|error| error.to_string())?;
        let unreadable = |error: Error| format!("it cannot be read: {error:?}");
        {
            let lines = Lines::read(&body).map_err(unreadable)?;
            let journal = lines.journal().map_err(unreadable)?;
            let executions = lines.executions().map_err(unreadable)?;
            let (activities, entries, states) = (
                journal.activities.len(),
                journal.entries().count(),
                executions.states().count(),
            );
            let numbers: HashSet<u64> = journal.activities.iter().map(|activity| activity.number).collect();
            if numbers.len() != activities || numbers.iter().any(|number| *number == 0 || *number > counter) {
                return Err("an execution occurs twice, or its number is too great".to_owned());
            }
            if entries != self.body.journal.len() || states != self.body.executions.len() {
                return Err("it names an execution that it does not have".to_owned());
            }
            let mut ended = HashSet::new();
            let is_end = |name: &str| matches!(name, "Completed" | "Faulted" | "Canceled");
            let ends = journal.entries().filter(|(_, _, entry)| is_end(entry.event_name));
            for (place, _, entry) in ends {
                if !ended.insert((place, entry.event_name.to_string())) {
                    return Err("an execution ends twice".to_owned());
                }
            }
            let mut shown = HashSet::new();
            if !executions.states().all(|(activity, _)| shown.insert(activity.number)) {
                return Err("an execution has two states".to_owned());
            }
        }
        let entries = i32::try_from(self.body.journal.len()).map_err(|error| error.to_string())?;
        let is_contiguous = self.first_entry >= 0 && self.first_entry.checked_add(entries.into()) == Some(sequence);
        if entries > 0 && !is_contiguous {
            return Err("its entries do not end where the state continues".to_owned());
        }
        Ok(RecordRow {
            first_entry: if entries > 0 { self.first_entry } else { 0 },
            entries,
            body,
        })
    }

    /// Each value is named, and no long one by two lines, as in a record.
    fn has_each_value_named(&mut self) -> std::result::Result<(), String> {
        let length = |value: &Value| serde_json::to_string(value).map_or(usize::MAX, |text| text.len());
        let mut free = vec![true; self.body.values.len()];
        let lengths: Vec<usize> = self.body.values.iter().map(length).collect();
        let once = |at: i64| {
            let place = usize::try_from(at).ok()?;
            let is_free = std::mem::replace(free.get_mut(place)?, false);
            (is_free || *lengths.get(place)? <= MAX_SHARED).then_some(at)
        };
        let found = self.body.each_value(once);
        let all = found.filter(|()| !free.contains(&true));
        all.ok_or_else(|| "a value is missing, no line names it, or two lines name a long one".to_owned())
    }

    /// How long ago it began; nothing if that is in the future.
    pub(crate) fn age(&self, now: DateTime<Utc>) -> std::time::Duration {
        (now - self.began_at)
            .max(TimeDelta::zero())
            .to_std()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(at: i64, first_entry: i64, body: &Value) -> StoredRecord {
        StoredRecord {
            first_entry,
            began_at: DateTime::from_timestamp(at, 0).unwrap(),
            body: body.to_string(),
        }
    }

    /// Two bursts: the second completes what the first began.
    fn two() -> History {
        let first = json!({"values": ["W", "Elsa.Workflow", "W:e", "Elsa.Event", "Started", {}, "Running", {"Old": 1}],
            "activities": [[1, null, 0, 1, 1], [2, 1, 2, 3, 1]], "journal": [[0, 5, 4, 5], [1, 6, 4, 5]],
            "executions": [[0, 6, 5, null, 5, 5], [1, 6, 6, null, 7, 5, null, null, null, 1]]});
        let second = json!({"values": [{}, "Completed", "W:e", "Elsa.Event", "W", "Elsa.Workflow"],
            "activities": [[2, 1, 2, 3, 1], [1, null, 4, 5, 1]], "journal": [[0, 7, 1, 0]],
            "executions": [[0, 1, null, 7, 0, 0]]});
        let mut merge = Merge::default();
        merge.add(&record(100, 0, &first)).unwrap();
        merge.add(&record(101, 2, &second)).unwrap();
        merge.into_history().unwrap().unwrap()
    }

    #[test]
    fn records_become_one_with_the_newest_states() {
        let history = two();
        assert_eq!((history.began_at.timestamp(), history.first_entry), (100, 0));
        assert_eq!(history.body.activities.len(), 2);
        assert_eq!(history.body.journal[2][1], Some(1_000_007));
        let state = &history.body.executions[1];
        let status = &history.body.values[state[1].unwrap() as usize];
        assert_eq!(
            (status, state[2], state[3]),
            (&json!("Completed"), Some(6), Some(1_000_007))
        );
        assert!(!history.body.values.contains(&json!({"Old": 1})), "a replaced state");
        let values: HashSet<String> = history.body.values.iter().map(Value::to_string).collect();
        assert_eq!(values.len(), history.body.values.len(), "each once");
        let row = history.into_row(2, 3).unwrap();
        assert_eq!((row.first_entry, row.entries), (0, 3));
    }

    #[test]
    fn a_history_that_contradicts_itself_is_refused() {
        assert!(two().into_row(1, 3).is_err(), "an execution beyond the counter");
        assert!(two().into_row(2, 4).is_err(), "entries are missing");
        let mut history = two();
        history.body.journal[2][0] = Some(9);
        assert!(history.into_row(2, 3).is_err());
        let mut history = two();
        history.body.journal[0] = history.body.journal[2].clone();
        assert!(history.into_row(2, 3).is_err());
        let mut history = two();
        history.body.executions[0].truncate(1);
        assert!(history.into_row(2, 3).is_err(), "an execution without a status");
        let mut history = two();
        history.body.journal[0][2] = Some(99);
        assert!(history.into_row(2, 3).is_err(), "a value that is missing");
        let mut history = two();
        history.body.journal[0][1] = Some(i64::MAX);
        assert!(history.into_row(2, 3).is_err(), "a time out of range");
        for (length, is_taken) in [(MAX_SHARED - 2, true), (MAX_SHARED, false)] {
            let mut history = two();
            history.body.values.push(json!("x".repeat(length)));
            let long = Some(history.body.values.len() as i64 - 1);
            history.body.journal[0][3] = long;
            assert!(history.clone().into_row(2, 3).is_ok());
            history.body.journal[1][3] = long;
            assert_eq!(history.into_row(2, 3).is_ok(), is_taken, "{length} bytes, shared");
        }
        let future = two().age(DateTime::from_timestamp(99, 0).unwrap());
        assert_eq!(future, std::time::Duration::ZERO);
    }
}
