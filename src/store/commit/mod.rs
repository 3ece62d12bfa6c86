//! The commit contract: the effects of a burst reach the database as a whole, or change nothing.
//!
//! # Invariants
//!
//! 1. Only this writer writes the rows of an instance; other statements only add work.
//! 2. A batch is one statement (with a lock statement before it where stimuli are concerned) and one flush; a lone
//!    request is sent at once. While a batch is in flight the next one gathers.
//! 3. The statement checks three fences: the writer's row in `fence`, the claims of the request, and the version of the
//!    instance. Each request is committed or refused as a whole and gets its own outcome.
//! 4. A batch returns only its winners. A second statement with a newer snapshot classifies the others.
//! 5. Committed means that every statement of the pipeline succeeded, COMMIT among them: COMMIT of a failed transaction also
//!    succeeds, as a ROLLBACK, so its own success proves nothing.
//! 6. When the connection is lost at commit the same request is sent again, never only read: the old backend may still be
//!    committing. If that attempt is refused, `last_burst` shows whether the first one was committed.
//! 7. A child that ran in the burst of its parent is committed before the parent, in its own request, whose fences are those
//!    of the outermost parent: its claims are still held, and stay, and its version is unchanged.
//! 8. The guard of a request (the instance's lock) is held until its outcome is known and comes back with it.
//!
//! # Layout
//!
//! `writer` is the handle, `options` its bounds, `pending` a request on its way; `queue` and `lanes` bring requests to their
//! outcomes in batches; `gathering` is a batch before it is sent, `pipeline` sends one, `statement` is the shape of its text,
//! `prepared` the statements that a connection keeps, `row` its rows, `routes` those of HTTP endpoints, `links` resume links;
//! `classify` finds why a request lost, `retry` what
//! comes next for it; `holders` which activation keys instances hold; `breaker` stops claiming while the database refuses
//! commits.

mod breaker;
mod classify;
mod gathering;
mod holders;
mod lanes;
mod links;
mod options;
mod pending;
mod pipeline;
mod prepared;
mod queue;
mod retry;
mod routes;
mod row;
mod statement;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

use std::time::Duration;

use chrono::{DateTime, Utc};

pub(crate) use breaker::{Breaker, ClaimLimit, PROBE_INSTANCES};
pub(crate) use links::LinkRow;
pub(crate) use options::WriterOptions;
#[cfg(test)]
pub(crate) use pipeline::{SendMode, encoded, parameter_types};
pub(crate) use row::{
    AnswerRow, AwaitedRow, BookmarkRow, ChildEndRow, ChildRow, DeliveryRow, DueRow, EventRow, StimulusRow,
};
#[cfg(test)]
pub(crate) use statement::StatementShape;
pub(crate) use writer::{CommitWriter, WRITERS, WriterTasks};

use super::code::{StatusCode, SubStatusCode};
use super::record::RecordRow;
use super::route::BookmarkRoute;
use super::stimulus_key::{KeySet, StimulusKey};
use crate::Error;
use crate::id::{
    BookmarkId, BurstId, ClaimNo, DefinitionId, InstanceId, InstanceVersion, StimulusHash, TenantId, VersionId, WorkId,
};

/// A claimed row that started the burst. The commit consumes it, or the request is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// A row of work.
    Work(WorkId, ClaimNo),
    /// A timer that came due, by the bookmark that it ends.
    Timer(BookmarkId, ClaimNo),
}

impl Claim {
    /// The fencing token of the claim: how often the row was claimed, this time included.
    pub(crate) fn number(&self) -> ClaimNo {
        match self {
            Self::Work(_, number) | Self::Timer(_, number) => *number,
        }
    }
}

/// The version of a definition that an instance runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefinitionRef {
    pub(crate) definition_id: DefinitionId,
    pub(crate) version_id: VersionId,
    pub(crate) version: i32,
}

/// What a burst changes, net: a bookmark made and burned in one burst is in neither list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    pub(crate) status: i16,
    pub(crate) sub_status: i16,
    pub(crate) correlation_id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) incident_count: i32,
    pub(crate) state: Vec<u8>,
    /// How long the burst ran, by a monotonic clock; times in the record count from its start.
    pub(crate) elapsed: Duration,
    pub(crate) bookmarks_made: Vec<BookmarkRow>,
    pub(crate) bookmarks_burned: Vec<BookmarkId>,
    /// The routes of the new bookmarks, for requests that cannot find these by their path.
    pub(crate) routes_made: Vec<BookmarkRoute>,
    /// Roughly the bytes of the payloads of new bookmarks, events and stimuli, counted once.
    pub(crate) payload_bytes: usize,
    /// Bookmarks that existed and stay, and may match other stimuli now, as the correlation id has changed.
    pub(crate) rematched: Vec<WaitingBookmark>,
    /// The due times of the new bookmarks that wait for a point in time.
    pub(crate) dues: Vec<DueRow>,
    /// Stimuli that matched nothing, for the inbox, targeted at this instance.
    pub(crate) stimuli: Vec<StimulusRow>,
    /// Events that it publishes, in order. Each becomes a fan-out, whose turn any node gives it.
    pub(crate) events: Vec<EventRow>,
    /// Claimed rows that matched nothing, for callers of other nodes that wait for them.
    pub(crate) unmet: Vec<WorkId>,
    /// The record of the burst, unless the definition keeps no journal.
    pub(crate) record: Option<RecordRow>,
    /// The burst yielded: it continues under a row of work that it claimed, or else under one that the commit makes.
    pub(crate) continues: bool,
    /// Faulted activities are executed again: it goes on under a row of work that the commit makes, also if it had ended.
    pub(crate) retried: bool,
    /// It yielded, and the commit reads whether other work waits for the instance.
    pub(crate) reads_pending_work: bool,
    /// Of a new instance: the one whose activity started it.
    pub(crate) parent: Option<InstanceId>,
    /// The children that it starts. Their bodies count as payload.
    pub(crate) children: Vec<ChildRow>,
    /// The instance is a child, and its parent may wait for this commit.
    pub(crate) child_end: Option<ChildEndRow>,
    /// Children that were committed before it, and that it waits for.
    pub(crate) awaited: Vec<AwaitedRow>,
    /// It is cancelled, and with it the children that live.
    pub(crate) cancels_children: bool,
    /// The ends of requests that are kept.
    pub(crate) answers: Vec<AnswerRow>,
    /// The resume links that it makes.
    pub(crate) links: Vec<LinkRow>,
    /// What it causes, for the sinks of webhooks. Their payloads count as payload, once for each sink.
    pub(crate) deliveries: Vec<DeliveryRow>,
    /// The sinks that want them, as far as this node knows: one entry for each row that the statement makes of them.
    pub(crate) delivery_sinks: Vec<i32>,
}

/// A bookmark that waits for a stimulus.
#[derive(Clone, Debug)]
pub(crate) struct WaitingBookmark {
    pub(crate) bookmark: String,
    pub(crate) hash: StimulusHash,
}

/// A child that ran in the burst of its parent, and loses if the outermost parent would.
#[derive(Clone, Debug)]
pub(crate) struct NestedBurst {
    /// The outermost parent.
    pub(crate) root: InstanceId,
    /// Its version when it was loaded; `None` if it is new itself.
    pub(crate) expected: Option<InstanceVersion>,
    /// The claims of its burst, which are checked and not consumed.
    pub(crate) claims: Vec<Claim>,
    /// The child has not ended.
    pub(crate) lives: bool,
    /// It has yielded: the commit makes the row of work that it continues under.
    pub(crate) continues: bool,
}

/// What one burst did, on its way to the database.
pub(crate) struct CommitRequest {
    pub(crate) tenant: TenantId,
    pub(crate) instance: InstanceId,
    /// The version that was loaded; `None` for a new instance.
    pub(crate) expected: Option<InstanceVersion>,
    pub(crate) burst: BurstId,
    pub(crate) definition: DefinitionRef,
    pub(crate) claims: Vec<Claim>,
    /// Of a child that ran in the burst of its parent, which has no claims of its own.
    pub(crate) nested: Option<Box<NestedBurst>>,
    pub(crate) effects: Effects,
    /// As far as the writer knows, it ends an instance that holds something by its activation strategy. A multi-claim
    /// statement releases that; a single-claim one skips the request.
    pub(crate) holds: bool,
}

/// An instance after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its new version.
    pub(crate) version: InstanceVersion,
    /// The claimed row that was made for a burst that yielded without a row to continue under.
    pub(crate) continued: Option<WorkId>,
    /// Other work waits for the instance. Only meaningful with [`Effects::reads_pending_work`].
    pub(crate) has_pending_work: bool,
    /// The instance finished and no longer keeps other occurrences of its schedule from starting.
    pub(crate) released_schedule: bool,
    /// When it was first committed, by the database's clock.
    pub(crate) created_at: DateTime<Utc>,
    /// The time of this commit, by the database's clock.
    pub(crate) committed_at: DateTime<Utc>,
    /// So many children of the burst were not started: refused by their activation strategy, or not published.
    pub(crate) refused_children: i64,
}

/// What the commit of one request came to.
#[derive(Debug)]
pub(crate) enum CommitOutcome {
    /// Committed whole.
    Committed(Commit),
    /// A row that started the burst is no longer claimed by this node. Nothing was written.
    ClaimLost,
    /// The instance was committed, cancelled or deleted since it was loaded. Nothing was written.
    VersionConflict,
    /// A row stayed locked by another transaction until the lock timeout. Nothing was written.
    Busy,
    /// This incarnation was removed. Nothing was written, nor will be.
    Fenced,
    /// The database refuses the rows of this request. Nothing was written.
    Refused(Error),
    /// The database refuses every commit of this kind. Nothing was written.
    DatabaseFault(Error),
    /// The connection was lost at commit, and the instance is deleted or stays locked: whether it was written is unknown.
    Unknown,
}

impl CommitOutcome {
    /// Its label in the metrics.
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

/// `instance.status` of a running instance.
const RUNNING: i16 = StatusCode::Running.number();
/// `instance.status` of an instance that has ended, however.
const FINISHED: i16 = StatusCode::Finished.number();
/// `instance.sub_status` of an instance that was cancelled, and of one that has faulted.
const CANCELLED: i16 = SubStatusCode::Cancelled.number();
const FAULTED: i16 = SubStatusCode::Faulted.number();

/// What is held while a request is committed.
pub(crate) trait CommitGuard: Send + Sync {
    /// The request waits for a lock of another transaction, for up to the lock timeout: what other requests need meanwhile is
    /// released.
    fn contended(&mut self) {}
}

/// The outcome of a commit, with the guard that was held until it was known.
pub(crate) struct CommitReply<G> {
    pub(crate) outcome: CommitOutcome,
    pub(crate) guard: G,
}

impl CommitRequest {
    /// Roughly how many bytes are sent, for the bound on a batch.
    fn size(&self) -> usize {
        let effects = &self.effects;
        effects.state.len()
            + effects.record.as_ref().map_or(0, |record| record.body.len())
            + effects.payload_bytes
            + effects
                .answers
                .iter()
                .filter_map(|answer| answer.body.as_ref())
                .map(Vec::len)
                .sum::<usize>()
            + 256
                * (1 + effects.bookmarks_made.len()
                    + effects.stimuli.len()
                    + effects.events.len()
                    + effects.children.len()
                    + effects.answers.len()
                    + effects.links.len()
                    + effects.deliveries.len()
                    + effects.delivery_sinks.len()
                    + self.claims.len()
                    + self.nested.as_ref().map_or(0, |nested| nested.claims.len()))
    }

    /// The claimed row under which a burst that yielded continues, if it has one that matched something.
    pub(crate) fn continuation(&self) -> Option<(WorkId, ClaimNo)> {
        let unmet = &self.effects.unmet;
        let mut works = self.claims.iter().filter_map(|claim| match claim {
            Claim::Work(id, no) if !unmet.contains(id) => Some((*id, *no)),
            _ => None,
        });
        works.next().filter(|_| self.effects.continues)
    }

    /// It writes an instance for which a start was accepted: no import, and no child in the burst of its parent.
    fn was_accepted(&self) -> bool {
        self.expected.is_some() || !self.claims.is_empty()
    }

    /// Its only claim, if that is a row of work; of a burst that yielded, the row to continue under.
    fn single_claim(&self) -> Option<(WorkId, ClaimNo)> {
        match &*self.claims {
            [Claim::Work(id, no)] if !self.effects.continues => Some((*id, *no)),
            _ => self.continuation(),
        }
    }

    /// The stimulus keys to lock, exclusive for those that it publishes.
    fn keys(&self) -> KeySet {
        let effects = &self.effects;
        let correlation = effects.correlation_id.as_deref().map(StimulusKey::Correlation);
        let made = effects.bookmarks_made.iter().filter(|bookmark| bookmark.publishable);
        let made = made.flat_map(move |bookmark| {
            let hash = row::stimulus_hash(&bookmark.hash);
            let keys = [
                Some(StimulusKey::Any),
                Some(StimulusKey::Target(&self.instance)),
                correlation,
            ];
            keys.into_iter().flatten().map(move |key| (key.number(&hash), false))
        });
        // Without a correlation id they match nothing that they did not match before.
        let rematched = effects.rematched.iter().filter(move |_| correlation.is_some());
        let rematched = rematched.flat_map(move |waiting| {
            let keys = [Some(StimulusKey::Target(&self.instance)), correlation];
            keys.into_iter()
                .flatten()
                .map(move |key| (key.number(&waiting.hash), false))
        });
        let published = effects.stimuli.iter().map(|stimulus| {
            let hash = row::stimulus_hash(&stimulus.hash);
            (StimulusKey::Target(&self.instance).number(&hash), true)
        });
        KeySet::of_waiter(made.chain(rematched).chain(published))
    }
}
