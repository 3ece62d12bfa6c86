//! Attempts to sign in, counted for the whole cluster.
//!
//! Each attempt counts before its password is looked at, in three rows: that of its client, that of its name and client, and that of
//! its name. One that succeeds is taken back; one that a row refuses counts in none of the next ones, so that no client alone locks
//! a name. So attempts at once, at any nodes, cannot exceed a limit; the passwords of one user cannot be guessed from many addresses;
//! and who has signed in from an address before is not locked out by the attempts of others.

use std::net::IpAddr;
use std::time::Duration;

use postgres_types::ToSql;
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
        let (name, client) = (name.to_lowercase(), network_of(client.unwrap_or_default()));
        let client = client.as_str();
        let key = |kind: &str, name: &str, client: &str| {
            // The length of the name says where the client begins.
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
        let window = i64::try_from(WINDOW.as_micros()).unwrap_or(i64::MAX);
        let params: [&(dyn ToSql + Sync); 7] = [
            &self.client,
            &self.pair,
            &self.name,
            &window,
            &self.known,
            &MOST_OF_PAIR,
            &MOST_OF_ONE,
        ];
        let rows = pool.query(COUNT, &params).await?;
        let at = columns!(rows; left_micros)?;
        let left: Option<i64> = rows.first().and_then(|row| row.get(at.left_micros));
        Ok(left.map(|left| Duration::from_micros(u64::try_from(left).unwrap_or(0))))
    }

    /// Takes it back: it was right.
    pub(crate) async fn succeeded(&self, pool: &Pool) -> Result<()> {
        let keys = [&self.client, &self.pair, &self.name].map(Vec::as_slice);
        let remembered = i64::try_from(REMEMBERED.as_micros()).unwrap_or(i64::MAX);
        pool.query(SUCCESS, &[&keys.as_slice(), &self.known, &remembered])
            .await
            .map(drop)
    }
}

/// What one client has: its address, or the network of 64 bits of an IPv6 address, of which a client has each.
fn network_of(client: &str) -> String {
    match client.parse() {
        Ok(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        _ => client.to_owned(),
    }
}
