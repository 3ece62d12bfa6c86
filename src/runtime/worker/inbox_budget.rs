//! Weighs the kept events while events arrive at this node or a budget is exhausted.

use std::time::{Duration, Instant};

use crate::Result;
use crate::runtime::context::node_context::NodeContext;
use crate::store::inbox::{self, InboxWeight};

/// The bounds of the pause between two counts.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A count takes at most one in so many parts of the time.
const SHARE: u32 = 20;

/// Counts once, and then whenever this node has kept events or a budget is used up, until the incarnation stops.
pub(super) async fn run(node: &NodeContext) {
    let (kept, stop) = (&node.kept_events, &node.lifecycle.stop);
    loop {
        let began = Instant::now();
        let counted = tokio::select! {
            () = stop.cancelled() => return,
            counted = weigh(node) => counted,
        };
        match counted {
            Ok(weights) => {
                let bytes: u64 = weights.iter().filter(|of| of.hash.is_none()).map(|of| of.bytes).sum();
                #[expect(clippy::cast_precision_loss, reason = "a gauge")]
                metrics::gauge!("mainspring_inbox_bytes").set(bytes as f64);
                kept.counted(weights);
            }
            // The former count is what callers know meanwhile.
            Err(error) => {
                tracing::debug!(%error, "the kept events could not be weighed");
                kept.arrived.notify_one();
            }
        }
        let pause = (began.elapsed() * SHARE).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if !kept.has_full() {
            tokio::select! {
                () = stop.cancelled() => return,
                () = kept.arrived.notified() => {}
            }
        }
    }
}

/// Weighs over a connection for lists; if clients keep those busy, or a count takes longer than a list may, over one of the pool.
async fn weigh(node: &NodeContext) -> Result<Vec<InboxWeight>> {
    let budget = node.kept_events.budget;
    match inbox::weigh(node.database.reads.lists(), budget).await {
        Err(error) if ["reads-busy", "read-timeout"].contains(&error.code()) => {
            inbox::weigh(&node.database.pool, budget).await
        }
        weighed => weighed,
    }
}
