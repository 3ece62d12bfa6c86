//! The keys that sign resume links and tokens, as this node knows them.
//!
//! A key that was added verifies at once and signs once it is [`SIGNS_AFTER`] old; each node reads the keys more often than that. So
//! whatever a node signs, all others can verify without a statement, and a key that a node does not know is forged. Only a node
//! whose keys are [`STALE_AFTER`] old, as after a time without its database, reads them again for a text, at most once per
//! [`UNKNOWN_PAUSE`]. One whose keys are as old as [`SIGNS_AFTER`] signs nothing: its key may be deleted.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::settings::TokenSecret;
use crate::db::Pool;
use crate::store::token::{self, TokenKey};
use crate::{Error, Result};

/// How old a key is when it begins to sign.
pub(crate) const SIGNS_AFTER: Duration = Duration::from_secs(60);
/// Between two reads of the keys.
pub(crate) const REFRESH_INTERVAL: Duration = Duration::from_secs(20);
/// Keys that were read so long ago may not be all.
const STALE_AFTER: Duration = Duration::from_secs(30);
/// The least time between two reads because of a key that is unknown.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(1);

/// A key with its number.
#[derive(Clone)]
pub(crate) struct SigningKey {
    pub(crate) id: i32,
    pub(crate) key: Arc<[u8]>,
    age: Duration,
}

impl SigningKey {
    /// The code of these parts, each of which has its length or an end of its own.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> Result<Hmac<Sha256>> {
        mac(&self.key, parts)
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Result<Hmac<Sha256>> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key).map_err(|_| Error::internal("a key of this length signs nothing"))?;
    parts.iter().for_each(|part| mac.update(part));
    Ok(mac)
}

/// What was read last, the newest key first.
struct KnownKeys {
    keys: Vec<SigningKey>,
    /// `None` before the first time.
    read_at: Option<Instant>,
}

impl KnownKeys {
    fn age(&self) -> Duration {
        self.read_at.map_or(Duration::MAX, |read_at| read_at.elapsed())
    }
}

/// The keys of the cluster.
pub(crate) struct TokenKeys {
    /// The program's own secret, without which the keys of the database sign nothing.
    secret: Option<TokenSecret>,
    known: RwLock<KnownKeys>,
    /// When they were read last because of a key that was unknown.
    asked_at: Mutex<Option<Instant>>,
}

impl TokenKeys {
    pub(crate) fn new(secret: Option<TokenSecret>) -> Self {
        Self {
            secret,
            known: RwLock::new(KnownKeys {
                keys: Vec::new(),
                read_at: None,
            }),
            asked_at: Mutex::default(),
        }
    }

    /// Reads the keys.
    pub(crate) async fn refresh(&self, pool: &Pool) -> Result<()> {
        let rows = token::keys(pool).await?;
        let keys = rows
            .iter()
            .map(|row| self.signing_key(row))
            .collect::<Result<Vec<_>>>()?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = KnownKeys {
            keys,
            read_at: Some(Instant::now()),
        };
        Ok(())
    }

    fn signing_key(&self, row: &TokenKey) -> Result<SigningKey> {
        let key = match &self.secret {
            None => Arc::from(row.key.as_slice()),
            Some(secret) => {
                let derived = mac(&secret.0, &[b"mainspring token key\n", &row.key])?
                    .finalize()
                    .into_bytes();
                Arc::from(derived.as_slice())
            }
        };
        Ok(SigningKey {
            id: row.id,
            key,
            age: row.age,
        })
    }

    /// The key that signs now. Fails with `no-token-key` if the keys were not read for too long.
    pub(crate) fn signing(&self) -> Result<SigningKey> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let passed = known.age();
        let signs = |key: &&SigningKey| key.age.saturating_add(passed) >= SIGNS_AFTER;
        let found = known.keys.iter().find(signs).or(known.keys.last());
        found.filter(|_| passed < SIGNS_AFTER).cloned().ok_or_else(not_read)
    }

    /// The key with this number, as far as this node knows it, and whether it may not know all.
    fn known(&self, id: i32) -> (Option<SigningKey>, bool) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let key = known.keys.iter().find(|key| key.id == id).cloned();
        (key, known.age() >= STALE_AFTER)
    }

    /// The key with this number. Fails with `no-token-key` if it is unknown to a node that may not know all.
    pub(crate) async fn find(&self, id: i32, pool: impl FnOnce() -> Result<Pool>) -> Result<Option<SigningKey>> {
        let (known, is_stale) = self.known(id);
        if known.is_some() || !is_stale {
            return Ok(known);
        }
        if !self.may_ask() {
            return Err(not_read());
        }
        self.refresh(&pool()?).await?;
        Ok(self.known(id).0)
    }

    /// A key that no database has.
    #[cfg(test)]
    pub(crate) fn key_for_tests(id: i32, secret: Option<TokenSecret>) -> SigningKey {
        let row = TokenKey {
            id,
            key: vec![7; 32],
            created_at: chrono::DateTime::UNIX_EPOCH,
            age: Duration::ZERO,
        };
        Self::new(secret)
            .signing_key(&row)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn may_ask(&self) -> bool {
        let mut asked_at = self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let may = asked_at.is_none_or(|asked| now.saturating_duration_since(asked) >= UNKNOWN_PAUSE);
        if may {
            *asked_at = Some(now);
        }
        may
    }
}

fn not_read() -> Error {
    Error::unavailable(
        "no-token-key",
        "this node has not read the keys of links for too long; try again",
    )
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(ages: &[u64]) -> TokenKeys {
        let keys = TokenKeys::new(None);
        let newest_first = ages.iter().enumerate().map(|(place, age)| SigningKey {
            id: (ages.len() - place) as i32,
            key: Arc::from([7].as_slice()),
            age: Duration::from_secs(*age),
        });
        *keys.known.write().unwrap() = KnownKeys {
            keys: newest_first.collect(),
            read_at: Some(Instant::now()),
        };
        keys
    }

    fn read_before(keys: &TokenKeys, age: Duration) {
        keys.known.write().unwrap().read_at = Instant::now().checked_sub(age);
    }

    #[test]
    fn a_key_signs_once_every_node_has_read_it() {
        assert_eq!(keys(&[0]).signing().unwrap().id, 1, "there is no other one");
        assert_eq!(keys(&[30, 500]).signing().unwrap().id, 1);
        assert_eq!(keys(&[61, 500]).signing().unwrap().id, 2);
        assert_eq!(keys(&[10, 70, 500]).signing().unwrap().id, 2);
        assert!(keys(&[]).signing().is_err());
    }

    #[test]
    fn a_node_that_has_not_read_the_keys_for_long_signs_nothing() {
        let keys = keys(&[500]);
        read_before(&keys, SIGNS_AFTER / 2);
        assert_eq!(keys.signing().unwrap().id, 1);
        read_before(&keys, SIGNS_AFTER);
        assert_eq!(keys.signing().err().unwrap().code(), "no-token-key");
    }

    #[tokio::test]
    async fn an_unknown_key_is_read_only_by_a_node_that_may_not_know_all() {
        let keys = keys(&[0]);
        let asked = std::cell::Cell::new(0);
        let find = async |id| {
            let pool = || {
                asked.set(asked.get() + 1);
                Err(Error::unavailable("database-unavailable", "gone"))
            };
            keys.find(id, pool).await
        };
        for id in 2..1_000 {
            assert!(find(id).await.unwrap().is_none(), "it is forged");
        }
        assert_eq!(asked.get(), 0);
        read_before(&keys, STALE_AFTER);
        assert!(find(1).await.unwrap().is_some());
        for _ in 0..1_000 {
            assert!(find(2).await.err().unwrap().is_transient(), "it may be genuine");
        }
        assert_eq!(asked.get(), 1);
    }
}
