//! Rows whose payload names files in the spool of a process: only that process can run them.
//!
//! Nothing of such a request is accepted before the commit of its first burst, so its row is deleted without an effect once
//! the files are gone, and with it its idempotency key.

use std::time::Duration;

use super::instruction::{RequestOfRow, request_of};
use super::release::give_back;
use crate::Result;
use crate::runtime::context::node_context::NodeContext;
use crate::spool::SpoolFile;
use crate::store::claim::{self, ClaimedRow, InstanceKey, Release, ReleaseCause};
use crate::store::code::WorkKind;
use crate::store::node;

/// How long a row rests that is left to the node that has its files.
const FOR_HOLDER: Duration = Duration::from_millis(100);

/// The files of the requests of some rows. They stay as long as these are held, also if the client leaves.
pub(super) struct HeldFiles(Vec<SpoolFile>);

impl HeldFiles {
    fn has(&self, id: &str) -> bool {
        self.0.iter().any(|file| file.id() == id)
    }
}

fn of(row: &ClaimedRow) -> Option<RequestOfRow> {
    request_of(row).filter(|request| !request.files.is_empty())
}

/// Holds what this process has of the files of these rows; `None` if they name none.
pub(super) fn hold(node: &NodeContext, rows: &[ClaimedRow]) -> Option<HeldFiles> {
    let requests: Vec<RequestOfRow> = rows.iter().filter_map(of).collect();
    let files = requests
        .iter()
        .flat_map(|request| node.notifications.requests.files(request.id));
    (!requests.is_empty()).then(|| HeldFiles(files.collect()))
}

/// Discards the rows whose files are gone, and leaves those of others to the nodes that have their files. Returns the rest.
pub(super) async fn discard_lost(
    node: &NodeContext,
    key: &InstanceKey,
    rows: Vec<ClaimedRow>,
    held: &HeldFiles,
) -> Result<Vec<ClaimedRow>> {
    // By the files, not by the id: a repeat under the same key has the id of the first request, and files of its own.
    let is_lost = |row: &ClaimedRow| of(row).filter(|request| !request.files.iter().all(|file| held.has(file)));
    let incarnation = node.database.incarnation;
    let holders = rows.iter().filter_map(is_lost).map(|request| request.holder);
    let holders: Vec<i64> = holders
        .filter(|holder| *holder != incarnation)
        .map(|holder| holder.0)
        .collect();
    let mut rows = rows;
    if !holders.is_empty() {
        let living = node::living(&node.database.pool, &holders).await?;
        let is_elsewhere = |row: &ClaimedRow| is_lost(row).is_some_and(|request| living.contains(&request.holder.0));
        if rows.iter().any(is_elsewhere) {
            // A burst that has begun is repeated with all of its rows; only a cancel goes before it.
            let has_begun = rows.iter().any(|row| row.had_begun);
            let is_cancel = |row: &ClaimedRow| matches!(row.instruction, Some((WorkKind::Cancel, _)));
            let (left, others): (Vec<_>, Vec<_>) = rows
                .into_iter()
                .partition(|row| is_elsewhere(row) || has_begun && !is_cancel(row));
            let (cause, pause) = (ReleaseCause::None, FOR_HOLDER);
            give_back(node, key, &left, Release { cause, pause }).await;
            rows = others;
        }
    }
    let mut kept = Vec::new();
    for row in rows {
        match is_lost(&row) {
            None => kept.push(row),
            Some(request) => {
                tracing::info!(instance = %key.1, "a request is discarded: its files are lost with the process that received it");
                let pool = &node.database.pool;
                claim::discard_volatile(pool, incarnation, key, &row.claim, request.key.as_deref()).await?;
            }
        }
    }
    Ok(kept)
}
