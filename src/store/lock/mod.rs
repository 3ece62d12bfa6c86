//! Keys of ours that are held by sessions of no node. Every role that may connect may take any advisory lock whose key
//! it can compute or read in `pg_locks`; nothing is lost by that, but what needs the lock waits.

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
const FOREIGN: &str = include_str!("../../../sql/queries/lock/list_foreign.sql");

/// How long a session that was named in the log is not named again for the same key.
const NAME_AGAIN: Duration = Duration::from_secs(60);

/// The most sessions and keys that are remembered as named.
const NAMED: usize = 1000;

/// Class, key and process.
type Holding = (Option<i64>, i64, i32);

/// A session that holds a key of this schema and is no node's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignLock {
    /// None: of the 64-bit space.
    pub(crate) class: Option<i64>,
    pub(crate) key: i64,
    pub(crate) process_id: i32,
    pub(crate) user: String,
    pub(crate) application: String,
}

impl ForeignLock {
    /// The key as the list of locks shows one without a name.
    pub(crate) fn key_name(&self) -> String {
        match self.class {
            None => format!("key:{:016x}", self.key),
            Some(class) => format!("key:{class:08x}/{:08x}", self.key),
        }
    }
}

/// Who holds keys of the two-integer space of a schema, or one of these, and is no node.
pub(crate) async fn foreign_locks(pool: &Pool, schema: &SchemaName, keys: &[i64]) -> Result<Vec<ForeignLock>> {
    let (prefix, class) = (prefix(schema), schema.lock_class());
    let rows = pool.query(FOREIGN, &[&prefix, &class, &schema.as_str(), &keys]).await?;
    let at = ForeignColumns::of(&rows)?;
    Ok(rows.iter().map(|row| foreign(at, row)).collect())
}

/// Who holds this key of the 64-bit space and is no node, as a node sees that only registers.
pub(crate) async fn foreign_holder(client: &Client, schema: &SchemaName, key: i64) -> Result<Option<ForeignLock>> {
    let (prefix, class, keys) = (prefix(schema), schema.lock_class(), vec![key]);
    let rows = within(
        ANSWER_TIMEOUT,
        client.query(FOREIGN, &[&prefix, &class, &schema.as_str(), &keys]),
    )
    .await?;
    let at = ForeignColumns::of(&rows)?;
    Ok(rows
        .iter()
        .map(|row| foreign(at, row))
        .find(|held| held.class.is_none()))
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

/// Names them in the log, each once a minute.
pub(crate) async fn log_foreign_locks(pool: &Pool, schema: &SchemaName, keys: &[i64]) {
    static NAMED_AT: Mutex<Option<HashMap<Holding, Instant>>> = Mutex::new(None);
    let found = match foreign_locks(pool, schema, keys).await {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%error, "who holds keys of this schema could not be read");
            return;
        }
    };
    for foreign in found {
        let is_news = {
            let mut named = NAMED_AT.lock().unwrap_or_else(PoisonError::into_inner);
            let named = named.get_or_insert_default();
            let now = Instant::now();
            if named.len() >= NAMED {
                named.retain(|_, at| now.duration_since(*at) < NAME_AGAIN);
            }
            let id = (foreign.class, foreign.key, foreign.process_id);
            let is_recent = named.get(&id).is_some_and(|at| now.duration_since(*at) < NAME_AGAIN);
            if !is_recent && named.len() < NAMED {
                named.insert(id, now);
            }
            !is_recent
        };
        if is_news {
            metrics::counter!("mainspring_foreign_locks_total").increment(1);
            tracing::warn!(
                key = foreign.key_name(),
                process_id = foreign.process_id,
                user = foreign.user,
                application = foreign.application,
                "a session that is no node's holds a lock of this schema, which work, publishes or a start of a node wait for: end that session, and \
                 revoke CONNECT on the database from those who need none"
            );
        }
    }
}

/// Waits until a lock of the 64-bit space is free, at most `timeout` (counted in milliseconds by the server); whether
/// it was. It is held no longer than the statement runs. Dropped half-way, the server goes on waiting to the end of the
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
