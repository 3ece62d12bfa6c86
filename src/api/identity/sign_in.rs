//! Tokens for a password or a refresh token, who one is, and signing out.

use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::openapi::NoFields;
use crate::auth::{Caller, CallerKind, Credential};
use crate::http::{ApiError, ApiResult, Peer, RequestBody};
use crate::id::TenantId;
use crate::runtime::{SignInRequest, SignedInOutcome, TokenPair, TokenRefusal};

/// The code of a wrong name or password, in the audit alone.
const WRONG_LOGIN: &str = "wrong-login";

/// Who signs in.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct LoginFields {
    /// The name of the user; its case does not matter.
    username: String,
    /// The password.
    password: String,
}

/// The tokens of a session; null where it was not opened.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    /// Name and password are right.
    is_authenticated: bool,
    /// For requests, in the header `Authorization: Bearer TOKEN`.
    #[schema(required)]
    access_token: Option<String>,
    /// For another pair of tokens, once.
    #[schema(required)]
    refresh_token: Option<String>,
}

impl From<TokenPair> for Tokens {
    fn from(pair: TokenPair) -> Self {
        Self {
            is_authenticated: true,
            access_token: Some(pair.access),
            refresh_token: Some(pair.refresh),
        }
    }
}

/// Another password for the caller.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct PasswordFields {
    /// The password that is good.
    current_password: String,
    /// Another one, of at least 8 characters.
    new_password: String,
}

/// Who sends the request.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CallerSummary {
    /// `anonymous`, `api-key`, `application`, `user` or `external`.
    #[schema(value_type = String)]
    kind: &'static str,
    /// The id of the user or application, or the subject of a token of another issuer.
    id: String,
    /// What people call the caller.
    name: String,
    /// The issuer of its token, where that is another one than this cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    issuer: String,
    /// Its tenant; empty for the default one.
    tenant_id: TenantId,
    /// What it may do: names, and wildcards such as `*` and `read:*`.
    permissions: Vec<String>,
}

/// Where a request comes from.
fn client(peer: Option<Extension<Peer>>) -> Option<String> {
    peer.map(|Extension(Peer(address))| address.ip().to_string())
}

/// Signs a user in
///
/// A wrong name or password, and a disabled user, get 200 with `isAuthenticated: false`, as in Elsa.
#[utoipa::path(post, path = "/identity/login", tag = "Identity",
    request_body = LoginFields,
    responses(
        (status = 200, description = "The tokens, or that there are none.", body = Tokens),
        (status = 429, description = "`too-many-logins`: too many attempts have failed; `Retry-After` says when to try again."),
        (status = 503, description = "`logins-busy`: too many logins are under way."),
    ))]
pub(super) async fn login(State(api): State<Api>, peer: Option<Extension<Peer>>, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let (name, client) = (fields.text("username")?.unwrap_or_default(), client(peer));
    let request = SignInRequest {
        name: name.clone(),
        password: fields.text("password")?.unwrap_or_default(),
        client: client.clone(),
    };
    match api.engine.sign_in(request).await? {
        SignedInOutcome::Tokens(pair) => {
            let engine = api.engine.for_tenant(pair.tenant.clone());
            engine.note_login(&pair.name, client, None).await;
            Ok(Json(Tokens::from(pair)).into_response())
        }
        SignedInOutcome::Wrong => {
            api.engine.note_login(&name, client, Some(WRONG_LOGIN)).await;
            let nothing = Tokens {
                is_authenticated: false,
                access_token: None,
                refresh_token: None,
            };
            Ok(Json(nothing).into_response())
        }
        SignedInOutcome::TooMany(left) => {
            api.engine.note_login(&name, client, Some("too-many-logins")).await;
            Err(too_many(left))
        }
    }
}

fn too_many(left: Duration) -> ApiError {
    let seconds = u16::try_from(left.as_secs()).unwrap_or(u16::MAX).saturating_add(1);
    let message = format!("Too many attempts to sign in have failed; try again in {seconds} seconds.");
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too-many-logins", message).retry_after(seconds)
}

/// Uses a refresh token, the bearer of this request, for another pair of tokens
///
/// It is good once. A repeat within 30 s gets the same pair; a later one ends the session.
#[utoipa::path(post, path = "/identity/refresh-token", tag = "Identity",
    request_body = Option<NoFields>,
    responses(
        (status = 200, description = "The tokens.", body = Tokens),
        (status = 401, description = "`invalid-token`, `token-expired`; `wrong-token-use`: an access token; `token-reused`: it was used \
            before, and its session is ended."),
    ))]
pub(super) async fn refresh(
    State(api): State<Api>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    _body: RequestBody,
) -> ApiResult {
    let Ok(Some(Credential::Bearer(token))) = Credential::of(&headers) else {
        return Err(challenged(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "invalid-token",
            "Send the refresh token in the header `Authorization: Bearer TOKEN`.",
        )));
    };
    let refreshed = api.engine.refresh_tokens(token, client(peer).as_deref()).await?;
    match refreshed {
        Ok(pair) => Ok(Json(Tokens::from(pair)).into_response()),
        Err(TokenRefusal::Foreign | TokenRefusal::Wrong) => Err(challenged(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "invalid-token",
            "This is no refresh token of an open session; sign in again.",
        ))),
        Err(TokenRefusal::Expired) => Err(challenged(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "token-expired",
            "This refresh token has expired; sign in again.",
        ))),
        Err(TokenRefusal::WrongUse) => Err(challenged(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "wrong-token-use",
            "This is an access token; send the refresh token of the pair.",
        ))),
        Err(TokenRefusal::Reused) => Err(challenged(ApiError::new(
            StatusCode::UNAUTHORIZED,
            "token-reused",
            "This refresh token was used before, so its session is ended; sign in again.",
        ))),
    }
}

fn challenged(error: ApiError) -> ApiError {
    error.header_value(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

/// Signs out: the tokens of the session are good no more
///
/// A caller without a session, such as an application, has nothing to end.
#[utoipa::path(post, path = "/identity/logout", tag = "Identity",
    request_body = Option<NoFields>,
    responses((status = 204, description = "The session is ended, at other nodes one check-in later.")))]
pub(super) async fn logout(api: Api, caller: Caller, _body: RequestBody) -> ApiResult {
    // The session of another issuer is ended there.
    if let Some(session) = caller.session.as_ref().filter(|_| caller.kind == CallerKind::User) {
        api.engine.sign_out(session).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Shows who the caller is, and what it may do
#[utoipa::path(get, path = "/identity/me", tag = "Identity",
    responses((status = 200, description = "The caller.", body = CallerSummary)))]
pub(super) async fn me(caller: Caller) -> ApiResult {
    let summary = CallerSummary {
        kind: caller.kind.word(),
        issuer: caller.kind.issuer().to_owned(),
        permissions: caller.permissions.names().map(str::to_owned).collect(),
        id: caller.id,
        name: caller.name,
        tenant_id: caller.tenant,
    };
    Ok(Json(summary).into_response())
}

/// Changes the caller's own password, and ends its other sessions
#[utoipa::path(post, path = "/identity/password", tag = "Identity",
    request_body = PasswordFields,
    responses(
        (status = 204, description = "It is changed."),
        (status = 400, description = "`invalid-identity`: the new password is too short or too long."),
        (status = 403, description = "`wrong-password`: the current one is another. `not-a-user`: the caller has no password here."),
        (status = 429, description = "`too-many-logins`: too many attempts have failed."),
    ))]
pub(super) async fn change_password(api: Api, caller: Caller, body: RequestBody) -> ApiResult {
    let mut fields = Fields::from_body(body.value)?;
    let current = fields.text("currentPassword")?.unwrap_or_default();
    let new = fields.text("newPassword")?.unwrap_or_default();
    if caller.kind != CallerKind::User {
        let message = "Only a user who signed in with a password can change it.";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "not-a-user", message));
    }
    match api.engine.change_own_password(&caller, &current, &new).await? {
        Some(left) => Err(too_many(left)),
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}
