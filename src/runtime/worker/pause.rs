//! Follows pauses and resumes of the cluster: by check-in, and sooner by the notification of the node that made them.

use crate::runtime::context::node_context::NodeContext;
use crate::store::pause;

/// Notes each change, until the incarnation stops.
pub(crate) async fn follow(node: &NodeContext) {
    let mut reports = node.lifecycle.reports.clone();
    loop {
        // All are cancellation safe.
        tokio::select! {
            () = node.lifecycle.stop.cancelled() => return,
            () = node.pause.outdated() => {
                match pause::read(&node.database.pool).await {
                    Ok(row) => node.pause_known(row.pause),
                    Err(error) => tracing::debug!(%error, "the pause cannot be read; the next check-in reports it"),
                }
            }
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                let pause = reports.borrow_and_update().check_in.pause;
                node.pause_known(pause);
            }
        }
    }
}
