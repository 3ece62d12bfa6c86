//! A commit request on its way, and the ways in which it can end.

use std::time::Instant;

use tokio::sync::oneshot;

use super::{CANCELLED, Commit, CommitGuard, CommitOutcome, CommitReply, CommitRequest, FAULTED, FINISHED};
use crate::Error;
use crate::db::{ErrorClass, violates};

/// A request that has no outcome yet.
pub(super) struct Pending<G> {
    /// Boxed, as it is moved several times.
    pub(super) request: Box<CommitRequest>,
    pub(super) guard: G,
    pub(super) reply: oneshot::Sender<CommitReply<G>>,
    /// When it first found a locked row.
    pub(super) contended_since: Option<Instant>,
    /// Of its stimulus keys those that other transactions held when it was sent last, in sorted order.
    pub(super) missed: Vec<i32>,
    /// How often the connection was lost under it; an earlier attempt may have been committed.
    pub(super) lost_connections: u32,
    /// When it first failed for a reason that need not be its own, perhaps with others.
    pub(super) failing_since: Option<Instant>,
    /// The error of its last such failure alone.
    pub(super) fault: Option<Error>,
}

impl<G> Pending<G> {
    pub(super) fn new(request: Box<CommitRequest>, guard: G, reply: oneshot::Sender<CommitReply<G>>) -> Self {
        Self {
            request,
            guard,
            reply,
            contended_since: None,
            missed: Vec::new(),
            lost_connections: 0,
            failing_since: None,
            fault: None,
        }
    }

    /// Notes that an attempt with it failed.
    pub(super) fn has_failed(&mut self, failure: ErrorClass, now: Instant) {
        if failure == ErrorClass::Connection {
            self.lost_connections += 1;
        } else if failure.may_be_a_fault() {
            self.failing_since.get_or_insert(now);
        }
    }
}

/// A row stayed locked for too long, or the database refuses all. An earlier attempt of the same request may hold the row and
/// may yet be committed.
pub(super) fn end_unwritten<G: CommitGuard>(mut pending: Pending<G>) {
    let outcome = match pending.fault.take() {
        _ if pending.lost_connections > 0 => CommitOutcome::Unknown,
        Some(error) => CommitOutcome::DatabaseFault(error),
        None => CommitOutcome::Busy,
    };
    reply(pending, outcome);
}

/// An error that is not the request's own. Only its text is kept, as many requests may share one error.
pub(super) fn fault(error: &Error) -> Error {
    Error::unavailable("database-fault", error.message()).caused_by(error.to_string())
}

/// Ends a request whose own rows the database refuses.
pub(super) fn refuse<G: CommitGuard>(pending: Pending<G>, error: &Error) {
    // A retried instance takes its activation key.
    let refused = if pending.request.effects.retried && violates(error, "activation_held") {
        let message = "the activation strategy of its workflow allows no other instance beside the one that runs";
        Error::conflict("cannot-start", message)
    } else {
        Error::internal("the database refuses the rows of this burst")
    };
    let refused = refused
        .instance(pending.request.instance.as_str())
        .caused_by(error.to_string());
    reply(pending, CommitOutcome::Refused(refused));
}

/// Counts what a commit has made of its instance.
fn count_committed(request: &CommitRequest, commit: &Commit) {
    let effects = &request.effects;
    metrics::histogram!("mainspring_burst_seconds").record(effects.elapsed);
    if request.expected.is_none() {
        metrics::counter!("mainspring_instances_started_total").increment(1);
    }
    if effects.status == FINISHED {
        let outcome = ended_as(effects.sub_status);
        metrics::counter!("mainspring_instances_finished_total", "outcome" => outcome).increment(1);
        let lived = commit.committed_at.signed_duration_since(commit.created_at).to_std();
        metrics::histogram!("mainspring_instance_duration_seconds").record(lived.unwrap_or_default());
    } else if !effects.continues {
        metrics::counter!("mainspring_instances_suspended_total").increment(1);
    }
}

/// The end of an instance, by `instance.sub_status`.
fn ended_as(sub_status: i16) -> &'static str {
    match sub_status {
        CANCELLED => "cancelled",
        FAULTED => "faulted",
        _ => "finished",
    }
}

pub(super) fn reply<G: CommitGuard>(pending: Pending<G>, outcome: CommitOutcome) {
    metrics::counter!("mainspring_bursts_total", "outcome" => outcome.name()).increment(1);
    if let CommitOutcome::Committed(commit) = &outcome {
        count_committed(&pending.request, commit);
    }
    // Without a receiver the guard is dropped, which releases the lock.
    let _ = pending.reply.send(CommitReply {
        outcome,
        guard: pending.guard,
    });
}
