//! Resumes, cancels and events.

use tokio::time::Instant;

use super::Engine;
use super::instruction::ResumeBody;
use super::read::no_instance;
use super::request::{EventAccepted, EventRequest, Executed, ResumeRequest};
use super::start::{request_key, to_body};
use crate::execution::event_hash;
use crate::id::{BookmarkId, InstanceId};
use crate::store::accept::{RequestKey, read_request};
use crate::store::event::{self, NewEvent};
use crate::store::instance;
use crate::store::work::{self, CancelAccepted};
use crate::{Error, Result};

impl Engine {
    /// Resumes an instance at a bookmark, runs it until it waits again or ends, and gives its state. A bookmark that
    /// was met before: [`Error::is_conflict`], code `already-resumed`.
    pub async fn resume(&self, request: ResumeRequest) -> Result<Executed> {
        let deadline = Instant::now() + self.inner.options.answer_timeout;
        let shift = self.accepting()?;
        self.checked("input", &request.input)?;
        let tenant = &self.inner.tenant;
        let id = request.instance_id;
        let key = request.idempotency.map(|given| request_key("resume", given));
        if let Some(key) = &key
            && read_request(&shift.pool, tenant, key).await?.is_some()
        {
            return self.executed(&id).await;
        }
        let bookmark_id = self.bookmark_of(&id, request.bookmark_id).await?;
        let body = to_body(&ResumeBody {
            bookmark_id,
            input: request.input,
        })?;
        let Some(work) = work::accept_resume(&shift.pool, tenant, &id, &body, key.as_ref()).await? else {
            return self.executed(&id).await;
        };
        let tidings = shift.doors.open(work);
        shift.accepted(Some(&id), Some(work), 1);
        match self.await_row(id.clone(), work, tidings, deadline).await? {
            (executed, true) => Ok(executed),
            (_, false) => Err(already_resumed(&id)),
        }
    }

    /// The bookmark that is meant, if it still waits.
    async fn bookmark_of(&self, id: &InstanceId, wanted: Option<BookmarkId>) -> Result<BookmarkId> {
        let shift = self.shift()?;
        let waiting = instance::bookmarks(&shift.pool, &self.inner.tenant, id).await?;
        match wanted {
            Some(wanted) if waiting.contains(&wanted) => return Ok(wanted),
            Some(_) => {}
            None if waiting.len() > 1 => {
                let ids = waiting.iter().map(BookmarkId::as_str).collect::<Vec<_>>().join(", ");
                return Err(Error::conflict(
                    "several-bookmarks",
                    format!("the instance waits at several bookmarks, name one of them: {ids}"),
                )
                .field("bookmarkId", ids));
            }
            None => {
                if let Some(only) = waiting.into_iter().next() {
                    return Ok(only);
                }
            }
        }
        // Unknown altogether is another answer than no longer waiting.
        self.instance(id).await?;
        Err(already_resumed(id))
    }

    /// Cancels an instance: whatever burst may be running it has lost from this moment on. Returns once the instance
    /// is cancelled, or after the answer timeout; false: it had finished before.
    pub async fn cancel(&self, id: &InstanceId) -> Result<bool> {
        let deadline = Instant::now() + self.inner.options.answer_timeout;
        let shift = self.accepting()?;
        match work::accept_cancel(&shift.pool, &self.inner.tenant, id).await? {
            CancelAccepted::NotFound => Err(no_instance(id)),
            CancelAccepted::Finished => Ok(false),
            CancelAccepted::Accepted(work) => {
                let tidings = shift.doors.open(work);
                shift.accepted(Some(id), Some(work), 1);
                Ok(self.await_row(id.clone(), work, tidings, deadline).await?.1)
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
        if let Some(id) = &request.instance_id {
            self.instance(id).await?;
        }
        self.checked("eventName", &request.name)?;
        self.checked("correlationId", &request.correlation_id)?;
        self.checked("input", &request.input)?;
        let request_key = match request.idempotency {
            Some(given) => request_key("event", given),
            None => RequestKey {
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
        let rows = usize::try_from(fanout.resumed + fanout.started).unwrap_or(usize::MAX);
        if rows > 0 {
            shift.accepted(None, None, rows);
        }
        Ok(EventAccepted {
            resumed: fanout.resumed,
            started: fanout.started,
            kept: fanout.kept,
        })
    }
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
