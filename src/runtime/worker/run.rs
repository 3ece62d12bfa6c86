//! The step in which a burst runs, in memory only: nothing is written.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::complete::AfterCommit;
use super::family::{BurstChildren, StopCause};
use super::prepare::Prepared;
use super::run_trace::RunTrace;
#[cfg(feature = "http")]
use super::webhook_events::{self, BurstOf};
use super::{effects, instruction, requests};
use crate::Result;
#[cfg(feature = "http")]
use crate::execution::Status;
use crate::execution::{
    Burst, BurstResult, EndedRequest, InstanceState, Instruction, InstructionOrigin, Program, SubStatus,
};
use crate::failpoint;
use crate::id::BurstId;
use crate::runtime::context::locks::InstanceLock;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::ClaimedRow;
use crate::store::clock::DatabaseClock;
use crate::store::commit::{Claim, CommitOutcome, CommitRequest, DefinitionRef, Effects};

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
    pub(super) rows: Vec<ClaimedRow>,
    pub(super) unmatched: Vec<usize>,
    /// Instructions that follow in the next burst of this one, which has yielded, with their rows.
    pub(super) held_over: Vec<(ClaimedRow, Instruction)>,
    pub(super) program: Arc<Program>,
    pub(super) definition: DefinitionRef,
    pub(super) state: Box<InstanceState>,
    pub(super) yielded: bool,
    pub(super) after: AfterCommit,
    pub(super) attempt: u32,
    pub(super) clock: DatabaseClock,
    pub(super) checked: Instant,
    /// Incidents of the instance before this burst.
    pub(super) incidents: usize,
    /// The activities that it has executed, those of children in it included.
    pub(super) executed: usize,
    pub(super) request: Box<CommitRequest>,
    /// Requests of clients that it has ended.
    pub(super) ended_requests: Vec<EndedRequest>,
    pub(super) lock: InstanceLock,
    pub(super) trace: Option<RunTrace>,
}

/// Runs the burst in memory.
pub(super) async fn run(node: &Arc<NodeContext>, prepared: Prepared) -> Result<RunEnd> {
    failpoint::hit("burst.running").await?;
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
        trace,
    } = prepared;
    let with_instructions = rows.iter().zip(&instructions);
    let origins = with_instructions.map(|(row, instruction)| origin(row, instruction, child_seed));
    let origins = origins.collect();
    let correlated = state.as_ref().map(|state| state.correlation_id().map(str::to_owned));
    let incidents = state.as_ref().map_or(0, |state| state.incidents().len());
    #[cfg(feature = "http")]
    let had_ended = state.as_ref().is_some_and(|state| state.status() == Status::Finished);
    let burst = Burst {
        instance_id: locked.key.1.clone(),
        state: state.map(|state| *state),
        instructions,
        attempt,
        now: clock.now(),
        child_seed,
        origins,
        is_followed: rows.iter().any(|row| row.is_followed),
        trace: trace.as_ref().map(RunTrace::current),
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
    result
        .state
        .remember_trace(trace.as_ref().and_then(RunTrace::to_remember));
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
    requests::read_kept_files(&mut result.ended_requests, node.database.incarnation).await;
    #[cfg_attr(not(feature = "http"), allow(unused_mut))]
    let mut effects = Effects {
        reads_pending_work: asks,
        unmet,
        rematched: match correlated {
            Some(before) if before != result.correlation_id => effects::rematched(&result),
            _ => Vec::new(),
        },
        answers: requests::kept_answers(&result.ended_requests, node.database.incarnation),
        ..effects::of(&result, stimuli, node.inbox_lifetime)?
    };
    let id = BurstId::random();
    #[cfg(feature = "http")]
    webhook_events::add(
        node,
        &BurstOf {
            tenant: &locked.key.0,
            instance: &locked.key.1,
            definition: &definition,
            name: program.name(),
            id,
            is_first: expected.is_none(),
            had_ended,
            has_met: unmatched.len() < rows.len(),
        },
        &result,
        &mut effects,
    );
    let after = AfterCommit::of(&result, &effects);
    let request = Box::new(CommitRequest {
        tenant: locked.key.0,
        instance: locked.key.1,
        expected,
        burst: id,
        definition: definition.clone(),
        claims: rows.iter().map(|row| row.claim.clone()).collect(),
        nested: None,
        effects,
        holds: false,
    });
    let BurstResult {
        state,
        ended_requests,
        executed,
        ..
    } = result;
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
        executed,
        request,
        ended_requests,
        lock: locked.lock,
        trace,
    })))
}

/// The row that an instruction comes from, which is the same when the burst is repeated. Ids of bookmarks repeat in the next
/// generation of an instance. A request whose row was lost comes again in another row: what it has set off names the request, and
/// the bookmark, which one commit consumes.
fn origin(row: &ClaimedRow, instruction: &Instruction, generation: i64) -> InstructionOrigin {
    InstructionOrigin {
        row: match (instruction, &row.claim) {
            (
                Instruction::Start {
                    request: Some(request), ..
                },
                _,
            ) if request.recurs => {
                format!("request|{}", request.id)
            }
            (
                Instruction::Resume {
                    request: Some(request),
                    bookmark_id,
                    ..
                },
                _,
            ) if request.recurs => {
                format!("request|{}|{bookmark_id}@{generation}", request.id)
            }
            (_, Claim::Work(work, _)) => work.0.to_string(),
            (_, Claim::Timer(bookmark, _)) => format!("{bookmark}@{generation}"),
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
