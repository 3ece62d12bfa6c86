//! Resuming an instance at a bookmark.

use axum::extract::State;

use super::Api;
use super::body::Sent;
use super::execute::came_to;
use super::fields::Fields;
use super::path::Id;
use super::refusal::Answer;
use crate::id::{BookmarkId, InstanceId};
use crate::runtime::ResumeRequest;

/// `POST /workflow-instances/{id}/resume`: at the bookmark named, else at the only one.
pub(super) async fn resume(State(api): State<Api>, Id(id): Id, sent: Sent) -> Answer {
    let mut fields = Fields::of_body(sent.value)?;
    let request = ResumeRequest {
        instance_id: InstanceId::new(id),
        bookmark_id: fields
            .text("bookmarkId")?
            .filter(|id| !id.is_empty())
            .map(BookmarkId::new),
        input: fields.object("input")?.unwrap_or_default(),
        idempotency: sent.idempotency,
    };
    Ok(came_to(api.engine.resume(request).await?))
}
