//! The code flow.

use std::collections::HashMap;

use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::fake_issuer::{DOCUMENT, FakeIssuer, KnownIssuer, NOW, TOKEN};
use super::signer::{Signer, encoded};
use crate::openid::{
    BearerToken, CodeAnswer, CodeFlowOptions, CodeFlowProblem, IssuedSession, IssuerOptions, is_return_address,
};

const RETURN: &str = "https://flows.example/studio/signed-in";
const CLIENT: &str = "studio:1";

fn options(fake: &FakeIssuer) -> IssuerOptions {
    let mut options = fake.options();
    let mut flow = CodeFlowOptions::new(CLIENT);
    flow.parameters.insert("audience".to_owned(), "a b".to_owned());
    options.sign_in = Some(flow);
    options
}

/// Waits until the document is read.
async fn known(fake: &FakeIssuer, key: &Signer, options: IssuerOptions) -> KnownIssuer {
    let known = fake.known(options);
    let read = known.issuer.user_of(&key.token(&fake.claims())).await;
    assert!(read.is_ok(), "{read:?}");
    known
}

fn identity(fake: &FakeIssuer, key: &Signer, nonce: &str, client: &str) -> String {
    key.token(&json!({
        "iss": fake.url, "aud": client, "sub": "u1", "nonce": nonce, "at_hash": "x", "iat": NOW, "exp": NOW + 300,
    }))
}

async fn exchange(known: &KnownIssuer, nonce: &str) -> Result<IssuedSession, CodeFlowProblem> {
    let answer = CodeAnswer {
        code: "c&1",
        nonce,
        verifier: "v",
        redirect_uri: RETURN,
    };
    known.issuer.exchange(answer).await
}

fn pairs(text: &str) -> HashMap<String, String> {
    let url = Url::parse(&format!("http://a/?{text}")).unwrap();
    url.query_pairs().into_owned().collect()
}

#[tokio::test]
async fn a_browser_is_sent_with_pkce_and_comes_back_with_tokens() {
    let key = Signer::ed25519("d");
    let fake = FakeIssuer::with_keys(&[&key]).await;
    let known = known(&fake, &key, options(&fake)).await;
    let begun = known.issuer.code_request(RETURN).unwrap();
    let url = Url::parse(&begun.url).unwrap();
    let sent = pairs(url.query().unwrap());
    let challenge = encoded(Sha256::digest(begun.verifier.as_bytes()));
    for (name, value) in [
        ("tenant", "a"),
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", RETURN),
        ("scope", "openid profile offline_access"),
        ("state", &begun.state),
        ("nonce", &begun.nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("audience", "a b"),
    ] {
        assert_eq!(sent[name], value, "{name}");
    }
    assert_ne!(begun.state, known.issuer.code_request(RETURN).unwrap().state);

    let access = key.token(&fake.claims());
    let tokens = json!({"access_token": access, "id_token": identity(&fake, &key, &begun.nonce, CLIENT),
                        "refresh_token": "r1", "expires_in": 60});
    fake.answer(TOKEN, 200, &tokens);
    let session = exchange(&known, &begun.nonce).await.unwrap();
    assert_eq!((session.access_token, session.expires_in), (access.clone(), 60));
    assert_eq!(session.refresh_token.as_deref(), Some("r1"));
    let sign_out = session.sign_out_url.unwrap();
    assert!(sign_out.starts_with(&format!("{}/logout?client_id=studio%3A1&id_token_hint=", fake.url)));
    let (head, body) = fake.received(TOKEN).pop().unwrap();
    assert!(!head.to_ascii_lowercase().contains("authorization"), "{head}");
    let sent = pairs(&body);
    assert_eq!((sent["code"].as_str(), sent["code_verifier"].as_str()), ("c&1", "v"));
    assert_eq!(
        (sent["client_id"].as_str(), sent["redirect_uri"].as_str()),
        (CLIENT, RETURN)
    );

    // The next tokens; an issuer that gives no refresh token goes on with the one before.
    fake.answer(TOKEN, 200, &json!({"access_token": access}));
    let session = known.issuer.refresh("r1").await.unwrap();
    assert_eq!(
        (session.refresh_token.as_deref(), session.expires_in),
        (Some("r1"), 300)
    );
    let (_, body) = fake.received(TOKEN).pop().unwrap();
    assert_eq!(pairs(&body)["refresh_token"], "r1");
}

#[tokio::test]
async fn what_does_not_fit_is_no_session() {
    let (key, other) = (Signer::ed25519("d"), Signer::ed25519("d"));
    let fake = FakeIssuer::with_keys(&[&key]).await;
    let known = known(&fake, &key, options(&fake)).await;
    let access = key.token(&fake.claims());
    let mut foreign = fake.claims();
    foreign["aud"] = "other".into();
    let with = |access: &str, identity: String| json!({"access_token": access, "id_token": identity});
    let refused = |problem: &CodeFlowProblem| matches!(problem, CodeFlowProblem::Refused(_));
    let wrong = |problem: &CodeFlowProblem| matches!(problem, CodeFlowProblem::Misconfigured(_));
    let away = |problem: &CodeFlowProblem| matches!(problem, CodeFlowProblem::Away(_));
    type Expected = fn(&CodeFlowProblem) -> bool;
    let cases: Vec<(&str, u16, Value, Expected)> = vec![
        (
            "the nonce of another sign-in",
            200,
            with(&access, identity(&fake, &key, "m", CLIENT)),
            refused,
        ),
        (
            "an identity token for another client",
            200,
            with(&access, identity(&fake, &key, "n", "other")),
            wrong,
        ),
        (
            "a forged identity token",
            200,
            with(&access, identity(&fake, &other, "n", CLIENT)),
            wrong,
        ),
        ("no identity token", 200, json!({"access_token": access}), wrong),
        (
            "an access token for another program",
            200,
            with(&key.token(&foreign), identity(&fake, &key, "n", CLIENT)),
            wrong,
        ),
        (
            "an opaque access token",
            200,
            with("opaque", identity(&fake, &key, "n", CLIENT)),
            wrong,
        ),
        (
            "no token",
            200,
            json!({"id_token": identity(&fake, &key, "n", CLIENT)}),
            wrong,
        ),
        ("no object", 200, json!(7), wrong),
        (
            "a code that was used",
            400,
            json!({"error": "invalid_grant", "error_description": "s3cret"}),
            refused,
        ),
        ("an unknown client", 401, json!({"error": "invalid_client"}), wrong),
        ("a redirect", 302, json!({}), away),
        ("a failure", 500, json!({}), away),
        ("too many requests", 429, json!({}), away),
    ];
    for (what, status, body, expected) in cases {
        fake.answer(TOKEN, status, &body);
        let Err(problem) = exchange(&known, "n").await else {
            panic!("{what} is a session");
        };
        assert!(expected(&problem), "{what}: {problem:?}");
        assert!(!format!("{problem:?}").contains("s3cret"), "{problem:?}");
    }
}

#[tokio::test]
async fn a_secret_is_sent_as_the_issuer_takes_it() {
    let key = Signer::ed25519("d");
    let fake = FakeIssuer::with_keys(&[&key]).await;
    let mut settings = options(&fake);
    settings.sign_in.as_mut().unwrap().client_secret = Some("s:3".to_owned());
    fake.answer(TOKEN, 400, &json!({"error": "invalid_grant"}));
    let by_header = known(&fake, &key, settings.clone()).await;
    assert!(exchange(&by_header, "n").await.is_err());
    let (head, body) = fake.received(TOKEN).pop().unwrap();
    // `studio%3A1:s%3A3`
    assert!(head.contains("Basic c3R1ZGlvJTNBMTpzJTNBMw=="), "{head}");
    assert!(!body.contains("client"), "{body}");

    let mut document = fake.document();
    document["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    fake.answer(DOCUMENT, 200, &document);
    let by_body = known(&fake, &key, settings).await;
    assert!(exchange(&by_body, "n").await.is_err());
    let (_, body) = fake.received(TOKEN).pop().unwrap();
    assert_eq!(pairs(&body)["client_secret"], "s:3");
}

#[tokio::test]
async fn an_identity_token_is_sent_only_where_the_settings_say_so() {
    let key = Signer::ed25519("d");
    let fake = FakeIssuer::with_keys(&[&key]).await;
    let mut settings = options(&fake);
    settings.audiences.push(CLIENT.to_owned());
    let token = identity(&fake, &key, "n", CLIENT);
    fake.answer(TOKEN, 200, &json!({"access_token": "opaque", "id_token": token}));
    let of_access = known(&fake, &key, settings.clone()).await;
    assert!(of_access.issuer.user_of(&token).await.is_err());
    assert!(exchange(&of_access, "n").await.is_err());
    settings.sign_in.as_mut().unwrap().bearer = BearerToken::Identity;
    let of_identity = known(&fake, &key, settings).await;
    assert_eq!(exchange(&of_identity, "n").await.unwrap().access_token, token);
}

#[test]
fn a_browser_comes_back_to_a_page_of_studio_alone() {
    let page = "/studio/signed-in";
    for good in [
        RETURN,
        "http://127.0.0.1:5001/studio/signed-in",
        "https://a.example/flows/studio/signed-in",
    ] {
        assert!(is_return_address(good, page), "{good}");
    }
    for bad in [
        "",
        "/studio/signed-in",
        "javascript:/studio/signed-in",
        "https://a.example/studio/signed-in?x=1",
        "https://a.example/studio/signed-in#x",
        "https://u@a.example/studio/signed-in",
        "https://a.example/other",
    ] {
        assert!(!is_return_address(bad, page), "{bad}");
    }
}
