//! Requests by the holder of a resume link.
//!
//! A link that no node has signed costs no statement, and one that cannot be used a read. A use is counted by the transaction that
//! accepts it, and each attempt is noted in the audit: an accepted one by that transaction, another one afterwards, of which
//! [`RefusedLinks`](super::refused_links::RefusedLinks) bounds the number.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Engine;
use super::link_text::UnverifiedLink;
use super::start::{LINK_ROUTE, link_request_key, to_body};
#[cfg(feature = "http")]
use crate::id::TenantId;
use crate::id::{InstanceId, LinkId};
use crate::runtime::context::node_context::NodeContext;
use crate::runtime::context::request::{EventRequest, Executed, Idempotency};
use crate::runtime::worker::instruction::ResumeBody;
use crate::store::audit;
use crate::store::code::AuditOutcome;
use crate::store::link::{self, FoundLink, LinkUse, ResumeLinkTarget};
use crate::store::request::{IdempotencyKey, find_request};
use crate::store::work::{self, AcceptedResume};
use crate::{Error, Result};

/// How long a request with a link waits for the commit of the burst that makes the link: a fast service may call back before.
const COMMIT_WAIT: Duration = Duration::from_secs(2);
/// Between two looks.
const COMMIT_POLL: Duration = Duration::from_millis(100);

/// A link that a node of this cluster has signed. Whether it can be used is another question.
#[derive(Clone, Copy, Debug)]
pub struct GenuineLink {
    key: i32,
    id: LinkId,
}

impl GenuineLink {
    fn attempt(self, client: Option<IpAddr>) -> LinkUse {
        LinkUse {
            id: self.id,
            key: self.key,
            client: client.map(|address| address.to_string()),
        }
    }
}

/// A request by the holder of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkUseRequest {
    /// The input of what waits.
    pub input: Map<String, Value>,
    /// Makes a client's retry safe.
    pub idempotency: Option<Idempotency>,
    /// Where the request came from, for the audit.
    pub client: Option<IpAddr>,
    /// Returns once the request is durable, without waiting for its burst.
    pub is_async: bool,
}

/// What a use of a link came to.
#[derive(Debug)]
pub enum LinkUsed {
    /// The instance was resumed, and its burst has ended or goes on.
    Resumed(Box<Executed>),
    /// The resume or the event is durable; bursts follow.
    Accepted(InstanceId),
}

/// What the page of a link shows.
#[derive(Debug)]
pub struct LinkPage {
    /// The name of the workflow, if it has one.
    pub workflow: Option<String>,
    /// The event that it triggers; without one it resumes.
    pub event: Option<String>,
    /// Why it cannot be used now.
    pub refusal: Option<Error>,
}

/// The error for a text that no node of this cluster has signed.
fn no_such_link() -> Error {
    Error::not_found("no-such-link", "this is not a link of this engine")
}

/// The error of a link that cannot be used.
fn gone(outcome: AuditOutcome) -> Error {
    match outcome {
        AuditOutcome::Used => Error::gone("link-used", "this link was used as often as it may be"),
        AuditOutcome::Expired => Error::gone("link-expired", "this link has expired"),
        AuditOutcome::Revoked => Error::gone("link-revoked", "this link was revoked"),
        AuditOutcome::Ended => Error::gone(
            "link-ended",
            "what this link is for has ended, or was done in another way",
        ),
        AuditOutcome::Unknown
        | AuditOutcome::Accepted
        | AuditOutcome::Refused
        | AuditOutcome::Repeated
        | AuditOutcome::Failed => Error::gone(
            "link-unknown",
            "what this link is for does not exist, or is not there yet",
        ),
    }
}

impl Engine {
    /// Verifies a link, before anything else of a request is read. [`Error::is_not_found`], code `no-such-link`, for a text that no
    /// node of this cluster has signed; these are counted and cost no statement. Cancellation safe.
    pub async fn verify_link(&self, text: &str) -> Result<GenuineLink> {
        let verified = self.genuine_link(text).await;
        if let Err(refused) = &verified
            && refused.is_not_found()
        {
            self.inner.refused_tokens.note(refused);
        }
        verified
    }

    async fn genuine_link(&self, text: &str) -> Result<GenuineLink> {
        let link = UnverifiedLink::parse(text).ok_or_else(no_such_link)?;
        let key = self.known_key(link.key).await?.ok_or_else(no_such_link)?;
        if !link.is_signed_by(&key)? {
            return Err(no_such_link());
        }
        Ok(GenuineLink {
            key: link.key,
            id: link.id,
        })
    }

    /// Whether a link is of a tenant. Cancellation safe.
    #[cfg(feature = "http")]
    pub(crate) async fn is_link_of(&self, link: GenuineLink, tenant: &TenantId) -> Result<bool> {
        let node = self.node()?;
        let found = self.link_row(&node, link).await?;
        Ok(found.is_some_and(|found| found.tenant == *tenant))
    }

    /// The row of a link. One that is not there may be that of a burst which has not committed yet.
    async fn link_row(&self, node: &NodeContext, link: GenuineLink) -> Result<Option<FoundLink>> {
        let ends = Instant::now() + COMMIT_WAIT;
        loop {
            let found = link::find(node.database.reads.by_key(), link.id, link.key).await?;
            if found.is_some() || self.inner.refused_links.is_known(link.id) || Instant::now() >= ends {
                return Ok(found);
            }
            tokio::time::sleep(COMMIT_POLL).await;
        }
    }

    /// The engine for the tenant of a link, for each of its holders.
    fn of_link(&self, found: Option<&FoundLink>) -> Self {
        match found {
            Some(found) => self.for_tenant(found.tenant.clone()),
            None => self.clone(),
        }
    }

    /// Refuses a link that cannot be used, as [`Engine::use_link`] does, before the body of a request is read. Changes nothing but the
    /// audit.
    pub async fn check_link(&self, link: GenuineLink, client: Option<IpAddr>) -> Result<()> {
        let node = self.node()?;
        let found = self.link_row(&node, link).await?;
        let outcome = match &found {
            None => AuditOutcome::Unknown,
            Some(found) => match found.refusal {
                None => return Ok(()),
                Some(outcome) => outcome,
            },
        };
        let engine = self.of_link(found.as_ref());
        let instance = found.map(|found| found.instance);
        engine
            .note_attempt(&node, &link.attempt(client), instance.as_ref(), outcome)
            .await;
        Err(gone(outcome))
    }

    /// Notes in the audit that a request with a link was refused before it was one: its body was wrong, or this node accepts nothing.
    pub async fn refuse_link_request(&self, link: GenuineLink, client: Option<IpAddr>) {
        if let Ok(node) = self.node() {
            self.note_attempt(&node, &link.attempt(client), None, AuditOutcome::Refused)
                .await;
        }
    }

    /// Notes and counts an attempt, which the transaction of an accepted one has noted.
    async fn note_attempt(
        &self,
        node: &NodeContext,
        attempt: &LinkUse,
        instance: Option<&InstanceId>,
        outcome: AuditOutcome,
    ) {
        let word = outcome.word();
        metrics::counter!("mainspring_resume_links_total", "outcome" => word).increment(1);
        let (link, instance_id) = (attempt.id, instance.map(InstanceId::as_str));
        if outcome == AuditOutcome::Accepted {
            tracing::info!(%link, instance = instance_id, "a resume link was used");
            return;
        }
        if let Some(attempts) = self.inner.refused_links.to_log() {
            tracing::info!(
                %link,
                instance = instance_id,
                outcome = word,
                attempts,
                "resume links could not be used; the link is that of the last attempt"
            );
        }
        if !self.inner.refused_links.is_noted(link) {
            metrics::counter!("mainspring_audit_omitted_total").increment(1);
            return;
        }
        let entry = attempt.entry(instance, outcome);
        if let Err(error) = audit::note(&node.database.pool, &self.tenant, &entry).await {
            tracing::warn!(%link, %error, "an attempt at a resume link is missing in the audit");
        }
    }

    /// What the page of a link shows. Changes nothing. Cancellation safe.
    pub async fn link_page(&self, link: GenuineLink) -> Result<LinkPage> {
        let node = self.node()?;
        let found = link::find(node.database.reads.by_key(), link.id, link.key).await?;
        Ok(match found {
            None => LinkPage {
                workflow: None,
                event: None,
                refusal: Some(gone(AuditOutcome::Unknown)),
            },
            Some(found) => LinkPage {
                workflow: found.workflow,
                event: match found.target {
                    ResumeLinkTarget::Event(name) => Some(name),
                    ResumeLinkTarget::Bookmark(_) => None,
                },
                refusal: found.refusal.map(gone),
            },
        })
    }

    /// Uses a link. [`Error::is_gone`], with a code each, if it was used up, has expired, was revoked, or leads to nothing any more.
    /// Other errors are those of [`Engine::resume`] and [`Engine::trigger_event`]; none of them costs a use, but `link-ended` of two
    /// uses at the same moment. The same idempotency key waits for the same outcome. If the future is dropped, an accepted request
    /// continues, and its attempt is in the audit: `held` is what bounds such requests, as a permit or the memory of the input, and is
    /// dropped once the request is accepted or refused.
    pub async fn use_link(
        &self,
        link: GenuineLink,
        request: LinkUseRequest,
        held: impl Send + 'static,
    ) -> Result<LinkUsed> {
        let deadline = Instant::now() + self.inner.settings.answer_timeout;
        let node = match self.accepting() {
            Ok(node) => node,
            Err(refused) => {
                self.refuse_link_request(link, request.client).await;
                return Err(refused);
            }
        };
        let is_async = request.is_async;
        let attempt = link.attempt(request.client);
        // It changes nothing, and ends with its request: what waits for a row that may never be there is bounded by those.
        let found = self.link_row(&node, link).await?;
        let by = self.of_link(found.as_ref());
        let (engine, owner, owned) = (by.clone(), Arc::clone(&node), attempt.clone());
        // A task of its own: the audit has the attempt also if the client goes away.
        let accepting = node.lifecycle.tasks.spawn(async move {
            let _held = held;
            engine.accept_and_note(&owner, found, &owned, request).await
        });
        let used = accepting
            .await
            .map_err(|_| Error::internal("accepting a request by link failed"))?;
        let (instance, accepted) = match used? {
            AcceptedUse::Resume(instance, accepted) => (instance, accepted),
            AcceptedUse::Event { instance, .. } => return Ok(LinkUsed::Accepted(instance)),
        };
        if is_async {
            if let AcceptedResume::New(_) = accepted {
                node.work_accepted(Some(&instance), None, 1);
            }
            return Ok(LinkUsed::Accepted(instance));
        }
        match by.await_resume(&node, &instance, accepted, deadline).await? {
            Some(executed) => Ok(LinkUsed::Resumed(Box::new(executed))),
            // Another resume came before, between the acceptance and its burst.
            None => {
                let ended = AuditOutcome::Ended;
                by.note_attempt(&node, &attempt, Some(&instance), ended).await;
                Err(gone(ended))
            }
        }
    }

    /// Accepts a request by link, and notes what has become of it.
    async fn accept_and_note(
        &self,
        node: &NodeContext,
        found: Option<FoundLink>,
        attempt: &LinkUse,
        request: LinkUseRequest,
    ) -> Result<AcceptedUse> {
        let instance = found.as_ref().map(|found| found.instance.clone());
        let key = match request.idempotency {
            Some(given) => link_request_key(attempt.id, given),
            None => IdempotencyKey::random(LINK_ROUTE),
        };
        let used = self.accept_by_link(node, found, attempt, request.input, key).await;
        let outcome = match &used {
            Ok(accepted) if accepted.is_new() => AuditOutcome::Accepted,
            Ok(_) => AuditOutcome::Repeated,
            Err(refused) => link::refusal(refused).unwrap_or(AuditOutcome::Refused),
        };
        // What is in doubt is in the audit if it was accepted.
        if !used.as_ref().is_err_and(Error::is_unknown_outcome) {
            self.note_attempt(node, attempt, instance.as_ref(), outcome).await;
        }
        used.map_err(|error| link::refusal(&error).map_or(error, gone))
    }

    /// Makes what a link is for durable, and counts the use.
    async fn accept_by_link(
        &self,
        node: &NodeContext,
        found: Option<FoundLink>,
        attempt: &LinkUse,
        input: Map<String, Value>,
        key: IdempotencyKey,
    ) -> Result<AcceptedUse> {
        let Some(found) = found else {
            return Err(link::refused(AuditOutcome::Unknown));
        };
        let (pool, tenant) = (&node.database.pool, &self.tenant);
        let before = match key.is_random() {
            true => None,
            false => find_request(node.database.reads.by_key(), tenant, &key).await?,
        };
        if before.is_none()
            && let Some(outcome) = found.refusal
        {
            return Err(link::refused(outcome));
        }
        self.checked("input", &input)?;
        let instance = found.instance;
        match (found.target, before) {
            (ResumeLinkTarget::Event(_), Some(_)) => Ok(AcceptedUse::Event {
                instance,
                is_new: false,
            }),
            (ResumeLinkTarget::Event(name), None) => {
                let request = EventRequest {
                    name,
                    instance_id: Some(instance.clone()),
                    input: (!input.is_empty()).then_some(Value::Object(input)),
                    ..EventRequest::default()
                };
                let by = Some(attempt.clone());
                let (_, is_repeated) = self.trigger_event_once(request, Some(key), by).await?;
                let is_new = !is_repeated;
                Ok(AcceptedUse::Event { instance, is_new })
            }
            (ResumeLinkTarget::Bookmark(_), Some(before)) => {
                Ok(AcceptedUse::Resume(instance, AcceptedResume::Existing(before.work)))
            }
            (ResumeLinkTarget::Bookmark(bookmark_id), None) => {
                let accept = self.begin_accept(node, Some(&instance));
                let body = to_body(&ResumeBody {
                    bookmark_id,
                    generation: Some(found.generation),
                    input,
                    payload: None,
                    request: None,
                    trace: accept.context,
                })?;
                let accepted = work::accept_resume(pool, tenant, &instance, &body, Some(&key), Some(attempt)).await?;
                Ok(AcceptedUse::Resume(instance, accepted))
            }
        }
    }
}

/// What a use of a link has set off, durably.
enum AcceptedUse {
    Resume(InstanceId, AcceptedResume),
    Event { instance: InstanceId, is_new: bool },
}

impl AcceptedUse {
    /// Whether it is no repetition.
    fn is_new(&self) -> bool {
        match self {
            Self::Resume(_, accepted) => matches!(accepted, AcceptedResume::New(_)),
            Self::Event { is_new, .. } => *is_new,
        }
    }
}
