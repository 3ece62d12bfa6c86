//! The keys that sign resume links and tokens, and their rotation.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{Engine, lone_pool};
use crate::db::Pool;
use crate::elsa_json;
use crate::runtime::context::token_keys::{SIGNS_AFTER, SigningKey};
use crate::store::token::{self, Retired};
use crate::{Error, Result};

/// A key that verifies resume links.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LinkKey {
    /// Its number, which grows with each rotation.
    pub id: i32,
    /// When it was made, by the database's clock.
    #[serde(serialize_with = "elsa_json::timestamp")]
    pub created_at: DateTime<Utc>,
    /// New links are signed with it, or will be in a minute, once every node knows it.
    pub is_newest: bool,
}

impl Engine {
    /// The keys of resume links, the newest first.
    pub async fn link_keys(&self) -> Result<Vec<LinkKey>> {
        list(self.node()?.database.reads.by_key()).await
    }

    /// Adds a key, which signs new links from the next minute on; links of the others stay valid. [`Error::is_conflict`], code
    /// `too-many-keys`, if there are 16.
    pub async fn rotate_link_key(&self) -> Result<LinkKey> {
        let node = self.node()?;
        let made = rotate(&self.changes(&node)).await?;
        self.inner.token_keys.refresh(&node.database.pool).await?;
        Ok(made)
    }

    /// Ends a key: no link and no token that was signed with it is valid any more, on no node. [`Error::is_conflict`], code `key-signs`, for the
    /// newest one, or while the next one is younger than two minutes. Unless it is forced also code `key-in-use`, while links or
    /// sessions of users that the key has signed can be used.
    pub async fn retire_link_key(&self, id: i32, is_forced: bool) -> Result<()> {
        let node = self.node()?;
        retire(&self.changes(&node), id, is_forced).await?;
        self.inner.token_keys.refresh(&node.database.pool).await
    }

    /// The key with this number. If this node has not read the keys for a while, it reads them for one that it does not know.
    pub(super) async fn known_key(&self, id: i32) -> Result<Option<SigningKey>> {
        let pool = || Ok(self.node()?.database.pool.clone());
        self.inner.token_keys.find(id, pool).await
    }
}

/// The same as [`Engine::link_keys`], without a node.
pub async fn link_keys(database_url: &str, schema: &str) -> Result<Vec<LinkKey>> {
    list(&lone_pool(database_url, schema).await?).await
}

/// The same as [`Engine::rotate_link_key`], without a node.
pub async fn rotate_link_key(database_url: &str, schema: &str) -> Result<LinkKey> {
    rotate(&lone_pool(database_url, schema).await?).await
}

/// The same as [`Engine::retire_link_key`], without a node: no use of a link of the key is accepted from then on.
pub async fn retire_link_key(database_url: &str, schema: &str, id: i32, is_forced: bool) -> Result<()> {
    retire(&lone_pool(database_url, schema).await?, id, is_forced).await
}

async fn list(pool: &Pool) -> Result<Vec<LinkKey>> {
    let keys = token::keys(pool).await?.into_iter().enumerate();
    Ok(keys
        .map(|(place, key)| LinkKey {
            id: key.id,
            created_at: key.created_at,
            is_newest: place == 0,
        })
        .collect())
}

async fn rotate(pool: &Pool) -> Result<LinkKey> {
    let id = token::rotate(pool).await?.ok_or_else(token::too_many_keys)?;
    let made = list(pool).await?.into_iter().find(|key| key.id == id);
    made.ok_or_else(|| Error::internal("a key that was made is not found"))
}

async fn retire(pool: &Pool, id: i32, is_forced: bool) -> Result<()> {
    match token::retire(pool, id, SIGNS_AFTER * 2, is_forced).await? {
        Retired::Now => Ok(()),
        Retired::Unknown => Err(Error::not_found("key-not-found", format!("there is no key {id}"))),
        Retired::InUse { links, sessions } => {
            let most = links.max(sessions);
            let at_least = if most < token::MOST_COUNTED { "" } else { "at least " };
            let message = format!(
                "{at_least}{links} links and {sessions} sessions of users that the key {id} has signed can still be used; \
                 force ends them"
            );
            Err(Error::conflict("key-in-use", message))
        }
        Retired::Signs => Err(Error::conflict(
            "key-signs",
            format!("the key {id} may still sign links: rotate, and retire it two minutes later"),
        )),
    }
}
