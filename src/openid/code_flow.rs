//! Sign-in with a code and PKCE (OpenID Connect Core 3.1, RFC 7636).
//!
//! A browser keeps `state`, `nonce` and `verifier` from the start to the answer, and this server sends the request for tokens: so
//! the page calls no other server, an issuer needs to admit no origin, and a client may have a secret. A page over plain HTTP has no
//! SHA-256 either. Each step may be at another node.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hyper::body::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::claims::ExternalUser;
use super::discovery::{self, IssuerDocument};
use super::issuer::Issuer;
use super::options::{BearerToken, CodeFlowOptions};
use super::token_problem::TokenProblem;
use super::web_token::WebToken;
use crate::outgoing::OutgoingBody;

/// How long tokens live whose issuer does not say it, in seconds.
const UNSAID_LIFETIME: u64 = 300;

/// Where a browser asks for a code, and what it keeps until the answer.
#[derive(Clone)]
pub(crate) struct CodeRequest {
    pub(crate) url: String,
    /// Comes back with the code, so that no other page can bring one.
    pub(crate) state: String,
    /// Is in the identity token, so that it is of this sign-in.
    pub(crate) nonce: String,
    /// The secret of PKCE, without which the code is worth nothing.
    pub(crate) verifier: String,
}

/// What a browser brings back.
pub(crate) struct CodeAnswer<'a> {
    pub(crate) code: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) verifier: &'a str,
    pub(crate) redirect_uri: &'a str,
}

/// The tokens of a session.
#[derive(Clone)]
pub(crate) struct IssuedSession {
    /// What requests are sent with.
    pub(crate) access_token: String,
    /// What gets the next tokens; without one, a session ends with its token.
    pub(crate) refresh_token: Option<String>,
    /// In seconds.
    pub(crate) expires_in: u64,
    /// Where a browser signs out of the issuer; it adds where to return to.
    pub(crate) sign_out_url: Option<String>,
    pub(crate) user: ExternalUser,
}

/// Why a step does not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CodeFlowProblem {
    /// The issuer refuses the code or the refresh token: a person has to sign in anew.
    Refused(String),
    /// The issuer, or what it answered, cannot be used as the settings are.
    Misconfigured(String),
    /// The issuer is away.
    Away(String),
    /// Too many steps are in flight.
    Busy,
}

/// The members of an answer with tokens.
#[derive(Deserialize)]
struct TokenFields {
    access_token: Option<String>,
    id_token: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
}

/// The members of a refusal (RFC 6749, 5.2).
#[derive(Deserialize)]
struct RefusalFields {
    error: Option<String>,
}

type Step<T> = Result<T, CodeFlowProblem>;

impl Issuer {
    /// Where a browser begins. `redirect_uri`: where the issuer sends it back to.
    pub(crate) fn code_request(&self, redirect_uri: &str) -> Step<CodeRequest> {
        let (options, document) = self.flow()?;
        let missing = || CodeFlowProblem::Misconfigured("its document has no `authorization_endpoint`".to_owned());
        let mut url = document.authorization.clone().ok_or_else(missing)?;
        let [state, nonce, verifier] = [random(), random(), random()];
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let scope = options.scopes.join(" ");
        let own = [
            ("response_type", "code"),
            ("client_id", &options.client_id),
            ("redirect_uri", redirect_uri),
            ("scope", &scope),
            ("state", &state),
            ("nonce", &nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        let more = options
            .parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        url.query_pairs_mut().extend_pairs(own.into_iter().chain(more));
        Ok(CodeRequest {
            url: url.into(),
            state,
            nonce,
            verifier,
        })
    }

    /// Exchanges a code for the tokens of a session, and verifies both.
    pub(crate) async fn exchange(&self, answer: CodeAnswer<'_>) -> Step<IssuedSession> {
        let (options, document) = self.flow()?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", answer.code),
            ("redirect_uri", answer.redirect_uri),
            ("code_verifier", answer.verifier),
        ];
        let tokens = self.ask(options, &document, &fields).await?;
        let missing = || CodeFlowProblem::Misconfigured("its answer has no identity token".to_owned());
        let identity = tokens.id_token.as_deref().ok_or_else(missing)?;
        self.check_identity(options, identity, Some(answer.nonce)).await?;
        self.session(options, &document, tokens, None).await
    }

    /// Exchanges a refresh token for the next tokens.
    pub(crate) async fn refresh(&self, refresh_token: &str) -> Step<IssuedSession> {
        let (options, document) = self.flow()?;
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
        let tokens = self.ask(options, &document, &fields).await?;
        if let Some(identity) = &tokens.id_token {
            self.check_identity(options, identity, None).await?;
        }
        self.session(options, &document, tokens, Some(refresh_token)).await
    }

    fn flow(&self) -> Step<(&CodeFlowOptions, std::sync::Arc<IssuerDocument>)> {
        let none = || CodeFlowProblem::Misconfigured("the settings have no sign-in with it".to_owned());
        let options = self.options.sign_in.as_ref().ok_or_else(none)?;
        Ok((options, self.document().map_err(CodeFlowProblem::Away)?))
    }

    async fn ask(
        &self,
        options: &CodeFlowOptions,
        document: &IssuerDocument,
        fields: &[(&str, &str)],
    ) -> Step<TokenFields> {
        let missing = || CodeFlowProblem::Misconfigured("its document has no `token_endpoint`".to_owned());
        let url = document.token.clone().ok_or_else(missing)?;
        let place = tokio::time::timeout(Self::STEP_TIMEOUT, self.requests.acquire()).await;
        let _place = place.ok().and_then(Result::ok).ok_or(CodeFlowProblem::Busy)?;
        let (headers, body) = form(options, document, fields)?;
        let body = OutgoingBody::Bytes(Bytes::from(body));
        let sent = discovery::send(&self.client, Method::POST, url, headers, body).await;
        let (status, body) = sent.map_err(CodeFlowProblem::Away)?;
        match status {
            200 => serde_json::from_slice(&body)
                .map_err(|_| CodeFlowProblem::Misconfigured("its answer with tokens cannot be read".to_owned())),
            400..=499 => Err(refusal(status, &body)),
            _ => Err(CodeFlowProblem::Away(format!("the issuer answered {status}"))),
        }
    }

    /// Verifies an identity token, which is for this client and of this sign-in.
    async fn check_identity(&self, options: &CodeFlowOptions, token: &str, nonce: Option<&str>) -> Step<()> {
        let token = WebToken::parse(token).map_err(|problem| of_token("identity", &problem))?;
        let audiences = [options.client_id.clone()];
        let verified = self.verify(&token, &audiences).await;
        verified.map_err(|problem| of_token("identity", &problem))?;
        let claim = |name: &str| token.claims.get(name).and_then(serde_json::Value::as_str);
        if nonce.is_some_and(|nonce| claim("nonce") != Some(nonce)) {
            return Err(CodeFlowProblem::Refused(
                "the identity token is of another sign-in".to_owned(),
            ));
        }
        if claim("azp").is_some_and(|client| client != options.client_id) {
            return Err(CodeFlowProblem::Refused(
                "the identity token is for another client".to_owned(),
            ));
        }
        Ok(())
    }

    /// The session of an answer. The token for requests is verified as each request's will be: a wrong setting is reported at the
    /// sign-in, and not as a request that is refused.
    async fn session(
        &self,
        options: &CodeFlowOptions,
        document: &IssuerDocument,
        tokens: TokenFields,
        former: Option<&str>,
    ) -> Step<IssuedSession> {
        let (kind, bearer) = match options.bearer {
            BearerToken::Access => ("access", tokens.access_token),
            BearerToken::Identity => ("identity", tokens.id_token.clone()),
        };
        let missing = || CodeFlowProblem::Misconfigured(format!("its answer has no {kind} token"));
        let access_token = bearer.ok_or_else(missing)?;
        let user = self
            .user_of(&access_token)
            .await
            .map_err(|problem| of_token(kind, &problem))?;
        let sign_out = document.end_session.clone().map(|mut url| {
            let mut pairs = url.query_pairs_mut();
            pairs.append_pair("client_id", &options.client_id);
            if let Some(identity) = &tokens.id_token {
                pairs.append_pair("id_token_hint", identity);
            }
            drop(pairs);
            String::from(url)
        });
        Ok(IssuedSession {
            access_token,
            // An issuer that answers none goes on with the one before.
            refresh_token: tokens.refresh_token.or_else(|| former.map(str::to_owned)),
            expires_in: tokens.expires_in.unwrap_or(UNSAID_LIFETIME),
            sign_out_url: sign_out,
            user,
        })
    }
}

/// Header and body of a request for tokens.
fn form(options: &CodeFlowOptions, document: &IssuerDocument, fields: &[(&str, &str)]) -> Step<(HeaderMap, String)> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-www-form-urlencoded"),
    );
    let mut pairs: Vec<(&str, &str)> = fields.to_vec();
    match &options.client_secret {
        Some(secret) if document.takes_secret_in_body => {
            pairs.extend([("client_id", options.client_id.as_str()), ("client_secret", secret)]);
        }
        Some(secret) => {
            let [id, secret] = [&options.client_id, secret].map(|part| encoded(part));
            let unusable = |_| CodeFlowProblem::Misconfigured("its client secret cannot be sent".to_owned());
            let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
            let mut value = HeaderValue::try_from(basic).map_err(unusable)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        None => pairs.push(("client_id", &options.client_id)),
    }
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    Ok((headers, pairs.collect::<Vec<_>>().join("&")))
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A refusal of the issuer: only its word is answered, since the rest may quote what was sent.
fn refusal(status: u16, body: &[u8]) -> CodeFlowProblem {
    let word = serde_json::from_slice::<RefusalFields>(body)
        .ok()
        .and_then(|fields| fields.error);
    let word: String = word
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_lowercase() || *c == '_')
        .take(40)
        .collect();
    match word.as_str() {
        "invalid_grant" | "access_denied" => CodeFlowProblem::Refused(format!("the issuer answered {word}")),
        "temporarily_unavailable" | "slow_down" => CodeFlowProblem::Away(format!("the issuer answered {word}")),
        _ if status == 429 => CodeFlowProblem::Away("the issuer answered 429".to_owned()),
        "" => CodeFlowProblem::Misconfigured(format!("the issuer answered {status}")),
        _ => CodeFlowProblem::Misconfigured(format!("the issuer answered {status} {word}")),
    }
}

fn of_token(kind: &str, problem: &TokenProblem) -> CodeFlowProblem {
    let text = format!("the {kind} token of the issuer is not taken: {problem}");
    match problem {
        TokenProblem::Unavailable(_) => CodeFlowProblem::Away(text),
        TokenProblem::Expired | TokenProblem::NotYetValid => CodeFlowProblem::Refused(text),
        _ => CodeFlowProblem::Misconfigured(text),
    }
}

/// 256 random bits.
fn random() -> String {
    let mut bytes = [0_u8; 32];
    rand::fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Whether a browser may be sent back to this address: a page of Studio, by http or https.
pub(crate) fn is_return_address(text: &str, path: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        ["http", "https"].contains(&url.scheme()) && is_plain && url.path().ends_with(path)
    })
}
