//! Tokens with which an external client resumes one bookmark, and nothing else: `v1.PAYLOAD.SIGNATURE`, signed with
//! HMAC-SHA256 and not encrypted (the ids of the instance and the bookmark are no secret).
//!
//! Nothing is stored per token: it is valid as long as its bookmark waits, so for one resume, and until it expires by the
//! database's clock, if it does at all. Every node of a cluster accepts the tokens of every other one.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Engine;
use super::signed_text::{self, Purpose, parts};
use crate::id::{BookmarkId, InstanceId};
use crate::refusals::Refusals;
use crate::runtime::context::request::{Executed, Idempotency, ResumeRequest};
use crate::store::instance::Generation;
use crate::store::token;
use crate::{Error, Result};

const PURPOSE: Purpose = Purpose("resume token");

/// The content of a token.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Payload {
    #[serde(rename = "t", default, skip_serializing_if = "String::is_empty")]
    tenant: String,
    #[serde(rename = "i")]
    instance: InstanceId,
    /// The generation of the instance: an id can be used again after a delete.
    #[serde(rename = "l")]
    generation: Generation,
    #[serde(rename = "b")]
    bookmark: BookmarkId,
    /// Milliseconds since 1970.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
}

/// A valid token: its signature is genuine, and it had not expired when it was verified.
#[derive(Debug)]
pub struct VerifiedToken(Payload);

/// The tokens that were refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedTokens(Refusals);

impl RefusedTokens {
    pub(super) fn note(&self, error: &Error) {
        metrics::counter!("mainspring_tokens_refused_total").increment(1);
        if let Some(refused) = self.0.count() {
            tracing::info!(code = error.code(), refused, "requests by token were refused");
        }
    }
}

/// A resume by the holder of a token.
#[derive(Clone, Debug, Default)]
pub struct TokenResume {
    /// The token.
    pub token: String,
    /// The input of the activity that waits.
    pub input: Map<String, Value>,
    /// Makes a client's retry safe.
    pub idempotency: Option<Idempotency>,
}

impl Engine {
    /// Creates a token with which its holder can resume an instance at one bookmark, once, within `lifetime` (for ever if
    /// absent). Without a bookmark the instance must wait at exactly one. Errors: as for [`Engine::resume`]. Cancellation
    /// safe.
    pub async fn resume_token(
        &self,
        instance: &InstanceId,
        bookmark: Option<BookmarkId>,
        lifetime: Option<Duration>,
    ) -> Result<String> {
        let (bookmark, generation) = self.bookmark_of(instance, bookmark, None).await?;
        let expires = match lifetime {
            Some(lifetime) => {
                let lifetime = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
                let now = token::clock(&self.node()?.database.pool).await?;
                Some(now.timestamp_millis().saturating_add(lifetime))
            }
            None => None,
        };
        let payload = Payload {
            tenant: self.inner.tenant.as_str().to_owned(),
            instance: instance.clone(),
            generation,
            bookmark,
            expires,
        };
        write(self.token_key().await?, &payload)
    }

    /// Resumes the bookmark of a token; see [`Engine::resume`]. A token that this cluster has not signed, or that has expired:
    /// [`Error::is_invalid`], codes `invalid-token` and `token-expired`. Each resume by a valid token is logged, without the
    /// token; refused ones are counted. Cancellation safe: a resume that was accepted goes on.
    pub async fn resume_by_token(&self, request: TokenResume) -> Result<Executed> {
        let token = self.verify_token(&request.token).await?;
        self.resume_by_verified_token(token, request.input, request.idempotency)
            .await
    }

    /// The same with a token that [`Engine::verify_token`] has accepted.
    pub async fn resume_by_verified_token(
        &self,
        token: VerifiedToken,
        input: Map<String, Value>,
        idempotency: Option<Idempotency>,
    ) -> Result<Executed> {
        let (request, generation) = resume_of(token, input, idempotency);
        self.resume_of_generation(request, Some(generation)).await
    }

    /// The same without waiting for its burst: returns once the resume is durable.
    pub async fn accept_resume_by_token(&self, request: TokenResume) -> Result<InstanceId> {
        let token = self.verify_token(&request.token).await?;
        self.accept_resume_by_verified_token(token, request.input, request.idempotency)
            .await
    }

    /// The same with a token that [`Engine::verify_token`] has accepted.
    pub async fn accept_resume_by_verified_token(
        &self,
        token: VerifiedToken,
        input: Map<String, Value>,
        idempotency: Option<Idempotency>,
    ) -> Result<InstanceId> {
        let (request, generation) = resume_of(token, input, idempotency);
        self.accept_resume_of_generation(request, Some(generation)).await
    }

    /// Verifies a token, before anything else of a request is read. Errors: as for [`Engine::resume_by_token`].
    /// Cancellation safe.
    pub async fn verify_token(&self, text: &str) -> Result<VerifiedToken> {
        let refused = |error: &Error| self.inner.refused_tokens.note(error);
        // Neither a forged token nor one that does not expire costs a statement.
        let parts = parts(text).ok_or_else(invalid).inspect_err(refused)?;
        let payload = read(self.token_key().await?, parts).inspect_err(refused)?;
        if payload.tenant != self.inner.tenant.as_str() {
            return Err(invalid()).inspect_err(refused);
        }
        if payload.expires.is_some() {
            payload
                .good_at(token::clock(&self.node()?.database.pool).await?)
                .inspect_err(refused)?;
        }
        Ok(VerifiedToken(payload))
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

impl Payload {
    fn good_at(&self, now: DateTime<Utc>) -> Result<()> {
        if self.expires.is_some_and(|expires| expires <= now.timestamp_millis()) {
            return Err(Error::invalid("token-expired", "this token has expired").field("t", "has expired"));
        }
        Ok(())
    }
}

fn resume_of(
    VerifiedToken(payload): VerifiedToken,
    input: Map<String, Value>,
    idempotency: Option<Idempotency>,
) -> (ResumeRequest, Generation) {
    tracing::info!(instance = %payload.instance, bookmark = %payload.bookmark, "a resume by token");
    let resume = ResumeRequest {
        instance_id: payload.instance,
        bookmark_id: Some(payload.bookmark),
        input,
        idempotency,
    };
    (resume, payload.generation)
}

fn invalid() -> Error {
    Error::invalid("invalid-token", "this is no token of this engine").field("t", "is no token of this engine")
}

fn write(key: &[u8], payload: &Payload) -> Result<String> {
    signed_text::write(key, PURPOSE, payload)
}

/// The content of a genuine token.
fn read(key: &[u8], parts: (&str, Vec<u8>)) -> Result<Payload> {
    signed_text::read(key, PURPOSE, parts)?.ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(expires: Option<i64>) -> Payload {
        Payload {
            tenant: String::new(),
            instance: InstanceId::new("i/é"),
            generation: Generation::of(DateTime::default()),
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
    fn only_a_whole_token_of_the_right_key_is_valid_until_it_expires() {
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
