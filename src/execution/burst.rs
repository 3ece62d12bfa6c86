//! What goes into a burst and what comes out of it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::state::InstanceState;
use super::status::{Status, SubStatus};
use crate::id::{ActivityExecutionId, ActivityId, BookmarkId, InstanceId, StimulusHash};

/// One attempt to run an instance until it waits.
#[derive(Clone, Debug)]
pub struct Burst {
    /// The instance.
    pub instance_id: InstanceId,
    /// Its state as last committed; `None` for a new one.
    pub state: Option<InstanceState>,
    /// What to do, in this order.
    pub instructions: Vec<Instruction>,
    /// Which attempt this is, from 1; activities are told.
    pub attempt: u32,
    /// What time it is when the burst begins, by the clock that timers are due by. The interpreter has none of its own;
    /// it measures how long ago that was.
    pub now: DateTime<Utc>,
}

/// Something to do with an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Instruction {
    /// Begin. Only for a new instance.
    Start {
        /// What it belongs to.
        correlation_id: Option<String>,
        /// What it is called.
        name: Option<String>,
        /// The workflow's inputs by name.
        input: Map<String, Value>,
        /// Variables to set at the beginning, by name.
        variables: Map<String, Value>,
        /// The trigger at which it begins.
        trigger_activity_id: Option<ActivityId>,
        /// What the trigger was met with.
        payload: Option<Value>,
    },
    /// Resume at a bookmark.
    Resume {
        /// The bookmark.
        bookmark_id: BookmarkId,
        /// Joins the workflow's inputs, and is passed to the activity.
        input: Map<String, Value>,
    },
    /// A stimulus for a bookmark. If that one is gone it is offered to another of the same hash in this instance.
    Stimulus {
        /// The bookmark that was found for it.
        bookmark_id: Option<BookmarkId>,
        /// What the bookmark must hash to.
        hash: StimulusHash,
        /// What it carries.
        payload: Option<Value>,
    },
    /// Go on after a yield.
    Continue,
    /// Cancel everything.
    Cancel,
}

/// What a burst did. Nothing of it is true before it is committed.
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
    /// All incidents of the instance so far.
    pub incident_count: i32,
    /// Bookmarks that live now and were not in the loaded state.
    pub bookmarks_created: Vec<Bookmark>,
    /// Bookmarks of the loaded state that are gone.
    pub bookmarks_burned: Vec<BookmarkId>,
    /// What happened, in order.
    pub journal: Vec<JournalEntry>,
    /// The executions of activities that this burst touched, in the order of their beginning.
    pub activity_executions: Vec<ActivityExecution>,
    /// Positions of instructions that met nothing.
    pub unmatched: Vec<usize>,
    /// There is more to do: commit, then run again with [`Instruction::Continue`].
    pub yielded: bool,
    /// A script found no room: nothing of this is to be committed, and the burst is to be tried again after that time.
    pub deferred: Option<Duration>,
    /// How long the burst took, by a monotonic clock.
    pub elapsed: Duration,
}

/// A point at which an instance waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bookmark {
    /// Unique, and the same when the burst is run again.
    pub id: BookmarkId,
    /// The activity that waits.
    pub activity_id: ActivityId,
    /// Its place in the tree.
    pub node_id: String,
    /// Its execution.
    pub activity_execution_id: ActivityExecutionId,
    /// The name of the stimulus: most often the activity's type.
    pub name: String,
    /// What a stimulus must hash to.
    pub hash: StimulusHash,
    /// What the hash is made of.
    pub payload: Value,
    /// Stimuli published by anybody can meet it; not so for delays.
    pub publishable: bool,
    /// A timer meets it that long after the commit's `now()`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "nanoseconds")]
    pub delay: Option<Duration>,
    /// A timer meets it at that time, by the same clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<DateTime<Utc>>,
    /// Gone once met.
    pub auto_burn: bool,
}

/// An entry of the journal (Elsa's execution log record).
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// Since the burst began.
    pub at: Duration,
    /// Counts the entries of an instance; from a counter in state.
    pub sequence: i64,
    /// `Started`, `Suspended`, `Resumed`, `Completed`, `Canceled` or `Faulted`.
    pub event_name: &'static str,
    /// The execution concerned.
    pub activity_execution_id: ActivityExecutionId,
    /// The execution that it is a part of.
    pub parent_activity_execution_id: Option<ActivityExecutionId>,
    /// The activity.
    pub activity_id: ActivityId,
    /// Its type.
    pub activity_type: String,
    /// The version of its type.
    pub activity_type_version: i32,
    /// Its name.
    pub activity_name: Option<String>,
    /// Its place in the tree.
    pub node_id: String,
    /// For people.
    pub message: Option<String>,
    /// Where in a designer or a file it comes from.
    pub source: Option<String>,
    /// Evaluated inputs and, once completed, outputs, by names in Pascal case.
    pub activity_state: Option<Value>,
    /// Outcomes, or what is known about a fault.
    pub payload: Option<Value>,
}

/// One execution of an activity, as far as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityExecution {
    /// Its id.
    pub id: ActivityExecutionId,
    /// The execution that it is a part of.
    pub parent_id: Option<ActivityExecutionId>,
    /// The activity.
    pub activity_id: ActivityId,
    /// Its place in the tree.
    pub node_id: String,
    /// Its type.
    pub activity_type: String,
    /// The version of its type.
    pub activity_type_version: i32,
    /// Its name.
    pub activity_name: Option<String>,
    /// `Running`, `Completed`, `Canceled` or `Faulted`.
    pub status: &'static str,
    /// When it began, since the burst began; `None`: in an earlier burst.
    pub started: Option<Duration>,
    /// When it ended, since the burst began.
    pub completed: Option<Duration>,
    /// Evaluated inputs, by names in Pascal case.
    pub activity_state: Value,
    /// Outputs, by names in Pascal case.
    pub outputs: Value,
    /// Outcomes, once completed.
    pub payload: Option<Value>,
    /// What it has put aside.
    pub properties: Option<Value>,
    /// Why it failed.
    pub exception: Option<Value>,
    /// Whether it waits at a bookmark.
    pub has_bookmarks: bool,
    /// Failures of it and of what is part of it.
    pub fault_count: i32,
}

mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(delay: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = delay.map(|delay| (delay.as_secs(), delay.subsec_nanos()));
        parts.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let parts = Option::<(u64, u32)>::deserialize(deserializer)?;
        Ok(parts
            .map(|(seconds, nanos)| Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into()))))
    }
}
