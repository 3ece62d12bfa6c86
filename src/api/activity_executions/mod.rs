//! Activity executions: what each activity of an instance did, for the viewer of Elsa Studio.

mod execution;
mod list;
mod report;

use axum::Router;
use axum::routing::{get, post};

use super::Api;

/// The routes of activity executions.
pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/activity-executions/report", post(report::report))
        .route("/activity-executions/list", get(list::details))
        .route("/activity-executions/count", get(list::count))
        .route("/activity-executions/by-id", get(execution::by_query))
        .route("/activity-executions/{id}", get(execution::by_path))
        .route("/activity-executions/{id}/call-stack", get(execution::call_stack))
        .route("/activity-execution-summaries/list", get(list::summaries))
        .route("/activity-execution-summaries/by-id", get(execution::summary_by_query))
        .route("/activity-execution-summaries/{id}", get(execution::summary_by_path))
}
