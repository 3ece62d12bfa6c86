//! Why a burst lost, asked by a statement whose snapshot is newer than the batch's.

use std::collections::HashMap;

use super::pipeline::{CommitConnection, claim_rows, request_row};
use super::row::RequestRow;
use super::{Commit, CommitOutcome, CommitRequest, FINISHED};
use crate::Result;
use crate::db::{ANSWER_TIMEOUT, within};
use crate::failpoint;
use crate::id::{InstanceVersion, WorkId};

/// What the database shows of a loser.
struct LossEvidence {
    fence: bool,
    /// The instance as it stands, if it does.
    standing: Option<Commit>,
    mine: bool,
    claimed: bool,
    /// It holds something by its activation strategy.
    holds: bool,
    /// Some instance does.
    strict: bool,
}

/// What became of a loser.
pub(super) enum Loss {
    Outcome(CommitOutcome),
    /// A plain batch stepped over it, as it holds something: it is sent again in the other form.
    Holds,
    /// It is busy, or a plain batch stepped over all that end, as some instance holds something.
    Strict,
}

/// Classes the losers of a batch, by their places in it; `in_doubt` when an earlier try of the same requests may have
/// been committed.
pub(super) async fn classify<'a>(
    channel: &CommitConnection,
    losers: impl Iterator<Item = (usize, &'a CommitRequest)>,
    in_doubt: bool,
) -> Result<HashMap<usize, Loss>> {
    failpoint::hit("classify.before").await?;
    let losers: HashMap<usize, &CommitRequest> = losers.collect();
    let requests: Vec<_> = losers
        .iter()
        .map(|(no, request)| RequestRow {
            // Nobody asks for these here, and they may be large.
            state: &[],
            record: None,
            ..request_row(*no as i32, request)
        })
        .collect();
    let claims: Vec<_> = losers
        .iter()
        .flat_map(|(no, request)| claim_rows(*no as i32, request))
        .collect();
    let (incarnation, writer) = channel.writer();
    let answer = within(
        ANSWER_TIMEOUT,
        channel
            .client()
            .query(&channel.classify, &[&incarnation, &writer, &requests, &claims]),
    )
    .await?;
    Ok(answer
        .iter()
        .filter_map(|row| {
            let no = usize::try_from(row.get::<_, i32>(0)).ok()?;
            let evidence = LossEvidence {
                fence: row.get(1),
                standing: row.get::<_, Option<i64>>(2).map(|version| Commit {
                    version: InstanceVersion(version),
                    continued: row.get::<_, Option<i64>>(5).map(WorkId),
                    created_at: row.get(6),
                    committed_at: row.get(7),
                    // Both were not asked; to look is always right.
                    more: true,
                    freed: true,
                }),
                mine: row.get(3),
                claimed: row.get(4),
                holds: row.get::<_, Option<bool>>(8).unwrap_or(false),
                strict: row.get::<_, Option<bool>>(9).unwrap_or(false),
            };
            Some((no, judge(losers.get(&no)?, evidence, in_doubt)))
        })
        .collect())
}

/// The order matters: a first try that won has consumed its own claims, and may have been fenced since.
fn judge(request: &CommitRequest, evidence: LossEvidence, in_doubt: bool) -> Loss {
    let ends = !request.holds && request.effects.status == FINISHED;
    let (holds, strict) = (evidence.holds, evidence.strict);
    match outcome(request, evidence, in_doubt) {
        CommitOutcome::Busy if ends && holds => Loss::Holds,
        CommitOutcome::Busy if ends && strict => Loss::Strict,
        outcome => Loss::Outcome(outcome),
    }
}

fn outcome(request: &CommitRequest, evidence: LossEvidence, in_doubt: bool) -> CommitOutcome {
    if let (true, Some(commit)) = (evidence.mine, evidence.standing) {
        // What it won, not what stands there now: a cancel accepted since has grown it to fence what comes next.
        let version = request.expected.map_or(1, |expected| expected.0 + 1);
        return CommitOutcome::Committed(Commit {
            version: InstanceVersion(version),
            continued: commit.continued.filter(|_| request.effects.continues),
            ..commit
        });
    }
    if in_doubt && request.expected.is_some() && evidence.standing.is_none() {
        return CommitOutcome::Unknown;
    }
    if !evidence.fence {
        return CommitOutcome::Fenced;
    }
    if !evidence.claimed {
        return CommitOutcome::ClaimLost;
    }
    if evidence.standing.map(|commit| commit.version) != request.expected {
        return CommitOutcome::VersionConflict;
    }
    CommitOutcome::Busy
}
