//! The history of an instance as one record, which an export contains and an import writes.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RecordRow;
use super::body::{self, Executions, Journal};
use super::read::{Reader, StoredRecord};
use crate::db::Pool;
use crate::id::{InstanceId, TenantId};
use crate::{Error, Result, compute};

/// The bytes of records of one export.
const MAX_BYTES: usize = 16 << 20;

/// The fields of a stored execution: its state, where it started, and where it completed.
const STARTED: usize = 2;
const COMPLETED: usize = 3;

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
pub(crate) struct Body {
    activities: Vec<Vec<Value>>,
    journal: Vec<Vec<Value>>,
    executions: Vec<Vec<Value>>,
}

#[derive(Default)]
struct Merge {
    base: Option<(DateTime<Utc>, i64)>,
    /// Of each execution its place in the activities.
    places: HashMap<u64, usize>,
    activities: Vec<Vec<Value>>,
    journal: Vec<Vec<Value>>,
    /// The newest state of each, by its place.
    executions: BTreeMap<usize, Vec<Value>>,
}

impl Merge {
    fn add(&mut self, record: &StoredRecord) -> Result<()> {
        let unreadable = || Error::internal("the record of a burst cannot be read");
        let body: Body = body::read(&record.body)?;
        let (began_at, _) = *self.base.get_or_insert((record.began_at, record.first_entry));
        let shift = (record.began_at - began_at).num_microseconds().unwrap_or(i64::MAX);
        let mut places = Vec::with_capacity(body.activities.len());
        for activity in body.activities {
            let number = activity.first().and_then(Value::as_u64).ok_or_else(unreadable)?;
            let next = self.activities.len();
            let place = *self.places.entry(number).or_insert(next);
            if place == next {
                self.activities.push(activity);
            }
            places.push(place);
        }
        let place_of = |fields: &[Value]| {
            let old = fields.first().and_then(Value::as_u64)?;
            places.get(usize::try_from(old).ok()?).copied()
        };
        for mut entry in body.journal {
            let place = place_of(&entry).ok_or_else(unreadable)?;
            replace(&mut entry, 0, |_| Some(place.into()));
            replace(&mut entry, 1, |at| moved(at, shift));
            self.journal.push(entry);
        }
        for mut execution in body.executions {
            let place = place_of(&execution).ok_or_else(unreadable)?;
            replace(&mut execution, 0, |_| Some(place.into()));
            let earlier = self.executions.get(&place);
            let started = earlier.and_then(|earlier| earlier.get(STARTED).cloned());
            replace(&mut execution, STARTED, |at| moved(at, shift).or(started));
            replace(&mut execution, COMPLETED, |at| moved(at, shift));
            self.executions.insert(place, execution);
        }
        Ok(())
    }

    fn into_history(self) -> Option<History> {
        let (began_at, first_entry) = self.base?;
        let body = Body {
            activities: self.activities,
            journal: self.journal,
            executions: self.executions.into_values().collect(),
        };
        Some(History {
            began_at,
            first_entry,
            body,
        })
    }
}

/// Replaces a field where there is a new value.
fn replace(fields: &mut [Value], at: usize, with: impl FnOnce(&Value) -> Option<Value>) {
    if let Some(field) = fields.get_mut(at)
        && let Some(new) = with(field)
    {
        *field = new;
    }
}

fn moved(at: &Value, by: i64) -> Option<Value> {
    at.as_i64().map(|at| at.saturating_add(by).into())
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
            return Ok(merge.into_history());
        }
    }
}

impl History {
    /// The row of a history from a file, if it is one that bursts of an instance can have recorded: with executions up to
    /// `counter`, and entries up to the one before `sequence`.
    pub(crate) fn into_row(self, counter: u64, sequence: i64) -> std::result::Result<RecordRow, String> {
        let body = serde_json::to_string(&self.body).map_err(|error| error.to_string())?;
        let unreadable = |error: Error| format!("it cannot be read: {error:?}");
        {
            let journal: Journal<'_> = body::read(&body).map_err(unreadable)?;
            let executions: Executions<'_> = body::read(&body).map_err(unreadable)?;
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
            let ends = journal.entries().filter(|(_, _, entry)| is_end(&entry.event_name));
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
        let first = json!({"activities": [[1, null, "w", "W", "Elsa.Workflow", 1, null], [2, 1, "e", "W:e", "Elsa.Event", 1, null]],
            "journal": [[0, 5, "Started", null, null, null, null], [1, 6, "Started", null, null, null, null]],
            "executions": [[0, "Running", 5, null, {}, {}, null, null, null, false, 0],
                [1, "Running", 6, null, {}, {}, null, null, null, true, 0]]});
        let second = json!({"activities": [[2, 1, "e", "W:e", "Elsa.Event", 1, null], [1, null, "w", "W", "Elsa.Workflow", 1, null]],
            "journal": [[0, 7, "Completed", null, null, null, null]],
            "executions": [[0, "Completed", null, 7, {}, {}, null, null, null, false, 0]]});
        let mut merge = Merge::default();
        merge.add(&record(100, 0, &first)).unwrap();
        merge.add(&record(101, 2, &second)).unwrap();
        merge.into_history().unwrap()
    }

    #[test]
    fn records_become_one_with_the_newest_states() {
        let history = two();
        assert_eq!((history.began_at.timestamp(), history.first_entry), (100, 0));
        assert_eq!(history.body.activities.len(), 2);
        assert_eq!(json!(history.body.journal[2])[1], 1_000_007);
        let state = json!(history.body.executions[1]);
        assert_eq!(
            (&state[1], &state[2], &state[3]),
            (&json!("Completed"), &json!(6), &json!(1_000_007))
        );
        let row = history.into_row(2, 3).unwrap();
        assert_eq!((row.first_entry, row.entries), (0, 3));
    }

    #[test]
    fn a_history_that_contradicts_itself_is_refused() {
        assert!(two().into_row(1, 3).is_err(), "an execution beyond the counter");
        assert!(two().into_row(2, 4).is_err(), "entries are missing");
        let mut history = two();
        history.body.journal[2][0] = json!(9);
        assert!(history.into_row(2, 3).is_err());
        let mut history = two();
        history.body.journal[0][2] = json!("Completed");
        history.body.journal[0][0] = json!(1);
        assert!(history.into_row(2, 3).is_err());
        let mut history = two();
        history.body.executions[0].truncate(3);
        assert!(history.into_row(2, 3).is_err());
        let future = two().age(DateTime::from_timestamp(99, 0).unwrap());
        assert_eq!(future, std::time::Duration::ZERO);
    }
}
