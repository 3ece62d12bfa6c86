//! Tokens with which an external client can resume one bookmark, and nothing else. A token is valid while its bookmark
//! waits, and so for one resume, and until its expiry, if it has one.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Engine;
use super::signed_token::{Permission, SignedToken};
use crate::Result;
use crate::id::{BookmarkId, InstanceId};
use crate::runtime::context::request::{Executed, Idempotency, ResumeRequest};
use crate::store::instance::Generation;
use crate::store::token;

/// The bookmark that a token resumes.
#[derive(Debug, Serialize, Deserialize)]
struct ResumePermission {
    #[serde(rename = "i")]
    instance: InstanceId,
    /// The generation of the instance: an id can be used again after a delete.
    #[serde(rename = "l")]
    generation: Generation,
    #[serde(rename = "b")]
    bookmark: BookmarkId,
}

impl Permission for ResumePermission {
    const PURPOSE: &'static str = "resume token";
    const PARAMETER: &'static str = "t";
}

/// A valid token: its signature is genuine, and it had not expired when it was verified.
#[derive(Debug)]
pub struct VerifiedToken(ResumePermission);

/// A resume by the holder of a token.
#[derive(Clone, Debug, Default)]
pub struct TokenResume {
    /// The token.
    pub token: String,
    /// The input of the waiting activity.
    pub input: Map<String, Value>,
    /// Makes a client's retry safe.
    pub idempotency: Option<Idempotency>,
}

impl Engine {
    /// Creates a token with which its holder can resume an instance at one bookmark, once, within `lifetime` (forever if
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
        let token = SignedToken {
            tenant: self.inner.tenant.as_str().to_owned(),
            permission: ResumePermission {
                instance: instance.clone(),
                generation,
                bookmark,
            },
            expires,
        };
        token.write(self.token_key().await?)
    }

    /// Resumes the bookmark of a token; see [`Engine::resume`]. A token that this cluster has not signed, or that has
    /// expired, is refused with [`Error::is_invalid`](crate::Error::is_invalid), codes `invalid-token` and `token-expired`.
    /// Each resume by a valid token is logged, without the token; refused ones are counted. Cancellation safe: an accepted
    /// resume continues.
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
        Ok(VerifiedToken(self.permission(text).await?))
    }
}

fn resume_of(
    VerifiedToken(permission): VerifiedToken,
    input: Map<String, Value>,
    idempotency: Option<Idempotency>,
) -> (ResumeRequest, Generation) {
    tracing::info!(instance = %permission.instance, bookmark = %permission.bookmark, "a resume by token");
    let resume = ResumeRequest {
        instance_id: permission.instance,
        bookmark_id: Some(permission.bookmark),
        input,
        idempotency,
    };
    (resume, permission.generation)
}
