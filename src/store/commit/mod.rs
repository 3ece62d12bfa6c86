//! The commit contract: how the outcome of a burst reaches the database, or changes nothing.
//!
//! # Invariants
//!
//! 1. Nobody writes a row of an instance without this writer, save those who only add work.
//! 2. A batch is one statement (with a lock statement before it where stimuli are concerned) and one flush; a lone
//!    burst waits for nobody. While it is in flight the next batch gathers.
//! 3. Three fences stand in that statement: the writer's row in `fence`, the claims that the burst was born of, and
//!    the version of the instance. Each burst wins or loses whole, and gets an answer of its own.
//! 4. A batch knows only its winners. Why the others lost is asked by a second statement with a newer snapshot.
//! 5. Committed means that every statement of the pipeline succeeded, COMMIT among them: COMMIT of a failed
//!    transaction succeeds too, as a ROLLBACK, so its own success proves nothing.
//! 6. When the connection dies at commit the same request is sent again, never only read: the old backend may still be
//!    committing. After any answer but *won*, `last_burst` tells whether the first try had won.
//! 7. What must outlive the outcome (the instance's lock) travels in the request and comes back with the answer.

mod breaker;
mod classify;
mod holders;
mod lanes;
mod pipeline;
mod row;
mod statement;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

use std::time::Duration;

use chrono::{DateTime, Utc};

pub(crate) use breaker::{Breaker, ClaimLimit, PROBE_INSTANCES};
pub(crate) use row::{BookmarkRow, DueRow, StimulusRow};
#[cfg(test)]
pub(crate) use statement::StatementShape;
pub(crate) use writer::{CommitWriter, WRITERS, WriterOptions, WriterTasks};

use super::record::RecordRow;
use crate::Error;
use crate::id::{
    BookmarkId, BurstId, ClaimNo, DefinitionId, InstanceId, InstanceVersion, StimulusHash, TenantId, VersionId, WorkId,
};

/// A row that the burst was born of. It is consumed by the commit, or the burst loses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// An instruction.
    Work(WorkId, ClaimNo),
    /// A delay that came due, by the bookmark that it ends.
    Timer(BookmarkId, ClaimNo),
}

impl Claim {
    /// How often the row was claimed, this time included.
    pub(crate) fn number(&self) -> ClaimNo {
        match self {
            Self::Work(_, number) | Self::Timer(_, number) => *number,
        }
    }
}

/// Which version of which definition an instance runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefinitionRef {
    pub(crate) definition_id: DefinitionId,
    pub(crate) version_id: VersionId,
    pub(crate) version: i32,
}

/// What a burst changes. Netted: a bookmark made and burned in one burst is in neither list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    pub(crate) status: i16,
    pub(crate) sub_status: i16,
    pub(crate) correlation_id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) incident_count: i32,
    pub(crate) state: Vec<u8>,
    /// From the burst's begin to its end, by a monotonic clock; times in the record count from its begin.
    pub(crate) elapsed: Duration,
    pub(crate) bookmarks_made: Vec<BookmarkRow>,
    pub(crate) bookmarks_burned: Vec<BookmarkId>,
    /// Bookmarks that were there and stay, and may meet other stimuli now, as the correlation id has changed.
    pub(crate) rematched: Vec<Waiting>,
    /// When those of the bookmarks made are over that wait for a point in time.
    pub(crate) dues: Vec<DueRow>,
    /// Stimuli that met nothing, for the inbox, targeted at this instance.
    pub(crate) stimuli: Vec<StimulusRow>,
    /// Rows that it was born of and that met nothing, for doors of other nodes that wait for them.
    pub(crate) unmet: Vec<WorkId>,
    /// What happened, unless the definition keeps no journal.
    pub(crate) record: Option<RecordRow>,
    /// The burst yielded: it goes on under a row of work that it was born of, or else one that the commit makes.
    pub(crate) continues: bool,
    /// It yielded, and wants to be told whether something else waits for the instance.
    pub(crate) asks: bool,
}

/// A bookmark that waits for a stimulus.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) bookmark: String,
    pub(crate) hash: StimulusHash,
}

/// The outcome of one burst, on its way to the database.
pub(crate) struct CommitRequest {
    pub(crate) tenant: TenantId,
    pub(crate) instance: InstanceId,
    /// The version that was loaded, or none for a new instance.
    pub(crate) expected: Option<InstanceVersion>,
    pub(crate) burst: BurstId,
    pub(crate) definition: DefinitionRef,
    pub(crate) claims: Vec<Claim>,
    pub(crate) effects: Effects,
    /// It ends an instance that holds something by its activation strategy, as far as the writer knows: that is freed in
    /// another shape than the plain one, which steps over it.
    pub(crate) holds: bool,
}

/// What is true of an instance once its burst is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its version now.
    pub(crate) version: InstanceVersion,
    /// The claimed row that was made for a burst that yielded, to go on under, as it was born of none that it could keep.
    pub(crate) continued: Option<WorkId>,
    /// Of a burst that asked: something else waits to be done with the instance. One that did not ask may be told, too.
    pub(crate) more: bool,
    /// Of a burst that ended its instance: it kept other occurrences of its schedule from starting, and does so no more.
    pub(crate) freed: bool,
    /// When it was first committed, by the database's clock.
    pub(crate) created_at: DateTime<Utc>,
    /// When this commit was.
    pub(crate) committed_at: DateTime<Utc>,
}

/// What became of a burst.
#[derive(Debug)]
pub(crate) enum CommitOutcome {
    /// All of it is committed.
    Committed(Commit),
    /// A row that it was born of is no longer ours. Nothing was written.
    ClaimLost,
    /// Somebody else committed, cancelled or deleted the instance since it was loaded. Nothing was written.
    VersionConflict,
    /// A row stayed locked by somebody else past all patience. Nothing was written.
    Busy,
    /// This incarnation was declared dead. Nothing was written, nor will be.
    Fenced,
    /// The database refuses this burst's own rows. Nothing was written.
    Refused(Error),
    /// The database refuses it for reasons that are not its own, as nothing of its kind is committed. Nothing was written.
    DatabaseFault(Error),
    /// Nobody can say: the connection died at commit, and the instance is gone, or stays locked.
    Unknown,
}

impl CommitOutcome {
    /// Its word in the metrics.
    fn name(&self) -> &'static str {
        match self {
            Self::Committed(_) => "committed",
            Self::ClaimLost => "claim_lost",
            Self::VersionConflict => "version_conflict",
            Self::Busy => "busy",
            Self::Fenced => "fenced",
            Self::Refused(_) => "refused",
            Self::DatabaseFault(_) => "fault",
            Self::Unknown => "unknown",
        }
    }
}

/// The status of an instance that has not come to its end.
const RUNNING: i16 = 0;
/// The status of an instance that has, however.
const FINISHED: i16 = 1;

/// What a commit came to, with the guard that had to live until that was known.
pub(crate) struct CommitReply<G> {
    pub(crate) outcome: CommitOutcome,
    pub(crate) guard: G,
}

impl CommitRequest {
    /// Roughly how many bytes travel, for the bound on a batch.
    fn size(&self) -> usize {
        let effects = &self.effects;
        effects.state.len()
            + effects.record.as_ref().map_or(0, |record| record.body.len())
            + 256 * (1 + effects.bookmarks_made.len() + self.claims.len())
    }

    /// The row under which a burst that yielded goes on, if it was born of one that met something.
    pub(crate) fn kept(&self) -> Option<(WorkId, ClaimNo)> {
        let unmet = &self.effects.unmet;
        let mut works = self.claims.iter().filter_map(|claim| match claim {
            Claim::Work(id, no) if !unmet.contains(id) => Some((*id, *no)),
            _ => None,
        });
        works.next().filter(|_| self.effects.continues)
    }

    /// The row of work that it was born of, if of nothing else; of one that yielded, the row to go on under.
    fn named(&self) -> Option<(WorkId, ClaimNo)> {
        match &*self.claims {
            [Claim::Work(id, no)] if !self.effects.continues => Some((*id, *no)),
            _ => self.kept(),
        }
    }

    /// The stimulus keys to lock, exclusive for those that it publishes.
    fn keys(&self) -> impl Iterator<Item = (i32, bool)> + '_ {
        let waits = self
            .effects
            .bookmarks_made
            .iter()
            .filter(|bookmark| bookmark.publishable);
        let waits = waits.map(|bookmark| (row::lock_key(&bookmark.hash), false));
        let rematched = self.effects.rematched.iter();
        let waits = waits.chain(rematched.map(|waiting| (waiting.hash.lock_key(), false)));
        waits.chain(
            self.effects
                .stimuli
                .iter()
                .map(|stimulus| (row::lock_key(&stimulus.hash), true)),
        )
    }
}
