//! Resume links.
//!
//! # Layout
//!
//! - `follow`: what their holders do; `page`: the page that they see first.
//! - `manage`: makes, lists and revokes them, and rotates their keys.

mod follow;
mod manage;
mod page;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::path::TRIGGER_BY_QUERY;
use super::{Api, openapi};

/// The routes below the prefix of the API.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(manage::create, manage::list))
        .routes(routes!(manage::revoke))
        .routes(routes!(manage::keys, manage::rotate))
        .routes(routes!(manage::retire))
        .routes(routes!(follow::show_by_query, follow::use_by_query))
        .routes(openapi::also_at(
            TRIGGER_BY_QUERY,
            routes!(follow::show_by_query, follow::use_by_query),
        ))
}

/// The links that are not below the prefix.
pub(super) fn url_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(follow::show_by_path, follow::use_by_path))
}
