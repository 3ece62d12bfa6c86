//! Tokens that open one connection, once, at any node, because a browser cannot send a key with a WebSocket. A token is
//! signed, expires by the database's clock, and carries the rights of the client that requested it.

use std::time::Duration;

use chrono::DateTime;
use serde::{Deserialize, Serialize};

use super::Engine;
use super::signed_token::{Permission, SignedToken};
use crate::id::TenantId;
use crate::store::token;
use crate::{Error, Result};

/// How long a token opens a connection: a client does so at once.
const LIFETIME: Duration = Duration::from_secs(30);

/// The connection that a token opens.
#[derive(Debug, Serialize, Deserialize)]
struct ConnectionPermission {
    #[serde(rename = "c")]
    connection: String,
    /// The client that negotiated had the API key.
    #[serde(rename = "k")]
    has_key: bool,
}

impl Permission for ConnectionPermission {
    const PURPOSE: &'static str = "connection token";
    const PARAMETER: &'static str = "id";
}

/// A token, and the id of the connection that it opens.
#[derive(Debug)]
pub struct ConnectionToken {
    /// The id of the connection.
    pub connection_id: String,
    /// The token, which is secret.
    pub token: String,
}

impl Engine {
    /// Creates a token for one connection. `has_key`: the client has the API key.
    pub async fn connection_token(&self, has_key: bool) -> Result<ConnectionToken> {
        let connection_id = uuid::Uuid::new_v4().simple().to_string();
        let now = token::clock(&self.node()?.database.pool).await?;
        let lifetime = i64::try_from(LIFETIME.as_millis()).unwrap_or(i64::MAX);
        let token = SignedToken {
            tenant: self.tenant.as_str().to_owned(),
            permission: ConnectionPermission {
                connection: connection_id.clone(),
                has_key,
            },
            expires: Some(now.timestamp_millis().saturating_add(lifetime)),
        };
        let token = token.write(&self.inner.token_keys.signing()?)?;
        Ok(ConnectionToken { connection_id, token })
    }

    /// Uses up a token; returns the tenant of the client that requested it. [`Error::is_invalid`] if no node of this cluster has signed it, it
    /// has expired, it was used before, or the key is needed and missing. Cancellation safe: if the future is dropped, the
    /// token may be used up.
    pub async fn spend_connection_token(&self, text: &str, needs_key: bool) -> Result<TenantId> {
        let token: SignedToken<ConnectionPermission> = self.read_token(text).await?;
        let invalid = SignedToken::<ConnectionPermission>::invalid;
        let tenant = TenantId::from(token.tenant);
        let ConnectionPermission { connection, has_key } = token.permission;
        if needs_key && !has_key {
            return Err(invalid());
        }
        let expires = token.expires.and_then(DateTime::from_timestamp_millis);
        let expires = expires.ok_or_else(invalid)?;
        let node = self.node()?;
        let pool = &node.database.pool;
        match token::spend(pool, &tenant, &connection, expires).await? {
            token::Spent::Now => Ok(tenant),
            token::Spent::Expired => Err(SignedToken::<ConnectionPermission>::expired()),
            token::Spent::Before => {
                Err(Error::invalid("token-used", "this token was used before").field("id", "was used before"))
            }
        }
    }
}
