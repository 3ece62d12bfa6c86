//! The step before a burst runs: rows without effect are discarded, and the program is looked up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::claim::Locked;
use super::instruction;
use super::release::give_back;
use super::run_trace::{BurstFacts, RunTrace, TraceOfRows};
use super::unsupported;
use super::volatile::{self, HeldFiles};
use crate::execution::{InstanceState, Instruction, Program};
use crate::id::InstanceVersion;
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::replies::Reply;
use crate::store::claim::{self, ClaimedRow, InstanceKey, LoadedRow, Release, ReleaseCause};
use crate::store::clock::DatabaseClock;
use crate::store::code::WorkKind;
use crate::store::commit::{Claim, DefinitionRef};
use crate::store::instance::{self, Generation};
use crate::trace::ClaimTime;
use crate::{Error, Result};

/// How long a row waits for the start of its instance, which another burst has claimed.
const BEHIND_START: Duration = Duration::from_millis(200);

/// How long a burst that yielded tries to take its first lock, while it keeps its claims.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// What to run.
pub(super) struct Prepared {
    pub(super) locked: Locked,
    pub(super) rows: Vec<ClaimedRow>,
    pub(super) instructions: Vec<Instruction>,
    pub(super) program: Arc<Program>,
    pub(super) definition: DefinitionRef,
    pub(super) expected: Option<InstanceVersion>,
    pub(super) state: Option<Box<InstanceState>>,
    pub(super) attempt: u32,
    /// Part of the ids of children: of an instance that begins, the row of its start; else its generation.
    pub(super) child_seed: i64,
    pub(super) clock: DatabaseClock,
    /// When it was last checked whether more work for the instance is ready, or all of it was claimed.
    pub(super) checked: Instant,
    /// `None` where the run belongs to no trace.
    pub(super) trace: Option<RunTrace>,
}

impl Prepared {
    /// Takes the lock of an instance that now exists. Returns false if another session holds it, or the attempt timed out;
    /// the next poll that finds the row continues with it.
    pub(super) async fn lock(&mut self, node: &NodeContext) -> bool {
        if self.locked.lock.is_held() {
            return true;
        }
        let key = &self.locked.key;
        let trying = node.locks.instances.try_instances(std::slice::from_ref(key));
        let tried = tokio::select! {
            () = node.lifecycle.stop.cancelled() => return false,
            tried = tokio::time::timeout(LOCK_TIMEOUT, trying) => tried,
        };
        let guards = tried.ok().and_then(Result::ok);
        let Some(guard) = guards.and_then(|mut guards| guards.pop().flatten()) else {
            return false;
        };
        self.locked.lock.hold(guard);
        true
    }
}

/// Discards or releases rows that can have no effect, and finds what to run. `claim`: when they were claimed. `files`: of the requests of the rows, if one of
/// these is not for each node. `None` if nothing is left to run.
pub(super) async fn prepare(
    node: &NodeContext,
    locked: Locked,
    rows: Vec<ClaimedRow>,
    loaded: Option<LoadedRow>,
    claim: Option<ClaimTime>,
    files: Option<&HeldFiles>,
) -> Result<Option<Prepared>> {
    let rows = match files {
        Some(files) => {
            let rows = Box::pin(volatile::leave_to_holders(node, &locked.key, rows, files)).await?;
            Box::pin(volatile::discard_lost(node, &locked.key, rows, files)).await?
        }
        None => rows,
    };
    if rows.is_empty() {
        return Ok(None);
    }
    let is_start = |row: &ClaimedRow| matches!(row.instruction, Some((WorkKind::Start, _)));
    let (starts, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_start);
    let (mut rows, definition, state) = match (&loaded, starts.first()) {
        (Some(loaded), _) => {
            // An instance starts once: another start with the same id was committed first.
            Box::pin(discard(node, &locked.key, &starts)).await?;
            (
                others,
                loaded.definition.clone(),
                Some(Box::new(InstanceState::from_bytes(&loaded.state)?)),
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
            Box::pin(release_orphaned(node, &locked.key, &others)).await?;
            return Ok(None);
        }
    };
    if rows.is_empty() {
        return Ok(None);
    }
    let generation = loaded.as_ref().map(|loaded| loaded.generation);
    let traces = TraceOfRows::read(&rows);
    let instructions = rows.iter_mut().map(|row| instruction::of(row, generation));
    let instructions = instructions.collect::<Result<Vec<_>>>()?;
    let tenant = &locked.key.0;
    let program = node
        .caches
        .programs
        .get(&node.database.pool, &node.interpreter, tenant, &definition.version_id)
        .await?;
    let missing = program.missing_activity_types();
    if !missing.is_empty() {
        let left = unsupported::leave_to_others(node, &locked.key, &definition.version_id, missing, &rows);
        Box::pin(left).await;
        return Ok(None);
    }
    let version = &definition.version_id;
    if !instructions.contains(&Instruction::Cancel)
        && let Some(pause) = node.interpreter.deferral(version, &locked.key.1)
    {
        let cause = ReleaseCause::None;
        Box::pin(give_back(node, &locked.key, &rows, Release { cause, pause })).await;
        return Ok(None);
    }
    let clock = rows
        .first()
        .map(|row| row.clock)
        .ok_or_else(|| Error::internal("there is nothing to run"))?;
    // Each claim counts, even one without a failure: a burst that was drained or lost its lock has run as well.
    let attempt = rows.iter().map(|row| row.claim.number().0).max().unwrap_or(1);
    let attempt = u32::try_from(attempt).unwrap_or(u32::MAX).max(1);
    let facts = BurstFacts {
        key: &locked.key,
        definition: &definition,
        attempt,
    };
    let trace = RunTrace::begin(node, &facts, traces, state.as_deref(), claim);
    Ok(Some(Prepared {
        attempt,
        trace,
        clock,
        checked: Instant::now(),
        child_seed: generation.map_or_else(|| first_row(&rows), Generation::number),
        expected: loaded.map(|loaded| loaded.version),
        locked,
        rows,
        instructions,
        program,
        definition,
        state,
    }))
}

/// The number of the row of work that starts an instance.
fn first_row(rows: &[ClaimedRow]) -> i64 {
    match rows.first().map(|row| &row.claim) {
        Some(Claim::Work(work, _)) => work.0,
        Some(Claim::Timer(..)) | None => 0,
    }
}

async fn discard(node: &NodeContext, key: &InstanceKey, rows: &[ClaimedRow]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let claims: Vec<Claim> = rows.iter().map(|row| row.claim.clone()).collect();
    claim::discard_work(&node.database.pool, node.database.incarnation, &key.0, &claims).await
}

/// Rows of an instance that does not exist. They are released if its start is still in flight, or if its first commit came
/// after the load; otherwise they are orphaned and discarded.
async fn release_orphaned(node: &NodeContext, key: &InstanceKey, rows: &[ClaimedRow]) -> Result<()> {
    let (tenant, id) = (&key.0, &key.1);
    let starts = instance::pending(&node.database.pool, tenant, id).await?.is_some();
    if starts || instance::find(&node.database.pool, tenant, id).await?.is_some() {
        let how = Release {
            cause: ReleaseCause::None,
            pause: BEHIND_START,
        };
        give_back(node, key, rows, how).await;
        return Ok(());
    }
    discard(node, key, rows).await?;
    for row in rows {
        if let Claim::Work(work, _) = row.claim
            && let Some(caller) = node.notifications.replies.take(id, work)
        {
            let _ = caller.send(Reply::NoInstance);
        }
    }
    Ok(())
}
