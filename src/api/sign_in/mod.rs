//! The ways to sign in, and sign-in with an OpenID issuer. Users of the server sign in by `identity`.
//!
//! # Layout
//!
//! - `ways`: what a page of sign-in offers. `external`: the code flow with an issuer.

mod external;
mod ways;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(ways::list))
        .routes(routes!(external::start))
        .routes(routes!(external::exchange))
        .routes(routes!(external::refresh))
}

/// Where an issuer sends a browser back to: a page of Studio.
const RETURN_PAGE: &str = "/studio/signed-in";
