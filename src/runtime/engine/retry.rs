//! Retries of instances whose activities have faulted.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::Engine;
use super::alter::{Change, InstanceAtRest, alter, refuse_while_paused};
use crate::execution::{ActivityRetry, BurstResult, InstanceState, InstructionOrigin};
use crate::id::{ActivityId, BurstId, InstanceId, TenantId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::worker::effects;
use crate::store::commit::{Commit, Effects};
use crate::{Error, Result};

/// The most instances of one call, and the most activities.
const MAX_INSTANCES: usize = 1_000;
const MAX_ACTIVITIES: usize = 100;

/// How many instances are retried at the same time: their commits share transactions.
const CONCURRENT: usize = 64;

/// What a retry made of an instance.
#[derive(Debug)]
pub struct RetriedInstance {
    /// The instance.
    pub instance_id: InstanceId,
    /// What was made of each activity; or why nothing of the instance was changed. [`Error::is_conflict`], code
    /// `not-faulted`, if none of its activities has faulted, `instance-busy` if a burst ran for too long, or `cannot-start`
    /// if the activation strategy allows no other instance beside the one that runs.
    pub activities: Result<Vec<ActivityRetry>>,
}

impl RetriedInstance {
    /// Whether an activity is executed again.
    pub fn has_retried(&self) -> bool {
        let activities = self.activities.as_deref().unwrap_or_default();
        activities.iter().any(|activity| activity.attempt.is_ok())
    }
}

/// When the timers of restored bookmarks are due.
type NextTimer = (Option<Duration>, Option<DateTime<Utc>>);

impl Engine {
    /// Executes activities that have faulted again: those with these ids, or all that incidents name. Each keeps the id of its
    /// execution and its idempotency key, and has its inputs evaluated anew. What contains it goes on afterwards, and the
    /// instance ends as if it had not faulted. Each instance is changed in one commit, or not at all, also while a burst of it
    /// runs; a burst that follows the commit runs the activities. The results have the order of the ids, each once.
    ///
    /// # Errors
    /// [`Error::is_invalid`] for no ids or too many; `runtime-paused`.
    ///
    /// Dropped, it goes on in the background.
    pub async fn retry_instances(
        &self,
        ids: Vec<InstanceId>,
        activities: Vec<ActivityId>,
    ) -> Result<Vec<RetriedInstance>> {
        let node = self.accepting()?;
        if ids.is_empty() || ids.len() > MAX_INSTANCES {
            let message = format!("a retry has 1 to {MAX_INSTANCES} instances");
            return Err(Error::invalid("invalid-field", message.clone()).field("workflowInstanceIds", message));
        }
        if activities.len() > MAX_ACTIVITIES {
            let message = format!("a retry has at most {MAX_ACTIVITIES} activities");
            return Err(Error::invalid("invalid-field", message.clone()).field("activityIds", message));
        }
        refuse_while_paused(&node).await?;
        let (owned, tenant) = (Arc::clone(&node), self.tenant.clone());
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let retrying = node.lifecycle.tasks.spawn(async move {
            let (node, tenant, activities) = (&owned, &tenant, &activities);
            let mut seen = HashSet::new();
            let each = ids.into_iter().filter(|id| seen.insert(id.clone()));
            let each = each.map(|id| async move {
                let activities = retry(node, tenant, &id, activities, deadline).await;
                RetriedInstance {
                    instance_id: id,
                    activities,
                }
            });
            stream::iter(each).buffered(CONCURRENT).collect().await
        });
        retrying.await.map_err(|_| Error::internal("the retry failed"))
    }
}

async fn retry(
    node: &NodeContext,
    tenant: &TenantId,
    id: &InstanceId,
    activities: &[ActivityId],
    deadline: Instant,
) -> Result<Vec<ActivityRetry>> {
    let ((retries, timer), commit) = alter(node, tenant, id, deadline, |instance| {
        change(node, instance, activities)
    })
    .await?;
    if let Some(commit) = commit {
        let again = retries.iter().filter(|retry| retry.attempt.is_ok()).count();
        tracing::debug!(instance = ?id.as_str(), activities = again, "faulted activities are executed again");
        metrics::counter!("mainspring_retried_activities_total").increment(again as u64);
        if let Some(due_in) = due_in(timer, &commit) {
            node.row_due(std::time::Instant::now() + due_in);
        }
    }
    Ok(retries)
}

fn change(
    node: &NodeContext,
    loaded: InstanceAtRest,
    activities: &[ActivityId],
) -> Result<Change<(Vec<ActivityRetry>, NextTimer)>> {
    let InstanceAtRest { row, state, program } = loaded;
    if state.incidents().is_empty() {
        return Err(not_faulted(&state));
    }
    let origin = InstructionOrigin {
        row: format!("retry {}", BurstId::random()),
        ..InstructionOrigin::default()
    };
    let (retries, result) = node
        .interpreter
        .retry(&program, state, activities, &origin, row.updated_at);
    let Some(result) = result else {
        return Ok(Change::Nothing((retries, (None, None))));
    };
    let effects = Effects {
        continues: false,
        retried: true,
        ..effects::of(&result, Vec::new(), node.inbox_lifetime)?
    };
    Ok(Change::Commit(Box::new(effects), (retries, next_timer(&result))))
}

fn not_faulted(state: &InstanceState) -> Error {
    let message = format!(
        "no activity of the instance has faulted: it is {}",
        state.sub_status().as_str()
    );
    Error::conflict("not-faulted", message).instance(state.instance_id().as_str())
}

fn next_timer(result: &BurstResult) -> NextTimer {
    let made = &result.bookmarks_created;
    (
        made.iter().filter_map(|bookmark| bookmark.delay).min(),
        made.iter().filter_map(|bookmark| bookmark.due).min(),
    )
}

fn due_in((delay, due): NextTimer, commit: &Commit) -> Option<Duration> {
    let due = due.map(|due| (due - commit.committed_at).to_std().unwrap_or_default());
    delay.into_iter().chain(due).min()
}
