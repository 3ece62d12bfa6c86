//! How long an incarnation runs, and what it knows from its check-ins.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::CheckInReport;

/// The beginning and the end of an incarnation.
pub(crate) struct Lifecycle {
    /// When it began.
    pub(crate) began: Instant,
    /// All its work must end.
    pub(crate) stop: CancellationToken,
    /// Nothing new is claimed.
    pub(crate) draining: CancellationToken,
    /// The loops that poll may end.
    closing: CancellationToken,
    /// Its bursts, and the requests that begin them.
    pub(crate) tasks: TaskTracker,
    pub(crate) reports: watch::Receiver<CheckInReport>,
    /// How often every node checks in.
    pub(crate) check_in: Duration,
    /// Changes when this node has taken over from another one.
    pub(crate) taken_over: watch::Receiver<u64>,
}

impl Lifecycle {
    pub(crate) fn new(
        reports: watch::Receiver<CheckInReport>,
        taken_over: watch::Receiver<u64>,
        check_in: Duration,
        draining: CancellationToken,
    ) -> Self {
        Self {
            began: Instant::now(),
            stop: CancellationToken::new(),
            draining,
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            reports,
            check_in,
            taken_over,
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Claims nothing new, and lets the loops that poll end.
    pub(crate) fn close(&self) {
        self.draining.cancel();
        self.closing.cancel();
    }

    /// Returns when the incarnation closes. Cancellation safe.
    pub(crate) async fn closed(&self) {
        self.closing.cancelled().await;
    }

    /// Returns when the incarnation stops or, while it drains, closes. Cancellation safe.
    pub(crate) async fn drained(&self) {
        if self.is_draining() {
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = self.closed() => {}
            }
        }
    }
}
