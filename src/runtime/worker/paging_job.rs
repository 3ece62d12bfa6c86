//! Work that continues page by page until it is done. Any node writes the next page: a node that accepted some of it, and
//! each node whose check-in shows that some is left, because the first node may be gone.

use tokio::sync::Notify;

use crate::runtime::context::node_context::NodeContext;
use crate::store::node::CheckIn;

/// One kind of such work.
pub(super) trait PagingJob {
    /// Notified when this node has accepted some.
    fn accepted(&self) -> &Notify;

    /// Whether a check-in shows that some is left.
    fn is_left(&self, check_in: &CheckIn) -> bool;

    /// A check-in shows that nothing is left: what is kept from one call of `write_pages` to the next is not needed.
    fn forget(&mut self) {}

    /// Writes one page after another until nothing is left that this node can do. If the future is dropped halfway, a page
    /// is written as a whole or not at all.
    fn write_pages(&mut self) -> impl Future<Output = ()> + Send;
}

/// Works on a job until the incarnation drains; returns when it stops.
pub(super) async fn run(node: &NodeContext, mut job: impl PagingJob) {
    let lifecycle = &node.lifecycle;
    let mut reports = lifecycle.reports.clone();
    loop {
        // All are cancellation safe.
        tokio::select! {
            () = lifecycle.stop.cancelled() => return,
            () = lifecycle.draining.cancelled() => break,
            () = job.accepted().notified() => {}
            changed = reports.changed() => {
                if changed.is_err() {
                    break;
                }
                if !job.is_left(&reports.borrow_and_update().check_in) {
                    job.forget();
                    continue;
                }
            }
        }
        tokio::select! {
            () = lifecycle.stop.cancelled() => return,
            () = lifecycle.draining.cancelled() => break,
            () = job.write_pages() => {}
        }
    }
    // Other nodes continue. The owner of this task takes its end for a failure.
    lifecycle.stop.cancelled().await;
}
