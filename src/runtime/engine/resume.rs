//! Resumes, cancels and events.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::execution::{SubStatus, event_hash};
use crate::id::{BookmarkId, InstanceId};
use crate::runtime::context::node_context::Shift;
use crate::runtime::context::replies::Tidings;
use crate::runtime::context::request::{
    EventAccepted, EventRequest, Executed, Idempotency, NO_CONTROLS, ResumeRequest, is_plain, plain_correlation_id,
};
use crate::runtime::engine::Engine;
use crate::runtime::engine::instances::no_instance;
use crate::runtime::engine::start::{request_key, to_body};
use crate::runtime::worker::instruction::ResumeBody;
use crate::store::event::{self, Fanout, NewEvent};
use crate::store::instance::{self, Life};
use crate::store::request::{IdempotencyKey, find_request};
use crate::store::work::{self, AcceptedCancel, AcceptedResume};
use crate::{Error, Result};

impl Engine {
    /// Resumes an instance at a bookmark, runs it until it waits again or ends, and gives its state. A bookmark that
    /// was met before: [`Error::is_conflict`], code `already-resumed`, or `instance-faulted` if the instance has faulted and
    /// goes on no more; one that became a dead letter: [`Error::is_dead_lettered`]. The same idempotency key waits for the same outcome.
    pub async fn resume(&self, request: ResumeRequest) -> Result<Executed> {
        self.resume_of_life(request, None).await
    }

    /// The same, of one of the instances that may have had the id.
    pub(crate) async fn resume_of_life(&self, request: ResumeRequest, life: Option<Life>) -> Result<Executed> {
        let deadline = Instant::now() + self.inner.options.answer_timeout;
        let shift = self.accepting()?;
        let id = request.instance_id.clone();
        let (work, tidings) = match self.accepted_resume(&shift, request, life).await? {
            AcceptedResume::New(work) => {
                let tidings = shift.doors.open(&id, work);
                shift.accepted(Some(&id), Some(work), 1);
                (work, tidings)
            }
            // The first door may still wait at the row: this one looks for itself.
            AcceptedResume::Existing(Some(work)) => (work, elsewhere()),
            AcceptedResume::Existing(None) => return self.executed(&id).await,
        };
        match self.await_row(id.clone(), work, tidings, deadline).await? {
            Some(executed) => Ok(executed),
            None => Err(self.not_waiting(&id).await.unwrap_or_else(|_| already_resumed(&id))),
        }
    }

    /// The same without waiting for what becomes of it: returns once the resume is durable.
    pub async fn accept_resume(&self, request: ResumeRequest) -> Result<InstanceId> {
        self.accept_resume_of_life(request, None).await
    }

    /// The same, of one of the instances that may have had the id.
    pub(crate) async fn accept_resume_of_life(&self, request: ResumeRequest, life: Option<Life>) -> Result<InstanceId> {
        let shift = self.accepting()?;
        let id = request.instance_id.clone();
        if let AcceptedResume::New(_) = self.accepted_resume(&shift, request, life).await? {
            shift.accepted(Some(&id), None, 1);
        }
        Ok(id)
    }

    /// Makes a resume durable.
    async fn accepted_resume(
        &self,
        shift: &Shift,
        request: ResumeRequest,
        life: Option<Life>,
    ) -> Result<AcceptedResume> {
        self.checked("input", &request.input)?;
        let tenant = &self.inner.tenant;
        let id = request.instance_id;
        let key = request.idempotency.map(|given| match (life, &request.bookmark_id) {
            // A token is good for one bookmark: its holder takes the keys of no one else.
            (Some(_), Some(bookmark)) => token_request_key(&id, bookmark, given),
            _ => request_key("resume", given),
        });
        if let Some(key) = &key
            && let Some(before) = find_request(&shift.pool, tenant, key).await?
        {
            return Ok(AcceptedResume::Existing(before.work));
        }
        let (bookmark_id, life) = self.bookmark_of(&id, request.bookmark_id, life).await?;
        let body = to_body(&ResumeBody {
            bookmark_id,
            life: Some(life),
            input: request.input,
        })?;
        work::accept_resume(&shift.pool, tenant, &id, &body, key.as_ref()).await
    }

    /// The bookmark that is meant, if it still waits, with which of the instances that may have had this id has it.
    pub(crate) async fn bookmark_of(
        &self,
        id: &InstanceId,
        wanted: Option<BookmarkId>,
        life: Option<Life>,
    ) -> Result<(BookmarkId, Life)> {
        let shift = self.shift()?;
        let Some(waiting) = instance::bookmarks(&shift.pool, &self.inner.tenant, id).await? else {
            // Unknown altogether is another answer than not waiting yet.
            return Err(self.not_waiting(id).await?);
        };
        if life.is_some_and(|life| life != waiting.life) {
            return Err(already_resumed(id));
        }
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
            Some(bookmark) => Ok((bookmark, waiting.life)),
            None => Err(self.not_waiting(id).await?),
        }
    }

    /// Why an instance does not wait at a bookmark: it has faulted, or the bookmark was met.
    async fn not_waiting(&self, id: &InstanceId) -> Result<Error> {
        let detail = self.instance(id).await?;
        if detail.summary.sub_status != SubStatus::Faulted.as_str() {
            return Ok(already_resumed(id));
        }
        let incidents = detail.workflow_state.get("incidents").and_then(Value::as_array);
        let last = incidents.and_then(|incidents| incidents.last());
        let activity = last.and_then(|last| last.get("activityId")).and_then(Value::as_str);
        Ok(Error::conflict(
            "instance-faulted",
            format!(
                "the instance {:?} has faulted at the activity {:?} and goes on no more; its incidents say why",
                id.as_str(),
                activity.unwrap_or_default()
            ),
        ))
    }

    /// Cancels an instance: whatever burst may be running it has lost from this moment on. Returns once the instance
    /// is cancelled, or after the answer timeout; false: it had finished before. A cancel that became a dead letter:
    /// [`Error::is_dead_lettered`].
    pub async fn cancel(&self, id: &InstanceId) -> Result<bool> {
        let deadline = Instant::now() + self.inner.options.answer_timeout;
        let shift = self.accepting()?;
        let mut accepted = work::accept_cancel(&shift.pool, &self.inner.tenant, id).await?;
        if accepted == AcceptedCancel::NotFound {
            // Its first commit may have come between the look for the instance and that for its start.
            accepted = work::accept_cancel(&shift.pool, &self.inner.tenant, id).await?;
        }
        match accepted {
            AcceptedCancel::NotFound => Err(no_instance(id)),
            AcceptedCancel::Finished => Ok(false),
            AcceptedCancel::Accepted(work) => {
                let tidings = shift.doors.open(id, work);
                shift.lost(id);
                shift.accepted(Some(id), Some(work), 1);
                Ok(self.await_row(id.clone(), work, tidings, deadline).await?.is_some())
            }
        }
    }

    /// Publishes an event, once: to every instance that waits for it and to every published trigger, else into the
    /// inbox, where the first that begins to wait for it finds it. Returns when that is durable; the bursts follow.
    pub async fn trigger_event(&self, request: EventRequest) -> Result<EventAccepted> {
        let shift = self.accepting()?;
        if request.name.is_empty() {
            let message = "an event has a name";
            return Err(Error::invalid("invalid-event", message).field("eventName", "must not be empty"));
        }
        if !is_plain(&request.name) {
            let message = "the name of an event has no control characters";
            return Err(Error::invalid("invalid-event", message).field("eventName", NO_CONTROLS));
        }
        plain_correlation_id(request.correlation_id.as_deref())?;
        self.checked("eventName", &request.name)?;
        self.checked("correlationId", &request.correlation_id)?;
        self.checked("input", &request.input)?;
        let given = request.idempotency.map(|given| request_key("event", given));
        if let Some(id) = &request.instance_id {
            self.can_be_met(&shift, id, given.as_ref()).await?;
        }
        let request_key = match given {
            Some(given) => given,
            None => IdempotencyKey {
                route: "event",
                key: format!("~{}", uuid::Uuid::new_v4().simple()),
                fingerprint: vec![0; 32],
            },
        };
        let event = NewEvent {
            tenant: self.inner.tenant.clone(),
            request: request_key,
            hash: event_hash(&request.name),
            name: "Elsa.Event".to_owned(),
            payload: request.input,
            correlation_id: request.correlation_id,
            instance: request.instance_id,
            activity_execution_id: request.activity_execution_id,
            lifetime: self.inner.options.inbox_lifetime,
        };
        let fanout = event::publish(&shift.pool, shift.lock_class, &event).await?;
        for workflow in &fanout.refused {
            tracing::info!(
                workflow,
                event = request.name,
                "the activation strategy of the workflow refused a start by an event"
            );
        }
        Ok(shift.published_event(&fanout))
    }

    /// Refuses an event for an instance that has faulted. A repetition under an idempotency key gets its first answer all
    /// the same: the event may be what the instance has faulted by.
    async fn can_be_met(&self, shift: &Shift, id: &InstanceId, key: Option<&IdempotencyKey>) -> Result<()> {
        let detail = self.instance(id).await?;
        if detail.summary.sub_status != SubStatus::Faulted.as_str() {
            return Ok(());
        }
        if let Some(key) = key
            && find_request(&shift.pool, &self.inner.tenant, key).await?.is_some()
        {
            return Ok(());
        }
        Err(self.not_waiting(id).await?)
    }
}

impl Shift {
    /// An event became rows: they are looked for. What is told of it.
    pub(crate) fn published_event(&self, fanout: &Fanout) -> EventAccepted {
        // Of one that was in doubt there may be as many as of any.
        let rows = fanout.resumed + fanout.started + u64::from(fanout.doubted);
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        if rows > 0 {
            self.accepted(None, None, rows);
        }
        EventAccepted {
            resumed: fanout.resumed,
            started: fanout.started,
            kept: fanout.kept,
            refused: fanout.refused.len() as u64,
        }
    }
}

/// The key of a resume by token, apart from those of the API and of other tokens.
fn token_request_key(id: &InstanceId, bookmark: &BookmarkId, given: Idempotency) -> IdempotencyKey {
    let mut hash = Sha256::new();
    for part in [id.as_str(), bookmark.as_str()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let scope = URL_SAFE_NO_PAD.encode(hash.finalize());
    let mut key = request_key("token-resume", given);
    key.key = format!("{scope}:{}", key.key);
    key
}

/// Tidings that send a door to look for itself, at once.
fn elsewhere() -> oneshot::Receiver<Tidings> {
    let (sender, receiver) = oneshot::channel();
    let _ = sender.send(Tidings::Elsewhere);
    receiver
}

fn already_resumed(id: &InstanceId) -> Error {
    Error::conflict(
        "already-resumed",
        format!(
            "the instance {:?} does not wait at this bookmark (any more)",
            id.as_str()
        ),
    )
}
