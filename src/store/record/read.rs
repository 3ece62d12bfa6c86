//! Reads the records of one instance, some megabytes at a time.

use chrono::{DateTime, Utc};
use postgres_types::{ToSql, Type};

use super::times::RecordTimes;
use crate::Result;
use crate::db::{Pool, columns};
use crate::id::{InstanceId, TenantId};

const AFTER: &str = include_str!("../../../sql/queries/record/list_after.sql");
const BEFORE: &str = include_str!("../../../sql/queries/record/list_before.sql");

/// The most candidates of one read, as in the statements.
const CANDIDATES: i64 = 1000;
/// The bytes of one read, unless its caller has another bound: records are added until they have so many.
const READ_BYTES: i64 = 4 << 20;
/// The bytes of records from the newest one back that a read from there examines.
pub(super) const MAX_BYTES: usize = 64 << 20;
/// Records with more bytes together are parsed off the threads that run the tasks.
const LONG_BYTES: usize = 256 << 10;

/// A record as it is stored.
pub(super) struct StoredRecord {
    pub(super) first_entry: i64,
    pub(super) began_at: DateTime<Utc>,
    pub(super) body: String,
}

/// Records of one read.
pub(super) struct RecordPage {
    pub(super) records: Vec<StoredRecord>,
    /// Their bytes.
    pub(super) bytes: usize,
    /// No record follows.
    pub(super) is_last: bool,
}

impl RecordPage {
    const NONE: Self = Self {
        records: Vec::new(),
        bytes: 0,
        is_last: true,
    };

    /// Whether its records are many.
    pub(super) fn is_long(&self) -> bool {
        is_long(self.bytes)
    }
}

/// Whether records of so many bytes are read on another thread.
pub(super) fn is_long(bytes: usize) -> bool {
    bytes > LONG_BYTES
}

/// Reads the records of an instance page by page.
pub(super) struct Reader<'a> {
    page_bytes: i64,
    pool: &'a Pool,
    tenant: &'a TenantId,
    instance: &'a InstanceId,
    sql: &'static str,
    /// Known from the first read on.
    times: Option<RecordTimes>,
    /// The version of the last record that was read.
    version: i64,
    /// Records of later versions are left out.
    last: i64,
}

impl<'a> Reader<'a> {
    /// In the order of the commits.
    pub(super) fn oldest_first(pool: &'a Pool, tenant: &'a TenantId, instance: &'a InstanceId) -> Self {
        Self {
            page_bytes: READ_BYTES,
            pool,
            tenant,
            instance,
            sql: AFTER,
            times: None,
            version: 0,
            last: i64::MAX,
        }
    }

    /// Only those of commits up to a version.
    pub(super) fn up_to(self, version: i64) -> Self {
        Self { last: version, ..self }
    }

    /// With pages of records that have so many bytes, or one more.
    pub(super) fn pages_of(self, bytes: u32) -> Self {
        Self {
            page_bytes: bytes.into(),
            ..self
        }
    }

    /// From the last commit back.
    pub(super) fn newest_first(pool: &'a Pool, tenant: &'a TenantId, instance: &'a InstanceId) -> Self {
        Self {
            sql: BEFORE,
            version: i64::MAX,
            ..Self::oldest_first(pool, tenant, instance)
        }
    }

    pub(super) async fn next(&mut self) -> Result<RecordPage> {
        let times = match self.times {
            Some(times) => times,
            None => match RecordTimes::of(self.pool, self.tenant, self.instance).await? {
                Some(times) => *self.times.insert(times),
                None => return Ok(RecordPage::NONE),
            },
        };
        let params: [(&(dyn ToSql + Sync), Type); 6] = [
            (&self.tenant.as_str(), Type::TEXT),
            (&self.instance.as_str(), Type::TEXT),
            (&self.version, Type::INT8),
            (&self.page_bytes, Type::INT8),
            (&times.first, Type::TIMESTAMPTZ),
            (&times.last, Type::TIMESTAMPTZ),
        ];
        let rows = self.pool.query_planned(self.sql, &params, "").await?;
        let at = columns!(rows; version, first_entry, began_at, body, candidates)?;
        let candidates = rows.first().map_or(0, |row| row.get::<_, i64>(at.candidates));
        let is_last = candidates < CANDIDATES && usize::try_from(candidates).is_ok_and(|all| all == rows.len());
        self.version = rows.last().map_or(self.version, |row| row.get(at.version));
        let records: Vec<StoredRecord> = rows
            .iter()
            .filter(|row| row.get::<_, i64>(at.version) <= self.last)
            .map(|row| StoredRecord {
                first_entry: row.get(at.first_entry),
                began_at: row.get(at.began_at),
                body: row.get(at.body),
            })
            .collect();
        let bytes = records.iter().map(|record| record.body.len()).sum();
        Ok(RecordPage {
            records,
            bytes,
            is_last,
        })
    }
}
