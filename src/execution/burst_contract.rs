//! The input and the result of a burst.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::bookmark::Bookmark;
use super::cause::InstructionOrigin;
use super::child::{AwaitedChild, ChildEnd, ChildStart, ParentLink};
use super::journal::{ActivityExecution, JournalEntry};
use super::request::{EndedRequest, RunRequest};
use super::state::InstanceState;
use super::status::{Status, SubStatus};
use crate::activity::EventPublication;
use crate::expression::LinkRequest;
use crate::id::{ActivityId, BookmarkId, InstanceId, StimulusHash};
use crate::trace::CurrentTrace;

/// One attempt to run an instance until it waits.
#[derive(Clone, Debug)]
pub struct Burst {
    /// The instance.
    pub instance_id: InstanceId,
    /// Its state as last committed; `None` for a new one.
    pub state: Option<InstanceState>,
    /// The instructions, carried out in this order.
    pub instructions: Vec<Instruction>,
    /// The number of this attempt, from 1; passed to activities.
    pub attempt: u32,
    /// The database's time at the beginning of the burst. The interpreter has no clock of its own, and adds the time that
    /// has passed since.
    pub now: DateTime<Utc>,
    /// Part of the ids of the children that it starts: the same if the burst is run again, but different for an
    /// instance that had the same id before.
    pub child_seed: i64,
    /// Where each instruction comes from: the same if the burst is run again. Idempotency keys and the ids of the
    /// children that run in the burst are derived from it. The row is unknown where it is missing.
    pub origins: Vec<InstructionOrigin>,
    /// The burst repeats a lost one without all of its rows: if it yields, the other rows follow the work that it
    /// leaves.
    pub is_followed: bool,
    /// The span of the burst, if it belongs to a trace.
    pub trace: Option<CurrentTrace>,
}

/// An instruction to an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Instruction {
    /// Start the instance. Only for a new one.
    Start {
        /// Its correlation id.
        correlation_id: Option<String>,
        /// Its name.
        name: Option<String>,
        /// The workflow's inputs by name.
        input: Map<String, Value>,
        /// Variables to set at the beginning, by name.
        variables: Map<String, Value>,
        /// The trigger at which it begins.
        trigger_activity_id: Option<ActivityId>,
        /// The payload of the stimulus.
        payload: Option<Value>,
        /// The parent, of a child.
        parent: Option<ParentLink>,
        /// The request that waits for what it does.
        request: Option<RunRequest>,
    },
    /// Resume at a bookmark.
    Resume {
        /// The bookmark.
        bookmark_id: BookmarkId,
        /// Added to the workflow's inputs, and passed to the activity.
        input: Map<String, Value>,
        /// What the waiting activity receives, as with a stimulus.
        payload: Option<Value>,
        /// The request that waits for what it does.
        request: Option<RunRequest>,
    },
    /// A stimulus for a bookmark. If the bookmark no longer exists, another one of the same hash in this instance is used.
    Stimulus {
        /// The bookmark that was found for it.
        bookmark_id: Option<BookmarkId>,
        /// The hash of the bookmark.
        hash: StimulusHash,
        /// Its name, for the inbox.
        name: String,
        /// The payload of the stimulus.
        payload: Option<Value>,
    },
    /// A child for which the instance waits has ended, or waits for something itself.
    ChildEnded {
        /// The bookmark at which the instance waits. Without it, the instruction matches nothing.
        bookmark_id: BookmarkId,
        /// `{workflowInstanceId, status, subStatus, output}`, with a `reason` where the child did not end by itself.
        result: Value,
    },
    /// Go on after a yield.
    Continue,
    /// Cancel the instance.
    Cancel,
}

/// A resume link that a burst has made, with the bookmark that it resumes; without one it triggers its event.
pub(crate) type MadeLink = (LinkRequest, Option<BookmarkId>);

/// The result of a burst. It takes effect when it is committed.
#[derive(Clone, Debug)]
pub struct BurstResult {
    /// The state to commit.
    pub state: InstanceState,
    /// As in `state`.
    pub status: Status,
    /// As in `state`.
    pub sub_status: SubStatus,
    /// As in `state`.
    pub correlation_id: Option<String>,
    /// As in `state`.
    pub name: Option<String>,
    /// The number of incidents of the instance so far.
    pub incident_count: i32,
    /// Bookmarks of the new state that were not in the loaded one.
    pub bookmarks_created: Vec<Bookmark>,
    /// Bookmarks of the loaded state that are not in the new one.
    pub bookmarks_burned: Vec<BookmarkId>,
    /// The events to publish with the commit, in order.
    pub events: Vec<EventPublication>,
    /// The resume links that it has made, in order.
    pub(crate) links: Vec<MadeLink>,
    /// The requests that it has ended, in order.
    pub(crate) ended_requests: Vec<EndedRequest>,
    /// The children that the burst starts.
    pub children: Vec<ChildStart>,
    /// Children that were committed before the burst, and that it waits for.
    pub awaited: Vec<AwaitedChild>,
    /// What the parent of the instance continues with; `None` when it has no parent or nothing to continue with.
    pub child_end: Option<ChildEnd>,
    /// The burst has cancelled the instance, so its living children are cancelled, too. Its state may not know all of
    /// them, because a child that runs in a burst is committed before the burst.
    pub cancels_children: bool,
    /// The entries of the journal, in order.
    pub journal: Vec<JournalEntry>,
    /// The activity executions that this burst has changed, in the order of their start.
    pub activity_executions: Vec<ActivityExecution>,
    /// The instructions that matched nothing, with their positions.
    pub unmatched: Vec<(usize, Instruction)>,
    /// After a yield: the instructions that were not carried out, with their positions. They are to follow
    /// [`Instruction::Continue`].
    pub held_over: Vec<(usize, Instruction)>,
    /// Work items are left: commit, then run again with [`Instruction::Continue`].
    pub yielded: bool,
    /// No slot was free for a script: the result must not be committed, and the burst is to be retried after this time.
    pub deferred: Option<Duration>,
    /// A child could not be committed: the result must not be committed either.
    pub stopped: bool,
    /// The activities that were executed, those of children in the burst included.
    pub executed: usize,
    /// Estimated bytes of the journal, those of such children included.
    pub journal_bytes: usize,
    /// How long the burst took, by a monotonic clock.
    pub elapsed: Duration,
}
