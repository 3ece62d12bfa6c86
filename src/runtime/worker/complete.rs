//! What follows a commit: notifications and replies, the end of a cancelled instance, and the release of a lost burst's claims.

#[cfg(feature = "http")]
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

use super::backoff::backoff;
use super::release::release_claims;
use crate::execution::{BurstResult, InstanceState, InstanceTimestamps, Status};
use crate::id::{InstanceId, TenantId, WorkId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::replies::Reply;
use crate::store::claim::{ClaimedRow, InstanceKey, Release, ReleaseCause};
use crate::store::clock::DatabaseClock;
use crate::store::commit::{Claim, Commit, CommitOutcome, Effects};
#[cfg(feature = "http")]
use crate::store::webhook::sink::SinkNumber;
use crate::store::work;

/// What a commit has made that is to be known at once.
pub(super) struct AfterCommit {
    /// Rows of work that it inserts, or may.
    works: usize,
    /// Events that it publishes.
    events: u64,
    /// The sinks of webhooks that it writes deliveries for.
    #[cfg(feature = "http")]
    sinks: BTreeSet<SinkNumber>,
    next_timer: NextTimer,
}

/// When the first timer of the bookmarks that the burst has created is due.
#[derive(Clone, Copy, Debug)]
struct NextTimer {
    /// From the commit on.
    delay: Option<Duration>,
    /// At a point in time.
    due: Option<DateTime<Utc>>,
}

impl NextTimer {
    fn due_at(self, committed: DateTime<Utc>) -> Option<DateTime<Utc>> {
        // Later than the calendar can express: never.
        let delay = self.delay.and_then(|delay| TimeDelta::from_std(delay).ok());
        let delayed = delay.and_then(|delay| committed.checked_add_signed(delay));
        delayed.into_iter().chain(self.due).min()
    }
}

impl AfterCommit {
    pub(super) fn of(result: &BurstResult, effects: &Effects) -> Self {
        let created = &result.bookmarks_created;
        // Another row than the one that a burst with claims continues under.
        let goes_on = result.yielded && !effects.continues;
        let wakes = effects.child_end.is_some() || effects.cancels_children || !effects.awaited.is_empty();
        Self {
            works: effects.children.len() + usize::from(wakes || goes_on),
            events: effects.events.len() as u64,
            #[cfg(feature = "http")]
            sinks: effects.delivery_sinks.iter().copied().map(SinkNumber).collect(),
            next_timer: NextTimer {
                delay: created.iter().filter_map(|bookmark| bookmark.delay).min(),
                due: created.iter().filter_map(|bookmark| bookmark.due).min(),
            },
        }
    }

    /// Wakes what is to continue with it, here and at other nodes.
    pub(super) fn report(
        &self,
        node: &NodeContext,
        (tenant, instance): (&TenantId, &InstanceId),
        commit: &Commit,
        clock: DatabaseClock,
    ) {
        if commit.refused_children > 0 {
            tracing::warn!(
                instance = ?instance.as_str(),
                children = commit.refused_children,
                "children were not started: their activation strategy refuses them, or their definition is no longer published"
            );
        }
        if self.works > 0 {
            node.work_accepted(None, None, self.works);
        }
        node.committed(tenant, instance);
        if self.events > 0 {
            // After a crash the check-ins of the other nodes show them.
            node.claims.fan_outs.notify_one();
            metrics::counter!("mainspring_events_total").increment(self.events);
        }
        #[cfg(feature = "http")]
        if !self.sinks.is_empty() {
            node.webhooks.written(&self.sinks, &node.notifications.wake);
        }
        if let Some(due) = self.next_timer.due_at(commit.committed_at) {
            // By the database's clock, which this node's estimate never exceeds.
            let from_now = (due - clock.now()).to_std().unwrap_or_default();
            node.row_due(Instant::now() + from_now);
        }
    }
}

/// Replies to the callers of all rows that a burst has consumed, each with whether it met what it was for.
pub(super) fn reply_committed(
    node: &NodeContext,
    consumed: Vec<(WorkId, bool)>,
    state: Box<InstanceState>,
    commit: Commit,
) {
    let finished_at = (state.status() == Status::Finished).then_some(commit.committed_at);
    let timestamps = InstanceTimestamps {
        created_at: commit.created_at,
        updated_at: commit.committed_at,
        finished_at,
    };
    let mut callers = Vec::new();
    for (work, matched) in consumed {
        match node.notifications.replies.take(state.instance_id(), work) {
            Some(caller) => callers.push((caller, matched)),
            None => node.notifications.wake.work_done(work),
        }
    }
    let last = callers.pop();
    let reply = |state, matched| Reply::Committed {
        state,
        timestamps,
        matched,
    };
    for (caller, matched) in callers {
        let _ = caller.send(reply(state.clone(), matched));
    }
    if let Some((caller, matched)) = last {
        let _ = caller.send(reply(state, matched));
    }
}

/// Deletes the work that is left for a cancelled instance, page by page. Bursts of their own consume what a failure leaves.
pub(super) async fn delete_cancelled_work(node: &NodeContext, key: &InstanceKey) {
    let mut after = WorkId(i64::MIN);
    loop {
        match work::delete_cancelled_page(&node.database.pool, &key.0, &key.1, after).await {
            Ok(page) => {
                let Some(last) = page.last() else { return };
                after = *last;
                metrics::counter!("mainspring_cancelled_work_deleted_total").increment(page.len() as u64);
                for work in page {
                    match node.notifications.replies.take(&key.1, work) {
                        Some(caller) => drop(caller.send(Reply::Unmatched)),
                        None => node.notifications.wake.work_done(work),
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the work of a cancelled instance could not be deleted; bursts consume it");
                return;
            }
        }
    }
}

/// How claims are released after a fault of the database: without a failure of theirs while the breaker is open.
pub(super) fn after_database_fault(node: &NodeContext, failures: i32) -> Release<'static> {
    let breaker = node.commits.writer.breaker();
    if breaker.is_open() {
        return Release {
            cause: ReleaseCause::None,
            pause: breaker.pause(),
        };
    }
    transient(failures)
}

fn transient(failures: i32) -> Release<'static> {
    Release {
        cause: ReleaseCause::Transient,
        pause: backoff(failures),
    }
}

/// Releases the claims of a burst that wrote nothing, with the cause that its commit showed.
pub(super) async fn release_lost(node: &NodeContext, key: &InstanceKey, outcome: CommitOutcome, rows: Vec<ClaimedRow>) {
    let claims: Vec<Claim> = rows.iter().map(|row| row.claim.clone()).collect();
    let failures = rows.iter().map(|row| row.failures).max().unwrap_or(0);
    match outcome {
        CommitOutcome::Committed(_) => {}
        CommitOutcome::ClaimLost | CommitOutcome::VersionConflict => {
            tracing::debug!(instance = %key.1, ?outcome, "a burst lost to another commit; nothing was written");
            release_claims(node, key, &claims, Release::IMMEDIATE).await;
        }
        CommitOutcome::Busy => release_claims(node, key, &claims, transient(failures)).await,
        CommitOutcome::Refused(error) => {
            tracing::error!(instance = %key.1, %error, "the database refuses the commit of a burst");
            let reason = error.to_string();
            let how = Release::after(&error, &reason, backoff(failures));
            release_claims(node, key, &claims, how).await;
        }
        CommitOutcome::DatabaseFault(error) => {
            tracing::debug!(instance = %key.1, %error, "the database does not take a commit; its burst is retried later");
            release_claims(node, key, &claims, after_database_fault(node, failures)).await;
        }
        CommitOutcome::Fenced => {
            tracing::warn!(instance = %key.1, "this incarnation was removed; the commit of a burst was fenced");
            node.lifecycle.stop.cancel();
        }
        CommitOutcome::Unknown => {
            for work in rows.iter().filter_map(|row| match row.claim {
                Claim::Work(work, _) => Some(work),
                Claim::Timer(..) => None,
            }) {
                if let Some(caller) = node.notifications.replies.take(&key.1, work) {
                    let _ = caller.send(Reply::Unknown);
                }
            }
            release_claims(node, key, &claims, transient(failures)).await;
        }
    }
}
