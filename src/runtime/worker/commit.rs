//! The last step of a burst: its result is committed. Only [`Finished`] reaches the writer.
//!
//! The future may be dropped at any await: before the commit nothing was written, and after it the writer continues by
//! itself. The lock travels with the request and comes back with the outcome.

use super::claim::Locked;
use super::prepare::Prepared;
use super::run::Finished;
use super::run_trace::BurstFacts;
use super::{activity_faults, requests};
use crate::execution::{InstanceState, Instruction};
use crate::id::{ClaimNo, InstanceId, WorkId};
use crate::log::bounded_info;
use crate::runtime::context::in_flight::BurstClaims;
use crate::runtime::context::locks::InstanceLock;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::ClaimedRow;
use crate::store::clock::DatabaseClock;
use crate::store::code::WorkKind;
use crate::store::commit::{Claim, Commit, CommitOutcome, CommitReply};
use crate::store::instance::Generation;
use crate::{Error, Result};

/// What a commit leaves to do. `consumed`: the rows of work that it consumed, each with whether it met what it was for.
pub(super) enum Committed {
    /// The instance waits or has ended.
    Done {
        lock: InstanceLock,
        consumed: Vec<(WorkId, bool)>,
        state: Box<InstanceState>,
        commit: Commit,
    },
    /// The burst yielded and continues.
    Yielded {
        next: Box<Prepared>,
        consumed: Vec<(WorkId, bool)>,
        has_more: bool,
    },
    /// Nothing was written.
    Lost {
        outcome: CommitOutcome,
        rows: Vec<ClaimedRow>,
    },
}

impl Finished {
    /// Commits the burst and waits for the outcome. If the future is dropped halfway, the writer continues by itself.
    pub(super) async fn commit(self, node: &NodeContext, claims: &BurstClaims) -> Result<Committed> {
        let Self {
            mut rows,
            unmatched,
            held_over,
            program,
            definition,
            state,
            yielded,
            after,
            attempt,
            clock,
            checked,
            incidents,
            executed,
            request,
            ended_requests,
            lock,
            trace,
        } = self;
        let key = (request.tenant.clone(), request.instance.clone());
        let kept = request.continuation();
        let resumes = request.expected.is_some() && rows.iter().any(ClaimedRow::is_from_outside);
        let mut span = trace.as_ref().and_then(|trace| trace.begin_commit(node));
        let CommitReply { outcome, guard: lock } = node.commits.writer.commit(request, lock).await?;
        let commit = match outcome {
            CommitOutcome::Committed(commit) => commit,
            outcome => {
                if let Some(span) = &mut span {
                    span.fail("it was not committed");
                }
                rows.extend(held_over.into_iter().map(|(row, _)| row));
                return Ok(Committed::Lost { outcome, rows });
            }
        };
        drop(span);
        log_timers(node, &key.1, &rows, &unmatched);
        requests::reply(node, &key.1, ended_requests).await;
        activity_faults::report(&state, incidents);
        count(executed, resumes);
        after.report(node, (&key.0, &key.1), &commit, clock);
        let consumed = consumed(&rows, &unmatched);
        if !yielded {
            return Ok(Committed::Done {
                lock,
                consumed,
                state,
                commit,
            });
        }
        let made = commit.continued.map(|work| (work, ClaimNo(1)));
        let (work, claim_no) = kept
            .or(made)
            .ok_or_else(|| Error::internal("a burst that yielded has no row under which to continue"))?;
        let claim = Claim::Work(work, claim_no);
        claims.add(claim.clone());
        let clock = DatabaseClock::read(commit.committed_at);
        // As long as rows of a lost burst follow, what arrives is behind them.
        let is_followed = rows.iter().any(|row| row.is_followed);
        let had_begun = is_followed || held_over.iter().any(|(row, _)| row.had_begun);
        let (mut rows, mut instructions) = (
            vec![continuing_row(claim, clock, is_followed, had_begun)],
            vec![Instruction::Continue],
        );
        for (row, instruction) in held_over {
            rows.push(row);
            instructions.push(instruction);
        }
        let facts = BurstFacts {
            key: &key,
            definition: &definition,
            attempt,
        };
        let trace = trace.map(|trace| trace.next(node, &facts));
        let next = Prepared {
            trace,
            locked: Locked { key, lock },
            rows,
            instructions,
            program,
            definition,
            expected: Some(commit.version),
            state: Some(state),
            attempt,
            child_seed: Generation::of(commit.created_at).number(),
            clock,
            checked,
        };
        Ok(Committed::Yielded {
            next: Box::new(next),
            consumed,
            has_more: commit.has_pending_work,
        })
    }
}

/// Counts what a committed burst has done. `resumes`: its instance had waited.
fn count(executed: usize, resumes: bool) {
    metrics::counter!("mainspring_activities_executed_total").increment(executed as u64);
    if resumes {
        metrics::counter!("mainspring_instances_resumed_total").increment(1);
    }
}

/// A line for each timer that the burst was resumed by, in the words that users of Elsa search for.
fn log_timers(node: &NodeContext, instance: &InstanceId, rows: &[ClaimedRow], unmatched: &[usize]) {
    for (place, row) in rows.iter().enumerate() {
        if let Claim::Timer(bookmark, _) = &row.claim
            && !unmatched.contains(&place)
        {
            bounded_info!(
                node = %node.database.node_id,
                %instance,
                "ResumeWorkflowTask executed for bookmark {bookmark}"
            );
        }
    }
}

/// The rows of work that the burst has consumed, each with whether it met what it was for.
fn consumed(rows: &[ClaimedRow], unmatched: &[usize]) -> Vec<(WorkId, bool)> {
    let works = rows.iter().enumerate().filter_map(|(place, row)| match row.claim {
        Claim::Work(work, _) => Some((work, !unmatched.contains(&place))),
        Claim::Timer(..) => None,
    });
    works.collect()
}

/// The row under which a burst that yielded continues: the commit has kept it, or made it.
fn continuing_row(claim: Claim, clock: DatabaseClock, is_followed: bool, had_begun: bool) -> ClaimedRow {
    ClaimedRow {
        had_begun,
        is_followed,
        replays: None,
        claim,
        instruction: Some((WorkKind::Continue, serde_json::Value::Null)),
        definition: None,
        failures: 0,
        crashes: 0,
        clock,
        due: clock.now(),
    }
}
