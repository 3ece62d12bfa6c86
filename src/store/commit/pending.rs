//! A commit request on its way, and the ways in which it can end.

use std::time::Instant;

use tokio::sync::oneshot;

use super::{CommitGuard, CommitOutcome, CommitReply, CommitRequest, FINISHED};
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

pub(super) fn reply<G: CommitGuard>(pending: Pending<G>, outcome: CommitOutcome) {
    metrics::counter!("mainspring_bursts_total", "outcome" => outcome.name()).increment(1);
    if matches!(outcome, CommitOutcome::Committed(_)) && pending.request.effects.status == FINISHED {
        metrics::counter!("mainspring_instances_finished_total").increment(1);
    }
    // Without a receiver the guard is dropped, which releases the lock.
    let _ = pending.reply.send(CommitReply {
        outcome,
        guard: pending.guard,
    });
}
