//! The keys that sign resume links and tokens, and their rotation.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Engine;
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
        let keys = token::keys(self.node()?.database.reads.by_key()).await?;
        let keys = keys.into_iter().enumerate();
        Ok(keys
            .map(|(place, key)| LinkKey {
                id: key.id,
                created_at: key.created_at,
                is_newest: place == 0,
            })
            .collect())
    }

    /// Adds a key, which signs new links from the next minute on; links of the others stay valid. [`Error::is_conflict`], code
    /// `too-many-keys`, if there are 16.
    pub async fn rotate_link_key(&self) -> Result<LinkKey> {
        let node = self.node()?;
        let pool = &node.database.pool;
        let id = token::rotate(pool).await?.ok_or_else(token::too_many_keys)?;
        self.inner.token_keys.refresh(pool).await?;
        let keys = self.link_keys().await?;
        let made = keys.into_iter().find(|key| key.id == id);
        made.ok_or_else(|| Error::internal("a key that was made is not found"))
    }

    /// Ends a key: no link that was signed with it is valid any more, on no node. [`Error::is_conflict`], code `key-signs`, for the
    /// newest one, or while the next one is younger than two minutes. Unless it is forced also code `key-in-use`, while links that the
    /// key has signed can be used.
    pub async fn retire_link_key(&self, id: i32, is_forced: bool) -> Result<()> {
        let node = self.node()?;
        let pool = &node.database.pool;
        match token::retire(pool, id, SIGNS_AFTER * 2, is_forced).await? {
            Retired::Now => self.inner.token_keys.refresh(pool).await,
            Retired::Unknown => Err(Error::not_found("key-not-found", format!("there is no key {id}"))),
            Retired::InUse(links) => {
                let at_least = if links < token::MOST_COUNTED { "" } else { "at least " };
                let message = format!(
                    "{at_least}{links} links that the key {id} has signed can still be used; force=true ends them"
                );
                Err(Error::conflict("key-in-use", message))
            }
            Retired::Signs => Err(Error::conflict(
                "key-signs",
                format!("the key {id} may still sign links: rotate, and retire it two minutes later"),
            )),
        }
    }

    /// The key with this number. If this node has not read the keys for a while, it reads them for one that it does not know.
    pub(super) async fn known_key(&self, id: i32) -> Result<Option<SigningKey>> {
        let pool = || Ok(self.node()?.database.pool.clone());
        self.inner.token_keys.find(id, pool).await
    }
}
