//! Tokens that let somebody outside resume one bookmark, and nothing else: `v1.PAYLOAD.SIGNATURE`, signed with
//! HMAC-SHA256 and not encrypted (what is in it, the ids of the instance and the bookmark, is no secret).
//!
//! Nothing is stored per token: it is good for as long as its bookmark waits, so for one resume, and until it expires by
//! the database's clock, if it does at all. Every node of a cluster takes the tokens of every other one.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::Engine;
use super::request::{Executed, Idempotency, ResumeRequest};
use crate::id::{BookmarkId, InstanceId};
use crate::store::instance::Life;
use crate::store::token;
use crate::{Error, Result};

/// What a token begins with: how the rest is to be read.
const VERSION: &str = "v1";

/// The longest token that is looked at. Ids have at most 255 bytes each.
const LONGEST: usize = 2_048;

/// What the nodes of a cluster sign tokens with, in the place of the key that is in the database.
#[derive(Clone)]
pub(super) struct TokenSecret(Vec<u8>);

impl TokenSecret {
    pub(super) fn new(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// What a token says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Payload {
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    #[serde(rename = "i")]
    instance: InstanceId,
    /// Which of the instances that may have had this id.
    #[serde(rename = "l")]
    life: Life,
    #[serde(rename = "b")]
    bookmark: BookmarkId,
    /// Milliseconds since 1970.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
}

/// A resume by whoever has a token.
#[derive(Clone, Debug, Default)]
pub struct TokenResume {
    /// The token.
    pub token: String,
    /// Handed to the activity that waits.
    pub input: serde_json::Map<String, serde_json::Value>,
    /// Makes a client's retry safe.
    pub idempotency: Option<Idempotency>,
}

impl Engine {
    /// Makes a token with which anybody can resume an instance at one bookmark, once, within `lifetime` (for ever if
    /// absent). Without a bookmark the instance must wait at exactly one. Errors: as for [`Engine::resume`]. Cancellation
    /// safe.
    pub async fn resume_token(
        &self,
        instance: &InstanceId,
        bookmark: Option<BookmarkId>,
        lifetime: Option<Duration>,
    ) -> Result<String> {
        let (bookmark, life) = self.bookmark_of(instance, bookmark, None).await?;
        let expires = match lifetime {
            Some(lifetime) => {
                let lifetime = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
                let now = token::clock(&self.shift()?.pool).await?;
                Some(now.timestamp_millis().saturating_add(lifetime))
            }
            None => None,
        };
        let payload = Payload {
            tenant: self.inner.tenant.as_str().to_owned(),
            instance: instance.clone(),
            life,
            bookmark,
            expires,
        };
        write(self.token_key().await?, &payload)
    }

    /// Resumes what a token was made for; see [`Engine::resume`]. A token that nobody here has made, or that has
    /// expired: [`Error::is_invalid`], codes `invalid-token` and `token-expired`. Each attempt is logged, without the
    /// token. Cancellation safe: a resume that was accepted goes on.
    pub async fn resume_by_token(&self, request: TokenResume) -> Result<Executed> {
        let (request, life) = self.resume_of(request).await?;
        self.resume_of_life(request, Some(life)).await
    }

    /// The same without waiting for what becomes of it: returns once the resume is durable.
    pub async fn accept_resume_by_token(&self, request: TokenResume) -> Result<InstanceId> {
        let (request, life) = self.resume_of(request).await?;
        self.accept_resume_of_life(request, Some(life)).await
    }

    async fn resume_of(&self, request: TokenResume) -> Result<(ResumeRequest, Life)> {
        // Nobody costs a statement with what was not made here, nor with what does not expire.
        let parts = parts(&request.token).ok_or_else(invalid).inspect_err(refused)?;
        let payload = read(self.token_key().await?, parts).inspect_err(refused)?;
        if payload.tenant != self.inner.tenant.as_str() {
            return Err(invalid()).inspect_err(refused);
        }
        if payload.expires.is_some() {
            payload
                .good_at(token::clock(&self.shift()?.pool).await?)
                .inspect_err(refused)?;
        }
        tracing::info!(instance = %payload.instance, bookmark = %payload.bookmark, "a resume by token");
        let resume = ResumeRequest {
            instance_id: payload.instance,
            bookmark_id: Some(payload.bookmark),
            input: request.input,
            idempotency: request.idempotency,
        };
        Ok((resume, payload.life))
    }

    /// Read from the database once in the life of this engine, unless the nodes have a secret of their own.
    async fn token_key(&self) -> Result<&[u8]> {
        if let Some(secret) = &self.inner.options.token_secret {
            return Ok(&secret.0);
        }
        let read = async || token::key(&self.shift()?.pool).await;
        Ok(self.inner.token_key.get_or_try_init(read).await?)
    }
}

impl Payload {
    fn good_at(&self, now: DateTime<Utc>) -> Result<()> {
        if self.expires.is_some_and(|expires| expires <= now.timestamp_millis()) {
            return Err(Error::invalid("token-expired", "this token has expired").field("t", "has expired"));
        }
        Ok(())
    }
}

fn refused(error: &Error) {
    tracing::info!(code = error.code(), "a resume by token was refused");
}

fn invalid() -> Error {
    Error::invalid("invalid-token", "this is no token of this engine").field("t", "is no token of this engine")
}

fn mac(key: &[u8], payload: &str) -> Result<Hmac<Sha256>> {
    // For this alone, whatever else the same secret may be used for.
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key).map_err(|_| Error::internal("a key of this length signs nothing"))?;
    mac.update(b"mainspring resume token\n");
    mac.update(VERSION.as_bytes());
    mac.update(b".");
    mac.update(payload.as_bytes());
    Ok(mac)
}

fn write(key: &[u8], payload: &Payload) -> Result<String> {
    let json = serde_json::to_vec(payload).map_err(|error| Error::internal("a token is no JSON").caused_by(error))?;
    let payload = URL_SAFE_NO_PAD.encode(json);
    let signature = URL_SAFE_NO_PAD.encode(mac(key, &payload)?.finalize().into_bytes());
    Ok(format!("{VERSION}.{payload}.{signature}"))
}

/// Payload and signature.
fn parts(token: &str) -> Option<(&str, Vec<u8>)> {
    if token.len() > LONGEST {
        return None;
    }
    let (payload, signature) = token.strip_prefix(VERSION)?.strip_prefix('.')?.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    (signature.len() == 32 && !payload.is_empty()).then_some((payload, signature))
}

/// What a genuine token says.
fn read(key: &[u8], (payload, signature): (&str, Vec<u8>)) -> Result<Payload> {
    // Takes equally long wherever a wrong one differs.
    mac(key, payload)?.verify_slice(&signature).map_err(|_| invalid())?;
    let json = URL_SAFE_NO_PAD.decode(payload).map_err(|_| invalid())?;
    serde_json::from_slice(&json).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(expires: Option<i64>) -> Payload {
        Payload {
            tenant: String::new(),
            instance: InstanceId::new("i/é"),
            life: Life::begun(DateTime::default()),
            bookmark: BookmarkId::new("b"),
            expires,
        }
    }

    fn code(key: &[u8], token: &str, now: i64) -> String {
        let now = DateTime::from_timestamp_millis(now).unwrap();
        let read = parts(token).ok_or_else(invalid).and_then(|parts| read(key, parts));
        let read = read.and_then(|payload| payload.good_at(now).map(|()| payload));
        read.map_or_else(|error| error.code().to_owned(), |payload| payload.instance.into())
    }

    #[test]
    fn only_the_whole_token_of_the_right_key_is_good_and_only_in_its_time() {
        let token = write(b"key", &payload(Some(1_000))).unwrap();
        assert!(
            token
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
            "{token}"
        );
        assert_eq!(code(b"key", &token, 999), "i/é");
        assert_eq!(code(b"key", &token, 1_000), "token-expired");
        assert_eq!(code(b"other", &token, 0), "invalid-token");
        assert_eq!(
            code(
                b"key",
                &write(b"key", &payload(None)).unwrap(),
                i64::from(u32::MAX) * 1000
            ),
            "i/é"
        );
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
}
