//! How documents and keys are read: rotation, and issuers that are away or broken.

use std::time::Duration;

use serde_json::json;

use super::fake_issuer::{DOCUMENT, FakeIssuer, KEYS, KnownIssuer};
use super::signer::Signer;
use crate::openid::TokenProblem;

/// Polls until a probe says that it is so.
async fn becomes(what: &str, mut probe: impl AsyncFnMut() -> bool) {
    let passing = async {
        while !probe().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), passing).await;
    assert!(waited.is_ok(), "waited in vain: {what}");
}

/// Waits until the issuer is away for a reason with this text.
async fn is_away_for(known: &KnownIssuer, part: &str) {
    let problem = || known.issuer.problem().unwrap_or_default();
    becomes(part, async || problem().contains(part)).await;
}

#[tokio::test]
async fn a_new_key_is_read_at_its_first_token_and_an_old_one_goes() {
    let (old, new) = (Signer::ed25519("old"), Signer::p256("new"));
    let fake = FakeIssuer::with_keys(&[&old]).await;
    let known = fake.known(fake.options());
    let [of_old, of_new] = [old.token(&fake.claims()), new.token(&fake.claims())];
    assert!(known.issuer.user_of(&of_old).await.is_ok());
    fake.set_keys(&[&new]);
    becomes("the new key", async || known.issuer.user_of(&of_new).await.is_ok()).await;
    assert_eq!(known.issuer.user_of(&of_old).await, Err(TokenProblem::UnknownKey));
}

#[tokio::test]
async fn forged_names_of_keys_cost_one_read_for_all() {
    let key = Signer::ed25519("d");
    let fake = FakeIssuer::with_keys(&[&key]).await;
    let known = fake.known(fake.options());
    assert!(known.issuer.user_of(&key.token(&fake.claims())).await.is_ok());
    let forged = |number: u32| key.signed(&json!({"alg": "EdDSA", "kid": format!("k{number}")}), &fake.claims());
    let tokens: Vec<String> = (0..200).map(forged).collect();
    let began = std::time::Instant::now();
    for token in &tokens {
        assert_eq!(known.issuer.user_of(token).await, Err(TokenProblem::UnknownKey));
    }
    let pauses = began.elapsed().as_millis() / 20;
    let reads = fake.received(KEYS).len() as u128;
    assert!(reads <= pauses + 2, "{reads} reads in {pauses} pauses");
}

#[tokio::test]
async fn an_issuer_that_is_away_at_the_start_heals() {
    let key = Signer::ed25519("d");
    let fake = FakeIssuer::with_keys(&[&key]).await;
    fake.answer(DOCUMENT, 503, &json!({}));
    let known = fake.known(fake.options());
    is_away_for(&known, "answered 503").await;
    let token = key.token(&fake.claims());
    let problem = known.issuer.user_of(&token).await.unwrap_err();
    assert!(
        matches!(&problem, TokenProblem::Unavailable(text) if text.contains("503")),
        "{problem:?}"
    );
    fake.answer(DOCUMENT, 200, &fake.document());
    becomes("there", async || known.issuer.user_of(&token).await.is_ok()).await;
    assert_eq!(known.issuer.problem(), None);
    // Away again, it keeps the keys that are known.
    fake.answer(KEYS, 500, &json!({}));
    let forged = key.signed(&json!({"alg": "EdDSA", "kid": "x"}), &fake.claims());
    becomes("away again", async || {
        assert_eq!(known.issuer.user_of(&forged).await, Err(TokenProblem::UnknownKey));
        known.issuer.problem().is_some()
    })
    .await;
    assert!(known.issuer.user_of(&token).await.is_ok());
}

#[tokio::test]
async fn broken_answers_are_named() {
    let key = Signer::ed25519("d");
    let fake = FakeIssuer::with_keys(&[&key]).await;
    let other = |name: &str, value: &str| {
        let mut document = fake.document();
        document[name] = value.into();
        document.to_string()
    };
    let set = |key: serde_json::Value| json!({"keys": [key]}).to_string();
    let mut weak = Signer::rsa("weak").public();
    weak["n"] = "AQAB".into();
    let many: Vec<_> = (0..101).map(|_| key.public()).collect();
    for (path, status, headers, body, part) in [
        (DOCUMENT, 200, "", "<html>".to_owned(), "no JSON"),
        (DOCUMENT, 200, "", "[]".to_owned(), "wrong type"),
        (
            DOCUMENT,
            302,
            "location: http://127.0.0.1/\r\n",
            String::new(),
            "answered 302",
        ),
        (
            DOCUMENT,
            200,
            "",
            other("issuer", "https://evil.example"),
            "https://evil.example",
        ),
        (
            DOCUMENT,
            200,
            "",
            other("jwks_uri", "http://keys.example/"),
            "`jwks_uri` of its document does not begin",
        ),
        (
            DOCUMENT,
            200,
            "",
            other("token_endpoint", "file:///etc/passwd"),
            "`token_endpoint`",
        ),
        (KEYS, 200, "", "x".repeat(10 << 20), "larger than"),
        (KEYS, 200, "", "{}".to_owned(), "no list `keys`"),
        (KEYS, 200, "", json!({"keys": []}).to_string(), "none of the 0 keys"),
        (KEYS, 200, "", json!({"keys": many}).to_string(), "101 keys"),
        (KEYS, 200, "", set(weak), "none of the 1 keys"),
        (
            KEYS,
            200,
            "",
            set(json!({"kty": "oct", "k": "c2VjcmV0"})),
            "none of the 1 keys",
        ),
    ] {
        fake.answer(DOCUMENT, 200, &fake.document());
        fake.set_keys(&[&key]);
        fake.answer_text(path, status, headers, body);
        let known = fake.known(fake.options());
        is_away_for(&known, part).await;
    }
}
