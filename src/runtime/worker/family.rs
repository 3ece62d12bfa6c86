//! Children of bursts. A child of `Elsa.ExecuteWorkflow` runs in the burst of its parent, and is committed before it.
//!
//! The commit of such a child is fenced by the outermost parent: by the claims of its burst, which are checked and not
//! consumed, and by its version. So a child is committed only while the burst could be committed, and whatever ends the
//! burst (a cancel, a delete, a removal of the node) comes either before or after that commit. A new child needs no lock,
//! because no other session knows of it. A child that waits or yields leaves the burst with its commit, and continues like
//! any instance.
//!
//! If the process dies after the commit of a child, the repeated burst finds the child before any of its activities runs.

use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::task::AbortOnDropHandle;

use crate::activity::PublishedDefinitions;
use crate::execution::{
    Burst, BurstResult, ChildRun, ChildStart, Children, CommittedChild, InstanceState, Instruction, InstructionOrigin,
    Program, Status,
};
use crate::id::{BurstId, InstanceId, InstanceVersion, TenantId};
use crate::lock::LockLoss;
use crate::runtime::context::locks::InstanceLock;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::ClaimedRow;
use crate::store::clock::DatabaseClock;
use crate::store::commit::{Claim, CommitOutcome, CommitReply, CommitRequest, DefinitionRef, Effects, NestedBurst};
use crate::store::definition::read;
use crate::store::instance::{self, ChildBefore};
use crate::{Error, Result, failpoint};

use super::complete::AfterCommit;
use super::run_trace::{BurstFacts, RunTrace};
#[cfg(feature = "http")]
use super::webhook_events::{self, BurstOf};
use super::{activity_faults, effects};

/// A level whose number is a multiple of this runs in a task of its own: the stack of a thread does not hold all levels.
const LEVELS_PER_TASK: u32 = 4;

/// The children of one burst.
pub(super) struct BurstChildren<'n> {
    pub(super) node: &'n Arc<NodeContext>,
    pub(super) tenant: &'n TenantId,
    /// The outermost parent, whose burst it is.
    pub(super) root: &'n InstanceId,
    pub(super) lock: &'n InstanceLock,
    pub(super) expected: Option<InstanceVersion>,
    pub(super) rows: &'n [ClaimedRow],
    pub(super) attempt: u32,
    pub(super) clock: DatabaseClock,
    /// Made with the first child.
    pub(super) family: OnceLock<Family>,
}

/// The same for all levels of children.
#[derive(Clone)]
pub(super) struct Family(Arc<FamilyState>);

struct FamilyState {
    node: Arc<NodeContext>,
    tenant: TenantId,
    root: InstanceId,
    expected: Option<InstanceVersion>,
    claims: Vec<Claim>,
    attempt: u32,
    clock: DatabaseClock,
    /// Of the lock of the outermost parent.
    loss: Option<LockLoss>,
    stop: Mutex<Option<StopCause>>,
}

/// Why a child ended the burst.
pub(super) enum StopCause {
    /// The outcome of its commit.
    Lost(CommitOutcome),
    Failed(Error),
}

async fn is_published(node: &NodeContext, tenant: &TenantId, definition_id: &str) -> bool {
    match read::is_published(&node.database.pool, tenant, definition_id).await {
        Ok(is_published) => is_published,
        Err(error) => {
            tracing::debug!(%error, "cannot read whether a definition is published; the commit decides");
            true
        }
    }
}

impl PublishedDefinitions for BurstChildren<'_> {
    fn is_published<'a>(&'a self, definition_id: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(is_published(self.node, self.tenant, definition_id))
    }
}

impl Children for BurstChildren<'_> {
    fn run<'a>(&'a self, child: &'a ChildStart) -> Pin<Box<dyn Future<Output = ChildRun> + Send + 'a>> {
        self.family().run(child)
    }

    fn must_yield(&self) -> bool {
        self.lock.is_lost()
    }
}

impl BurstChildren<'_> {
    fn family(&self) -> &Family {
        self.family.get_or_init(|| {
            Family(Arc::new(FamilyState {
                node: Arc::clone(self.node),
                tenant: self.tenant.clone(),
                root: self.root.clone(),
                expected: self.expected,
                claims: self.rows.iter().map(|row| row.claim.clone()).collect(),
                attempt: self.attempt,
                clock: self.clock,
                loss: self.lock.loss(),
                stop: Mutex::default(),
            }))
        })
    }

    /// Why the burst must not be committed; `None` if it may be.
    pub(super) fn into_stop(self) -> Option<StopCause> {
        let family = self.family.into_inner()?;
        let mut stop = family.0.stop.lock().unwrap_or_else(PoisonError::into_inner);
        stop.take()
    }
}

impl PublishedDefinitions for Family {
    fn is_published<'a>(&'a self, definition_id: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(is_published(&self.0.node, &self.0.tenant, definition_id))
    }
}

impl Children for Family {
    fn must_yield(&self) -> bool {
        self.0.loss.as_ref().is_some_and(LockLoss::is_lost)
    }

    fn run<'a>(&'a self, child: &'a ChildStart) -> Pin<Box<dyn Future<Output = ChildRun> + Send + 'a>> {
        Box::pin(async move {
            let ran = if child.parent.depth.is_multiple_of(LEVELS_PER_TASK) {
                let (family, child) = (self.clone(), child.clone());
                // Dropped with the burst.
                let task = tokio::spawn(async move { family.run_child(&child).await });
                let ended = AbortOnDropHandle::new(task).await;
                ended.unwrap_or_else(|_| Err(Error::internal("the run of a child ended without a result")))
            } else {
                self.run_child(child).await
            };
            ran.unwrap_or_else(|error| self.stopped(StopCause::Failed(error)))
        })
    }
}

impl Family {
    fn stopped(&self, cause: StopCause) -> ChildRun {
        *self.0.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(cause);
        ChildRun::Stopped
    }

    async fn run_child(&self, child: &ChildStart) -> Result<ChildRun> {
        let FamilyState {
            node,
            tenant,
            attempt,
            clock,
            ..
        } = &*self.0;
        let pool = &node.database.pool;
        let ChildBefore {
            definition,
            starts_always,
            state,
            version,
        } = instance::child_before(pool, tenant, &child.definition_id, &child.id).await?;
        if let Some(state) = state {
            // The burst was run before.
            let state = InstanceState::from_bytes(&state)?;
            if !is_asked_for(&state, child, definition.as_ref()) {
                return Ok(ChildRun::OfAnotherLineage);
            }
            let max_bytes = node.interpreter.options().max_value_bytes;
            let is_first = version == Some(InstanceVersion(1));
            return Ok(ChildRun::Committed(committed_before(&state, is_first, max_bytes)));
        }
        let Some(definition) = definition else {
            return Ok(ChildRun::NotPublished);
        };
        if self.must_yield() {
            // The commit of the burst makes its start, if the fences let it pass.
            return Ok(ChildRun::Elsewhere);
        }
        // Only a start that is accepted takes the key of an activation strategy.
        if !starts_always {
            return Ok(ChildRun::Elsewhere);
        }
        let programs = &node.caches.programs;
        let program = programs
            .get(pool, &node.interpreter, tenant, &definition.version_id)
            .await?;
        if !program.missing_activity_types().is_empty() {
            return Ok(ChildRun::Elsewhere);
        }
        failpoint::hit("child.running").await?;
        let key = (tenant.clone(), child.id.clone());
        let facts = BurstFacts {
            key: &key,
            definition: &definition,
            attempt: *attempt,
        };
        let trace = RunTrace::of_child(node, &facts, child.trace);
        let burst = Burst {
            instance_id: child.id.clone(),
            state: None,
            instructions: vec![start(child)],
            attempt: *attempt,
            is_followed: false,
            trace: trace.as_ref().map(RunTrace::current),
            now: clock.now(),
            // Its id is that of one generation of its parent.
            child_seed: 0,
            // A burst that is repeated after a publish runs another version.
            origins: vec![InstructionOrigin {
                row: format!("version {}", definition.version_id),
                replays: None,
                lineage: child.parent.started_by.as_ref().and_then(|by| by.lineage.clone()),
            }],
        };
        let mut result = node.interpreter.run_among(&program, burst, self).await;
        if result.stopped {
            return Ok(ChildRun::Stopped);
        }
        match result.deferred {
            Some(pause) => Ok(ChildRun::Deferred(pause)),
            None => {
                result
                    .state
                    .remember_trace(trace.as_ref().and_then(RunTrace::to_remember));
                let commit = trace.as_ref().and_then(|trace| trace.begin_commit(node));
                let committed = self.commit(child, definition, &program, result).await;
                drop(commit);
                committed
            }
        }
    }

    /// Commits a child after its first burst. If the future is dropped halfway, the writer continues by itself, within the
    /// fences.
    async fn commit(
        &self,
        child: &ChildStart,
        definition: DefinitionRef,
        #[cfg_attr(not(feature = "http"), allow(unused))] program: &Program,
        mut result: BurstResult,
    ) -> Result<ChildRun> {
        let rests = result.status == Status::Running && !result.yielded;
        result.state.note_first_rest(rests);
        let FamilyState {
            node,
            tenant,
            root,
            expected,
            claims,
            clock,
            ..
        } = &*self.0;
        #[cfg_attr(not(feature = "http"), allow(unused_mut))]
        let mut effects = Effects {
            // Its parent has the result, or is bound to it by a commit of its own.
            child_end: None,
            continues: false,
            ..effects::of(&result, Vec::new(), node.inbox_lifetime)?
        };
        let id = BurstId::random();
        #[cfg(feature = "http")]
        webhook_events::add(
            node,
            &BurstOf {
                tenant,
                instance: &child.id,
                definition: &definition,
                name: program.name(),
                id,
                is_first: true,
                had_ended: false,
                has_met: true,
            },
            &result,
            &mut effects,
        );
        let after = AfterCommit::of(&result, &effects);
        let request = Box::new(CommitRequest {
            tenant: tenant.clone(),
            instance: child.id.clone(),
            expected: None,
            burst: id,
            definition,
            claims: Vec::new(),
            nested: Some(Box::new(NestedBurst {
                root: root.clone(),
                expected: *expected,
                claims: claims.clone(),
                lives: result.status == Status::Running,
                continues: result.yielded,
            })),
            effects,
            holds: false,
        });
        let guard = InstanceLock::not_needed(&child.id);
        let CommitReply { outcome, .. } = node.commits.writer.commit(request, guard).await?;
        let commit = match outcome {
            CommitOutcome::Committed(commit) => commit,
            outcome => {
                tracing::debug!(child = %child.id, ?outcome, "a child was not committed, and ends the burst of its parent");
                return Ok(self.stopped(StopCause::Lost(outcome)));
            }
        };
        failpoint::hit("child.committed").await?;
        let max_bytes = node.interpreter.options().max_value_bytes;
        activity_faults::report(&result.state, 0);
        after.report(node, (tenant, &child.id), &commit, *clock);
        // As after the commit of a burst.
        tokio::task::yield_now().await;
        Ok(ChildRun::Committed(CommittedChild {
            result: result.state.child_result(max_bytes),
            has_ended: result.status == Status::Finished,
            rests,
            executed: result.executed,
            bytes: result.journal_bytes,
        }))
    }
}

/// Whether a child that an earlier try of the burst has committed is the one that is asked for now. On the same state it is, also
/// where its inputs differ, as with a time or a random number. On another state, only what is the same in all is the same child.
fn is_asked_for(state: &InstanceState, child: &ChildStart, published: Option<&DefinitionRef>) -> bool {
    let before = state.parent().and_then(|parent| parent.started_by.as_ref());
    let (Some(before), Some(now)) = (before, &child.parent.started_by) else {
        return false;
    };
    let is_same_version = published.is_none_or(|published| published.version_id == *state.version_id());
    before.lineage == now.lineage || before.digest == now.digest && is_same_version
}

/// The result of a child that an earlier try of the burst has committed, as it was at its first commit: a child with a later
/// one lived then. A parent that waits for more waits again, and is woken at once if that has come.
fn committed_before(state: &InstanceState, is_first: bool, max_bytes: usize) -> CommittedChild {
    CommittedChild {
        result: state.child_result(max_bytes),
        has_ended: is_first && state.status() == Status::Finished,
        rests: state
            .parent()
            .and_then(|parent| parent.started_by.as_ref())
            .is_some_and(|by| by.rested),
        executed: 0,
        bytes: 0,
    }
}

/// What a child begins with, as by the row of a start.
fn start(child: &ChildStart) -> Instruction {
    Instruction::Start {
        correlation_id: child.correlation_id.clone(),
        name: None,
        input: child.input.clone(),
        variables: serde_json::Map::new(),
        trigger_activity_id: None,
        payload: None,
        parent: Some(child.parent.clone()),
        request: None,
    }
}
