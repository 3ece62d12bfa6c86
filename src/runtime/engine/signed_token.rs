//! Tokens that only nodes of a cluster can make: `v2.KEY.PAYLOAD.SIGNATURE`, signed with HMAC-SHA256 and not encrypted (the ids
//! inside are not secret). `KEY` is the number of the key.
//!
//! Each token is of one kind, a [`Permission`]. Nothing is stored per token, and expiry is by the database's clock. Every
//! node of a cluster accepts the tokens of every other node.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::Engine;
use crate::refusals::Refusals;
use crate::runtime::context::token_keys::SigningKey;
use crate::{Error, Result};

/// The prefix of a token: its format.
const VERSION: &str = "v2";

/// The longest text that is parsed. Ids have at most 255 bytes each.
const LONGEST: usize = 2_048;

/// What a token permits its holder.
pub(super) trait Permission: Serialize + DeserializeOwned {
    /// Is signed with the content: the same secret signs the tokens of all kinds.
    const PURPOSE: &'static str;
    /// The parameter of a request that has such a token.
    const PARAMETER: &'static str;
}

/// The content of a token.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SignedToken<P> {
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    pub(super) tenant: String,
    #[serde(flatten)]
    pub(super) permission: P,
    /// Milliseconds since 1970. `None` if it does not expire.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<i64>,
}

/// A text of the form of a token.
struct Unverified<'a> {
    key: i32,
    payload: &'a str,
    signature: Vec<u8>,
}

impl<'a> Unverified<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let (key, rest) = text.strip_prefix(VERSION)?.strip_prefix('.')?.split_once('.')?;
        let (payload, signature) = rest.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let is_whole = signature.len() == 32 && !payload.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
        let key = key.parse().ok().filter(|_| is_whole)?;
        Some(Self {
            key,
            payload,
            signature,
        })
    }
}

impl<P: Permission> SignedToken<P> {
    /// The token as a text.
    pub(super) fn write(&self, key: &SigningKey) -> Result<String> {
        let json = serde_json::to_vec(self).map_err(|error| Error::internal("a token is not JSON").caused_by(error))?;
        let payload = URL_SAFE_NO_PAD.encode(json);
        let signature = URL_SAFE_NO_PAD.encode(Self::mac(key, &payload)?.finalize().into_bytes());
        let text = format!("{VERSION}.{}.{payload}.{signature}", key.id);
        if text.len() > LONGEST {
            return Err(Error::internal("a token is too long to be read again"));
        }
        Ok(text)
    }

    /// The content, if its signature is genuine.
    fn read(key: &SigningKey, text: Unverified<'_>) -> Result<Self> {
        // In constant time.
        if key.id != text.key || Self::mac(key, text.payload)?.verify_slice(&text.signature).is_err() {
            return Err(Self::invalid());
        }
        let json = URL_SAFE_NO_PAD.decode(text.payload).ok();
        json.and_then(|json| serde_json::from_slice(&json).ok())
            .ok_or_else(Self::invalid)
    }

    fn mac(key: &SigningKey, payload: &str) -> Result<Hmac<Sha256>> {
        let number = key.id.to_string();
        let parts = ["mainspring ", P::PURPOSE, "\n", VERSION, ".", &number, ".", payload];
        key.mac(&parts.map(str::as_bytes))
    }

    #[cfg(test)]
    fn has_expired(&self, now: chrono::DateTime<chrono::Utc>) -> bool {
        self.expires.is_some_and(|expires| expires <= now.timestamp_millis())
    }

    pub(super) fn invalid() -> Error {
        Error::invalid("invalid-token", "this is not a token of this engine")
            .field(P::PARAMETER, "is not a token of this engine")
    }

    pub(super) fn expired() -> Error {
        Error::invalid("token-expired", "this token has expired").field(P::PARAMETER, "has expired")
    }
}

/// The links and tokens that were refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedTokens(Refusals);

impl RefusedTokens {
    pub(super) fn note(&self, error: &Error) {
        metrics::counter!("mainspring_tokens_refused_total").increment(1);
        if let Some(refused) = self.0.count() {
            tracing::info!(code = error.code(), refused, "requests by link or token were refused");
        }
    }
}

impl Engine {
    /// The content of a token that this cluster has signed, for whichever tenant; it may have expired. Neither a forged token nor
    /// one of another kind costs a statement.
    pub(super) async fn read_token<P: Permission>(&self, text: &str) -> Result<SignedToken<P>> {
        let text = Unverified::parse(text).ok_or_else(SignedToken::<P>::invalid)?;
        let key = self.known_key(text.key).await?.ok_or_else(SignedToken::<P>::invalid)?;
        SignedToken::<P>::read(&key, text)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::id::InstanceId;
    use crate::runtime::context::settings::TokenSecret;
    use crate::runtime::context::token_keys::TokenKeys;

    fn key(secret: &str) -> SigningKey {
        TokenKeys::key_for_tests(3, Some(TokenSecret::new(secret)))
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct ReadState {
        #[serde(rename = "i")]
        instance: InstanceId,
    }

    impl Permission for ReadState {
        const PURPOSE: &'static str = "read token";
        const PARAMETER: &'static str = "t";
    }

    /// What another kind of token permits.
    #[derive(Debug, Serialize, Deserialize)]
    struct Touch {
        #[serde(rename = "i")]
        instance: InstanceId,
    }

    impl Permission for Touch {
        const PURPOSE: &'static str = "touch token";
        const PARAMETER: &'static str = "t";
    }

    fn token<P>(permission: P, expires: Option<i64>) -> SignedToken<P> {
        SignedToken {
            tenant: String::new(),
            permission,
            expires,
        }
    }

    fn read_token(expires: Option<i64>) -> SignedToken<ReadState> {
        let instance = InstanceId::new("i/é");
        token(ReadState { instance }, expires)
    }

    fn code(secret: &str, text: &str, now: i64) -> String {
        let now = DateTime::from_timestamp_millis(now).unwrap();
        let text = Unverified::parse(text).ok_or_else(SignedToken::<ReadState>::invalid);
        match text.and_then(|text| SignedToken::<ReadState>::read(&key(secret), text)) {
            Ok(token) if token.has_expired(now) => SignedToken::<ReadState>::expired().code().to_owned(),
            Ok(token) => token.permission.instance.into(),
            Err(error) => error.code().to_owned(),
        }
    }

    #[test]
    fn only_a_whole_token_of_the_right_key_is_valid_until_it_expires() {
        let token = read_token(Some(1_000)).write(&key("key")).unwrap();
        assert!(
            token
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
            "{token}"
        );
        assert_eq!(code("key", &token, 999), "i/é");
        assert_eq!(code("key", &token, 1_000), "token-expired");
        assert_eq!(code("other", &token, 0), "invalid-token");
        let endless = read_token(None).write(&key("key")).unwrap();
        assert_eq!(code("key", &endless, i64::from(u32::MAX) * 1000), "i/é");
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(code("key", &forged, 0), "invalid-token", "{forged}");
            assert_eq!(code("key", &token[..at], 0), "invalid-token");
        }
        for bad in [
            "",
            "v2",
            "v2.",
            "v2..",
            "v1.3.a.b",
            "v2.a.b",
            "v2.+3.a.b",
            &format!("{token}A"),
            &format!("{token}.x"),
            &"v2.a".repeat(1000),
        ] {
            assert_eq!(code("key", bad, 0), "invalid-token", "{bad}");
        }
    }

    #[test]
    fn a_token_of_one_kind_is_none_of_another() {
        let instance = InstanceId::new("i");
        let touch = token(Touch { instance }, None).write(&key("key")).unwrap();
        assert_eq!(code("key", &touch, 0), "invalid-token");
    }

    #[test]
    fn a_token_that_could_not_be_read_again_is_not_written() {
        let instance = InstanceId::new("i".repeat(LONGEST));
        assert!(token(ReadState { instance }, None).write(&key("key")).is_err());
    }
}
