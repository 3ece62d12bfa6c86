//! Tokens that only nodes of a cluster can make: `v1.PAYLOAD.SIGNATURE`, signed with HMAC-SHA256 and not encrypted (the ids
//! inside are not secret).
//!
//! Each token is of one kind, a [`Permission`]. Nothing is stored per token, and expiry is by the database's clock. Every
//! node of a cluster accepts the tokens of every other node.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::Engine;
use crate::refusals::Refusals;
use crate::store::token;
use crate::{Error, Result};

/// The prefix of a token: its format.
const VERSION: &str = "v1";

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
    payload: &'a str,
    signature: Vec<u8>,
}

impl<'a> Unverified<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let (payload, signature) = text.strip_prefix(VERSION)?.strip_prefix('.')?.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        (signature.len() == 32 && !payload.is_empty()).then_some(Self { payload, signature })
    }
}

impl<P: Permission> SignedToken<P> {
    /// The token as a text.
    pub(super) fn write(&self, key: &[u8]) -> Result<String> {
        let json = serde_json::to_vec(self).map_err(|error| Error::internal("a token is not JSON").caused_by(error))?;
        let payload = URL_SAFE_NO_PAD.encode(json);
        let signature = URL_SAFE_NO_PAD.encode(Self::mac(key, &payload)?.finalize().into_bytes());
        let text = format!("{VERSION}.{payload}.{signature}");
        if text.len() > LONGEST {
            return Err(Error::internal("a token is too long to be read again"));
        }
        Ok(text)
    }

    /// The content, if its signature is genuine.
    fn read(key: &[u8], text: Unverified<'_>) -> Result<Self> {
        // In constant time.
        if Self::mac(key, text.payload)?.verify_slice(&text.signature).is_err() {
            return Err(Self::invalid());
        }
        let json = URL_SAFE_NO_PAD.decode(text.payload).ok();
        json.and_then(|json| serde_json::from_slice(&json).ok())
            .ok_or_else(Self::invalid)
    }

    fn mac(key: &[u8], payload: &str) -> Result<Hmac<Sha256>> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(key).map_err(|_| Error::internal("a key of this length signs nothing"))?;
        for part in ["mainspring ", P::PURPOSE, "\n", VERSION, ".", payload] {
            mac.update(part.as_bytes());
        }
        Ok(mac)
    }

    fn has_expired(&self, now: DateTime<Utc>) -> bool {
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

/// The tokens that were refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedTokens(Refusals);

impl RefusedTokens {
    fn note(&self, error: &Error) {
        metrics::counter!("mainspring_tokens_refused_total").increment(1);
        if let Some(refused) = self.0.count() {
            tracing::info!(code = error.code(), refused, "requests by token were refused");
        }
    }
}

impl Engine {
    /// The content of a token that this cluster has signed for this tenant; it may have expired. Neither a forged token nor
    /// one of another kind costs a statement.
    pub(super) async fn read_token<P: Permission>(&self, text: &str) -> Result<SignedToken<P>> {
        let text = Unverified::parse(text).ok_or_else(SignedToken::<P>::invalid)?;
        let token = SignedToken::<P>::read(self.token_key().await?, text)?;
        if token.tenant != self.inner.tenant.as_str() {
            return Err(SignedToken::<P>::invalid());
        }
        Ok(token)
    }

    /// What a valid token permits. One that this cluster has not signed, or that has expired: [`Error::is_invalid`], codes
    /// `invalid-token` and `token-expired`; they are counted.
    pub(super) async fn permission<P: Permission>(&self, text: &str) -> Result<P> {
        let verify = async {
            let token = self.read_token::<P>(text).await?;
            if token.expires.is_some() && token.has_expired(token::clock(&self.node()?.database.pool).await?) {
                return Err(SignedToken::<P>::expired());
            }
            Ok(token.permission)
        };
        let verified = verify.await;
        if let Err(refused) = &verified
            && refused.is_invalid()
        {
            self.inner.refused_tokens.note(refused);
        }
        verified
    }

    /// The signing key, read from the database once, unless the program has set a secret.
    pub(super) async fn token_key(&self) -> Result<&[u8]> {
        if let Some(secret) = &self.inner.settings.token_secret {
            return Ok(&secret.0);
        }
        let read = async || token::key(&self.node()?.database.pool).await;
        Ok(self.inner.token_key.get_or_try_init(read).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::InstanceId;

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

    fn code(key: &[u8], text: &str, now: i64) -> String {
        let now = DateTime::from_timestamp_millis(now).unwrap();
        let text = Unverified::parse(text).ok_or_else(SignedToken::<ReadState>::invalid);
        match text.and_then(|text| SignedToken::<ReadState>::read(key, text)) {
            Ok(token) if token.has_expired(now) => SignedToken::<ReadState>::expired().code().to_owned(),
            Ok(token) => token.permission.instance.into(),
            Err(error) => error.code().to_owned(),
        }
    }

    #[test]
    fn only_a_whole_token_of_the_right_key_is_valid_until_it_expires() {
        let token = read_token(Some(1_000)).write(b"key").unwrap();
        assert!(
            token
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
            "{token}"
        );
        assert_eq!(code(b"key", &token, 999), "i/é");
        assert_eq!(code(b"key", &token, 1_000), "token-expired");
        assert_eq!(code(b"other", &token, 0), "invalid-token");
        let endless = read_token(None).write(b"key").unwrap();
        assert_eq!(code(b"key", &endless, i64::from(u32::MAX) * 1000), "i/é");
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(code(b"key", &forged, 0), "invalid-token", "{forged}");
            assert_eq!(code(b"key", &token[..at], 0), "invalid-token");
        }
        for bad in [
            "",
            "v1",
            "v1.",
            "v1..",
            "v2.a.b",
            &format!("{token}A"),
            &format!("{token}.x"),
            &"v1.a".repeat(1000),
        ] {
            assert_eq!(code(b"key", bad, 0), "invalid-token", "{bad}");
        }
    }

    #[test]
    fn a_token_of_one_kind_is_none_of_another() {
        let instance = InstanceId::new("i");
        let touch = token(Touch { instance }, None).write(b"key").unwrap();
        assert_eq!(code(b"key", &touch, 0), "invalid-token");
    }

    #[test]
    fn a_token_that_could_not_be_read_again_is_not_written() {
        let instance = InstanceId::new("i".repeat(LONGEST));
        assert!(token(ReadState { instance }, None).write(b"key").is_err());
    }
}
