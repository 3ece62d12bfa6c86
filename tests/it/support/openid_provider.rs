//! An OpenID Connect provider of the tests' own: real keys and signatures, a page that signs in, codes with PKCE, rotation.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair, PublicKeyComponents};
use ring::signature::RSA_PKCS1_SHA256;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What the provider calls Studio, and the API.
pub(crate) const CLIENT: &str = "studio";
pub(crate) const AUDIENCE: &str = "mainspring";
/// The secret of the client.
pub(crate) const SECRET: &str = "s3cret of the client";

type Fields = HashMap<String, String>;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The time of this machine, in seconds.
fn now() -> i64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(passed.as_secs()).unwrap()
}

/// A key with a random name.
struct SigningKey {
    id: String,
    pair: KeyPair,
}

impl SigningKey {
    fn make() -> Self {
        let options = [
            "genpkey",
            "-algorithm",
            "RSA",
            "-pkeyopt",
            "rsa_keygen_bits:2048",
            "-outform",
            "DER",
        ];
        let made = Command::new("openssl").args(options).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self {
            id: uuid::Uuid::new_v4().simple().to_string(),
            // Older versions write the key alone, newer ones PKCS #8.
            pair: KeyPair::from_pkcs8(&made.stdout)
                .or_else(|_| KeyPair::from_der(&made.stdout))
                .unwrap(),
        }
    }

    fn public(&self) -> Value {
        let public = PublicKeyComponents::<Vec<u8>>::from(self.pair.public());
        json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.id, "n": encoded(public.n), "e": encoded(public.e)})
    }

    fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "RS256", "kid": self.id, "typ": "JWT"});
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let mut signature = vec![0; self.pair.public().modulus_len()];
        let random = SystemRandom::new();
        self.pair
            .sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature)
            .unwrap();
        format!("{message}.{}", encoded(signature))
    }
}

/// A sign-in that was begun, by its code.
struct Begun {
    user: String,
    challenge: String,
    nonce: String,
    redirect_uri: String,
}

struct Provided {
    url: String,
    key: SigningKey,
    /// How long access tokens live, in seconds.
    lifetime: i64,
    codes: HashMap<String, Begun>,
    /// The users of refresh tokens.
    sessions: HashMap<String, String>,
    refreshed: usize,
    sign_outs: usize,
    is_away: bool,
}

type Shared = Arc<Mutex<Provided>>;

/// A file with the issuers of a node. It ends with this value.
pub(crate) struct IssuerFile(PathBuf);

impl IssuerFile {
    pub(crate) fn write(content: &Value) -> Self {
        let path = std::env::temp_dir().join(format!("mainspring-openid-{}.json", uuid::Uuid::new_v4()));
        std::fs::write(&path, content.to_string()).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for IssuerFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The provider. It ends with this value.
pub(crate) struct OpenIdProvider {
    shared: Shared,
    serving: JoinHandle<()>,
}

impl OpenIdProvider {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shared = Arc::new(Mutex::new(Provided {
            url: format!("http://{}/realms/main", listener.local_addr().unwrap()),
            key: SigningKey::make(),
            lifetime: 300,
            codes: HashMap::new(),
            sessions: HashMap::new(),
            refreshed: 0,
            sign_outs: 0,
            is_away: false,
        }));
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(document))
            .route("/keys", get(keys))
            .route("/authorize", get(page))
            .route("/accept", get(accept))
            .route("/token", post(token))
            .route("/logout", get(sign_out))
            .with_state(Arc::clone(&shared));
        let routes = Router::new().nest("/realms/main", routes);
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { shared, serving }
    }

    fn state(&self) -> MutexGuard<'_, Provided> {
        self.shared.lock().unwrap()
    }

    /// The file of a node that takes its tokens: the role of a user is in `realm_access.roles`, and is the user's name.
    pub(crate) fn file(&self) -> IssuerFile {
        IssuerFile::write(&json!({"issuers": [{
            "name": "company", "displayName": "Company account", "issuer": self.url(), "audiences": [AUDIENCE], "leewaySeconds": 2,
            "grants": [{"claim": ["realm_access", "roles"], "values": {
                "admin": ["*"],
                "reader": ["read:*"],
                "operator": ["read:*", "run:alterations", "cancel:workflow-instances", "write:cluster"],
                "author": ["read:*", "write:workflow-definitions", "publish:workflow-definitions", "exec:workflow-definitions"],
            }}],
            "signIn": {"clientId": CLIENT, "clientSecret": SECRET},
        }]}))
    }

    pub(crate) fn url(&self) -> String {
        self.state().url.clone()
    }

    /// A token of a user that has lived for a while already, in seconds.
    pub(crate) fn token(&self, user: &str, age: i64) -> String {
        let state = self.state();
        state.key.sign(&state.access_claims(user, now() - age))
    }

    /// The same with other claims.
    pub(crate) fn token_with(&self, user: &str, more: &Value) -> String {
        let state = self.state();
        let mut claims = state.access_claims(user, now());
        claims
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        state.key.sign(&claims)
    }

    /// From now on another key signs, and the one before is gone.
    pub(crate) fn rotate(&self) {
        let key = SigningKey::make();
        self.state().key = key;
    }

    pub(crate) fn set_lifetime(&self, seconds: i64) {
        self.state().lifetime = seconds;
    }

    /// Answers 503 to all, or no more.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// No refresh token is good any more.
    pub(crate) fn end_sessions(&self) {
        self.state().sessions.clear();
    }

    /// How often tokens were refreshed, and how often a user signed out here.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.refreshed, state.sign_outs)
    }
}

impl Drop for OpenIdProvider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Provided {
    fn access_claims(&self, user: &str, issued: i64) -> Value {
        json!({"iss": self.url, "aud": AUDIENCE, "sub": format!("id-of-{user}"), "name": user, "typ": "Bearer",
               "realm_access": {"roles": [user]}, "iat": issued, "exp": issued + self.lifetime})
    }

    fn tokens(&mut self, user: &str, nonce: Option<&str>) -> Response {
        let refresh = uuid::Uuid::new_v4().to_string();
        self.sessions.insert(refresh.clone(), user.to_owned());
        let mut identity = json!({"iss": self.url, "aud": CLIENT, "sub": format!("id-of-{user}"), "typ": "ID",
                                  "iat": now(), "exp": now() + 300});
        if let Some(nonce) = nonce {
            identity["nonce"] = nonce.into();
        }
        let access = self.key.sign(&self.access_claims(user, now()));
        Json(
            json!({"access_token": access, "id_token": self.key.sign(&identity), "refresh_token": refresh,
                    "expires_in": self.lifetime, "token_type": "Bearer"}),
        )
        .into_response()
    }
}

fn refused(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response()
}

async fn document(State(shared): State<Shared>) -> Response {
    let state = shared.lock().unwrap();
    if state.is_away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let below = |path: &str| format!("{}/{path}", state.url);
    Json(json!({
        "issuer": state.url, "jwks_uri": below("keys"), "authorization_endpoint": below("authorize"),
        "token_endpoint": below("token"), "end_session_endpoint": below("logout"),
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    }))
    .into_response()
}

async fn keys(State(shared): State<Shared>) -> Response {
    let state = shared.lock().unwrap();
    if state.is_away {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    Json(json!({"keys": [state.key.public()]})).into_response()
}

/// The page that asks for a user. The form takes the query along.
async fn page(Query(fields): Query<Fields>) -> Html<String> {
    let hidden = fields.iter().map(|(name, value)| {
        let value = value.replace('&', "&amp;").replace('"', "&quot;");
        format!("<input type=hidden name=\"{name}\" value=\"{value}\">")
    });
    Html(format!(
        "<!DOCTYPE html><title>Company</title><form action=accept><h1>Company account</h1>{}
         <input id=user name=user><button id=accept>Sign in</button></form>",
        hidden.collect::<String>()
    ))
}

async fn accept(State(shared): State<Shared>, Query(mut fields): Query<Fields>) -> Response {
    let mut take = |name: &str| fields.remove(name).unwrap_or_default();
    let is_whole =
        take("response_type") == "code" && take("client_id") == CLIENT && take("code_challenge_method") == "S256";
    if !is_whole || !take("scope").split(' ').any(|scope| scope == "openid") {
        return refused("invalid_request");
    }
    let (state, redirect_uri) = (take("state"), take("redirect_uri"));
    let code = uuid::Uuid::new_v4().to_string();
    let begun = Begun {
        user: take("user"),
        challenge: take("code_challenge"),
        nonce: take("nonce"),
        redirect_uri: redirect_uri.clone(),
    };
    shared.lock().unwrap().codes.insert(code.clone(), begun);
    let target = format!("{redirect_uri}?code={code}&state={state}");
    (StatusCode::FOUND, [(header::LOCATION, target)]).into_response()
}

async fn token(State(shared): State<Shared>, body: String) -> Response {
    let url = reqwest::Url::parse(&format!("http://form/?{body}")).unwrap();
    let fields: Fields = url.query_pairs().into_owned().collect();
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    if (field("client_id"), field("client_secret")) != (CLIENT, SECRET) {
        return refused("invalid_client");
    }
    let mut state = shared.lock().unwrap();
    match field("grant_type") {
        "authorization_code" => {
            let Some(begun) = state.codes.remove(field("code")) else {
                return refused("invalid_grant");
            };
            let challenge = encoded(Sha256::digest(field("code_verifier")));
            if challenge != begun.challenge || field("redirect_uri") != begun.redirect_uri {
                return refused("invalid_grant");
            }
            state.tokens(&begun.user, Some(&begun.nonce))
        }
        // Each refresh token is good once.
        "refresh_token" => match state.sessions.remove(field("refresh_token")) {
            Some(user) => {
                state.refreshed += 1;
                state.tokens(&user, None)
            }
            None => refused("invalid_grant"),
        },
        _ => refused("unsupported_grant_type"),
    }
}

async fn sign_out(State(shared): State<Shared>, Query(fields): Query<Fields>) -> Response {
    let is_known = fields
        .get("id_token_hint")
        .is_some_and(|hint| hint.split('.').count() == 3);
    assert!(is_known, "a sign-out names its session");
    shared.lock().unwrap().sign_outs += 1;
    let target = fields["post_logout_redirect_uri"].clone();
    (StatusCode::FOUND, [(header::LOCATION, target)]).into_response()
}
