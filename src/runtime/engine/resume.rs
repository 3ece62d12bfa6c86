//! Resumes and cancels.

use serde_json::Value;
use tokio::time::Instant;

use super::Engine;
use super::instances::no_instance;
use super::start::{request_key, to_body};
use crate::definition::ActivityTitle;
use crate::execution::SubStatus;
use crate::id::{BookmarkId, InstanceId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::replies::PendingReply;
use crate::runtime::context::request::{Executed, ResumeRequest};
use crate::runtime::worker::instruction::ResumeBody;
use crate::store::instance::{self, Generation};
use crate::store::request::find_request;
use crate::store::work::{self, AcceptedCancel, AcceptedResume};
use crate::{Error, Result};

impl Engine {
    /// Resumes an instance at a bookmark, runs it until it waits again or ends, and returns its state.
    /// [`Error::is_conflict`] if the bookmark was resumed before, code `already-resumed`, or `instance-faulted` if the
    /// instance has faulted; [`Error::is_dead_lettered`] if the resume became a dead letter. The same idempotency key waits
    /// for the same outcome.
    pub async fn resume(&self, request: ResumeRequest) -> Result<Executed> {
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let node = self.accepting()?;
        let id = request.instance_id.clone();
        let accepted = self.make_durable(&node, request).await?;
        match self.await_resume(&node, &id, accepted, deadline).await? {
            Some(executed) => Ok(executed),
            None => Err(self.not_waiting(&id).await.unwrap_or_else(|_| already_resumed(&id))),
        }
    }

    /// Waits for the burst of an accepted resume; `None` if its bookmark was resumed before.
    pub(super) async fn await_resume(
        &self,
        node: &NodeContext,
        id: &InstanceId,
        accepted: AcceptedResume,
        deadline: Instant,
    ) -> Result<Option<Executed>> {
        let reply = match accepted {
            AcceptedResume::New(work) => {
                let reply = node.notifications.replies.register(id, work);
                node.work_accepted(Some(id), Some(work), 1);
                reply
            }
            // The first caller may still wait for the reply: this one reads the row.
            AcceptedResume::Existing(Some(work)) => PendingReply::elsewhere(id, work),
            AcceptedResume::Existing(None) => return self.executed(id).await.map(Some),
        };
        self.await_row(reply, deadline).await
    }

    /// The same without waiting for its burst: returns once the resume is durable.
    pub async fn accept_resume(&self, request: ResumeRequest) -> Result<InstanceId> {
        let node = self.accepting()?;
        let id = request.instance_id.clone();
        if let AcceptedResume::New(_) = self.make_durable(&node, request).await? {
            node.work_accepted(Some(&id), None, 1);
        }
        Ok(id)
    }

    /// Makes a resume durable.
    async fn make_durable(&self, node: &NodeContext, request: ResumeRequest) -> Result<AcceptedResume> {
        self.checked("input", &request.input)?;
        let tenant = &self.tenant;
        let id = request.instance_id;
        let key = request.idempotency.map(|given| request_key("resume", given));
        if let Some(key) = &key
            && let Some(before) = find_request(&node.database.pool, tenant, key).await?
        {
            return Ok(AcceptedResume::Existing(before.work));
        }
        let accept = self.begin_accept(node, Some(&id));
        let (bookmark_id, generation) = self.bookmark_of(&id, request.bookmark_id).await?;
        let body = to_body(&ResumeBody {
            bookmark_id,
            generation: Some(generation),
            input: request.input,
            payload: None,
            request: None,
            trace: accept.context,
        })?;
        work::accept_resume(&self.changes_of(node, &id), tenant, &id, &body, key.as_ref(), None).await
    }

    /// The bookmark to resume, if it still waits, and the generation of its instance.
    pub(super) async fn bookmark_of(
        &self,
        id: &InstanceId,
        wanted: Option<BookmarkId>,
    ) -> Result<(BookmarkId, Generation)> {
        let node = self.node()?;
        let Some(waiting) = instance::bookmarks(&node.database.pool, &self.tenant, id).await? else {
            // An unknown instance is another error than one that does not wait yet.
            return Err(self.not_waiting(id).await?);
        };
        let meant = match wanted {
            Some(wanted) => waiting.bookmarks.contains(&wanted).then_some(wanted),
            None if waiting.bookmarks.len() > 1 => {
                let message = "the instance waits at several bookmarks: name one of them; `errors` has their ids";
                let several = Error::conflict("several-bookmarks", message);
                return Err(waiting
                    .bookmarks
                    .iter()
                    .fold(several, |error, id| error.field("bookmarkId", id.as_str())));
            }
            None => waiting.bookmarks.into_iter().next(),
        };
        match meant {
            Some(bookmark) => Ok((bookmark, waiting.generation)),
            None => Err(self.not_waiting(id).await?),
        }
    }

    /// Why an instance does not wait at a bookmark: it has faulted, or the bookmark was resumed.
    pub(super) async fn not_waiting(&self, id: &InstanceId) -> Result<Error> {
        let detail = self.instance_by_key(id).await?;
        if detail.summary.sub_status != SubStatus::Faulted.as_str() {
            return Ok(already_resumed(id));
        }
        let incidents = detail.workflow_state.get("incidents").and_then(Value::as_array);
        let last = incidents.and_then(|incidents| incidents.last());
        let text = |name: &str| last.and_then(|last| last.get(name)?.as_str()).unwrap_or_default();
        let activity = ActivityTitle::new(None, text("activityType"), text("activityId"));
        Ok(Error::conflict(
            "instance-faulted",
            format!(
                "the instance {:?} has faulted at the activity {activity} and cannot continue; its incidents say why",
                id.as_str()
            ),
        ))
    }

    /// Cancels an instance: from then on a running burst of it cannot commit. Returns once the instance is cancelled, or
    /// after the answer timeout; false if it had finished before. [`Error::is_dead_lettered`] if the cancel became a dead
    /// letter.
    pub async fn cancel(&self, id: &InstanceId) -> Result<bool> {
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let node = self.accepting()?;
        let mut accepted = work::accept_cancel(&self.changes_of(&node, id), &self.tenant, id).await?;
        if accepted == AcceptedCancel::NotFound {
            // Its first commit may have come between the read of the instance and that of its start.
            accepted = work::accept_cancel(&self.changes_of(&node, id), &self.tenant, id).await?;
        }
        match accepted {
            AcceptedCancel::NotFound => Err(no_instance(id)),
            AcceptedCancel::Finished => Ok(false),
            AcceptedCancel::Accepted(work) => {
                let reply = node.notifications.replies.register(id, work);
                node.cancel_bursts(&self.tenant, id);
                node.work_accepted(Some(id), Some(work), 1);
                Ok(self.await_row(reply, deadline).await?.is_some())
            }
        }
    }
}

pub(super) fn already_resumed(id: &InstanceId) -> Error {
    Error::conflict(
        "already-resumed",
        format!("the instance {:?} is not waiting at this bookmark", id.as_str()),
    )
}
