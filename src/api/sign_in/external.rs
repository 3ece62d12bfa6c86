//! Sign-in with an OpenID issuer: the steps of a browser between a page of Studio and the issuer.
//!
//! None of them needs a credential; what they hand out comes from the issuer. Nothing is kept between them.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use utoipa::ToSchema;

use super::RETURN_PAGE;
use crate::api::Api;
use crate::api::fields::Fields;
use crate::api::path::Id;
use crate::auth::Issuers;
use crate::http::{ApiError, ApiResult, RequestBody};
use crate::openid::{CodeAnswer, CodeFlowProblem, IssuedSession, Issuer, is_return_address};

/// The largest body, in bytes: a refresh token of an issuer may have some kilobytes.
const MAX_BODY: usize = 32 << 10;

/// Where the browser comes back to.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ExternalStart {
    /// The page `studio/signed-in` of this server, as the browser reaches it.
    redirect_uri: String,
}

/// Where a browser begins, and what it keeps until it comes back.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ExternalStarted {
    /// A page of the issuer.
    url: String,
    /// What comes back with the code.
    state: String,
    /// What the identity token has.
    nonce: String,
    /// The secret of PKCE.
    verifier: String,
}

/// What a browser brings back.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ExternalCode {
    code: String,
    nonce: String,
    verifier: String,
    redirect_uri: String,
}

/// What gets the next tokens.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "a schema")]
struct ExternalRefresh {
    refresh_token: String,
}

/// The tokens of a session, in the form of `POST /identity/login`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ExternalSession {
    is_authenticated: bool,
    /// What requests are sent with, as a bearer token.
    access_token: String,
    /// What gets the next tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// For how many seconds the access token is good.
    expires_in: u64,
    /// Where the browser signs out of the issuer, with `post_logout_redirect_uri` added.
    #[serde(skip_serializing_if = "Option::is_none")]
    sign_out_url: Option<String>,
    /// The name of the person.
    name: String,
}

impl From<IssuedSession> for ExternalSession {
    fn from(session: IssuedSession) -> Self {
        Self {
            is_authenticated: true,
            access_token: session.access_token,
            refresh_token: session.refresh_token,
            expires_in: session.expires_in,
            sign_out_url: session.sign_out_url,
            name: session.user.name,
        }
    }
}

/// Begins a sign-in with an issuer.
///
/// The browser goes to `url` and keeps the rest. The code flow with PKCE (S256).
#[utoipa::path(post, path = "/identity/external/{issuer}/start", tag = "Identity",
    params(("issuer" = String, Path, description = "The name of the issuer in the settings.")),
    request_body = ExternalStart,
    responses(
        (status = 200, description = "Where the browser begins.", body = ExternalStarted),
        (status = 404, description = "`issuer-not-found`: no issuer of the settings has this name and a sign-in."),
        (status = 502, description = "`issuer-refused`: the issuer has no such endpoint."),
    ))]
pub(super) async fn start(State(api): State<Api>, Id(name): Id, request: Request) -> ApiResult {
    let issuer = named(&api, &name)?;
    let mut fields = fields(&api, request).await?;
    let redirect_uri = return_address(&mut fields)?;
    let begun = issuer
        .code_request(&redirect_uri)
        .map_err(|problem| error(issuer, problem))?;
    Ok(Json(ExternalStarted {
        url: begun.url,
        state: begun.state,
        nonce: begun.nonce,
        verifier: begun.verifier,
    })
    .into_response())
}

/// Ends a sign-in with an issuer: a code becomes the tokens of a session.
#[utoipa::path(post, path = "/identity/external/{issuer}/token", tag = "Identity",
    params(("issuer" = String, Path, description = "The name of the issuer in the settings.")),
    request_body = ExternalCode,
    responses(
        (status = 200, description = "The tokens.", body = ExternalSession),
        (status = 401, description = "`sign-in-refused`: the issuer refuses the code, or it is of another sign-in."),
        (status = 404, description = "`issuer-not-found`: no issuer of the settings has this name and a sign-in."),
        (status = 502, description = "`issuer-refused`: the answer of the issuer does not fit the settings; the message says why."),
    ))]
pub(super) async fn exchange(State(api): State<Api>, Id(name): Id, request: Request) -> ApiResult {
    let issuer = named(&api, &name)?;
    let mut fields = fields(&api, request).await?;
    let redirect_uri = return_address(&mut fields)?;
    let [code, nonce, verifier] = ["code", "nonce", "verifier"].map(|name| required(&mut fields, name));
    let (code, nonce, verifier) = (code?, nonce?, verifier?);
    let answer = CodeAnswer {
        code: &code,
        nonce: &nonce,
        verifier: &verifier,
        redirect_uri: &redirect_uri,
    };
    let session = issuer
        .exchange(answer)
        .await
        .map_err(|problem| error(issuer, problem))?;
    Ok(Json(ExternalSession::from(session)).into_response())
}

/// Gets the next tokens of a session with an issuer.
#[utoipa::path(post, path = "/identity/external/{issuer}/refresh", tag = "Identity",
    params(("issuer" = String, Path, description = "The name of the issuer in the settings.")),
    request_body = ExternalRefresh,
    responses(
        (status = 200, description = "The tokens.", body = ExternalSession),
        (status = 401, description = "`sign-in-refused`: the issuer refuses the refresh token; sign in again."),
        (status = 404, description = "`issuer-not-found`: no issuer of the settings has this name and a sign-in."),
        (status = 502, description = "`issuer-refused`: the answer of the issuer does not fit the settings; the message says why."),
    ))]
pub(super) async fn refresh(State(api): State<Api>, Id(name): Id, request: Request) -> ApiResult {
    let issuer = named(&api, &name)?;
    let mut fields = fields(&api, request).await?;
    let token = required(&mut fields, "refreshToken")?;
    let session = issuer.refresh(&token).await.map_err(|problem| error(issuer, problem))?;
    Ok(Json(ExternalSession::from(session)).into_response())
}

async fn fields(api: &Api, request: Request) -> Result<Fields, ApiError> {
    let body = RequestBody::read(request, &api.event_limits, MAX_BODY).await?;
    Fields::from_body(body.value)
}

fn named<'a>(api: &'a Api, name: &str) -> Result<&'a Issuer, ApiError> {
    let issuer = api.issuers.as_ref().and_then(|issuers: &Issuers| issuers.named(name));
    issuer.filter(|issuer| issuer.signs_in()).ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "issuer-not-found",
            format!("No OpenID issuer of the settings has the name {name} and a sign-in."),
        )
    })
}

fn required(fields: &mut Fields, name: &str) -> Result<String, ApiError> {
    let text = fields.text(name)?.filter(|text| !text.is_empty());
    text.ok_or_else(|| ApiError::invalid_field(name, format!("The field `{name}` is missing.")))
}

fn return_address(fields: &mut Fields) -> Result<String, ApiError> {
    let text = required(fields, "redirectUri")?;
    if !is_return_address(&text, RETURN_PAGE) {
        let message = format!("The field `redirectUri` must be the URL of the page {RETURN_PAGE}, without a query.");
        return Err(ApiError::invalid_field("redirectUri", message));
    }
    Ok(text)
}

fn error(issuer: &Issuer, problem: CodeFlowProblem) -> ApiError {
    let title = issuer.title();
    match problem {
        CodeFlowProblem::Refused(why) => ApiError::new(
            StatusCode::UNAUTHORIZED,
            "sign-in-refused",
            format!("{title} does not sign you in: {why}. Sign in again."),
        )
        .header(header::WWW_AUTHENTICATE, "Bearer"),
        CodeFlowProblem::Misconfigured(why) => {
            tracing::warn!(
                issuer = issuer.name(),
                why,
                "a sign-in with an OpenID issuer did not succeed"
            );
            ApiError::new(
                StatusCode::BAD_GATEWAY,
                "issuer-refused",
                format!("The sign-in with {title} does not work: {why}. An operator has to compare the settings."),
            )
        }
        CodeFlowProblem::Away(why) => {
            ApiError::unavailable("issuer-away", format!("{title} cannot be reached: {why}. Try again."))
        }
        CodeFlowProblem::Busy => ApiError::unavailable(
            "issuer-away",
            format!("{title} takes too long to answer others. Try again."),
        ),
    }
}
