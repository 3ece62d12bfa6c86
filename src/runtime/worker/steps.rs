//! A burst from its lock to its commit, one consuming type per step: only [`Locked`] loads, only [`Finished`] reaches
//! the writer, and whatever a step drops it gives back.
//!
//! Any of the futures here may be dropped at any await: before the commit nothing was done that matters, after it the
//! writer goes on by itself. The lock travels with the request, and comes back with the verdict.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::OwnedSemaphorePermit;

use crate::db::is_in_doubt;
use crate::execution::{Burst, BurstResult, InstanceState, Instruction, Program, SubStatus};
use crate::id::{BurstId, ClaimNo, InstanceVersion, WorkId};
use crate::lock::LockHandle;
use crate::runtime::context::in_flight::Hold;
use crate::runtime::context::instance_lock::InstanceLock;
use crate::runtime::context::node_context::{LONGEST_PAUSE, Shift};
use crate::runtime::context::replies::Tidings;
use crate::runtime::worker::activity_faults;
use crate::runtime::worker::effects;
use crate::runtime::worker::instruction;
use crate::runtime::worker::unsupported;
use crate::store::claim::{self, ClaimedRow, InstanceKey, LoadedRow, Release, ReleaseCause};
use crate::store::clock::DatabaseClock;
use crate::store::code::WorkKind;
use crate::store::commit::{Claim, Commit, CommitOutcome, CommitReply, CommitRequest, DefinitionRef, Effects};
use crate::store::instance;
use crate::{Error, Result};

/// How long a row waits for the start of its instance, which somebody else has claimed.
const BEHIND_START: Duration = Duration::from_millis(200);

/// How long a burst that yielded waits for word of its first lock, with all that it has in hands.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// How often a burst that yields again and again asks whether something else waits for its instance (a resume from another
/// node, say; a cancel makes the next commit lose by itself). To ask costs the server a tenth of a commit.
const ASKS: Duration = Duration::from_millis(50);

/// An instance whose lock this node holds.
pub(crate) struct Locked {
    pub(crate) key: InstanceKey,
    guard: InstanceLock,
}

impl Locked {
    pub(crate) fn new(key: InstanceKey, guard: LockHandle) -> Self {
        let guard = InstanceLock::new(&key.1, guard);
        Self { key, guard }
    }

    /// What was born claimed, in our hands.
    pub(crate) fn unborn(key: InstanceKey) -> Self {
        let guard = InstanceLock::unborn(&key.1);
        Self { key, guard }
    }

    /// Claims what is to be done for these instances and loads them. Those with nothing to do are dropped, which frees
    /// their locks. With `suspicion`, the permit to run a row that may be to blame for two crashes, one of those is
    /// claimed, too, if there is any; the permit stays with it.
    pub(crate) async fn load(
        shift: &Shift,
        locked: Vec<Self>,
        mut suspicion: Option<OwnedSemaphorePermit>,
    ) -> Result<Vec<Loaded>> {
        let keys: Vec<InstanceKey> = locked.iter().map(|locked| locked.key.clone()).collect();
        let claimed = claim::claim(&shift.pool, shift.incarnation, &keys, suspicion.is_some()).await;
        let mut found = match claimed {
            Ok(found) => found,
            Err(error) => {
                if is_in_doubt(&error) {
                    shift.in_flight.doubts(keys);
                }
                return Err(error);
            }
        };
        let (mut all, mut elsewhere) = (Vec::with_capacity(found.len()), Vec::new());
        for locked in locked {
            let Some(claimed) = found.remove(&locked.key) else {
                // Something was there a moment ago: another session has its row, for now.
                elsewhere.push(locked.key);
                continue;
            };
            if !claimed.unreadable.is_empty() {
                shift
                    .give_back(
                        &locked.key,
                        &claimed.unreadable,
                        Release {
                            cause: ReleaseCause::Row("it cannot be read"),
                            pause: LONGEST_PAUSE,
                        },
                    )
                    .await;
            }
            if !claimed.rows.is_empty() {
                let hold = shift.hold(&locked.key, &claimed.rows);
                let is_isolated = claimed.rows.iter().any(ClaimedRow::is_isolated);
                all.push(Loaded {
                    suspicion: if is_isolated { suspicion.take() } else { None },
                    locked,
                    rows: claimed.rows,
                    standing: claimed.loaded,
                    hold,
                });
            }
        }
        shift.leave_alone(elsewhere);
        Ok(all)
    }

    /// A start that was accepted claimed: there is nothing to load.
    pub(crate) fn begin(self, start: ClaimedRow, hold: Hold) -> Loaded {
        Loaded {
            locked: self,
            rows: vec![start],
            standing: None,
            hold,
            suspicion: None,
        }
    }
}

/// An instance with what is to be done, all of it claimed.
pub(crate) struct Loaded {
    pub(crate) locked: Locked,
    pub(crate) rows: Vec<ClaimedRow>,
    pub(crate) standing: Option<LoadedRow>,
    pub(crate) hold: Hold,
    /// The permit to run a row that may be to blame for two crashes.
    pub(crate) suspicion: Option<OwnedSemaphorePermit>,
}

/// What to run.
pub(crate) struct Prepared {
    locked: Locked,
    pub(crate) rows: Vec<ClaimedRow>,
    instructions: Vec<Instruction>,
    program: Arc<Program>,
    definition: DefinitionRef,
    expected: Option<InstanceVersion>,
    state: Option<Box<InstanceState>>,
    attempt: u32,
    clock: DatabaseClock,
    /// When it was last asked whether anything else waits for the instance, or all of that was claimed.
    asked: Instant,
}

impl Prepared {
    /// Takes the lock of an instance that now exists. False: somebody else has it, or nobody can say in time; whoever looks
    /// for what is to be done goes on with it.
    pub(crate) async fn lock(&mut self, shift: &Shift) -> bool {
        if self.locked.guard.is_held() {
            return true;
        }
        let key = &self.locked.key;
        let trying = shift.locks.try_instances(std::slice::from_ref(key));
        let tried = tokio::select! {
            () = shift.stop.cancelled() => return false,
            tried = tokio::time::timeout(LOCK_PATIENCE, trying) => tried,
        };
        let guards = tried.ok().and_then(Result::ok);
        let Some(guard) = guards.and_then(|mut guards| guards.pop().flatten()) else {
            return false;
        };
        self.locked.guard = InstanceLock::new(&key.1, guard);
        true
    }
}

/// A burst that came to its end, in memory.
pub(crate) struct Finished {
    rows: Vec<ClaimedRow>,
    unmatched: Vec<usize>,
    program: Arc<Program>,
    definition: DefinitionRef,
    state: Box<InstanceState>,
    yielded: bool,
    waits: Until,
    clock: DatabaseClock,
    asked: Instant,
    /// Incidents of the instance before this burst.
    incidents: usize,
    request: Box<CommitRequest>,
    guard: InstanceLock,
}

/// Until when an instance waits, if nothing else comes.
#[derive(Clone, Copy, Debug)]
struct Until {
    /// From the commit on.
    delay: Option<Duration>,
    /// At a point in time.
    due: Option<DateTime<Utc>>,
}

impl Until {
    fn due_at(self, committed: DateTime<Utc>) -> Option<DateTime<Utc>> {
        // Later than any calendar goes: never.
        let delay = self.delay.and_then(|delay| TimeDelta::from_std(delay).ok());
        let delayed = delay.and_then(|delay| committed.checked_add_signed(delay));
        delayed.into_iter().chain(self.due).min()
    }
}

/// What an outcome leaves to do.
pub(crate) enum Settled {
    /// Committed, and done.
    Done {
        guard: InstanceLock,
        told: Vec<(WorkId, bool)>,
        state: Box<InstanceState>,
        commit: Commit,
    },
    /// Committed, and there is more to do.
    GoesOn {
        next: Box<Prepared>,
        told: Vec<(WorkId, bool)>,
        others_wait: bool,
    },
    /// Nothing was written.
    Lost {
        outcome: CommitOutcome,
        rows: Vec<ClaimedRow>,
    },
}

/// Sorts out rows that can have no effect, and finds what to run. None: nothing is left to do.
pub(crate) async fn prepare(
    shift: &Shift,
    locked: Locked,
    rows: Vec<ClaimedRow>,
    standing: Option<LoadedRow>,
) -> Result<Option<Prepared>> {
    let is_start = |row: &ClaimedRow| matches!(row.instruction, Some((WorkKind::Start, _)));
    let (starts, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_start);
    let (rows, definition, state) = match (&standing, starts.first()) {
        (Some(standing), _) => {
            // An instance starts once; this start lost the race for its id.
            Box::pin(discard(shift, &locked.key, &starts)).await?;
            (
                others,
                standing.definition.clone(),
                Some(Box::new(InstanceState::from_bytes(&standing.state)?)),
            )
        }
        (None, Some(start)) => {
            let definition = start
                .definition
                .clone()
                .ok_or_else(|| Error::internal("a start names no definition"))?;
            (starts.into_iter().chain(others).collect(), definition, None)
        }
        (None, None) => {
            Box::pin(orphaned(shift, &locked.key, &others)).await?;
            return Ok(None);
        }
    };
    if rows.is_empty() {
        return Ok(None);
    }
    let life = standing.as_ref().map(|standing| standing.life);
    let instructions = rows.iter().map(|row| instruction::of(row, life));
    let instructions = instructions.collect::<Result<Vec<_>>>()?;
    let tenant = &locked.key.0;
    let program = shift
        .programs
        .get(&shift.pool, &shift.interpreter, tenant, &definition.version_id)
        .await?;
    let lacking = program.unknown_activity_types();
    if !lacking.is_empty() {
        let left = unsupported::leave_to_others(shift, &locked.key, &definition.version_id, lacking, &rows);
        Box::pin(left).await;
        return Ok(None);
    }
    let version = &definition.version_id;
    if !instructions.contains(&Instruction::Cancel)
        && let Some(pause) = shift.interpreter.deferral(version, &locked.key.1)
    {
        let claims: Vec<Claim> = rows.iter().map(|row| row.claim.clone()).collect();
        let cause = ReleaseCause::None;
        Box::pin(shift.give_back(&locked.key, &claims, Release { cause, pause })).await;
        return Ok(None);
    }
    let clock = rows
        .first()
        .map(|row| row.clock)
        .ok_or_else(|| Error::internal("there is nothing to run"))?;
    // Each claim counts, also one that ended without blame: a burst that was drained or lost its lock has run, too.
    let attempt = rows.iter().map(|row| row.claim.number().0).max().unwrap_or(1);
    Ok(Some(Prepared {
        attempt: u32::try_from(attempt).unwrap_or(u32::MAX).max(1),
        clock,
        asked: Instant::now(),
        expected: standing.map(|standing| standing.version),
        locked,
        rows,
        instructions,
        program,
        definition,
        state,
    }))
}

async fn discard(shift: &Shift, key: &InstanceKey, rows: &[ClaimedRow]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let claims: Vec<Claim> = rows.iter().map(|row| row.claim.clone()).collect();
    claim::discard_work(&shift.pool, shift.incarnation, &key.0, &claims).await
}

/// Rows for an instance that does not exist: its start may still be on its way, in somebody else's hands, or its first
/// commit may have come since we looked, from a backend whose process is dead.
async fn orphaned(shift: &Shift, key: &InstanceKey, rows: &[ClaimedRow]) -> Result<()> {
    let (tenant, id) = (&key.0, &key.1);
    let starts = instance::pending(&shift.pool, tenant, id).await?.is_some();
    if starts || instance::find(&shift.pool, tenant, id).await?.is_some() {
        let claims: Vec<Claim> = rows.iter().map(|row| row.claim.clone()).collect();
        shift
            .give_back(
                key,
                &claims,
                Release {
                    cause: ReleaseCause::None,
                    pause: BEHIND_START,
                },
            )
            .await;
        return Ok(());
    }
    discard(shift, key, rows).await?;
    for row in rows {
        if let Claim::Work(work, _) = row.claim
            && let Some(door) = shift.doors.take(id, work)
        {
            let _ = door.send(Tidings::NoInstance);
        }
    }
    Ok(())
}

/// How a burst ended, in memory.
pub(crate) enum Ran {
    Finished(Box<Finished>),
    /// Its script found no room. Nothing of it is kept, and it is tried again after that time.
    Deferred(Duration),
}

pub(crate) async fn run(shift: &Shift, prepared: Prepared) -> Result<Ran> {
    let Prepared {
        locked,
        rows,
        instructions,
        program,
        definition,
        expected,
        state,
        attempt,
        clock,
        asked,
    } = prepared;
    let correlated = state.as_ref().map(|state| state.correlation_id().map(str::to_owned));
    let incidents = state.as_ref().map_or(0, |state| state.incidents().len());
    let burst = Burst {
        instance_id: locked.key.1.clone(),
        state: state.map(|state| *state),
        instructions,
        attempt,
        now: clock.now(),
    };
    let outcome = shift.interpreter.run(&program, burst).await;
    if let Some(pause) = outcome.deferred {
        return Ok(Ran::Deferred(pause));
    }
    let BurstResult {
        yielded, ref unmatched, ..
    } = outcome;
    let mut stimuli = Vec::new();
    // Also when the instance has ended: what was accepted for it is not thrown away here. What was cancelled waits for
    // nothing any more.
    if outcome.state.sub_status() != SubStatus::Cancelled {
        for row in unmatched.iter().filter_map(|place| rows.get(*place)) {
            stimuli.extend(instruction::for_inbox(row, shift.inbox_lifetime)?);
        }
    }
    let unmet = unmatched
        .iter()
        .filter_map(|place| rows.get(*place))
        .filter_map(ClaimedRow::awaited_work);
    let asks = outcome.yielded && asked.elapsed() >= ASKS;
    let effects = Effects {
        reads_pending_work: asks,
        unmet: unmet.collect(),
        rematched: match correlated {
            Some(before) if before != outcome.correlation_id => effects::rematched(&outcome),
            _ => Vec::new(),
        },
        ..effects::of(&outcome, stimuli)?
    };
    let created = &outcome.bookmarks_created;
    let waits = Until {
        delay: created.iter().filter_map(|bookmark| bookmark.delay).min(),
        due: created.iter().filter_map(|bookmark| bookmark.due).min(),
    };
    let request = Box::new(CommitRequest {
        tenant: locked.key.0,
        instance: locked.key.1,
        expected,
        burst: BurstId::random(),
        definition: definition.clone(),
        claims: rows.iter().map(|row| row.claim.clone()).collect(),
        effects,
        holds: false,
    });
    let BurstResult { state, unmatched, .. } = outcome;
    Ok(Ran::Finished(Box::new(Finished {
        rows,
        unmatched,
        program,
        definition,
        state: Box::new(state),
        yielded,
        waits,
        clock,
        asked: if asks { Instant::now() } else { asked },
        incidents,
        request,
        guard: locked.guard,
    })))
}

impl Finished {
    pub(crate) async fn commit(self, shift: &Shift, hold: &Hold) -> Result<Settled> {
        let Self {
            rows,
            unmatched,
            program,
            definition,
            state,
            yielded,
            waits,
            clock,
            asked,
            incidents,
            request,
            guard,
        } = self;
        let key = (request.tenant.clone(), request.instance.clone());
        if guard.is_lost() {
            // The fences would refuse it or not; whoever has the lock now has the better right.
            return Ok(Settled::Lost {
                outcome: CommitOutcome::ClaimLost,
                rows,
            });
        }
        let kept = request.continuation();
        let CommitReply { outcome, guard } = shift.writer.commit(request, guard).await?;
        let commit = match outcome {
            CommitOutcome::Committed(commit) => commit,
            outcome => return Ok(Settled::Lost { outcome, rows }),
        };
        activity_faults::tell(&state, incidents);
        if let Some(due) = waits.due_at(commit.committed_at) {
            // By the database's clock, behind which ours is, if anything.
            let from_now = (due - clock.now()).to_std().unwrap_or_default();
            shift.comes_due(Instant::now() + from_now);
        }
        let told = rows
            .iter()
            .enumerate()
            .filter_map(|(place, row)| match row.claim {
                Claim::Work(work, _) => Some((work, !unmatched.contains(&place))),
                Claim::Timer(..) => None,
            })
            .collect();
        if !yielded {
            return Ok(Settled::Done {
                guard,
                told,
                state,
                commit,
            });
        }
        let made = commit.continued.map(|work| (work, ClaimNo(1)));
        let (work, claim_no) = kept
            .or(made)
            .ok_or_else(|| Error::internal("a burst that yielded has no row to go on under"))?;
        let claim = Claim::Work(work, claim_no);
        hold.add(claim.clone());
        let clock = DatabaseClock::read(commit.committed_at);
        let row = ClaimedRow {
            claim,
            instruction: Some((WorkKind::Continue, serde_json::Value::Null)),
            definition: None,
            failures: 0,
            crashes: 0,
            clock,
        };
        let next = Prepared {
            locked: Locked { key, guard },
            rows: vec![row],
            instructions: vec![Instruction::Continue],
            program,
            definition,
            expected: Some(commit.version),
            state: Some(state),
            attempt: 1,
            clock,
            asked,
        };
        Ok(Settled::GoesOn {
            next: Box::new(next),
            told,
            others_wait: commit.has_pending_work,
        })
    }
}
