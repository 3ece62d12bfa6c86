//! Rows of requests whose clients wait at another node.
//!
//! The burst of a request runs on the node that received it, as a large answer reaches a client only there. Another node that
//! claims its row first leaves the row to that node, which had room when it accepted the request, for a second. A row whose
//! payload names files in the spool of a process is left to its node as long as that is registered, or being removed: only that
//! process can run it. Nothing of such a request is accepted before the commit of its first burst, so its row is deleted without
//! an effect once the files are gone, and with it its idempotency key.

use std::time::Duration;

use super::instruction::{RequestOfRow, request_of};
use super::release::give_back;
use crate::Result;
use crate::runtime::context::node_context::NodeContext;
use crate::spool::SpoolFile;
use crate::store::claim::{self, ClaimedRow, InstanceKey, Release, ReleaseCause};
use crate::store::code::WorkKind;
use crate::store::commit::Claim;

/// How long this node does not poll for an instance of which a row is left to another node.
const FOR_HOLDER: Duration = Duration::from_millis(100);

/// A row that any node can run is left to its holder until it has been claimed so often: then the holder does not run it.
const MOST_CLAIMS: i64 = 8;

/// The files of the requests of some rows. They stay as long as these are held, also if the client leaves.
pub(super) struct HeldFiles(Vec<SpoolFile>);

impl HeldFiles {
    fn has(&self, id: &str) -> bool {
        self.0.iter().any(|file| file.id() == id)
    }
}

/// Holds what this process has of the files of these rows; `None` if all of them are for any node.
pub(super) fn hold(node: &NodeContext, rows: &[ClaimedRow]) -> Option<HeldFiles> {
    let incarnation = node.database.incarnation;
    let is_bound =
        |request: &RequestOfRow| !request.files.is_empty() || request.is_for_holder && request.holder != incarnation;
    let requests: Vec<RequestOfRow> = rows.iter().filter_map(request_of).filter(is_bound).collect();
    let files = requests
        .iter()
        .flat_map(|request| node.notifications.requests.files(request.id));
    (!requests.is_empty()).then(|| HeldFiles(files.collect()))
}

/// The request of a row that names files which are not held.
fn lost(row: &ClaimedRow, held: &HeldFiles) -> Option<RequestOfRow> {
    // By the files, not by the id: a repeat under the same key has the id of the first request, and files of its own.
    request_of(row).filter(|request| !request.files.iter().all(|file| held.has(file)))
}

/// Gives back the rows that other nodes are to run. Returns the rest.
pub(super) async fn leave_to_holders(
    node: &NodeContext,
    key: &InstanceKey,
    rows: Vec<ClaimedRow>,
    held: &HeldFiles,
) -> Result<Vec<ClaimedRow>> {
    let bound = |row: &ClaimedRow| {
        let Claim::Work(id, claims) = &row.claim else {
            return None;
        };
        let request = request_of(row).filter(|request| request.holder != node.database.incarnation)?;
        let needs_holder = lost(row, held).is_some();
        let is_bound = needs_holder || request.is_for_holder && !row.had_begun && claims.0 < MOST_CLAIMS;
        is_bound.then_some((*id, request.holder, needs_holder))
    };
    let bound: Vec<_> = rows.iter().filter_map(bound).collect();
    if bound.is_empty() {
        return Ok(rows);
    }
    let left = claim::left_to_holders(&node.database.pool, &key.0, &bound).await?;
    let is_left = |row: &ClaimedRow| matches!(&row.claim, Claim::Work(id, _) if left.contains(id));
    if !rows.iter().any(is_left) {
        return Ok(rows);
    }
    // A burst that has begun is repeated with all of its rows; only a cancel goes before it.
    let has_begun = rows.iter().any(|row| row.had_begun);
    let is_cancel = |row: &ClaimedRow| matches!(row.instruction, Some((WorkKind::Cancel, _)));
    let (left, others): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .partition(|row| is_left(row) || has_begun && !is_cancel(row));
    tracing::debug!(instance = %key.1, rows = left.len(), "rows are left to the node at which their clients wait");
    node.claims.defer_for([key.clone()], FOR_HOLDER);
    if left.iter().any(|row| lost(row, held).is_some()) {
        let (cause, pause) = (ReleaseCause::None, FOR_HOLDER);
        give_back(node, key, &left, Release { cause, pause }).await;
    } else {
        give_back(node, key, &left, Release::IMMEDIATE).await;
        node.notifications.wake.work_ready(&key.1);
    }
    Ok(others)
}

/// Discards the rows whose files are gone. Returns the rest.
pub(super) async fn discard_lost(
    node: &NodeContext,
    key: &InstanceKey,
    rows: Vec<ClaimedRow>,
    held: &HeldFiles,
) -> Result<Vec<ClaimedRow>> {
    let mut kept = Vec::new();
    for row in rows {
        match lost(&row, held) {
            None => kept.push(row),
            Some(request) => {
                tracing::info!(instance = %key.1, "a request is discarded: its files are lost with the process that received it");
                let (pool, incarnation) = (&node.database.pool, node.database.incarnation);
                claim::discard_volatile(pool, incarnation, key, &row.claim, request.key.as_deref()).await?;
            }
        }
    }
    Ok(kept)
}
