//! Starts what the inbox keeps for published triggers: at once after a publish of this node, and after a check-in that shows
//! what another node left.

use std::collections::BTreeMap;

use crate::Result;
use crate::runtime::context::node_context::NodeContext;
use crate::store::inbox_match;

/// Writes pages whenever there are any, until the incarnation closes.
pub(crate) async fn run(node: &NodeContext) {
    let mut reports = node.lifecycle.reports.clone();
    loop {
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = node.lifecycle.closed() => return,
            () = node.inbox_matches.notified() => {}
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                if !reports.borrow_and_update().check_in.has_inbox_matches {
                    continue;
                }
            }
        }
        // Dropped half-way, a page is written or not.
        let written = tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            written = pages(node) => written,
        };
        if let Err(error) = written {
            tracing::warn!(%error, "kept events of published triggers are started later");
        }
    }
}

/// Writes one page after the other until none is left, or until this node drains: then another node goes on.
async fn pages(node: &NodeContext) -> Result<()> {
    let mut refused = BTreeMap::<String, i64>::new();
    let mut outcome = Ok(());
    while !node.lifecycle.is_draining() {
        match inbox_match::page(&node.database.pool).await {
            Ok(Some(page)) => {
                if page.started > 0 {
                    node.work_accepted(None, None, page.started);
                }
                *refused.entry(page.definition).or_default() += page.refused;
            }
            Ok(None) => break,
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    for (workflow, refused) in refused.into_iter().filter(|(_, refused)| *refused > 0) {
        tracing::info!(
            workflow,
            refused,
            "the activation strategy refused starts by events from the inbox"
        );
    }
    outcome
}
