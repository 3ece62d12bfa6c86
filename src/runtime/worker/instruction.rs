//! Rows of work as instructions of the interpreter, and back.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::execution::{Instruction, ParentLink, RunRequest};
use crate::id::{ActivityId, BookmarkId, Incarnation, RequestId, StimulusHash};
use crate::store::claim::ClaimedRow;
use crate::store::clock::DatabaseClock;
use crate::store::code::WorkKind;
use crate::store::commit::{Claim, StimulusRow};
use crate::store::instance::Generation;
use crate::trace::TraceContext;
use crate::{Error, Result};

/// The body of a start. Statements of the store write it as well: see `event/publish.sql`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StartBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) input: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) variables: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trigger_activity_id: Option<ActivityId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<Value>,
    /// Of a child.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<ParentLink>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<RequestOfRow>,
    /// The trace that it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<TraceContext>,
}

/// The request of an HTTP client that waits for a start or a resume.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestOfRow {
    pub(crate) id: RequestId,
    /// The registration of the node at which the client waits.
    pub(crate) holder: Incarnation,
    /// The holder has room for its burst: other nodes leave the row to it for a second.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_for_holder: bool,
    /// Its end is kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) is_kept: bool,
    /// How long it waits for the answer of a later burst, in milliseconds from the time when the row is read first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) held_for: Option<u64>,
    /// The files of the holder's process that the payload names: only that one can run the row, as long as it has them, and any
    /// node discards it afterwards. None: the request is not volatile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<String>,
    /// The idempotency key of a volatile request: with the row it is withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl RequestOfRow {
    /// What the interpreter knows of it.
    fn of_run(self, clock: DatabaseClock) -> RunRequest {
        let held_for = self.held_for.and_then(|millis| i64::try_from(millis).ok());
        let held_for = held_for.and_then(TimeDelta::try_milliseconds);
        RunRequest {
            id: self.id,
            holder: self.holder,
            is_kept: self.is_kept,
            held_until: held_for.and_then(|time| clock.now().checked_add_signed(time)),
            recurs: self.key.is_some(),
        }
    }
}

/// The body of the end of a child, written by `child_end`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChildEndBody {
    bookmark_id: BookmarkId,
    generation: Generation,
    result: Value,
}

/// The body of a resume.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResumeBody {
    pub(crate) bookmark_id: BookmarkId,
    /// The generation of the instance that has the bookmark; absent in rows without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<Generation>,
    #[serde(default)]
    pub(crate) input: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) payload: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<RequestOfRow>,
    /// The trace that it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<TraceContext>,
}

/// The body of a stimulus, written by `event/publish.sql` and `match_inbox`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StimulusBody {
    bookmark_id: Option<BookmarkId>,
    hash: StimulusHash,
    name: String,
    payload: Option<Value>,
}

fn read<T: serde::de::DeserializeOwned>(body: Value) -> Result<T> {
    serde_json::from_value(body).map_err(|error| Error::internal("a row of work cannot be read").caused_by(error))
}

/// The request of a row that waits for a start or a resume.
pub(super) fn request_of(row: &ClaimedRow) -> Option<RequestOfRow> {
    let (WorkKind::Start | WorkKind::Resume, body) = row.instruction.as_ref()? else {
        return None;
    };
    RequestOfRow::deserialize(body.get("request")?).ok()
}

/// The instruction of a claimed row for an instance of this generation; `None`: an instance that begins. The body moves from
/// the row into the instruction, as it may be large.
pub(crate) fn of(row: &mut ClaimedRow, generation: Option<Generation>) -> Result<Instruction> {
    let Some((kind, body)) = &mut row.instruction else {
        let Claim::Timer(bookmark_id, _) = &row.claim else {
            return Err(Error::internal("a row of work has no instruction"));
        };
        return Ok(Instruction::Resume {
            bookmark_id: bookmark_id.clone(),
            input: Map::new(),
            payload: None,
            request: None,
        });
    };
    let clock = row.clock;
    let body = body.take();
    Ok(match kind {
        WorkKind::Start => {
            let body: StartBody = read(body)?;
            Instruction::Start {
                correlation_id: body.correlation_id,
                name: body.name,
                input: body.input,
                variables: body.variables,
                trigger_activity_id: body.trigger_activity_id,
                payload: body.payload,
                parent: body.parent,
                request: body.request.map(|request| request.of_run(clock)),
            }
        }
        WorkKind::Resume => {
            let body: ResumeBody = read(body)?;
            let earlier = body.generation.is_some() && body.generation != generation;
            Instruction::Resume {
                // Bookmark ids repeat in the next generation. An empty one matches nothing.
                bookmark_id: if earlier { BookmarkId::new("") } else { body.bookmark_id },
                input: body.input,
                payload: body.payload,
                request: body.request.map(|request| request.of_run(clock)),
            }
        }
        WorkKind::Stimulus => {
            let body: StimulusBody = read(body)?;
            Instruction::Stimulus {
                bookmark_id: body.bookmark_id,
                hash: body.hash,
                name: body.name,
                payload: body.payload,
            }
        }
        WorkKind::ChildEnd => {
            let body: ChildEndBody = read(body)?;
            let is_own = generation == Some(body.generation);
            Instruction::ChildEnded {
                bookmark_id: if is_own { body.bookmark_id } else { BookmarkId::new("") },
                result: body.result,
            }
        }
        WorkKind::Cancel => Instruction::Cancel,
        WorkKind::Continue => Instruction::Continue,
    })
}

/// A stimulus that matched nothing, for the inbox; `lifetime` in microseconds.
pub(crate) fn for_inbox(instruction: Instruction, lifetime: i64) -> Option<StimulusRow> {
    match instruction {
        Instruction::Stimulus {
            hash, name, payload, ..
        } => Some(StimulusRow {
            no: 0,
            hash: hash.0.to_vec(),
            name,
            payload,
            lifetime,
        }),
        _ => None,
    }
}
