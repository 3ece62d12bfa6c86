//! Starts what the inbox keeps for published triggers: at once after a publish on this node, and after a check-in that shows
//! what another node left.

use std::collections::BTreeMap;

use tokio::sync::Notify;

use super::paging_job::{self, PagingJob};
use crate::Result;
use crate::runtime::context::node_context::NodeContext;
use crate::store::inbox_match;
use crate::store::node::CheckIn;

/// Starts kept events until the incarnation stops or drains.
pub(crate) async fn run(node: &NodeContext) {
    paging_job::run(node, InboxMatches { node }).await;
}

struct InboxMatches<'a> {
    node: &'a NodeContext,
}

impl PagingJob for InboxMatches<'_> {
    fn accepted(&self) -> &Notify {
        &self.node.inbox_matches
    }

    fn is_left(&self, check_in: &CheckIn) -> bool {
        check_in.has_inbox_matches
    }

    async fn write_pages(&mut self) {
        if let Err(error) = pages(self.node).await {
            tracing::warn!(%error, "kept events of published triggers are started later");
        }
    }
}

/// Writes one page after the other until none is left.
async fn pages(node: &NodeContext) -> Result<()> {
    let mut refused = BTreeMap::<String, i64>::new();
    let mut outcome = Ok(());
    loop {
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
