//! Workflow instances: the list, and what is read of one instance and done to it.

pub(super) mod filter;
mod instance;
mod journal;
mod list;

use axum::Router;
use axum::routing::{get, post};

use super::Api;

/// The routes of instances, except for the bulk actions.
pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/workflow-instances", get(list::list).post(list::list_or_start))
        .route("/workflow-instances/{id}", get(instance::get).delete(instance::delete))
        .route("/cancel/workflow-instances/{id}", post(instance::cancel))
        .route(
            "/workflow-instances/{id}/journal",
            get(journal::list).post(journal::filtered),
        )
        .route("/workflow-instances/{id}/journal/{activityId}", get(journal::last))
}
