//! Advisory locks of a schema that foreign sessions hold. Every role that may connect can take any lock whose key it
//! computes or reads in `pg_locks`; no invariant is violated, but whatever needs the lock waits. `report`: the locks that
//! the nodes hold.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::Result;
use crate::db::{ANSWER_TIMEOUT, Pool, SchemaName, columns, within};

pub(crate) mod report;

const TRY: &str = include_str!("../../../sql/queries/lock/try.sql");
const RELEASE: &str = include_str!("../../../sql/queries/lock/release.sql");
const WAIT: &str = include_str!("../../../sql/queries/lock/wait_until_free.sql");
/// Where waits are repeated.
const CHECK_CONNECTION: &str = include_str!("../../../sql/queries/lock/check_connection.sql");
const FOREIGN: &str = include_str!("../../../sql/queries/lock/list_foreign.sql");

/// The least time between two log messages about one session and key.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The most sessions and keys that are remembered as logged.
const MAX_LOGGED: usize = 1000;

/// Class, key and process id.
type ForeignLockId = (Option<i64>, i64, i32);

/// A lock of this schema that a session of no node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignLock {
    /// `None` for a key of the 64-bit space.
    pub(crate) class: Option<i64>,
    pub(crate) key: i64,
    pub(crate) process_id: i32,
    pub(crate) user: String,
    pub(crate) application: String,
}

impl ForeignLock {
    /// The key as the list of locks shows an unnamed one.
    pub(crate) fn key_name(&self) -> String {
        match self.class {
            None => format!("key:{:016x}", self.key),
            Some(class) => format!("key:{class:08x}/{:08x}", self.key),
        }
    }
}

/// The foreign locks of a schema: in its class of the two-integer space, or with one of these keys.
pub(crate) async fn foreign_locks(pool: &Pool, schema: &SchemaName, keys: &[i64]) -> Result<Vec<ForeignLock>> {
    let (prefix, class) = (prefix(schema), schema.lock_class());
    let rows = pool.query(FOREIGN, &[&prefix, &class, &schema.as_str(), &keys]).await?;
    let at = ForeignColumns::of(&rows)?;
    Ok(rows.iter().map(|row| foreign(at, row)).collect())
}

/// The foreign lock on this key of the 64-bit space, over the connection of a node that registers.
pub(crate) async fn foreign_holder(client: &Client, schema: &SchemaName, key: i64) -> Result<Option<ForeignLock>> {
    let held = foreign_locks_over(client, schema, &[key]).await?;
    Ok(held.into_iter().find(|held| held.class.is_none()))
}

/// The same as [`foreign_locks`] over one connection.
pub(crate) async fn foreign_locks_over(client: &Client, schema: &SchemaName, keys: &[i64]) -> Result<Vec<ForeignLock>> {
    let (prefix, class) = (prefix(schema), schema.lock_class());
    let rows = within(
        ANSWER_TIMEOUT,
        client.query(FOREIGN, &[&prefix, &class, &schema.as_str(), &keys]),
    )
    .await?;
    let at = ForeignColumns::of(&rows)?;
    Ok(rows.iter().map(|row| foreign(at, row)).collect())
}

fn prefix(schema: &SchemaName) -> String {
    format!("mainspring/{}/", schema.key())
}

columns!(struct ForeignColumns { class, key, process_id, user_name, application_name });

fn foreign(at: ForeignColumns, row: &tokio_postgres::Row) -> ForeignLock {
    ForeignLock {
        class: row.get(at.class),
        key: row.get(at.key),
        process_id: row.get(at.process_id),
        user: row.get(at.user_name),
        application: row.get(at.application_name),
    }
}

/// Logs the foreign locks, each once a minute.
pub(crate) async fn log_foreign_locks(pool: &Pool, schema: &SchemaName, keys: &[i64]) {
    static LOGGED_AT: Mutex<Option<HashMap<ForeignLockId, Instant>>> = Mutex::new(None);
    let found = match foreign_locks(pool, schema, keys).await {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%error, "the foreign locks of this schema cannot be read");
            return;
        }
    };
    for foreign in found {
        let is_new = {
            let mut logged = LOGGED_AT.lock().unwrap_or_else(PoisonError::into_inner);
            let logged = logged.get_or_insert_default();
            let now = Instant::now();
            if logged.len() >= MAX_LOGGED {
                logged.retain(|_, at| now.duration_since(*at) < LOG_INTERVAL);
            }
            let id = (foreign.class, foreign.key, foreign.process_id);
            let is_recent = logged.get(&id).is_some_and(|at| now.duration_since(*at) < LOG_INTERVAL);
            if !is_recent && logged.len() < MAX_LOGGED {
                logged.insert(id, now);
            }
            !is_recent
        };
        if is_new {
            metrics::counter!("mainspring_foreign_locks_total").increment(1);
            tracing::warn!(
                key = foreign.key_name(),
                process_id = foreign.process_id,
                user = foreign.user,
                application = foreign.application,
                "a foreign session holds a lock of this schema that work, a publish or the start of a node waits for: terminate \
                 that session, and revoke CONNECT on the database from roles that do not need it"
            );
        }
    }
}

/// Prepares a session for repeated waits by [`wait_until_free`]: between them it answers what the server asks of all sessions.
pub(crate) async fn prepare_waits(client: &Client) -> Result<()> {
    within(ANSWER_TIMEOUT, client.batch_execute(CHECK_CONNECTION)).await
}

/// Waits until a lock of the 64-bit space is free, at most `timeout` (counted in milliseconds by the server); returns whether
/// it was. The lock is held only while the statement runs. If the future is dropped, the server still waits until the
/// timeout.
pub(crate) async fn wait_until_free(client: &Client, key: i64, timeout: Duration) -> Result<bool> {
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let deadline = timeout + ANSWER_TIMEOUT;
    Ok(within(deadline, client.query_one(WAIT, &[&key, &timeout_ms]))
        .await?
        .get("is_free"))
}

/// Tries to take a lock of the 64-bit space for this session, alone; whether it has it.
pub(crate) async fn try_key(client: &Client, key: i64) -> Result<bool> {
    let row = within(ANSWER_TIMEOUT, client.query_one(TRY, &[&vec![key]])).await?;
    Ok(row.get("taken"))
}

/// Gives a lock of this session back.
pub(crate) async fn release_key(client: &Client, key: i64) -> Result<()> {
    within(ANSWER_TIMEOUT, client.query(RELEASE, &[&vec![key]])).await?;
    Ok(())
}
