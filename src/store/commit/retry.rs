//! What comes next for the requests of a batch that was not committed as a whole. It is pure: the lanes carry out the
//! decisions.
//!
//! A failed batch is sent again, in parts until the failing request is alone ([`after_failure`]). A batch that was committed
//! without some of its requests leaves losers; so does one that the server refused, if a read of the rows can tell what
//! happened to them ([`after_refusal`]). Each loser has an outcome, or is sent again ([`after_loss`]).

use std::time::Duration;

use super::CommitOutcome;
use super::classify::Loss;
use super::pipeline::{BatchError, LockedRows};
use crate::db::ErrorClass;

/// The pauses between attempts after a lost connection; they double.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// After so many requests of a batch failed alone and none was committed, the others are not tried one by one.
const MAX_FUTILE: u32 = 3;

/// A batch that failed, or whose outcome is in doubt. Nothing is known of a single request of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedBatch {
    pub(super) failure: ErrorClass,
    /// The number of its requests.
    pub(super) size: usize,
    pub(super) mode: LockedRows,
    /// How often the connection was lost under that of its requests which lost it most often, now included.
    pub(super) lost_connections: u32,
    /// The outcome has been in doubt for as long as it may be.
    pub(super) doubt_is_over: bool,
    /// How many requests in a row failed alone for reasons that need not be theirs.
    pub(super) futile: u32,
}

/// What comes next for a batch that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchDecision {
    /// It is sent again over a new connection; in halves, if something in it may be what closes the connection.
    Resend { pause: Duration, halve: bool },
    /// The outcome stays unknown.
    GiveUp,
    /// Its halves are sent: one bad row must fail only its own request.
    Halve,
    /// Its requests found a locked row, or a stimulus key stayed locked: they wait for it together.
    AwaitLock,
    /// Nothing is committed: each request is retried alone, later.
    RetryAlone,
    /// The request is alone: whether the fault is its own is found out.
    JudgeFault,
    /// The request is alone, and the database refuses its rows.
    Refuse,
}

/// Decides what comes next for a batch that failed. The order matters: a batch in doubt must not be judged by what it was
/// refused for, and in the contended lane all requests of a batch wait for the same keys.
pub(super) fn after_failure(batch: FailedBatch) -> BatchDecision {
    let FailedBatch { failure, size, .. } = batch;
    let is_alone = size <= 1;
    match failure {
        ErrorClass::Connection if batch.doubt_is_over => BatchDecision::GiveUp,
        ErrorClass::Connection => BatchDecision::Resend {
            pause: pause_after(batch.lost_connections),
            halve: !is_alone && batch.lost_connections > 1,
        },
        ErrorClass::Busy if is_alone || batch.mode == LockedRows::Wait => BatchDecision::AwaitLock,
        failure if failure.may_be_a_fault() && is_alone => BatchDecision::JudgeFault,
        failure if failure.may_be_a_fault() && batch.futile >= MAX_FUTILE => BatchDecision::RetryAlone,
        _ if is_alone => BatchDecision::Refuse,
        _ => BatchDecision::Halve,
    }
}

/// Zero after the first lost connection: a new one nearly always helps.
fn pause_after(lost_connections: u32) -> Duration {
    match lost_connections {
        0 | 1 => Duration::ZERO,
        more => (SHORTEST_PAUSE * 2_u32.saturating_pow(more - 2)).min(LONGEST_PAUSE),
    }
}

/// How a batch came to leave losers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It was committed without them.
    Committed,
    /// The server refused a repeated batch as a whole: an earlier attempt may have been committed all the same.
    Repeated,
    /// The server refused a start that was alone in its batch, as its id is taken: it is the start that came second.
    IdTaken,
}

/// Whether the requests of a batch that the server refused are losers, which a read classifies. `None` if the batch failed,
/// and [`after_failure`] decides. `in_doubt`: an earlier attempt may have been committed.
pub(super) fn after_refusal(broken: &BatchError, size: usize, in_doubt: bool) -> Option<Leaving> {
    if in_doubt && broken.failure != ErrorClass::Connection {
        return Some(Leaving::Repeated);
    }
    (broken.is_id_taken && size == 1).then_some(Leaving::IdTaken)
}

/// What comes next for a request that its batch has left.
#[derive(Debug)]
pub(super) enum Decision {
    Reply(CommitOutcome),
    /// Its instance holds something: it is sent again in the multi-claim form.
    SendHolding,
    /// It found a locked row.
    AwaitLock,
}

/// Decides what comes next for a loser.
pub(super) fn after_loss(loss: Loss, left: Leaving) -> Decision {
    match (loss, left) {
        (Loss::IsHolder, _) => Decision::SendHolding,
        // By a start that did not run yet: there is no instance.
        (Loss::Outcome(CommitOutcome::Busy), Leaving::IdTaken) => Decision::Reply(CommitOutcome::VersionConflict),
        (Loss::Outcome(CommitOutcome::Busy), _) => Decision::AwaitLock,
        (Loss::Outcome(outcome), _) => Decision::Reply(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    const BATCH: FailedBatch = FailedBatch {
        failure: ErrorClass::Fault,
        size: 4,
        mode: LockedRows::Skip,
        lost_connections: 0,
        doubt_is_over: false,
        futile: 0,
    };

    /// For a batch of four, a batch of four of the contended lane, a batch of four after three futile requests, and a lone
    /// request of either lane.
    #[test]
    fn a_batch_that_failed_is_sent_in_parts_until_the_one_that_fails_is_alone() {
        use BatchDecision::{AwaitLock, Halve, JudgeFault, Refuse, RetryAlone};
        for (failure, expected) in [
            (ErrorClass::Busy, [Halve, AwaitLock, Halve, AwaitLock]),
            (ErrorClass::Timeout, [Halve, Halve, RetryAlone, JudgeFault]),
            (ErrorClass::Duplicate, [Halve, Halve, Halve, Refuse]),
            (ErrorClass::Statement, [Halve, Halve, Halve, Refuse]),
            (ErrorClass::Fault, [Halve, Halve, RetryAlone, JudgeFault]),
        ] {
            let (batch, mode) = (FailedBatch { failure, ..BATCH }, LockedRows::Wait);
            let futile = MAX_FUTILE;
            let decisions = [
                after_failure(batch),
                after_failure(FailedBatch { mode, ..batch }),
                after_failure(FailedBatch { futile, ..batch }),
                after_failure(FailedBatch { size: 1, ..batch }),
            ];
            assert_eq!(decisions, expected, "{failure:?}");
            let contended = FailedBatch { size: 1, mode, ..batch };
            assert_eq!(after_failure(contended), expected[3], "{failure:?}");
            let futile = FailedBatch {
                futile,
                size: 1,
                ..batch
            };
            assert_eq!(after_failure(futile), expected[3], "{failure:?}");
        }
    }

    #[test]
    fn a_batch_in_doubt_is_sent_again_until_the_doubt_is_over() {
        for (lost_connections, size, pause, halve) in [
            (1, 4, 0, false),
            (2, 4, 20, true),
            (2, 1, 20, false),
            (3, 4, 40, true),
            (4, 1, 80, false),
            (50, 4, 1000, true),
        ] {
            for (mode, futile) in [(LockedRows::Skip, MAX_FUTILE), (LockedRows::Wait, 0)] {
                let batch = FailedBatch {
                    failure: ErrorClass::Connection,
                    size,
                    mode,
                    lost_connections,
                    futile,
                    ..BATCH
                };
                let pause = Duration::from_millis(pause);
                assert_eq!(after_failure(batch), BatchDecision::Resend { pause, halve });
                let doubt_is_over = true;
                assert_eq!(
                    after_failure(FailedBatch { doubt_is_over, ..batch }),
                    BatchDecision::GiveUp
                );
            }
        }
    }

    #[test]
    fn a_refused_batch_is_classified_where_a_read_can_tell_what_became_of_it() {
        for (failure, is_id_taken, size, in_doubt, expected) in [
            (ErrorClass::Fault, false, 2, false, None),
            (ErrorClass::Fault, false, 2, true, Some(Leaving::Repeated)),
            (ErrorClass::Connection, false, 2, true, None),
            (ErrorClass::Duplicate, true, 2, false, None),
            (ErrorClass::Duplicate, true, 1, false, Some(Leaving::IdTaken)),
            (ErrorClass::Duplicate, true, 1, true, Some(Leaving::Repeated)),
            (ErrorClass::Duplicate, false, 1, false, None),
        ] {
            let broken = BatchError {
                failure,
                is_id_taken,
                error: Error::internal("refused"),
            };
            let found = after_refusal(&broken, size, in_doubt);
            assert_eq!(found, expected, "{failure:?} {is_id_taken} {size} {in_doubt}");
        }
    }

    #[test]
    fn a_loser_has_its_outcome_or_is_sent_again_or_waits() {
        let ways = [Leaving::Committed, Leaving::Repeated, Leaving::IdTaken];
        type Row = (fn() -> Loss, [&'static str; 3]);
        let table: [Row; 6] = [
            (|| Loss::IsHolder, ["SendHolding"; 3]),
            (
                || Loss::Outcome(CommitOutcome::Busy),
                ["AwaitLock", "AwaitLock", "Reply(VersionConflict)"],
            ),
            (|| Loss::Outcome(CommitOutcome::Fenced), ["Reply(Fenced)"; 3]),
            (|| Loss::Outcome(CommitOutcome::ClaimLost), ["Reply(ClaimLost)"; 3]),
            (|| Loss::Outcome(CommitOutcome::Unknown), ["Reply(Unknown)"; 3]),
            (
                || Loss::Outcome(CommitOutcome::VersionConflict),
                ["Reply(VersionConflict)"; 3],
            ),
        ];
        for (loss, expected) in table {
            let decisions = ways.map(|left| format!("{:?}", after_loss(loss(), left)));
            assert_eq!(decisions, expected);
        }
    }
}
