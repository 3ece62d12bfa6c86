//! Users, roles, applications, and signing in.
//!
//! # Layout
//!
//! - `sign_in`: tokens for a password or a refresh token, who one is, and signing out.
//! - `users`, `roles`, `applications`: what administrators list and change.

mod applications;
mod roles;
mod sign_in;
mod users;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;

/// The routes below the prefix of the API.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(sign_in::login))
        .routes(routes!(sign_in::refresh))
        .routes(routes!(sign_in::logout))
        .routes(routes!(sign_in::me))
        .routes(routes!(sign_in::change_password))
        .routes(routes!(users::list, users::create))
        .routes(routes!(users::get, users::change, users::delete))
        .routes(routes!(roles::list, roles::create))
        .routes(routes!(roles::change, roles::delete))
        .routes(routes!(roles::impact))
        .routes(routes!(roles::remediate))
        .routes(routes!(applications::list, applications::create))
        .routes(routes!(applications::delete))
}
