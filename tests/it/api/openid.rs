//! Tokens of an OpenID Connect issuer at a node.

use reqwest::Method;
use serde_json::json;

use crate::support::openid_provider::{IssuerFile, OpenIdProvider};
use crate::support::single_node::SingleNode;
use crate::support::{Answer, Child, Http, LONG_TIMEOUT, TIMEOUT, poll_until};

/// A request with a bearer token in place of the key.
async fn sent(node: &SingleNode, method: Method, path: &str, token: &str) -> Answer {
    let client = Http::new(&format!("http://{}", node.address));
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    client.send(method, path, &headers, None).await.unwrap()
}

async fn me(node: &SingleNode, token: &str) -> Answer {
    sent(node, Method::GET, "identity/me", token).await
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_an_issuer_are_taken_with_the_permissions_of_their_claims() {
    let provider = OpenIdProvider::start().await;
    let file = provider.file();
    let node = SingleNode::with_key(&["--openid-file", file.path()]).await;
    // The issuer is read beside the start.
    poll_until(TIMEOUT, "the issuer", async || {
        (me(&node, &provider.token("admin", 0)).await.status == 200).then_some(())
    })
    .await;
    let reader = provider.token("reader", 0);
    let shown = me(&node, &reader).await.expect(200);
    assert_eq!(
        shown,
        json!({"kind": "external", "id": "id-of-reader", "name": "reader", "tenantId": "", "issuer": provider.url(),
               "permissions": ["read:*"]})
    );
    let list = "workflow-definitions";
    sent(&node, Method::GET, list, &reader).await.expect(200);
    assert_eq!(sent(&node, Method::POST, list, &reader).await.status, 403);
    assert_eq!(
        sent(&node, Method::GET, list, &provider.token("stranger", 0))
            .await
            .status,
        403
    );

    for (what, token) in [
        ("expired", provider.token("admin", 400)),
        ("of the future", provider.token("admin", -400)),
        (
            "for another program",
            provider.token_with("admin", &json!({"aud": "other"})),
        ),
        (
            "of another issuer",
            provider.token_with("admin", &json!({"iss": "https://other.example"})),
        ),
        ("an identity token", provider.token_with("admin", &json!({"typ": "ID"}))),
        (
            "with roles of a wrong type",
            provider.token_with("admin", &json!({"realm_access": {"roles": 7}})),
        ),
        (
            "a part",
            provider.token("admin", 0).split('.').next().unwrap().to_owned(),
        ),
    ] {
        assert_eq!(me(&node, &token).await.status, 401, "{what}");
    }

    // Another key: its tokens are good at once, those of the one before no more.
    provider.rotate();
    poll_until(TIMEOUT, "the new key", async || {
        (me(&node, &provider.token("reader", 0)).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(me(&node, &reader).await.status, 401);
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_away_at_the_start_is_named_and_heals() {
    let provider = OpenIdProvider::start().await;
    provider.set_away(true);
    let file = provider.file();
    let node = SingleNode::with_key(&["--openid-file", file.path()]).await;
    poll_until(TIMEOUT, "the issuer to be away", async || {
        let ready = node.http.get("/health/ready").await.expect(200);
        let cause = ready["causes"]["openid"].as_str().unwrap_or_default().to_owned();
        (ready["away"] == json!(["openid"]) && cause.contains("company: ") && cause.contains("503")).then_some(())
    })
    .await;
    me(&node, &provider.token("admin", 0))
        .await
        .assert_refused(503, "issuer-away");
    let ways = node.http.get("identity/sign-in").await.expect(200);
    assert_eq!(
        ways["issuers"],
        json!([{"name": "company", "displayName": "Company account", "isAway": true}])
    );
    let start = json!({"redirectUri": "http://a.example/studio/signed-in"});
    let begun = node.http.post("identity/external/company/start", &start).await;
    begun.assert_refused(503, "issuer-away");
    // The key is good meanwhile.
    node.http.get("identity/me").await.expect(200);

    provider.set_away(false);
    poll_until(TIMEOUT, "the issuer to be there", async || {
        (me(&node, &provider.token("admin", 0)).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(node.http.get("/health/ready").await.expect(200)["away"], json!([]));
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_sign_in_needs_no_credential_and_is_checked() {
    let provider = OpenIdProvider::start().await;
    let file = provider.file();
    let node = SingleNode::with_key(&["--openid-file", file.path()]).await;
    poll_until(TIMEOUT, "the issuer", async || {
        (me(&node, &provider.token("admin", 0)).await.status == 200).then_some(())
    })
    .await;
    let stranger = Http::new(&format!("http://{}", node.address));
    assert_eq!(stranger.get("identity/sign-in").await.expect(200)["isRequired"], true);
    assert_eq!(stranger.get("identity/me").await.status, 401);
    let start = "identity/external/company/start";
    let begun = stranger
        .post(start, &json!({"redirectUri": "http://a.example/studio/signed-in"}))
        .await
        .expect(200);
    assert!(
        begun["url"]
            .as_str()
            .unwrap()
            .starts_with(&format!("{}/authorize?", provider.url()))
    );
    for (path, body, status, code) in [
        (start, json!({}), 400, "invalid-field"),
        (
            start,
            json!({"redirectUri": "https://evil.example/"}),
            400,
            "invalid-field",
        ),
        ("identity/external/other/start", json!({}), 404, "issuer-not-found"),
        (
            "identity/external/company/token",
            json!({"code": "c", "nonce": "n", "verifier": "v", "redirectUri": "http://a.example/studio/signed-in"}),
            401,
            "sign-in-refused",
        ),
        (
            "identity/external/company/refresh",
            json!({"refreshToken": "r"}),
            401,
            "sign-in-refused",
        ),
        (
            "identity/external/company/refresh",
            json!({"refreshToken": 7}),
            400,
            "invalid-field",
        ),
    ] {
        stranger.post(path, &body).await.assert_refused(status, code);
    }
}

#[test]
fn a_file_that_cannot_be_used_ends_the_start_and_quotes_no_secret() {
    let issuer = json!({"name": "a", "issuer": "http://sso.example", "audiences": ["m"],
                        "signIn": {"clientId": "c", "clientSecret": "s3cret"}});
    let file = IssuerFile::write(&json!({"issuers": [issuer]}));
    let variables = [("MAINSPRING_OPENID_FILE", file.path())];
    let mut child = Child::start(&["serve", "--database-url", "postgres://nowhere.invalid/x"], &variables);
    assert_eq!(child.wait(LONG_TIMEOUT).code(), Some(2));
    let said = child.stderr().join("\n");
    assert!(said.contains("https://") && !said.contains("s3cret"), "{said}");
}
