//! The journal of an instance.

use chrono::{DateTime, TimeDelta, Utc};
use postgres_types::{ToSql, Type};
use serde_json::Value;

use super::body::{self, Lines, RecordedActivity, StoredEntry};
use super::read::{MAX_BYTES, Reader, RecordPage, StoredRecord, is_long};
use super::times::RecordTimes;
use crate::compute;
use crate::db::{Pool, columns};
use crate::id::{ActivityExecutionId, InstanceId, TenantId};
use crate::{Error, Result};

const LIST: &str = include_str!("../../../sql/queries/record/list_journal.sql");

/// Entries that a filtered read counts exactly.
const MAX_COUNTED: u64 = 200_000;
/// Entries that a filtered read examines in all.
const MAX_EXAMINED: u64 = 2_000_000;

/// An entry of the journal.
#[derive(Clone, Debug)]
pub(crate) struct JournalEntryRow {
    pub(crate) sequence: i64,
    pub(crate) happened_at: DateTime<Utc>,
    pub(crate) event_name: String,
    pub(crate) activity_execution_id: ActivityExecutionId,
    pub(crate) parent_activity_execution_id: Option<ActivityExecutionId>,
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

/// Which entries are read; an empty list means any.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryFilter {
    pub(crate) activity_ids: Vec<String>,
    pub(crate) node_ids: Vec<String>,
    pub(crate) excluded_types: Vec<String>,
    pub(crate) events: Vec<String>,
}

impl EntryFilter {
    fn admits(&self, activity: &RecordedActivity<'_>) -> bool {
        let among = |list: &[String], text: &str| list.is_empty() || list.iter().any(|one| one == text);
        among(&self.activity_ids, activity.activity_id)
            && among(&self.node_ids, activity.node_id)
            && !self.excluded_types.iter().any(|one| *one == activity.activity_type)
    }

    fn admits_event(&self, name: &str) -> bool {
        self.events.is_empty() || self.events.iter().any(|one| one == name)
    }
}

fn row(
    instance: &InstanceId,
    record: &StoredRecord,
    sequence: i64,
    activity: &RecordedActivity<'_>,
    entry: &StoredEntry<'_>,
) -> Result<JournalEntryRow> {
    let id = |number| ActivityExecutionId::of(instance.as_str(), number);
    Ok(JournalEntryRow {
        sequence,
        happened_at: record.began_at + TimeDelta::microseconds(entry.at),
        event_name: entry.event_name.to_string(),
        activity_execution_id: id(activity.number),
        parent_activity_execution_id: activity.parent.map(id),
        activity_id: activity.activity_id.to_string(),
        activity_type: activity.activity_type.to_string(),
        activity_type_version: activity.activity_type_version,
        activity_name: activity.activity_name.map(str::to_owned),
        node_id: activity.node_id.to_string(),
        message: entry.message.map(str::to_owned),
        source: entry.source.map(str::to_owned),
        activity_state: body::value(entry.activity_state)?,
        payload: body::value(entry.payload)?,
    })
}

/// Reads a page of an instance's journal in order, with the total number of entries; zero if the page is behind the last one.
pub(crate) async fn list(
    pool: &Pool,
    tenant: &TenantId,
    id: &InstanceId,
    limit: i64,
    offset: i64,
) -> Result<(u64, Vec<JournalEntryRow>)> {
    let Some(times) = RecordTimes::of(pool, tenant, id).await? else {
        return Ok((0, Vec::new()));
    };
    let params: [(&(dyn ToSql + Sync), Type); 6] = [
        (&tenant.as_str(), Type::TEXT),
        (&id.as_str(), Type::TEXT),
        (&limit, Type::INT8),
        (&offset, Type::INT8),
        (&times.first, Type::TIMESTAMPTZ),
        (&times.last, Type::TIMESTAMPTZ),
    ];
    let rows = pool.query_planned(LIST, &params, "").await?;
    let at = columns!(rows; total, earlier, first_entry, began_at, body)?;
    let total = rows
        .first()
        .map_or(0, |row| u64::try_from(row.get::<_, i64>(at.total)).unwrap_or(0));
    let records = rows.iter().map(|stored| {
        let record = StoredRecord {
            first_entry: stored.get(at.first_entry),
            began_at: stored.get(at.began_at),
            body: stored.get(at.body),
        };
        (stored.get(at.earlier), record)
    });
    let records: Vec<(i64, StoredRecord)> = records.collect();
    let bytes = records.iter().map(|(_, record)| record.body.len()).sum();
    let id = id.clone();
    let entries = compute::run(is_long(bytes), move || window(&id, &records, limit, offset)).await??;
    Ok((total, entries))
}

/// The entries of a page, from records each with the number of entries before it.
fn window(id: &InstanceId, records: &[(i64, StoredRecord)], limit: i64, offset: i64) -> Result<Vec<JournalEntryRow>> {
    let mut entries = Vec::new();
    for (earlier, record) in records {
        let lines = Lines::read(&record.body)?;
        let journal = lines.journal()?;
        for (place, (_, activity, entry)) in (0..).zip(journal.entries()) {
            if earlier + place >= offset && earlier + place < offset + limit {
                entries.push(row(id, record, record.first_entry + place, activity, entry)?);
            }
        }
    }
    Ok(entries)
}

/// Entries that a filter admits: a range of them, and how many there are.
#[derive(Debug, Default)]
pub(crate) struct Filtered {
    pub(crate) total: u64,
    /// The journal is so long that not all of it was counted.
    pub(crate) is_estimate: bool,
    pub(crate) entries: Vec<JournalEntryRow>,
}

struct FilteredRead {
    instance: InstanceId,
    filter: EntryFilter,
    skip: u64,
    take: usize,
    examined: u64,
    found: Filtered,
}

impl FilteredRead {
    fn add(&mut self, page: &RecordPage) -> Result<()> {
        for record in &page.records {
            let lines = Lines::read(&record.body)?;
            let journal = lines.journal()?;
            let admitted: Vec<bool> = journal.activities.iter().map(|it| self.filter.admits(it)).collect();
            for (sequence, (place, activity, entry)) in (record.first_entry..).zip(journal.entries()) {
                self.examined += 1;
                let is_wanted = admitted.get(place).copied().unwrap_or(false);
                if !is_wanted || !self.filter.admits_event(entry.event_name) {
                    continue;
                }
                if self.found.total >= self.skip && self.found.entries.len() < self.take {
                    let row = row(&self.instance, record, sequence, activity, entry)?;
                    self.found.entries.push(row);
                }
                self.found.total += 1;
            }
        }
        Ok(())
    }
}

/// Reads a range of the entries that a filter admits, in order.
pub(crate) async fn filter(
    pool: &Pool,
    tenant: &TenantId,
    id: &InstanceId,
    filter: EntryFilter,
    skip: u64,
    take: usize,
) -> Result<Filtered> {
    let mut reader = Reader::oldest_first(pool, tenant, id);
    let mut read = FilteredRead {
        instance: id.clone(),
        filter,
        skip,
        take,
        examined: 0,
        found: Filtered::default(),
    };
    loop {
        let page = reader.next().await?;
        let is_last = page.is_last || page.records.is_empty();
        read = compute::run(page.is_long(), move || read.add(&page).map(|()| read)).await??;
        if is_last {
            return Ok(read.found);
        }
        if read.examined >= MAX_COUNTED && read.found.entries.len() >= read.take {
            read.found.is_estimate = true;
            return Ok(read.found);
        }
        if read.examined >= MAX_EXAMINED {
            return Err(Error::too_large(
                "journal-too-long",
                format!("The journal has more than {MAX_EXAMINED} entries; read it by pages without a filter."),
            ));
        }
    }
}

/// Reads the last entry that the filter admits, within the newest [`MAX_BYTES`] of the journal.
pub(crate) async fn last(
    pool: &Pool,
    tenant: &TenantId,
    id: &InstanceId,
    filter: &EntryFilter,
) -> Result<Option<JournalEntryRow>> {
    let mut reader = Reader::newest_first(pool, tenant, id);
    let mut examined = 0;
    loop {
        let page = reader.next().await?;
        examined += page.bytes;
        let is_last = page.is_last || page.records.is_empty() || examined > MAX_BYTES;
        let (id, filter) = (id.clone(), filter.clone());
        let found = compute::run(page.is_long(), move || last_of(&id, &filter, &page)).await??;
        if found.is_some() || is_last {
            return Ok(found);
        }
    }
}

/// The last admitted entry of the first record that has one.
fn last_of(id: &InstanceId, filter: &EntryFilter, page: &RecordPage) -> Result<Option<JournalEntryRow>> {
    for record in &page.records {
        let lines = Lines::read(&record.body)?;
        let journal = lines.journal()?;
        let admitted = (record.first_entry..)
            .zip(journal.entries())
            .filter(|(_, (_, activity, entry))| filter.admits_event(entry.event_name) && filter.admits(activity));
        if let Some((sequence, (_, activity, entry))) = admitted.last() {
            return row(id, record, sequence, activity, entry).map(Some);
        }
    }
    Ok(None)
}
