//! Workflow instances: the list, and the operations on one instance.

mod files;
pub(super) mod filter;
mod instance;
mod journal;
mod list;
mod schema;
mod variables;

use super::Api;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of instances, except for the bulk cancels and deletes.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(list::list, list::list_or_start))
        .routes(routes!(instance::get, instance::delete))
        .routes(routes!(instance::cancel))
        .routes(routes!(journal::list, journal::filtered))
        .routes(routes!(journal::last))
        .routes(routes!(variables::execution_state))
        .routes(routes!(variables::list, variables::set))
        .routes(routes!(files::export, files::export_by_post))
        .routes(routes!(files::export_many_by_get, files::export_many))
        .routes(routes!(files::import))
}
