//! The end of a request of an HTTP client: what its client receives, and when nothing may be promised.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::await_reply::{FLUSH_TIMEOUT, dead_lettered};
use super::http_request::{Accepted, HttpEnd, HttpOutcome, left, not_run, request_id, unknown};
use super::instances::no_instance;
use super::resume::already_resumed;
use crate::id::{Incarnation, InstanceId, RequestId, WorkId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::replies::{PendingReply, Reply};
use crate::spool::RequestFiles;
use crate::store::claim::Withdrawal;
use crate::store::http_answer;
use crate::store::instance;
use crate::store::request::{IdempotencyKey, RequestRecord, find_request};
use crate::store::work::{self, WorkStatus};
use crate::{Error, Result};

/// How soon, and then how often, it is read whether another node has consumed the row of a request. Bursts of this node reply.
const READ_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    /// Waits for the end of a request of this node. `gone`: its client is, so that it needs to wait for the commit only.
    pub(super) async fn await_end(&self, accepted: Accepted, gone: &CancellationToken) -> Result<HttpOutcome> {
        let Accepted {
            mut waiting,
            reply,
            start_by,
            wait_for_response,
            deadline,
            is_volatile,
            key,
        } = accepted;
        let PendingReply {
            instance,
            work,
            mut receiver,
        } = reply;
        let held_until = wait_for_response.and_then(|time| Instant::now().checked_add(time));
        let until = held_until.map_or(deadline, |end| end.min(deadline));
        let (mut replied, mut is_committed) = (false, false);
        let mut pause = READ_INTERVAL;
        loop {
            tokio::select! {
                biased;
                end = &mut waiting.receiver => return outcome(end),
                reply = &mut receiver, if !replied => {
                    replied = true;
                    match reply {
                        // The end of a request precedes the reply: this one is held.
                        Ok(Reply::Committed { matched: true, .. }) => {
                            is_committed = true;
                            waiting.read_rows();
                        }
                        Ok(Reply::Committed { matched: false, .. } | Reply::Unmatched) => {
                            return Err(self.unmet(&instance).await);
                        }
                        Ok(Reply::NoInstance) => return Err(no_instance(&instance)),
                        Ok(Reply::Unknown) => return Err(unknown(&instance)),
                        Ok(Reply::Elsewhere) => pause = Duration::ZERO,
                        Err(_) => {}
                    }
                }
                () = tokio::time::sleep(pause), if !is_committed => {
                    pause = (pause * 3 / 2).clamp(READ_INTERVAL, LONGEST_INTERVAL);
                    // A read over an unresponsive connection ends at the deadline.
                    let status = tokio::time::timeout_at(until, self.work_status(&instance, work)).await;
                    let status = status.unwrap_or(WorkStatus::Pending);
                    if status == WorkStatus::Consumed {
                        // A burst of this node that has just been committed may not have replied yet.
                        if let Ok(end) = tokio::time::timeout(READ_INTERVAL, &mut waiting.receiver).await {
                            return outcome(end);
                        }
                        // An answer that is not kept may still come from that burst: its row is read again.
                        let read = self.read_end(waiting.id, &instance, until).await;
                        if let Some(outcome) = read.filter(|read| !matches!(read.end, HttpEnd::NotKept)) {
                            return Ok(outcome);
                        }
                    }
                    is_committed = self.is_committed(&instance, status, start_by, until).await?;
                    if is_committed {
                        waiting.read_rows();
                    }
                }
                () = gone.cancelled(), if is_committed => return Err(left()),
                () = tokio::time::sleep_until(until) => break,
            }
        }
        let is_over = held_until.is_some_and(|end| end <= until);
        let end = if is_over { HttpEnd::Waiting } else { HttpEnd::Pending };
        if is_volatile && !is_committed {
            self.withdraw(&instance, work, key.as_deref(), start_by, until).await?;
            is_committed = true;
            if let Ok(end) = tokio::time::timeout(READ_INTERVAL, &mut waiting.receiver).await {
                return outcome(end);
            }
        }
        if is_committed {
            if let Some(outcome) = self.read_end(waiting.id, &instance, until).await {
                return Ok(outcome);
            }
        } else {
            // What goes on must be durable.
            self.still_running(instance.clone(), until).await?;
            self.had_effect(&instance, work).await?;
        }
        Ok(HttpOutcome {
            instance_id: instance,
            end,
        })
    }

    /// Whether the row of a request, of which this is read, was consumed by a commit: for a start there must be the instance, as a
    /// crash of the server may lose a row that was not flushed. Errors: why that commit will not come.
    async fn is_committed(
        &self,
        instance: &InstanceId,
        status: WorkStatus,
        start_by: Option<Incarnation>,
        until: Instant,
    ) -> Result<bool> {
        match status {
            WorkStatus::Pending => return Ok(false),
            WorkStatus::DeadLettered => return Err(dead_lettered(instance)),
            WorkStatus::Unmatched => return Err(self.unmet(instance).await),
            WorkStatus::Discarded => return Err(not_run()),
            WorkStatus::Consumed | WorkStatus::Deleted | WorkStatus::Unknown => {}
        }
        match (self.has_instance(instance, until).await, start_by) {
            (None, _) => Ok(false),
            (Some(true), _) => Ok(true),
            (Some(false), Some(by)) => match self.start_without_instance(instance, by, until).await {
                Some(why) => Err(why),
                None => Ok(false),
            },
            (Some(false), None) => Err(no_instance(instance)),
        }
    }

    /// Checks that a row, which may have been consumed since it was read, has not met nothing.
    /// Errors: why it had no effect.
    async fn had_effect(&self, instance: &InstanceId, work: WorkId) -> Result<()> {
        match self.work_status(instance, work).await {
            WorkStatus::Unmatched => Err(self.unmet(instance).await),
            WorkStatus::Discarded => Err(not_run()),
            WorkStatus::DeadLettered => Err(dead_lettered(instance)),
            WorkStatus::Pending | WorkStatus::Consumed | WorkStatus::Deleted | WorkStatus::Unknown => Ok(()),
        }
    }

    /// Whether an instance is committed; `None` if that cannot be read.
    async fn has_instance(&self, instance: &InstanceId, until: Instant) -> Option<bool> {
        let node = self.node().ok()?;
        let finding = instance::find(&node.database.pool, &self.tenant, instance);
        let found = tokio::time::timeout_at(until + FLUSH_TIMEOUT, finding).await;
        Some(found.ok()?.ok()?.is_some())
    }

    /// Withdraws a volatile request that is not committed at the end of its time: it would be lost with this process, so no
    /// client may receive that it goes on. A row that a node has claimed, or whose burst has begun, stays: that may be committed
    /// at any moment, and its activities may have run.
    ///
    /// # Errors
    /// `request-not-run`: nothing of it is left. [`Error::is_unknown_outcome`]: it may still be committed. None: it was committed.
    async fn withdraw(
        &self,
        instance: &InstanceId,
        work: WorkId,
        key: Option<&str>,
        start_by: Option<Incarnation>,
        until: Instant,
    ) -> Result<()> {
        let withdrawing = async {
            let node = self.node()?;
            work::withdraw(&node.database.pool, &self.tenant, instance, work, key).await
        };
        match tokio::time::timeout_at(until + FLUSH_TIMEOUT, withdrawing).await {
            Ok(Ok(Withdrawal::Discarded)) => return Err(not_run()),
            Ok(Ok(Withdrawal::Continues)) => return Ok(()),
            Ok(Ok(Withdrawal::Stays)) => {}
            Ok(Err(error)) => return Err(uncommitted(instance).caused_by(error)),
            Err(_) => return Err(uncommitted(instance)),
        }
        let reading = self.work_status(instance, work);
        let status = tokio::time::timeout_at(until + FLUSH_TIMEOUT, reading).await;
        let status = status.unwrap_or(WorkStatus::Pending);
        if self.is_committed(instance, status, start_by, until).await? {
            Ok(())
        } else {
            Err(uncommitted(instance))
        }
    }

    /// Waits for the end of a request that was accepted before under its key, by this node or another one; `None` if it was
    /// withdrawn meanwhile, so that it is a new one.
    pub(super) async fn await_repeated(
        &self,
        node: &NodeContext,
        key: &IdempotencyKey,
        before: RequestRecord,
        is_volatile: bool,
        deadline: Instant,
    ) -> Result<Option<HttpOutcome>> {
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        let instance = before
            .instance
            .clone()
            .ok_or_else(|| Error::internal("the request of a key names no instance"))?;
        let id = request_id(tenant, key);
        let mut waiting = node
            .notifications
            .requests
            .register(id, &instance, RequestFiles::default());
        if let Some(outcome) = self.read_end(id, &instance, deadline).await {
            return Ok(Some(outcome.of_repeat()));
        }
        waiting.read_rows();
        let mut pause = READ_INTERVAL;
        loop {
            tokio::select! {
                biased;
                end = &mut waiting.receiver => {
                    return outcome(end).map(HttpOutcome::of_repeat).map(Some);
                }
                () = tokio::time::sleep(pause) => {
                    pause = (pause * 3 / 2).clamp(READ_INTERVAL, LONGEST_INTERVAL);
                    let status = match before.work {
                        Some(work) => self.work_status(&instance, work).await,
                        None => self.status_of_start(node, &instance).await,
                    };
                    match status {
                        WorkStatus::DeadLettered => return Err(dead_lettered(&instance)),
                        WorkStatus::Unmatched => return Err(self.unmet(&instance).await),
                        WorkStatus::Pending => {}
                        WorkStatus::Consumed
                        | WorkStatus::Discarded
                        | WorkStatus::Deleted
                        | WorkStatus::Unknown => {
                            match find_request(pool, tenant, key).await? {
                                Some(now) if now.instance == before.instance => {}
                                _ => return Ok(None),
                            }
                        }
                    }
                }
                () = tokio::time::sleep_until(deadline) => break,
            }
        }
        if let Some(outcome) = self.read_end(id, &instance, deadline).await {
            return Ok(Some(outcome.of_repeat()));
        }
        if is_volatile {
            // As for its first client: before its commit it may be lost.
            let is_committed = match before.work {
                Some(work) => self.work_status(&instance, work).await == WorkStatus::Consumed,
                None => self.has_instance(&instance, deadline).await == Some(true),
            };
            if !is_committed {
                return Err(uncommitted(&instance));
            }
        }
        // Without an end of its own it waits for something, or runs on; what goes on must be durable.
        let mut end = HttpEnd::Waiting;
        if self.executed(&instance).await?.pending {
            self.still_running(instance.clone(), deadline).await?;
            end = HttpEnd::Pending;
        }
        if let Some(work) = before.work {
            self.had_effect(&instance, work).await?;
        }
        Ok(Some(HttpOutcome {
            end,
            instance_id: instance,
        }))
    }

    /// The status of a start that another registration has accepted; unknown if it cannot be read.
    async fn status_of_start(&self, node: &NodeContext, instance: &InstanceId) -> WorkStatus {
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        let status = work::start_status(pool, tenant, instance, node.database.incarnation).await;
        status.unwrap_or(WorkStatus::Pending)
    }

    /// The end of a request of this instance, if it is a row that can be read now. An expired key that is used again has the id
    /// of the former request.
    async fn read_end(&self, id: RequestId, instance: &InstanceId, deadline: Instant) -> Option<HttpOutcome> {
        let node = self.node().ok()?;
        let ids = [id];
        let reading = http_answer::read(&node.database.pool, &ids);
        match tokio::time::timeout_at(deadline + READ_INTERVAL, reading).await {
            Ok(Ok(kept)) => {
                let own = kept.into_iter().find(|kept| kept.instance == *instance)?;
                Some(HttpOutcome {
                    instance_id: own.instance.clone(),
                    end: own.into(),
                })
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "the end of a request cannot be read; it is read again");
                None
            }
            Err(_) => None,
        }
    }

    /// Why the row of a request met nothing.
    async fn unmet(&self, instance: &InstanceId) -> Error {
        match self.not_waiting(instance).await {
            Ok(why) => why,
            Err(missing) if missing.is_not_found() => missing,
            Err(_) => already_resumed(instance),
        }
    }
}

/// What the registry has sent. It drops no sender without an end while the request is registered.
fn outcome(end: Result<(InstanceId, HttpEnd), oneshot::error::RecvError>) -> Result<HttpOutcome> {
    let (instance_id, end) = end.map_err(|_| Error::internal("a request was given up"))?;
    Ok(HttpOutcome { instance_id, end })
}

/// The error of a volatile request that runs on after its time, and has committed nothing yet.
fn uncommitted(instance: &InstanceId) -> Error {
    Error::unknown_outcome(
        "the time of the request has passed, and its workflow may still run, but has committed nothing yet; look the instance up, \
         or send the request again with the same Idempotency-Key",
    )
    .instance(instance.as_str())
}
