//! Attempts to sign in, counted for the whole cluster.
//!
//! Each attempt counts before its password is looked at, in three rows: that of its name and client, that of its client, and that of
//! its name. One that succeeds is taken back. So attempts at once, at any nodes, cannot exceed a limit; the passwords of one user
//! cannot be guessed from many addresses; and who has signed in from an address before is not locked out by the attempts of others.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::Result;
use crate::db::{Pool, columns};

const COUNT: &str = include_str!("../../../sql/queries/identity/attempt_count.sql");
const SUCCESS: &str = include_str!("../../../sql/queries/identity/attempt_success.sql");

/// How long failures count.
pub(crate) const WINDOW: Duration = Duration::from_secs(15 * 60);
/// How long a client is remembered that has signed in.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);

/// The most failures under one name from one client.
pub(crate) const MOST_OF_PAIR: i32 = 10;
/// The most failures from one client, and the most under one name, of those who have not signed in from there before.
pub(crate) const MOST_OF_ONE: i32 = 100;

/// An attempt, as it is counted.
#[derive(Clone, Debug)]
pub(crate) struct LoginAttempt {
    pair: Vec<u8>,
    client: Vec<u8>,
    name: Vec<u8>,
    /// Remembers that the client has signed in under the name.
    known: Vec<u8>,
}

impl LoginAttempt {
    /// `client`: where it comes from; all that come from an unknown place are one client.
    pub(crate) fn new(name: &str, client: Option<&str>) -> Self {
        let (name, client) = (name.to_lowercase(), client.unwrap_or_default());
        let key = |kind: &str, name: &str, client: &str| {
            // The length of the name tells where the client begins.
            let text = format!("{kind}\n{}\n{name}{client}", name.len());
            Sha256::digest(text.as_bytes()).iter().take(16).copied().collect()
        };
        Self {
            pair: key("pair", &name, client),
            client: key("client", "", client),
            name: key("name", &name, ""),
            known: key("known", &name, client),
        }
    }

    /// Counts it. `Some`: there were too many, for so long.
    pub(crate) async fn count(&self, pool: &Pool) -> Result<Option<Duration>> {
        let keys = [&self.pair, &self.client, &self.name].map(Vec::as_slice);
        let window = i64::try_from(WINDOW.as_micros()).unwrap_or(i64::MAX);
        let rows = pool.query(COUNT, &[&keys.as_slice(), &window, &self.known]).await?;
        let at = columns!(rows; key, failures, left_micros, is_known)?;
        let refused = rows.iter().filter(|row| {
            let failures: i32 = row.get(at.failures);
            match row.get::<_, &[u8]>(at.key) == self.pair {
                true => failures > MOST_OF_PAIR,
                false => failures > MOST_OF_ONE && !row.get::<_, bool>(at.is_known),
            }
        });
        let left = refused
            .map(|row| u64::try_from(row.get::<_, i64>(at.left_micros)).unwrap_or(0))
            .max();
        Ok(left.map(Duration::from_micros))
    }

    /// Takes it back: it was right.
    pub(crate) async fn succeeded(&self, pool: &Pool) -> Result<()> {
        let keys = [&self.pair, &self.client, &self.name].map(Vec::as_slice);
        let remembered = i64::try_from(REMEMBERED.as_micros()).unwrap_or(i64::MAX);
        pool.query(SUCCESS, &[&keys.as_slice(), &self.known, &remembered])
            .await
            .map(drop)
    }
}
