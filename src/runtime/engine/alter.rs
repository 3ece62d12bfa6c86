//! Changes of an instance between two bursts.
//!
//! A change is a commit like that of a burst, without a claim: it holds the instance's lock, compares the version that it read,
//! and writes state and version together. So a burst and a change never overlap unnoticed: one of them loses and begins again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::instances::no_instance;
use crate::execution::{InstanceState, Program};
use crate::failpoint;
use crate::id::{BurstId, InstanceId, TenantId, VersionId};
use crate::runtime::context::locks::InstanceLock;
use crate::runtime::context::node_context::NodeContext;
use crate::store::commit::{Commit, CommitOutcome, CommitReply, CommitRequest, Effects};
use crate::store::instance::{self, InstanceRow};
use crate::store::pause::{self, PauseMode};
use crate::{Error, Result};

/// The pause after the first try to find the instance between two bursts, which doubles, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// What a change makes of an instance.
pub(super) enum Change<T> {
    /// This is committed.
    Commit(Box<Effects>, T),
    /// Nothing is written.
    Nothing(T),
}

/// An instance between two bursts.
pub(super) struct InstanceAtRest {
    pub(super) row: InstanceRow,
    pub(super) state: InstanceState,
    pub(super) program: Arc<Program>,
}

/// Changes an instance while no node runs it: tries until the deadline to find it between two bursts. `change` may be called
/// again, if another commit came first. Returns what it gave, and its commit, if it wrote anything. Not cancellation safe:
/// dropped, it may have been committed, and work that its lock kept from a burst is found by the next poll only.
///
/// # Errors
/// `instance-busy` if it was not found between two bursts; `instance-not-found`; that of the change or of its commit.
pub(super) async fn alter<T>(
    node: &NodeContext,
    tenant: &TenantId,
    id: &InstanceId,
    deadline: Instant,
    change: impl Fn(InstanceAtRest) -> Result<Change<T>>,
) -> Result<(T, Option<Commit>)> {
    let key = [(tenant.clone(), id.clone())];
    let mut pause = FIRST_PAUSE;
    loop {
        let guards = node.locks.instances.try_instances(&key).await?;
        if let Some(guard) = guards.into_iter().next().flatten() {
            let lock = InstanceLock::new(id, guard, false);
            let tried = try_alter(node, tenant, id, lock, &change).await;
            // Polls while the lock was held have left out the rows of the instance.
            node.work_accepted(Some(id), None, 1);
            if let Some(altered) = tried? {
                return Ok(altered);
            }
        }
        if Instant::now() + pause > deadline {
            return Err(busy(id));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// `None` if another commit came first, or the instance has not run yet.
async fn try_alter<T>(
    node: &NodeContext,
    tenant: &TenantId,
    id: &InstanceId,
    lock: InstanceLock,
    change: impl Fn(InstanceAtRest) -> Result<Change<T>>,
) -> Result<Option<(T, Option<Commit>)>> {
    let pool = node.database.reads.by_key();
    let Some((row, state, version)) = instance::find(pool, tenant, id).await? else {
        return match instance::pending(pool, tenant, id).await? {
            Some(_) => Ok(None),
            None => Err(no_instance(id)),
        };
    };
    let definition = row.definition.clone();
    let loaded = InstanceAtRest {
        state: InstanceState::from_bytes(&state)?,
        program: program(node, tenant, &definition.version_id).await?,
        row,
    };
    let (effects, made) = match change(loaded)? {
        Change::Commit(effects, made) => (*effects, made),
        Change::Nothing(made) => return Ok(Some((made, None))),
    };
    failpoint::hit("alter.loaded").await?;
    if lock.is_lost() {
        return Ok(None);
    }
    let request = Box::new(CommitRequest {
        tenant: tenant.clone(),
        instance: id.clone(),
        expected: Some(version),
        burst: BurstId::random(),
        definition,
        claims: Vec::new(),
        nested: None,
        effects,
        holds: false,
    });
    let CommitReply { outcome, guard } = node.commits.writer.commit(request, lock).await?;
    drop(guard);
    match outcome {
        CommitOutcome::Committed(commit) => {
            node.committed(tenant, id);
            Ok(Some((made, Some(commit))))
        }
        CommitOutcome::VersionConflict | CommitOutcome::ClaimLost | CommitOutcome::Busy => Ok(None),
        outcome => Err(unwritten(node, id, outcome)),
    }
}

pub(super) async fn program(node: &NodeContext, tenant: &TenantId, version: &VersionId) -> Result<Arc<Program>> {
    let pool = node.database.reads.by_key();
    node.caches.programs.get(pool, &node.interpreter, tenant, version).await
}

/// What changes instances beside their bursts is no accepted work, so that a pause refuses it by a read of its own.
pub(super) async fn refuse_while_paused(node: &NodeContext) -> Result<()> {
    let row = pause::read(node.database.reads.by_key()).await?;
    if row.pause.mode == PauseMode::Running {
        return Ok(());
    }
    Err(Error::unavailable(
        "runtime-paused",
        "the cluster is paused; nothing was changed",
    ))
}

fn busy(id: &InstanceId) -> Error {
    let message = "a burst of the instance runs, or it has not run yet: nothing was changed; try again";
    Error::conflict("instance-busy", message).instance(id.as_str())
}

/// The error of a commit that was not made, or perhaps not.
pub(super) fn unwritten(node: &NodeContext, id: &InstanceId, outcome: CommitOutcome) -> Error {
    match outcome {
        CommitOutcome::Refused(error) | CommitOutcome::DatabaseFault(error) => error,
        CommitOutcome::Unknown => {
            let message = "the database connection was lost at the commit; read the instance before another try";
            Error::unknown_outcome(message).instance(id.as_str())
        }
        CommitOutcome::Fenced => {
            node.lifecycle.stop.cancel();
            Error::fenced("this registration of the node is over; nothing was changed")
        }
        _ => busy(id),
    }
}
