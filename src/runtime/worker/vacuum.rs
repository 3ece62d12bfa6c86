//! When a node makes room in the tables that all work goes through: after so many bursts of its own. A busy cluster needs
//! that more often than the server's own vacuum comes, and an idle one not at all.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::Notify;

use crate::runtime::context::node_context::Shift;
use crate::store::maintenance;

/// After so many bursts: some 10 MB of rows and what their indexes say of them.
const BURSTS: usize = 50_000;

/// The least time in between.
const REST: Duration = Duration::from_secs(2);

/// Counts bursts. One waiter.
#[derive(Default)]
pub(crate) struct Tidy {
    bursts: AtomicUsize,
    due: Notify,
}

impl Tidy {
    /// A burst has consumed what it was born of.
    pub(crate) fn ran(&self) {
        if self.bursts.fetch_add(1, Relaxed) + 1 == BURSTS {
            self.due.notify_one();
        }
    }

    /// Waits until there is something to do. Cancellation safe: a wake-up that nobody waits for is kept.
    async fn due(&self) {
        self.due.notified().await;
    }

    fn done(&self) {
        self.bursts.store(0, Relaxed);
    }
}

/// Makes room until the shift stops.
pub(crate) async fn run(shift: Arc<Shift>) {
    loop {
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = shift.tidy.due() => {}
        }
        shift.tidy.done();
        // Dropped half-way, the server ends it with the connection.
        let ran = tokio::select! {
            () = shift.stop.cancelled() => return,
            ran = maintenance::vacuum(&shift.connector) => ran,
        };
        if let Err(error) = ran {
            tracing::debug!(%error, "no room was made; the server does it by itself");
        }
        tokio::select! {
            () = shift.stop.cancelled() => return,
            () = tokio::time::sleep(REST) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_due_once_after_so_many_bursts() {
        let tidy = Tidy::default();
        let is_due = async || tokio::time::timeout(Duration::from_millis(1), tidy.due()).await.is_ok();
        for _ in 1..BURSTS {
            tidy.ran();
        }
        assert!(!is_due().await);
        tidy.ran();
        tidy.ran();
        assert!(is_due().await);
        assert!(!is_due().await);
        tidy.done();
        for _ in 0..BURSTS {
            tidy.ran();
        }
        assert!(is_due().await);
    }
}
