//! Resume URLs: whoever has a token resumes what it was made for, without a key, from wherever they follow the link.

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::IntoResponse;
use serde_json::json;
use std::time::Duration;

use super::Api;
use super::PREFIX;
use super::body::Sent;
use super::execute::came_to;
use super::fields::Fields;
use super::path::Id;
use super::refusal::{Answer, Refusal};
use crate::id::{BookmarkId, InstanceId};
use crate::runtime::TokenResume;

/// Elsa's route, with the token as `t`.
pub(super) const BY_QUERY: &str = "/bookmarks/resume";
/// The route with the token in the path.
pub(super) const BY_PATH: &str = "/workflows/resume/{token}";
const PATH: &str = "/workflows/resume/";

/// Whether whoever shows a token needs nothing else at this path.
pub(super) fn takes_token(path: &str) -> bool {
    path.strip_prefix(PREFIX) == Some(BY_QUERY) || path.strip_prefix(PATH).is_some_and(|token| !token.is_empty())
}

/// `GET`, `POST /bookmarks/resume?t=TOKEN`
pub(super) async fn by_query(State(api): State<Api>, method: Method, uri: Uri, sent: Sent) -> Answer {
    let mut query = Fields::of_query(&uri)?;
    let token = query.text("t")?;
    let Some(token) = token else {
        return Err(Refusal::bad("invalid-token", "The query must have the token as `t`.").field("t", "is missing"));
    };
    resume(&api, &method, token, query, sent).await
}

/// `GET`, `POST /workflows/resume/{token}`
pub(super) async fn by_path(State(api): State<Api>, method: Method, Id(token): Id, uri: Uri, sent: Sent) -> Answer {
    resume(&api, &method, token, Fields::of_query(&uri)?, sent).await
}

async fn resume(api: &Api, method: &Method, token: String, mut query: Fields, sent: Sent) -> Answer {
    // Whoever asks for the headers of a GET does not mean to resume anything: programs look so at links before people do.
    if method == Method::HEAD {
        let message = "HEAD is not possible here, as a GET resumes a workflow.";
        return Err(
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", message)
                .header(header::ALLOW, "GET,POST"),
        );
    }
    let input = if method == Method::POST {
        Fields::of_body(sent.value)?.object("input")?
    } else {
        query.object("in")?
    };
    let request = TokenResume {
        token,
        input: input.unwrap_or_default(),
        idempotency: sent.idempotency,
    };
    if query.flag("async")?.unwrap_or(false) {
        let id = api.engine.accept_resume_by_token(request).await?;
        return Ok(Json(json!({"workflowInstanceId": id})).into_response());
    }
    Ok(came_to(api.engine.resume_by_token(request).await?))
}

/// `POST /workflow-instances/{id}/resume-token`: makes a token for a bookmark.
pub(super) async fn make(State(api): State<Api>, Id(id): Id, sent: Sent) -> Answer {
    let mut fields = Fields::of_body(sent.value)?;
    let bookmark = fields.text("bookmarkId")?.filter(|id| !id.is_empty());
    let lifetime = fields.number("lifetimeSeconds", 1)?;
    let lifetime = lifetime.map(|seconds| Duration::from_secs(seconds.into()));
    let bookmark = bookmark.map(BookmarkId::new);
    let token = api
        .engine
        .resume_token(&InstanceId::new(id), bookmark, lifetime)
        .await?;
    let body = json!({
        "path": format!("{PATH}{token}"),
        "elsaPath": format!("{PREFIX}{BY_QUERY}?t={token}"),
        "token": token,
    });
    Ok(Json(body).into_response())
}
