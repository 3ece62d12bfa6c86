//! What a page of sign-in offers.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::auth::Issuers;
use crate::http::ApiError;

/// The ways to sign in.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignInWays {
    /// Requests need a credential.
    is_required: bool,
    /// The server was started with an API key, or has applications with keys.
    accepts_key: bool,
    /// There are, or were, users with passwords, or applications: `POST /identity/login`.
    accepts_password: bool,
    /// The issuers of the settings.
    issuers: Vec<SignInIssuer>,
}

/// An OpenID issuer that one can sign in with.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SignInIssuer {
    /// Its name in paths.
    name: String,
    /// What people call it.
    display_name: String,
    /// It does not answer.
    is_away: bool,
}

/// Lists the ways to sign in.
///
/// It needs no credential, as a page asks before anyone has signed in.
#[utoipa::path(get, path = "/identity/sign-in", tag = "Identity",
    responses((status = 200, description = "The ways to sign in.", body = SignInWays)))]
pub(super) async fn list(State(api): State<Api>) -> Result<Json<SignInWays>, ApiError> {
    let has_callers = api.engine.has_callers().await?;
    let is_required = api.accepts_key || api.issuers.is_some() || has_callers;
    let all = api.issuers.iter().flat_map(Issuers::with_sign_in);
    let issuers = all.map(|issuer| SignInIssuer {
        name: issuer.name().to_owned(),
        display_name: issuer.title().to_owned(),
        is_away: issuer.problem().is_some(),
    });
    Ok(Json(SignInWays {
        is_required,
        accepts_key: api.accepts_key || has_callers,
        accepts_password: has_callers,
        issuers: issuers.collect(),
    }))
}
