//! Reads the document of an issuer and its keys.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::Deserialize;
use serde_json::Value;

use super::options::{IssuerOptions, endpoint};
use super::web_key::{WebKey, keys_of};
use crate::outgoing::{OutgoingBody, OutgoingClient, OutgoingRequest};

/// How long one request to an issuer may take.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest answer of an issuer, in bytes: a set of 100 keys with certificates has less.
pub(super) const LARGEST: u64 = 512 << 10;

/// The path of the document below the issuer.
const DOCUMENT: &str = "/.well-known/openid-configuration";

/// What an issuer says of itself.
#[derive(Clone, Debug)]
pub(super) struct IssuerDocument {
    pub(super) keys: Vec<WebKey>,
    /// Where a browser asks for a code.
    pub(super) authorization: Option<Url>,
    /// Where a code becomes tokens.
    pub(super) token: Option<Url>,
    /// Where a browser signs out.
    pub(super) end_session: Option<Url>,
    /// A client sends its secret in the body, as the issuer takes no header.
    pub(super) takes_secret_in_body: bool,
}

#[derive(Deserialize)]
struct DocumentFields {
    issuer: String,
    jwks_uri: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Reads the document and the keys.
/// Errors: Why not, for the operator.
pub(super) async fn read(client: &OutgoingClient, options: &IssuerOptions) -> Result<IssuerDocument, String> {
    let issuer = endpoint(&options.issuer, None).map_err(|problem| format!("the issuer {problem}"))?;
    let document = format!("{}{DOCUMENT}", options.issuer.trim_end_matches('/'));
    let document = endpoint(&document, Some(&issuer)).map_err(|problem| format!("the document {problem}"))?;
    let fields = get(client, document)
        .await
        .map_err(|problem| format!("its document: {problem}"))?;
    let fields = DocumentFields::deserialize(fields)
        .map_err(|_| "its document lacks `issuer` or `jwks_uri`, or has a member of a wrong type".to_owned())?;
    if fields.issuer != options.issuer {
        return Err(format!(
            "its document is of the issuer {:.200}: give exactly this URL in the settings, if it is the right one",
            fields.issuer
        ));
    }
    let url_of = |name: &str, text: &Option<String>| {
        let url = text.as_deref().map(|text| endpoint(text, Some(&issuer)));
        url.transpose()
            .map_err(|problem| format!("`{name}` of its document {problem}"))
    };
    let keys = url_of("jwks_uri", &Some(fields.jwks_uri))?.ok_or("its document lacks `jwks_uri`")?;
    let set = get(client, keys)
        .await
        .map_err(|problem| format!("its keys: {problem}"))?;
    let methods = fields.token_endpoint_auth_methods_supported.unwrap_or_default();
    let takes = |method: &str| methods.iter().any(|one| one == method);
    Ok(IssuerDocument {
        keys: keys_of(&set)?,
        authorization: url_of("authorization_endpoint", &fields.authorization_endpoint)?,
        token: url_of("token_endpoint", &fields.token_endpoint)?,
        end_session: url_of("end_session_endpoint", &fields.end_session_endpoint)?,
        takes_secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
    })
}

async fn get(client: &OutgoingClient, url: Url) -> Result<Value, String> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let (status, body) = send(client, Method::GET, url, headers, OutgoingBody::None).await?;
    if status != 200 {
        return Err(format!("the issuer answered {status}"));
    }
    serde_json::from_slice(&body).map_err(|_| "the answer is no JSON".to_owned())
}

/// Sends one request, whose answer is read whole. A redirect is an answer: an issuer names its endpoints exactly.
/// Errors: Why there is no answer.
pub(super) async fn send(
    client: &OutgoingClient,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: OutgoingBody,
) -> Result<(u16, Vec<u8>), String> {
    let request = OutgoingRequest {
        method,
        url,
        headers,
        body,
    };
    let sent = client.send_once(request, REQUEST_TIMEOUT).await;
    let mut answer = sent.map_err(|error| error.to_string())?;
    answer.limit_to(LARGEST);
    let mut read = Vec::new();
    while let Some(part) = answer.next().await.map_err(|error| error.to_string())? {
        read.extend_from_slice(&part);
    }
    Ok((answer.status(), read))
}
