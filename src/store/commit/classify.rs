//! Why a request of a batch was not committed, read by a statement whose snapshot is newer than the batch's.

use std::collections::HashMap;

use super::pipeline::{CommitConnection, claim_rows, nested_row, outer_claim_rows, request_row};
use super::row::RequestRow;
use super::{Commit, CommitOutcome, CommitRequest, FINISHED};
use crate::Result;
use crate::db::{ANSWER_TIMEOUT, columns, within};
use crate::failpoint;
use crate::id::{InstanceVersion, WorkId};

/// What the database shows of a request that was not committed.
struct LossEvidence {
    /// The incarnation still has its row in `fence`.
    is_registered: bool,
    /// The instance, if it exists.
    instance: Option<Commit>,
    /// Its last commit is that of this request: an earlier attempt was committed.
    is_committed: bool,
    /// All its claims are held, or, of a child in the burst of its parent, those of that one.
    is_claimed: bool,
    /// The outermost parent of such a child is as it was.
    is_under: bool,
    /// The instance holds something by its activation strategy.
    is_holder: bool,
}

/// What a request that was not committed came to.
pub(super) enum Loss {
    Outcome(CommitOutcome),
    /// A single-claim batch skipped it, as its instance holds something: it is sent again in the multi-claim form.
    IsHolder,
}

/// Classifies the losers of a batch by their index in it. `in_doubt`: an earlier attempt of the same requests may have been
/// committed.
pub(super) async fn classify<'a>(
    connection: &CommitConnection,
    losers: impl Iterator<Item = (usize, &'a CommitRequest)>,
    in_doubt: bool,
) -> Result<HashMap<usize, Loss>> {
    failpoint::hit("classify.before").await?;
    let losers: HashMap<usize, &CommitRequest> = losers.collect();
    let requests: Vec<_> = losers
        .iter()
        .map(|(no, request)| RequestRow {
            // Not read by this statement, and possibly large.
            state: &[],
            record: None,
            ..request_row(*no as i32, request)
        })
        .collect();
    let claims: Vec<_> = losers
        .iter()
        .flat_map(|(no, request)| claim_rows(*no as i32, request).chain(outer_claim_rows(*no as i32, request)))
        .collect();
    let nested: Vec<_> = losers
        .iter()
        .filter_map(|(no, request)| nested_row(*no as i32, request))
        .collect();
    let (incarnation, writer) = connection.writer();
    let answer = within(
        ANSWER_TIMEOUT,
        connection.client().query(
            &connection.classify,
            &[&incarnation, &writer, &requests, &claims, &nested],
        ),
    )
    .await?;
    let at = columns!(answer; no, is_registered, version, is_committed, is_claimed, is_under, continued, created_at, updated_at, is_holder)?;
    Ok(answer
        .iter()
        .filter_map(|row| {
            let no = usize::try_from(row.get::<_, i32>(at.no)).ok()?;
            let evidence = LossEvidence {
                is_registered: row.get(at.is_registered),
                instance: row.get::<_, Option<i64>>(at.version).map(|version| Commit {
                    version: InstanceVersion(version),
                    continued: row.get::<_, Option<i64>>(at.continued).map(WorkId),
                    refused_children: 0,
                    created_at: row.get(at.created_at),
                    committed_at: row.get(at.updated_at),
                    // Neither is read here; another poll is always safe.
                    has_pending_work: true,
                    released_schedule: true,
                }),
                is_committed: row.get(at.is_committed),
                is_claimed: row.get(at.is_claimed),
                is_under: row.get(at.is_under),
                is_holder: row.get::<_, Option<bool>>(at.is_holder).unwrap_or(false),
            };
            Some((no, loss(losers.get(&no)?, evidence, in_doubt)))
        })
        .collect())
}

/// The order matters: a first attempt that was committed has consumed its own claims, and may have been fenced since.
fn loss(request: &CommitRequest, evidence: LossEvidence, in_doubt: bool) -> Loss {
    let ends = !request.holds && request.effects.status == FINISHED;
    let is_holder = evidence.is_holder;
    match outcome(request, evidence, in_doubt) {
        CommitOutcome::Busy if ends && is_holder => Loss::IsHolder,
        outcome => Loss::Outcome(outcome),
    }
}

fn outcome(request: &CommitRequest, evidence: LossEvidence, in_doubt: bool) -> CommitOutcome {
    if let (true, Some(commit)) = (evidence.is_committed, evidence.instance) {
        // The version that it wrote, not the present one: a cancel accepted since has increased it.
        let version = request.expected.map_or(1, |expected| expected.0 + 1);
        return CommitOutcome::Committed(Commit {
            version: InstanceVersion(version),
            continued: commit.continued.filter(|_| request.effects.continues),
            ..commit
        });
    }
    // It holds no claim that a second try would lack, and another burst may have committed on what it wrote.
    if in_doubt && request.effects.retried {
        return CommitOutcome::Unknown;
    }
    if in_doubt && request.expected.is_some() && evidence.instance.is_none() {
        return CommitOutcome::Unknown;
    }
    if !evidence.is_registered {
        return CommitOutcome::Fenced;
    }
    if !evidence.is_claimed {
        return CommitOutcome::ClaimLost;
    }
    if !evidence.is_under || evidence.instance.map(|commit| commit.version) != request.expected {
        return CommitOutcome::VersionConflict;
    }
    CommitOutcome::Busy
}
