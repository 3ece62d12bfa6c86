//! Workflow instances: the list, and what is read of one instance and done to it.

pub(super) mod filter;
mod instance;
mod journal;
mod list;
mod schema;

use super::Api;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of instances, except for the bulk actions.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(list::list, list::list_or_start))
        .routes(routes!(instance::get, instance::delete))
        .routes(routes!(instance::cancel))
        .routes(routes!(journal::list, journal::filtered))
        .routes(routes!(journal::last))
}
