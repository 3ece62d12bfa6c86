//! Activity executions: what each activity of an instance did, for the viewer of Elsa Studio.

mod execution;
mod list;
mod report;

use super::Api;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of activity executions.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(report::report))
        .routes(routes!(list::details))
        .routes(routes!(list::count))
        .routes(routes!(execution::by_query))
        .routes(routes!(execution::by_path))
        .routes(routes!(execution::call_stack))
        .routes(routes!(list::summaries))
        .routes(routes!(execution::summary_by_query))
        .routes(routes!(execution::summary_by_path))
}
