//! The routes of HTTP endpoints.
//!
//! Those of published definitions are rows of `trigger`, of which a node keeps a table. A definition owns its routes: of two with
//! one stimulus, or that match a path in common (`overlap`), the second is not published. Those of bookmarks are found by their stimulus, if their template has no
//! parameter, else by a row of `bookmark_route`, which the commit writes that makes the bookmark: a lookup reads those that
//! may match its path, by their anchors, so that their number is no matter of memory.

#[cfg(feature = "http")]
mod lookup;
#[cfg(feature = "http")]
mod overlap;

use deadpool_postgres::Object;
use serde_json::Value;
use sha2::{Digest, Sha256};

#[cfg(feature = "http")]
pub(crate) use self::lookup::{
    KnownRoute, MOST_WAITING, PublishedRoute, Requested, WaitingEndpoint, find, find_own, list, read,
};
#[cfg(feature = "http")]
pub(super) use self::overlap::check_overlap;
use super::stimulus_key::{KeySet, LOCK};
use crate::db::{ANSWER_TIMEOUT, Pool, columns, within};
use crate::id::{StimulusHash, TenantId};
use crate::shortened::shortened;
use crate::{Error, Result};

const OWNER: &str = include_str!("../../../sql/queries/route/owner.sql");
const ORPHANED: &str = include_str!("../../../sql/queries/route/orphaned.sql");
const PURGE: &str = include_str!("../../../sql/queries/route/purge.sql");

/// The name of the stimuli of endpoints.
pub(crate) const STIMULUS_NAME: &str = "Elsa.HttpEndpoint";

/// In bytes: the regular expressions of all published routes of a tenant, which each node keeps.
pub(crate) const MOST_PATTERN_BYTES: i64 = 64 << 20;

/// How many routes one page of a purge reads: fewer than a transaction may lock keys.
const PURGE_PAGE: i64 = 256;

/// The bytes of the key of a route or an anchor.
const KEY: usize = 16;

/// A key of texts: the first bytes of their hash.
fn key_of<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<u8> {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().iter().copied().take(KEY).collect()
}

/// A route of a bookmark whose template has parameters.
#[derive(Clone, Debug)]
pub(crate) struct BookmarkRoute {
    pub(crate) anchor: Vec<u8>,
    pub(crate) hash: StimulusHash,
    /// As the bookmark has it.
    pub(crate) template: String,
    /// In lower case.
    pub(crate) method: String,
}

impl BookmarkRoute {
    /// The key of its row: bookmarks with one template and method share it.
    pub(crate) fn id(&self, tenant: &TenantId) -> Vec<u8> {
        key_of([tenant.as_str(), &self.method, &self.template])
    }
}

/// The key of an anchor.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only requests look routes up"))]
pub(crate) fn anchor_key(anchor: &str) -> Vec<u8> {
    key_of([anchor])
}

/// The key of what routes have in common that may match one path: their method, and the outline of their templates.
#[cfg(feature = "http")]
pub(crate) fn outline_key(outline: &str) -> Vec<u8> {
    key_of([outline])
}

/// Refuses the routes of a definition of which another one has one, in the publishing transaction, under the keys of their
/// stimuli; and those whose regular expressions exceed [`MOST_PATTERN_BYTES`] with those of all others.
pub(super) async fn check_owner(
    client: &Object,
    tenant: &str,
    id: &str,
    hashes: &[&[u8]],
    pattern_bytes: i64,
) -> Result<()> {
    if hashes.is_empty() {
        return Ok(());
    }
    let row = client.query_one(OWNER, &[&tenant, &id, &hashes]).await?;
    let at = columns!(row; definition_id, name, payload, pattern_bytes)?;
    if let Some(owner) = row.get::<_, Option<String>>(at.definition_id) {
        let (name, options): (Option<String>, Option<Value>) = (row.get(at.name), row.get(at.payload));
        return Err(taken(&owner, name.as_deref(), &options.unwrap_or_default(), None));
    }
    if pattern_bytes > 0 && pattern_bytes.saturating_add(row.get(at.pattern_bytes)) > MOST_PATTERN_BYTES {
        let message = format!(
            "the regular expressions of all published routes would take more than {} MiB; use other constraints, or repeat fewer \
             parts",
            MOST_PATTERN_BYTES >> 20
        );
        return Err(Error::conflict("too-many-route-patterns", message));
    }
    Ok(())
}

fn text<'o>(options: &'o Value, field: &str) -> &'o str {
    options.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// `common`: a path that templates which differ match in common.
fn taken(owner: &str, name: Option<&str>, options: &Value, common: Option<&str>) -> Error {
    let (path, method) = (
        shortened(text(options, "path"), 200),
        text(options, "method").to_uppercase(),
    );
    let request = common.map_or_else(String::new, |common| format!(" for {}", shortened(common, 200)));
    let named = name
        .map(|name| format!(" ({})", shortened(name, 100)))
        .unwrap_or_default();
    let message = format!(
        "the workflow definition {owner:?}{named} has an endpoint with the path {path} and the method {method}, so that a \
         request{request} would be ambiguous; give this endpoint another path or method, or retract that definition first"
    );
    Error::conflict("route-taken", message.clone()).field("path", message)
}

/// Whether an error refuses the routes of a publish.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(error.code(), "route-taken" | "too-many-route-patterns")
}

/// Deletes the routes of bookmarks that have ended, page by page. If the future is dropped, those of the pages before are deleted.
pub(crate) async fn purge(pool: &Pool, lock_class: i32) -> Result<()> {
    let mut after: Vec<u8> = Vec::new();
    loop {
        let rows = pool.query(ORPHANED, &[&after, &PURGE_PAGE]).await?;
        let at = columns!(rows; id, hash, is_orphaned)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.get(at.id);
        let orphaned = rows.iter().filter(|row| row.get(at.is_orphaned));
        let (ids, hashes): (Vec<Vec<u8>>, Vec<Vec<u8>>) =
            orphaned.map(|row| (row.get(at.id), row.get(at.hash))).unzip();
        if !ids.is_empty() {
            purge_page(pool, lock_class, &ids, &hashes).await?;
        }
    }
}

async fn purge_page(pool: &Pool, lock_class: i32, ids: &[Vec<u8>], hashes: &[Vec<u8>]) -> Result<()> {
    let hashes: Vec<StimulusHash> = hashes
        .iter()
        .filter_map(|hash| Some(StimulusHash(<[u8; 32]>::try_from(hash.as_slice()).ok()?)))
        .collect();
    let (keys, modes) = KeySet::excluding_waiters(&hashes).columns();
    let connection = pool.exclusive().await?;
    let client = connection.client()?;
    within(ANSWER_TIMEOUT, async {
        client.batch_execute("BEGIN").await?;
        // In a statement before the one that looks for bookmarks, whose snapshot would otherwise be older than the locks.
        client.execute(LOCK, &[&lock_class, &keys, &modes]).await?;
        client.execute(PURGE, &[&ids]).await?;
        client.batch_execute("COMMIT").await
    })
    .await?;
    connection.give_back();
    Ok(())
}
