//! Which tokens are taken, and what their claims come to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fake_issuer::{AUDIENCE, FakeIssuer, NOW};
use super::signer::{Signer, encoded};
use crate::openid::{ClaimGrant, TokenProblem, issuer_of};

/// Good claims with others in their place; null takes one away.
fn changed(issuer: &FakeIssuer, more: &Value) -> Value {
    let mut claims = issuer.claims();
    for (name, value) in more.as_object().unwrap() {
        match value {
            Value::Null => {
                claims.as_object_mut().unwrap().remove(name);
            }
            value => claims[name] = value.clone(),
        }
    }
    claims
}

#[tokio::test]
async fn tokens_of_each_algorithm_of_a_public_key_are_taken() {
    let keys = [
        Signer::rsa("r"),
        Signer::p256("e"),
        Signer::p384("f"),
        Signer::ed25519("d"),
    ];
    let fake = FakeIssuer::with_keys(&keys.each_ref()).await;
    let known = fake.known(fake.options());
    let [rsa, p256, p384, ed25519] = &keys;
    for (key, algorithms) in [
        (rsa, &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..]),
        (p256, &["ES256"]),
        (p384, &["ES384"]),
        (ed25519, &["EdDSA", "Ed25519"]),
    ] {
        for algorithm in algorithms {
            let header = json!({"alg": algorithm, "kid": key.id, "typ": "at+jwt"});
            let token = key.signed(&header, &fake.claims());
            let user = known.issuer.user_of(&token).await.unwrap();
            assert_eq!((user.id.as_str(), user.name.as_str()), ("u1", "u1"), "{algorithm}");
        }
    }
}

#[tokio::test]
async fn forged_and_foreign_tokens_are_refused() {
    let (rsa, other, curve) = (Signer::rsa("r"), Signer::rsa("r"), Signer::p256("e"));
    let fake = FakeIssuer::with_keys(&[&rsa, &curve]).await;
    let known = fake.known(fake.options());
    let claims = fake.claims();
    let good = rsa.token(&claims);
    assert!(known.issuer.user_of(&good).await.is_ok());

    let header = |more: Value| {
        let mut header = json!({"alg": "RS256", "kid": "r", "typ": "JWT"});
        header
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        header
    };
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (head, payload) = message.split_once('.').unwrap();
    let greater = encoded(changed(&fake, &json!({"sub": "admin"})).to_string());
    let none = encoded(json!({"alg": "none"}).to_string());
    // A secret of HMAC that everybody knows: the public key.
    let confused = encoded(header(json!({"alg": "HS256"})).to_string());
    let malformed = |problem: TokenProblem| matches!(problem, TokenProblem::Malformed(_));
    let forged = |problem: TokenProblem| problem == TokenProblem::WrongSignature;
    let unknown = |problem: TokenProblem| problem == TokenProblem::UnknownKey;
    let of_use = |problem: TokenProblem| matches!(problem, TokenProblem::WrongUse(_));
    type Expected = fn(TokenProblem) -> bool;
    let cases: Vec<(&str, String, Expected)> = vec![
        ("other claims", format!("{head}.{greater}.{signature}"), forged),
        ("another key of that name", other.token(&claims), forged),
        ("no signature", format!("{message}."), forged),
        ("algorithm none", format!("{none}.{payload}."), malformed),
        (
            "a shared secret",
            format!("{confused}.{payload}.{signature}"),
            malformed,
        ),
        (
            "the algorithm of another key",
            rsa.signed(&header(json!({"alg": "ES256"})), &claims),
            unknown,
        ),
        (
            "an unknown key",
            rsa.signed(&header(json!({"kid": "x"})), &claims),
            unknown,
        ),
        (
            "an extension",
            rsa.signed(&header(json!({"crit": ["x"]})), &claims),
            malformed,
        ),
        (
            "a logout token",
            rsa.signed(&header(json!({"typ": "logout+jwt"})), &claims),
            of_use,
        ),
        (
            "a key of a wrong type",
            rsa.signed(&header(json!({"kid": 1})), &claims),
            malformed,
        ),
        ("five parts", format!("{good}.x.y"), malformed),
        (
            "a megabyte",
            format!("{head}.{}.{signature}", "A".repeat(1 << 20)),
            malformed,
        ),
        ("nothing", String::new(), malformed),
        ("dots", "..".to_owned(), malformed),
    ];
    for (what, token, expected) in cases {
        let problem = known.issuer.user_of(&token).await.expect_err(what);
        assert!(expected(problem.clone()), "{what}: {problem:?}");
    }
}

#[tokio::test]
async fn a_token_without_the_name_of_its_key_tries_none_out() {
    let (first, second, curve) = (Signer::rsa("a"), Signer::rsa("b"), Signer::p256("e"));
    let fake = FakeIssuer::with_keys(&[&first, &second, &curve]).await;
    let known = fake.known(fake.options());
    let unnamed = curve.signed(&json!({"alg": "ES256"}), &fake.claims());
    assert!(known.issuer.user_of(&unnamed).await.is_ok());
    let unnamed = first.signed(&json!({"alg": "RS256"}), &fake.claims());
    let problem = known.issuer.user_of(&unnamed).await.unwrap_err();
    assert!(problem.to_string().contains("several keys"), "{problem}");
}

#[tokio::test]
async fn claims_decide_when_for_whom_and_of_which_form_a_token_is_good() {
    let key = Signer::ed25519("d");
    let fake = FakeIssuer::with_keys(&[&key]).await;
    let known = fake.known(fake.options());
    for good in [
        json!({"exp": NOW - 59}),
        json!({"nbf": NOW + 60, "iat": NOW + 60}),
        json!({"exp": 1_800_000_300.5}),
        json!({"aud": ["other", AUDIENCE]}),
        json!({"typ": "Bearer"}),
    ] {
        let token = key.token(&changed(&fake, &good));
        assert!(known.issuer.user_of(&token).await.is_ok(), "{good}");
    }
    for (bad, part) in [
        (json!({"exp": NOW - 60}), "has expired"),
        (json!({"exp": null}), "`exp` is missing"),
        (json!({"exp": "1900000000"}), "`exp` is no time"),
        (json!({"exp": 1e300}), "`exp` is no time"),
        (json!({"nbf": NOW + 61}), "not valid yet"),
        (json!({"iat": NOW + 61}), "not valid yet"),
        (json!({"aud": "other"}), "audiences"),
        (json!({"aud": null}), "audiences"),
        (json!({"aud": 7}), "`aud` is neither"),
        (json!({"aud": [AUDIENCE, 7]}), "`aud` is neither"),
        (json!({"iss": "https://other.example"}), "another issuer"),
        (json!({"sub": null}), "`sub` is missing"),
        (json!({"sub": 7}), "`sub` is no text"),
        (json!({"sub": "a\nb"}), "control characters"),
        (json!({"typ": "ID"}), "no access token"),
        (json!({"typ": "Refresh"}), "no access token"),
        (json!({"at_hash": "x"}), "no access token"),
        (json!({"name": {"first": "Ada"}}), "`name` is no text"),
    ] {
        let token = key.token(&changed(&fake, &bad));
        let problem = known.issuer.user_of(&token).await.expect_err(&bad.to_string());
        assert!(problem.to_string().contains(part), "{bad}: {problem}");
    }
    assert_eq!(
        issuer_of(&key.token(&fake.claims())).as_deref(),
        Some(fake.url.as_str())
    );
    assert_eq!(issuer_of("mainspring.key"), None);
}

#[tokio::test]
async fn claims_become_permissions_by_the_settings() {
    let key = Signer::ed25519("d");
    let fake = FakeIssuer::with_keys(&[&key]).await;
    let path = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let table = BTreeMap::from([
        ("admin".to_owned(), path(&["*"])),
        (
            "Flow Authors".to_owned(),
            path(&["read:*", "write:workflow-definitions"]),
        ),
    ]);
    let mut options = fake.options();
    options.everyone = path(&["read:installed-features"]);
    options.grants = vec![
        ClaimGrant::new(path(&["realm_access", "roles"]), Some(table.clone())),
        ClaimGrant::new(path(&["https://a.example/permissions"]), None),
        ClaimGrant::new(path(&["scope"]), Some(table)),
    ];
    options.tenant_claim = Some(path(&["org", "id"]));
    let known = fake.known(options);
    let permissions = async |more: Value| {
        let claims = changed(&fake, &more);
        let user = known.issuer.user_of(&key.token(&claims)).await;
        user.map(|user| {
            (
                user.permissions,
                user.name,
                user.tenant.as_str().to_owned(),
                user.session,
            )
        })
        .map_err(|problem| problem.to_string())
    };
    let org = json!({"id": "north"});
    let (all, name, tenant, session) = permissions(json!({
        "org": org, "name": "Ada", "sid": "s", "realm_access": {"roles": ["Flow Authors", "unknown", "Flow Authors"]},
        "https://a.example/permissions": "exec:tests",
    }))
    .await
    .unwrap();
    assert_eq!(
        all,
        [
            "read:installed-features",
            "read:*",
            "write:workflow-definitions",
            "exec:tests"
        ]
    );
    assert_eq!(
        (name.as_str(), tenant.as_str(), session.as_deref()),
        ("Ada", "north", Some("s"))
    );
    // Words of a role are no roles; those of a scope are scopes.
    let words = json!({"org": org, "realm_access": {"roles": "admin staff"}});
    assert_eq!(permissions(words).await.unwrap().0, ["read:installed-features"]);
    let scope = json!({"org": org, "scope": "openid admin", "preferred_username": "ada"});
    let (all, name, ..) = permissions(scope).await.unwrap();
    assert_eq!((all.last().map(String::as_str), name.as_str()), (Some("*"), "ada"));
    for (more, part) in [
        (
            json!({"org": org, "realm_access": {"roles": 7}}),
            "`realm_access.roles` is neither",
        ),
        (
            json!({"org": org, "realm_access": {"roles": ["admin", 7]}}),
            "`realm_access.roles` is a list",
        ),
        (json!({"org": {"id": 7}}), "`org.id` is no text"),
        (json!({}), "`org.id` is missing"),
        (json!({"org": {"id": ""}}), "`org.id` is empty"),
        (json!({"org": {"id": " "}}), "`org.id` is empty"),
        (
            json!({"org": {"id": "north "}}),
            "`org.id` is empty, or has white space around it",
        ),
    ] {
        assert!(permissions(more.clone()).await.unwrap_err().contains(part), "{more}");
    }
}
