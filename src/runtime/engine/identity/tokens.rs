//! The tokens of users: JWT (RFC 7519), signed by HS256 with the keys that sign links.
//!
//! The header is one text for each key: any other one, whatever algorithm or key it names, is not of this cluster, and nothing of it
//! is interpreted. The key of a token is derived from the key of links, so neither is good in the other's place. Expiry is by the
//! database's clock.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use uuid::Uuid;

use crate::runtime::context::settings::TokenLifetimes;
use crate::runtime::context::token_keys::SigningKey;
use crate::store::identity::session::IssuedTokens;
use crate::{Error, Result};

/// Elsa's issuer and audience.
const ISSUER: &str = "http://elsa.api";

/// The longest token that is looked at. The head of a request may have 64 KiB, in which there is more.
const LONGEST: usize = 16 * 1024;

/// The most bytes of permissions in a token: proxies take heads of some KiB. The server reads them from its own rows.
const MOST_PERMISSIONS: usize = 3 * 1024;

/// What is before and behind the number of the key in a header.
const HEADER: (&str, &str) = (r#"{"alg":"HS256","kid":"mainspring-"#, r#"","typ":"JWT"}"#);

/// Tokens of the future are refused, but for what the clock of this node may be behind that of the database.
const LEEWAY: i64 = 60;

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TokenUse {
    /// Requests.
    Access,
    /// Other tokens, once.
    Refresh,
}

/// What a token says, with the names that Elsa gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    iss: String,
    aud: String,
    pub(super) sub: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permissions: Option<Vec<String>>,
    #[serde(
        rename = "http://schemas.microsoft.com/ws/2008/06/identity/claims/role",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    roles: Vec<String>,
    #[serde(rename = "http://schemas.microsoft.com/identity/claims/tenantid")]
    tenant: String,
    pub(super) token_use: TokenUse,
    /// The session.
    pub(super) sid: Uuid,
    /// The refresh token: of both of a pair.
    pub(super) jti: Uuid,
    iat: i64,
    exp: i64,
}

/// Why a token is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRefusal {
    /// It is not a token of this cluster; another issuer may know it.
    Foreign,
    /// It was forged, changed, signed with a key that was ended, or its session has ended.
    Wrong,
    /// Its time is over.
    Expired,
    /// It is the other one of its pair.
    WrongUse,
    /// It was used before.
    Reused,
}

fn header(key: i32) -> String {
    format!("{}{key}{}", HEADER.0, HEADER.1)
}

/// The code of a token. A key of its own is derived, so that what signs links is the key of nothing else.
fn code(key: &SigningKey, signed: &str) -> Result<Hmac<Sha256>> {
    let derived = key.mac(&[b"mainspring tokens of users\n"])?.finalize().into_bytes();
    let mut mac =
        Hmac::<Sha256>::new_from_slice(&derived).map_err(|_| Error::internal("a key of this length signs nothing"))?;
    mac.update(signed.as_bytes());
    Ok(mac)
}

impl Claims {
    /// The same for the same tokens and lifetimes.
    fn of(tokens: &IssuedTokens, token_use: TokenUse, lifetime: Duration) -> Self {
        let of = &tokens.of;
        let iat = tokens.issued_at.timestamp();
        let is_access = token_use == TokenUse::Access;
        let bytes = || of.permissions.iter().map(|name| name.len() + 3).sum::<usize>();
        Self {
            iss: ISSUER.to_owned(),
            aud: ISSUER.to_owned(),
            sub: of.user.clone(),
            name: of.name.clone(),
            permissions: (is_access && bytes() <= MOST_PERMISSIONS).then(|| of.permissions.clone()),
            roles: if is_access { of.roles.clone() } else { Vec::new() },
            tenant: of.tenant.as_str().to_owned(),
            token_use,
            sid: tokens.session,
            jti: tokens.refresh,
            iat,
            exp: iat.saturating_add(i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX)),
        }
    }

    fn write(&self, key: &SigningKey) -> Result<String> {
        let json = serde_json::to_vec(self).map_err(|error| Error::internal("a token is not JSON").caused_by(error))?;
        let (header, claims) = (URL_SAFE_NO_PAD.encode(header(key.id)), URL_SAFE_NO_PAD.encode(json));
        let signed = format!("{header}.{claims}");
        let code = URL_SAFE_NO_PAD.encode(code(key, &signed)?.finalize().into_bytes());
        Ok(format!("{signed}.{code}"))
    }
}

/// The access token and the refresh token.
pub(super) fn write_pair(
    key: &SigningKey,
    tokens: &IssuedTokens,
    lifetimes: TokenLifetimes,
) -> Result<(String, String)> {
    let access = Claims::of(tokens, TokenUse::Access, lifetimes.access).write(key)?;
    let refresh = Claims::of(tokens, TokenUse::Refresh, lifetimes.refresh).write(key)?;
    Ok((access, refresh))
}

/// A text of the form of a token of this cluster.
pub(super) struct UnverifiedToken<'a> {
    /// The number of the key that signed it, as it says.
    pub(super) key: i32,
    signed: &'a str,
    claims: &'a str,
    code: &'a str,
}

impl<'a> UnverifiedToken<'a> {
    /// `None`: it is none.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let (signed, code) = text.rsplit_once('.')?;
        let (start, claims) = signed.split_once('.')?;
        let decoded = URL_SAFE_NO_PAD.decode(start).ok()?;
        let number = std::str::from_utf8(&decoded)
            .ok()?
            .strip_prefix(HEADER.0)?
            .strip_suffix(HEADER.1)?;
        let key = number.parse().ok()?;
        // So "+3" and "03" are none.
        (header(key).as_bytes() == decoded).then_some(Self {
            key,
            signed,
            claims,
            code,
        })
    }

    /// What it says, if this key has signed it and it is good at this time.
    pub(super) fn read(
        &self,
        key: &SigningKey,
        token_use: TokenUse,
        now: DateTime<Utc>,
    ) -> Result<Result<Claims, TokenRefusal>> {
        let given = URL_SAFE_NO_PAD.decode(self.code).unwrap_or_default();
        // In constant time.
        if key.id != self.key || code(key, self.signed)?.verify_slice(&given).is_err() {
            return Ok(Err(TokenRefusal::Wrong));
        }
        let json = URL_SAFE_NO_PAD.decode(self.claims).ok();
        let claims = json.and_then(|json| serde_json::from_slice::<Claims>(&json).ok());
        Ok(match claims {
            None => Err(TokenRefusal::Wrong),
            Some(claims) => claims.check(token_use, now.timestamp()),
        })
    }
}

impl Claims {
    fn check(self, token_use: TokenUse, now: i64) -> Result<Self, TokenRefusal> {
        if self.iss != ISSUER || self.aud != ISSUER || self.iat > now.saturating_add(LEEWAY) {
            Err(TokenRefusal::Wrong)
        } else if self.token_use != token_use {
            Err(TokenRefusal::WrongUse)
        } else if self.exp <= now {
            Err(TokenRefusal::Expired)
        } else {
            Ok(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::id::TenantId;
    use crate::runtime::context::token_keys::TokenKeys;
    use crate::store::identity::session::SignedIn;

    const NOW: i64 = 1_800_000_000;

    fn key(id: i32) -> SigningKey {
        TokenKeys::key_for_tests(id, None)
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn issued() -> IssuedTokens {
        IssuedTokens {
            of: SignedIn {
                user: "u1".to_owned(),
                tenant: TenantId::default(),
                name: "Ann".to_owned(),
                roles: vec!["author".to_owned()],
                permissions: vec!["read:*".to_owned()],
            },
            session: Uuid::from_u128(1),
            refresh: Uuid::from_u128(2),
            issued_at: at(NOW),
            signed_by: 3,
        }
    }

    fn pair() -> (String, String) {
        write_pair(&key(3), &issued(), TokenLifetimes::default()).unwrap()
    }

    /// What a node says that knows the key 3.
    fn judged(text: &str, token_use: TokenUse, now: i64) -> Result<String, TokenRefusal> {
        let Some(token) = UnverifiedToken::parse(text) else {
            return Err(TokenRefusal::Foreign);
        };
        if token.key != 3 {
            return Err(TokenRefusal::Wrong);
        }
        token
            .read(&key(3), token_use, at(now))
            .unwrap()
            .map(|claims| claims.sub)
    }

    /// A token with this header and these claims, signed with the key 3 as this cluster does.
    fn signed(header: &Value, claims: &Value) -> String {
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", text(header), text(claims));
        let code = code(&key(3), &signed).unwrap().finalize().into_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(code))
    }

    fn claims_of(token: &str) -> Value {
        let claims = token.split('.').nth(1).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
    }

    fn header_of(token: &str) -> Value {
        let header = token.split('.').next().unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap()
    }

    #[test]
    fn a_pair_has_the_claims_of_elsa_and_is_the_same_again() {
        let (access, refresh) = pair();
        assert_eq!(pair(), (access.clone(), refresh.clone()));
        assert_eq!(
            header_of(&access),
            json!({"alg": "HS256", "kid": "mainspring-3", "typ": "JWT"})
        );
        let expected = json!({
            "iss": "http://elsa.api", "aud": "http://elsa.api", "sub": "u1", "name": "Ann", "permissions": ["read:*"],
            "http://schemas.microsoft.com/ws/2008/06/identity/claims/role": ["author"],
            "http://schemas.microsoft.com/identity/claims/tenantid": "", "token_use": "access",
            "sid": Uuid::from_u128(1), "jti": Uuid::from_u128(2), "iat": NOW, "exp": NOW + 3600,
        });
        assert_eq!(claims_of(&access), expected);
        let claims = claims_of(&refresh);
        assert_eq!(
            (claims["token_use"].as_str(), claims["exp"].as_i64()),
            (Some("refresh"), Some(NOW + 7200))
        );
        assert!(claims.get("permissions").is_none());
    }

    #[test]
    fn a_token_is_good_for_its_use_until_it_expires() {
        let (access, refresh) = pair();
        assert_eq!(judged(&access, TokenUse::Access, NOW + 3599).unwrap(), "u1");
        assert_eq!(
            judged(&access, TokenUse::Access, NOW + 3600),
            Err(TokenRefusal::Expired)
        );
        assert_eq!(judged(&access, TokenUse::Refresh, NOW), Err(TokenRefusal::WrongUse));
        assert_eq!(judged(&refresh, TokenUse::Access, NOW), Err(TokenRefusal::WrongUse));
        assert_eq!(judged(&refresh, TokenUse::Refresh, NOW + 7199).unwrap(), "u1");
        assert_eq!(
            judged(&refresh, TokenUse::Refresh, NOW + 7200),
            Err(TokenRefusal::Expired)
        );
        // Of the future, but for what a node may be behind.
        assert_eq!(judged(&access, TokenUse::Access, NOW - 60).unwrap(), "u1");
        assert_eq!(judged(&access, TokenUse::Access, NOW - 61), Err(TokenRefusal::Wrong));
    }

    #[test]
    fn no_header_but_that_of_the_cluster_is_taken() {
        let (access, _) = pair();
        let claims = claims_of(&access);
        let own = json!({"alg": "HS256", "kid": "mainspring-3", "typ": "JWT"});
        assert_eq!(judged(&signed(&own, &claims), TokenUse::Access, NOW).unwrap(), "u1");
        for header in [
            json!({"alg": "none", "kid": "mainspring-3", "typ": "JWT"}),
            json!({"alg": "None", "typ": "JWT"}),
            json!({"alg": "RS256", "kid": "mainspring-3", "typ": "JWT"}),
            json!({"alg": "HS384", "kid": "mainspring-3", "typ": "JWT"}),
            json!({"alg": "HS256", "typ": "JWT"}),
            json!({"alg": "HS256", "kid": "mainspring-03", "typ": "JWT"}),
            json!({"alg": "HS256", "kid": "mainspring-+3", "typ": "JWT"}),
            json!({"alg": "HS256", "kid": "mainspring-99999999999", "typ": "JWT"}),
            json!({"alg": "HS256", "kid": "mainspring-3", "typ": "JWT", "jku": "https://evil.example/keys"}),
            json!({"alg": "HS256", "kid": "mainspring-3", "jwk": {"kty": "oct", "k": "AA"}, "typ": "JWT"}),
            json!({"typ": "JWT", "alg": "HS256", "kid": "mainspring-3"}),
            json!([]),
        ] {
            let refused = judged(&signed(&header, &claims), TokenUse::Access, NOW);
            assert_eq!(refused, Err(TokenRefusal::Foreign), "{header}");
        }
        // Without a code, and with another key than it names.
        let (start, _) = access.rsplit_once('.').unwrap();
        assert_eq!(
            judged(&format!("{start}."), TokenUse::Access, NOW),
            Err(TokenRefusal::Wrong)
        );
        let other = write_pair(&key(4), &issued(), TokenLifetimes::default()).unwrap().0;
        assert_eq!(judged(&other, TokenUse::Access, NOW), Err(TokenRefusal::Wrong));
    }

    #[test]
    fn claims_of_a_wrong_type_or_place_are_refused() {
        let (access, _) = pair();
        let own = header_of(&access);
        for (claim, value) in [
            ("iss", json!("https://other.example")),
            ("aud", json!("https://other.example")),
            ("aud", json!(["http://elsa.api"])),
            ("sub", json!(7)),
            ("sub", Value::Null),
            ("permissions", json!("*")),
            ("token_use", json!("id")),
            ("token_use", Value::Null),
            ("sid", json!("x")),
            ("exp", json!("never")),
            ("exp", json!(1e300)),
            ("exp", Value::Null),
            ("iat", json!(NOW + 61)),
        ] {
            let mut claims = claims_of(&access);
            claims[claim] = value.clone();
            let refused = judged(&signed(&own, &claims), TokenUse::Access, NOW);
            assert_eq!(refused, Err(TokenRefusal::Wrong), "{claim} {value}");
        }
    }

    #[test]
    fn every_change_of_a_character_is_seen_and_a_long_text_is_not_looked_at() {
        let (access, _) = pair();
        for at in 0..access.len() {
            let mut forged = access.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert!(judged(&forged, TokenUse::Access, NOW).is_err(), "{at}");
            assert!(judged(&access[..at], TokenUse::Access, NOW).is_err(), "{at}");
        }
        for text in [
            "",
            ".",
            "..",
            "a.b.c",
            "ey.é.x",
            &format!("{access}.x"),
            &format!("{access}A"),
            &format!("{access}="),
        ] {
            assert!(judged(text, TokenUse::Access, NOW).is_err(), "{text}");
        }
        assert!(UnverifiedToken::parse(&"a".repeat(1 << 20)).is_none());
        assert!(UnverifiedToken::parse(&format!("{access}{}", "A".repeat(LONGEST))).is_none());
    }

    #[test]
    fn many_permissions_are_left_out_of_a_token() {
        let mut tokens = issued();
        tokens.of.permissions = (0..100)
            .map(|number| format!("approve:some-kind-of-invoice-{number}"))
            .collect();
        let (access, _) = write_pair(&key(3), &tokens, TokenLifetimes::default()).unwrap();
        assert!(claims_of(&access).get("permissions").is_none() && access.len() < 2_000);
        assert_eq!(judged(&access, TokenUse::Access, NOW).unwrap(), "u1");
    }
}
