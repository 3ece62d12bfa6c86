//! The rows of a batch, as the composite types of the schema.

use chrono::{DateTime, Utc};
use postgres_types::ToSql;
use serde_json::Value;
use uuid::Uuid;

use crate::id::StimulusHash;

/// The hash in a row; bytes that a row lacks are zero.
pub(super) fn stimulus_hash(bytes: &[u8]) -> StimulusHash {
    let mut hash = [0u8; 32];
    hash.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    StimulusHash(hash)
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
    pub(super) work_id: Option<i64>,
    pub(super) claim_no: Option<i64>,
    pub(super) continues: bool,
    pub(super) retried: bool,
    pub(super) first_entry: Option<i64>,
    pub(super) entries: Option<i32>,
    pub(super) record: Option<&'a str>,
    pub(super) parent_instance_id: Option<&'a str>,
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

/// A new bookmark. `no` is set by the batch.
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
    /// Microseconds from the commit until a timer ends it.
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

/// An event that the burst publishes. `no` is set by the batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_event")]
pub(crate) struct EventRow {
    pub(crate) no: i32,
    pub(crate) hash: Vec<u8>,
    pub(crate) name: String,
    pub(crate) payload: Option<Value>,
    pub(crate) correlation_id: Option<String>,
    /// Only for the instance of the burst.
    pub(crate) is_local: bool,
    /// Microseconds that the inbox keeps it if nothing waits for it.
    pub(crate) lifetime: i64,
}

/// The end of a request that is kept. `no` is set by the batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_answer")]
pub(crate) struct AnswerRow {
    pub(crate) no: i32,
    pub(crate) request_id: Uuid,
    pub(crate) outcome: i16,
    pub(crate) status: Option<i16>,
    /// Names and values in turn.
    pub(crate) headers: Option<Vec<String>>,
    pub(crate) body: Option<Vec<u8>>,
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

/// An event that a burst causes, for the sinks that want it. `no` is set by the batch.
#[derive(Clone, Debug, Default, ToSql)]
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "without HTTP nothing is sent"))]
#[postgres(name = "commit_delivery")]
pub(crate) struct DeliveryRow {
    pub(crate) no: i32,
    pub(crate) id: Uuid,
    pub(crate) event_type: &'static str,
    /// JSON, as the row has it.
    pub(crate) payload: String,
}

/// A child that a burst starts. `no` is set by the batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_child")]
pub(crate) struct ChildRow {
    pub(crate) no: i32,
    pub(crate) id: String,
    pub(crate) definition_id: String,
    pub(crate) correlation_id: Option<String>,
    pub(crate) body: Value,
    /// The bookmark at which its parent waits for it.
    pub(crate) bookmark_id: Option<String>,
}

/// A child that lives on after it ran in the burst of its parent, and is waited for from this commit on. `no` is set by the
/// batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_awaited")]
pub(crate) struct AwaitedRow {
    pub(crate) no: i32,
    pub(crate) child_id: String,
    pub(crate) bookmark_id: String,
    /// Only until it waits itself.
    pub(crate) until_rest: bool,
}

/// The fence of a child that ran in the burst of its parent.
#[derive(Debug, ToSql)]
#[postgres(name = "commit_nested")]
pub(super) struct NestedRow<'a> {
    pub(super) no: i32,
    pub(super) root_instance_id: &'a str,
    pub(super) expected: i64,
    pub(super) claims: i32,
    pub(super) lives: bool,
    pub(super) continues: bool,
}

/// What the parent of this instance continues with. `no` is set by the batch.
#[derive(Clone, Debug, ToSql)]
#[postgres(name = "commit_child_end")]
pub(crate) struct ChildEndRow {
    pub(crate) no: i32,
    /// The child has ended; otherwise it waits for something.
    pub(crate) ends: bool,
    pub(crate) result: Value,
}
