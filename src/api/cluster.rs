//! What an operator sees of the cluster.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;

use super::Api;
use super::fields::Fields;
use super::paging;
use super::refusal::Answer;

/// `GET /cluster/nodes`
pub(super) async fn nodes(State(api): State<Api>, uri: Uri) -> Answer {
    let page = paging::page(&mut Fields::of_query(&uri)?)?;
    Ok(Json(api.engine.cluster_nodes(page).await?).into_response())
}

/// `GET /cluster/queue`
pub(super) async fn queue(State(api): State<Api>, uri: Uri) -> Answer {
    let page = paging::page(&mut Fields::of_query(&uri)?)?;
    Ok(Json(api.engine.cluster_queue(page).await?).into_response())
}

/// `GET /cluster/locks`
pub(super) async fn locks(State(api): State<Api>, uri: Uri) -> Answer {
    let page = paging::page(&mut Fields::of_query(&uri)?)?;
    Ok(Json(api.engine.cluster_locks(page).await?).into_response())
}
