//! Resume links of an instance: made, listed and revoked by requests; signed for those that bursts make.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Engine;
use super::link_text::link_text;
use super::resume::already_resumed;
use crate::elsa_json;
use crate::expression::{DEFAULT_LIFETIME, LONGEST_LIFETIME, LeadsTo, MOST_USES};
use crate::id::{BookmarkId, InstanceId, LinkId};
use crate::store::code::AuditOutcome;
use crate::store::link::{self, Created, ListedLink, NewLink, ResumeLinkTarget};
use crate::{Error, Result};

/// The path of a link that resumes, up to its text.
const RESUMES: &str = "/workflows/resume/";
/// Elsa's path of a link that triggers an event, up to its text.
const TRIGGERS: &str = "/elsa/api/events/trigger?t=";

/// A resume link to make.
#[derive(Clone, Debug, Default)]
pub struct ResumeLinkRequest {
    /// The bookmark; without it the instance must wait at exactly one.
    pub bookmark_id: Option<BookmarkId>,
    /// How long it can be used: 7 days unless given, ten years at most.
    pub expires_in: Option<Duration>,
    /// How often it can be used: once unless given.
    pub uses: Option<u32>,
}

/// A resume link that was made. Its URL is shown only here.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResumeLink {
    /// Its id, under which it is listed and revoked.
    pub id: String,
    /// The link, which is secret. Without a public URL it is only a path.
    pub url: String,
    /// When it expires, by the database's clock.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub expires_at: DateTime<Utc>,
    /// How often it can be used.
    pub uses: u32,
}

/// A resume link as it is listed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResumeLinkSummary {
    /// Its id.
    pub id: String,
    /// The bookmark that it resumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bookmark_id: Option<BookmarkId>,
    /// The event that it triggers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_name: Option<String>,
    /// When it was made.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub created_at: DateTime<Utc>,
    /// When it expires.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub expires_at: DateTime<Utc>,
    /// How often it can be used.
    pub uses: i32,
    /// How often it still can be used.
    pub uses_left: i32,
    /// `Valid`, `Used`, `Expired`, `Revoked`, or `Ended` where the instance no longer waits.
    pub status: String,
}

impl ResumeLinkSummary {
    fn of(link: ListedLink) -> Self {
        let (bookmark_id, event_name) = match link.target {
            ResumeLinkTarget::Bookmark(id) => (Some(id), None),
            ResumeLinkTarget::Event(name) => (None, Some(name)),
        };
        Self {
            id: link.id.to_string(),
            bookmark_id,
            event_name,
            created_at: link.created_at,
            expires_at: link.expires_at,
            uses: link.uses,
            uses_left: link.uses_left,
            status: link.refusal.map_or("Valid", AuditOutcome::word).to_owned(),
        }
    }
}

impl Engine {
    /// Lets activities and scripts make links from now on.
    pub(super) async fn sign_links(&self) -> Result<()> {
        self.inner.token_keys.refresh(&self.node()?.database.pool).await?;
        let keys = self.inner.token_keys.clone();
        let base = self.link_base();
        let sign = move |id: LinkId, leads_to: &LeadsTo| {
            let key = keys.signing().ok()?;
            let text = link_text(&key, id).ok()?;
            let path = match leads_to {
                LeadsTo::Bookmark(_) => RESUMES,
                LeadsTo::Event(_) => TRIGGERS,
            };
            Some((format!("{base}{path}{text}"), key.id))
        };
        self.inner.interpreter.options().script.links.sign_with(sign);
        Ok(())
    }

    /// What links begin with.
    fn link_base(&self) -> String {
        let base = self.inner.settings.public_url.as_deref().unwrap_or_default();
        base.trim_end_matches('/').to_owned()
    }

    /// Makes a link with which its holder can resume an instance at one bookmark, without a key. Errors: as for
    /// [`Engine::resume`]; [`Error::is_invalid`] for a lifetime or a number of uses beyond their bounds; [`Error::is_conflict`], code `too-many-links`, if
    /// the instance has 10,000. If the future is
    /// dropped, a link may be made that nothing knows.
    pub async fn create_resume_link(&self, id: &InstanceId, request: ResumeLinkRequest) -> Result<ResumeLink> {
        let lifetime = request.expires_in.unwrap_or(DEFAULT_LIFETIME);
        if lifetime.is_zero() || lifetime > LONGEST_LIFETIME {
            let message = "a resume link can be used for more than zero seconds and at most ten years";
            return Err(Error::invalid("invalid-resume-link", message)
                .field("expiresIn", "must be more than zero and at most ten years"));
        }
        let uses = request.uses.unwrap_or(1);
        if !(1..=MOST_USES).contains(&uses) {
            let message = format!("a resume link can be used 1 to {MOST_USES} times");
            return Err(Error::invalid("invalid-resume-link", message)
                .field("uses", format!("must be a whole number from 1 to {MOST_USES}")));
        }
        let node = self.accepting()?;
        let key = self.inner.token_keys.signing()?;
        let (bookmark, generation) = self.bookmark_of(id, request.bookmark_id).await?;
        let link = NewLink {
            id: LinkId::random(),
            instance: id.clone(),
            generation,
            bookmark,
            lifetime,
            uses: i32::try_from(uses).unwrap_or(i32::MAX),
            signed_by: key.id,
        };
        let text = link_text(&key, link.id)?;
        let expires_at = match link::create(&self.changes_of(&node, id), &self.tenant, &link).await? {
            Created::Until(time) => time,
            Created::NotWaiting => return Err(already_resumed(id)),
            Created::TooMany => {
                let message = format!(
                    "the instance {:?} has {} resume links already",
                    id.as_str(),
                    link::MOST_MADE
                );
                return Err(Error::conflict("too-many-links", message));
            }
        };
        Ok(ResumeLink {
            id: link.id.to_string(),
            url: format!("{}{RESUMES}{text}", self.link_base()),
            expires_at,
            uses,
        })
    }

    /// A page of the links of an instance, the newest first; the next page is before its last link. [`Error::is_not_found`] if there is
    /// no such instance.
    pub async fn resume_links(
        &self,
        id: &InstanceId,
        before: Option<LinkId>,
        page_size: u32,
    ) -> Result<Vec<ResumeLinkSummary>> {
        let node = self.node()?;
        let pool = node.database.reads.by_key();
        let links = link::list(pool, &self.tenant, id, before, page_size.into()).await?;
        if links.is_empty() && before.is_none() {
            self.instance_by_key(id).await?;
        }
        Ok(links.into_iter().map(ResumeLinkSummary::of).collect())
    }

    /// Revokes a link of an instance: it cannot be used any more. One that is revoked already stays so. [`Error::is_not_found`],
    /// code `link-not-found`, if the instance has none with this id.
    pub async fn revoke_resume_link(&self, id: &InstanceId, link: LinkId) -> Result<()> {
        let node = self.accepting()?;
        if link::revoke(&self.changes_of(&node, id), &self.tenant, id, link).await? {
            return Ok(());
        }
        let message = format!("the instance {:?} has no resume link with this id", id.as_str());
        Err(Error::not_found("link-not-found", message))
    }
}
