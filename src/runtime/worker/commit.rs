//! The last steps of a burst: it runs in memory, and its result is committed. Only [`Finished`] reaches the writer.
//!
//! Any of the futures here may be dropped at any await: before the commit nothing was written, after it the writer goes on
//! by itself. The lock travels with the request, and comes back with the outcome.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::claim::Locked;
use super::complete::AfterCommit;
use super::family::{BurstChildren, StopCause};
use super::prepare::Prepared;
use super::{activity_faults, effects, instruction};
use crate::execution::{Burst, BurstResult, InstanceState, Instruction, InstructionOrigin, Program, SubStatus};
use crate::id::{BurstId, ClaimNo, WorkId};
use crate::runtime::context::in_flight::BurstClaims;
use crate::runtime::context::locks::InstanceLock;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::ClaimedRow;
use crate::store::clock::DatabaseClock;
use crate::store::code::WorkKind;
use crate::store::commit::{Claim, Commit, CommitOutcome, CommitReply, CommitRequest, DefinitionRef, Effects};
use crate::store::instance::Generation;
use crate::{Error, Result};

/// How often a burst that yields again and again checks whether more work for its instance is ready (a resume from another
/// node, say; a cancel makes the next commit fail by itself). A check costs the server a tenth of a commit.
const CHECK_MORE: Duration = Duration::from_millis(50);

/// How a burst ended, in memory.
pub(super) enum RunEnd {
    Finished(Box<Finished>),
    /// There was no capacity for its script. Nothing of it is kept, and it is retried after that time.
    Deferred(Duration),
    /// A child could not be committed, with this outcome. Nothing of the burst is kept.
    Lost {
        outcome: CommitOutcome,
        rows: Vec<ClaimedRow>,
    },
}

/// A burst that came to its end, in memory.
pub(super) struct Finished {
    rows: Vec<ClaimedRow>,
    unmatched: Vec<usize>,
    /// Instructions that follow in the next burst of this one, which has yielded, with their rows.
    held_over: Vec<(ClaimedRow, Instruction)>,
    program: Arc<Program>,
    definition: DefinitionRef,
    state: Box<InstanceState>,
    yielded: bool,
    after: AfterCommit,
    attempt: u32,
    clock: DatabaseClock,
    checked: Instant,
    /// Incidents of the instance before this burst.
    incidents: usize,
    request: Box<CommitRequest>,
    lock: InstanceLock,
}

/// What a commit leaves to do. `consumed`: the rows of work that it consumed, each with whether it met what it was for.
pub(super) enum Committed {
    /// The instance waits or has ended.
    Done {
        lock: InstanceLock,
        consumed: Vec<(WorkId, bool)>,
        state: Box<InstanceState>,
        commit: Commit,
    },
    /// The burst yielded and goes on.
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

/// Runs the burst in memory.
pub(super) async fn run(node: &Arc<NodeContext>, prepared: Prepared) -> Result<RunEnd> {
    let Prepared {
        locked,
        rows,
        instructions,
        program,
        definition,
        expected,
        state,
        attempt,
        child_seed,
        clock,
        checked,
    } = prepared;
    let origins = rows.iter().map(|row| origin(row, child_seed)).collect();
    let correlated = state.as_ref().map(|state| state.correlation_id().map(str::to_owned));
    let incidents = state.as_ref().map_or(0, |state| state.incidents().len());
    let burst = Burst {
        instance_id: locked.key.1.clone(),
        state: state.map(|state| *state),
        instructions,
        attempt,
        now: clock.now(),
        child_seed,
        origins,
        is_followed: rows.iter().any(|row| row.is_followed),
    };
    let children = BurstChildren {
        node,
        tenant: &locked.key.0,
        root: &locked.key.1,
        lock: &locked.lock,
        expected,
        rows: &rows,
        attempt,
        clock,
        family: OnceLock::new(),
    };
    let result = node.interpreter.run_among(&program, burst, &children).await;
    match children.into_stop() {
        None => {}
        Some(StopCause::Lost(outcome)) => return Ok(RunEnd::Lost { outcome, rows }),
        Some(StopCause::Failed(error)) => return Err(error),
    }
    if let Some(pause) = result.deferred {
        return Ok(RunEnd::Deferred(pause));
    }
    let mut result = result;
    let yielded = result.yielded;
    let (rows, held_over) = hold_over(rows, &mut result);
    let (mut stimuli, mut unmatched, mut unmet) = (Vec::new(), Vec::new(), Vec::new());
    for (place, instruction) in std::mem::take(&mut result.unmatched) {
        unmatched.push(place);
        unmet.extend(rows.get(place).and_then(ClaimedRow::awaited_work));
        // Also when the instance has ended: a stimulus that was accepted for it is not discarded here. A cancelled instance
        // waits for nothing.
        if result.sub_status != SubStatus::Cancelled {
            stimuli.extend(instruction::for_inbox(instruction, node.inbox_lifetime));
        }
    }
    // What is held over comes before other work.
    let asks = yielded && held_over.is_empty() && checked.elapsed() >= CHECK_MORE;
    let effects = Effects {
        reads_pending_work: asks,
        unmet,
        rematched: match correlated {
            Some(before) if before != result.correlation_id => effects::rematched(&result),
            _ => Vec::new(),
        },
        ..effects::of(&result, stimuli, node.inbox_lifetime)?
    };
    let after = AfterCommit::of(&result, &effects);
    let request = Box::new(CommitRequest {
        tenant: locked.key.0,
        instance: locked.key.1,
        expected,
        burst: BurstId::random(),
        definition: definition.clone(),
        claims: rows.iter().map(|row| row.claim.clone()).collect(),
        nested: None,
        effects,
        holds: false,
    });
    let BurstResult { state, .. } = result;
    Ok(RunEnd::Finished(Box::new(Finished {
        rows,
        unmatched,
        held_over,
        program,
        definition,
        state: Box::new(state),
        yielded,
        after,
        attempt,
        clock,
        checked: if asks { Instant::now() } else { checked },
        incidents,
        request,
        lock: locked.lock,
    })))
}

/// The row that an instruction comes from, which is the same when the burst is repeated. Ids of bookmarks repeat in the next
/// generation of an instance.
fn origin(row: &ClaimedRow, generation: i64) -> InstructionOrigin {
    InstructionOrigin {
        row: match &row.claim {
            Claim::Work(work, _) => work.0.to_string(),
            Claim::Timer(bookmark, _) => format!("{bookmark}@{generation}"),
        },
        replays: row.replays.clone(),
        lineage: None,
    }
}

/// Of the rows those that the burst consumes, and those that it holds over. A timer whose bookmark the burst has burned is
/// deleted with it. The places of what it has not matched become places among the first.
fn hold_over(rows: Vec<ClaimedRow>, result: &mut BurstResult) -> (Vec<ClaimedRow>, Vec<(ClaimedRow, Instruction)>) {
    let mut held_over = std::mem::take(&mut result.held_over).into_iter().peekable();
    let (mut consumed, mut held) = (Vec::with_capacity(rows.len()), Vec::new());
    for (place, row) in rows.into_iter().enumerate() {
        match held_over.next_if(|(held, _)| *held == place) {
            Some((_, instruction)) if is_open(&row.claim, &result.state) => held.push((row, instruction)),
            Some(_) => consumed.push(row),
            None => {
                let of_row = result.unmatched.iter_mut().filter(|(old, _)| *old == place);
                of_row.for_each(|(old, _)| *old = consumed.len());
                consumed.push(row);
            }
        }
    }
    (consumed, held)
}

fn is_open(claim: &Claim, state: &InstanceState) -> bool {
    match claim {
        Claim::Work(..) => true,
        Claim::Timer(id, _) => state.bookmarks().iter().any(|bookmark| bookmark.id == *id),
    }
}

impl Finished {
    /// Commits the burst and waits for the outcome. Dropped half-way, the writer goes on by itself.
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
            request,
            lock,
        } = self;
        let key = (request.tenant.clone(), request.instance.clone());
        let kept = request.continuation();
        let CommitReply { outcome, guard: lock } = node.commits.writer.commit(request, lock).await?;
        let commit = match outcome {
            CommitOutcome::Committed(commit) => commit,
            outcome => {
                rows.extend(held_over.into_iter().map(|(row, _)| row));
                return Ok(Committed::Lost { outcome, rows });
            }
        };
        activity_faults::report(&state, incidents);
        after.report(node, &key.1, &commit, clock);
        let consumed = rows
            .iter()
            .enumerate()
            .filter_map(|(place, row)| match row.claim {
                Claim::Work(work, _) => Some((work, !unmatched.contains(&place))),
                Claim::Timer(..) => None,
            })
            .collect();
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
            .ok_or_else(|| Error::internal("a burst that yielded has no row to go on under"))?;
        let claim = Claim::Work(work, claim_no);
        claims.add(claim.clone());
        let clock = DatabaseClock::read(commit.committed_at);
        // As long as rows of a lost burst follow, what arrives is behind them.
        let is_followed = rows.iter().any(|row| row.is_followed);
        let row = ClaimedRow {
            had_begun: is_followed || held_over.iter().any(|(row, _)| row.had_begun),
            is_followed,
            replays: None,
            claim,
            instruction: Some((WorkKind::Continue, serde_json::Value::Null)),
            definition: None,
            failures: 0,
            crashes: 0,
            clock,
        };
        let (mut rows, mut instructions) = (vec![row], vec![Instruction::Continue]);
        for (row, instruction) in held_over {
            rows.push(row);
            instructions.push(instruction);
        }
        let next = Prepared {
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
