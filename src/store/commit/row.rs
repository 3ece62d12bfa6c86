//! The rows of a batch, as the composite types of the migration.

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde_json::Value;
use uuid::Uuid;

/// The key of a stimulus hash in the two-integer space of advisory locks.
pub(super) fn lock_key(hash: &[u8]) -> i32 {
    let mut key = [0u8; 4];
    for (to, from) in key.iter_mut().zip(hash) {
        *to = *from;
    }
    i32::from_be_bytes(key)
}

#[derive(Debug, ToSql)]
#[postgres(name = "commit_request")]
pub(super) struct RequestRow<'a> {
    pub(super) no: i32,
    pub(super) tenant_id: &'a str,
    pub(super) instance_id: &'a str,
    pub(super) expected: i64,
    pub(super) burst: Uuid,
    pub(super) claims: i32,
    pub(super) definition_id: &'a str,
    pub(super) version_id: &'a str,
    pub(super) definition_version: i32,
    pub(super) status: i16,
    pub(super) sub_status: i16,
    pub(super) correlation_id: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) incident_count: i32,
    pub(super) state: &'a [u8],
    pub(super) elapsed: i64,
}

#[derive(Debug, ToSql)]
#[postgres(name = "commit_claim")]
pub(super) struct ClaimRow<'a> {
    pub(super) no: i32,
    pub(super) work_id: Option<i64>,
    pub(super) timer_id: Option<&'a str>,
    pub(super) claim_no: i64,
}

#[derive(Debug, ToSql)]
#[postgres(name = "commit_burned")]
pub(super) struct BurnedRow<'a> {
    pub(super) no: i32,
    pub(super) id: &'a str,
}

#[derive(Debug, ToSql)]
#[postgres(name = "commit_key")]
pub(super) struct KeyRow {
    pub(super) no: i32,
    pub(super) key: i32,
}

/// A bookmark that comes into being. `no` is set by the batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_bookmark")]
pub(crate) struct BookmarkRow {
    pub(crate) no: i32,
    pub(crate) id: String,
    pub(crate) activity_id: String,
    pub(crate) node_id: String,
    pub(crate) activity_execution_id: String,
    pub(crate) name: String,
    pub(crate) hash: Vec<u8>,
    pub(crate) payload: Value,
    pub(crate) publishable: bool,
    /// Microseconds after the commit at which a timer ends it.
    pub(crate) delay: Option<i64>,
}

/// A bookmark that a timer ends at a point in time. `no` is set by the batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_due")]
pub(crate) struct DueRow {
    pub(crate) no: i32,
    pub(crate) id: String,
    pub(crate) due: DateTime<Utc>,
}

/// A stimulus for the inbox. `no` is set by the batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_stimulus")]
pub(crate) struct StimulusRow {
    pub(crate) no: i32,
    pub(crate) hash: Vec<u8>,
    pub(crate) name: String,
    pub(crate) payload: Option<Value>,
    /// Microseconds until it expires.
    pub(crate) lifetime: i64,
}

/// An entry of the journal. `no` is set by the batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_journal")]
pub(crate) struct JournalRow {
    pub(crate) no: i32,
    pub(crate) sequence: i64,
    /// Microseconds since the burst began.
    pub(crate) at: i64,
    pub(crate) event_name: String,
    pub(crate) activity_execution_id: String,
    pub(crate) parent_activity_execution_id: Option<String>,
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

/// The present state of an execution of an activity. `no` is set by the batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_execution")]
pub(crate) struct ExecutionRow {
    pub(crate) no: i32,
    pub(crate) id: String,
    pub(crate) parent_activity_execution_id: Option<String>,
    pub(crate) activity_id: String,
    pub(crate) node_id: String,
    pub(crate) activity_type: String,
    pub(crate) activity_type_version: i32,
    pub(crate) activity_name: Option<String>,
    pub(crate) status: String,
    /// Microseconds since the burst began; none: in an earlier commit.
    pub(crate) started: Option<i64>,
    pub(crate) completed: Option<i64>,
    pub(crate) activity_state: Option<Value>,
    pub(crate) outputs: Option<Value>,
    pub(crate) payload: Option<Value>,
    pub(crate) properties: Option<Value>,
    pub(crate) exception: Option<Value>,
    pub(crate) has_bookmarks: bool,
    pub(crate) fault_count: i32,
}

/// A rough count of a value's bytes, without writing it.
fn weigh(value: &Option<Value>) -> usize {
    fn of(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => items.iter().map(of).sum::<usize>() + 2,
            Value::Object(fields) => {
                fields
                    .iter()
                    .map(|(name, value)| name.len() + 4 + of(value))
                    .sum::<usize>()
                    + 2
            }
            _ => 8,
        }
    }
    value.as_ref().map_or(0, of)
}

impl JournalRow {
    pub(super) fn size(&self) -> usize {
        256 + weigh(&self.activity_state) + weigh(&self.payload)
    }
}

impl ExecutionRow {
    pub(super) fn size(&self) -> usize {
        256 + weigh(&self.activity_state) + weigh(&self.outputs) + weigh(&self.payload) + weigh(&self.exception)
    }
}
