//! Which bursts keep a thread: a mark that is set while a future is being polled.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// The steps of a watchdog: the time in which its process runs. Clones share it; one by itself stands still.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Arc<AtomicU64>);

impl Steps {
    pub(super) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The next step begins.
    pub(super) fn advance(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Not polled now.
const NEVER: u64 = u64::MAX;

/// Since which step a future is being polled. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct PollMark {
    since: Arc<AtomicU64>,
    steps: Steps,
}

impl PollMark {
    pub(crate) fn new(steps: &Steps) -> Self {
        Self {
            since: Arc::new(AtomicU64::new(NEVER)),
            steps: steps.clone(),
        }
    }

    /// The future, which sets the mark while it is polled.
    pub(crate) fn around<F: Future + Unpin>(self, future: F) -> Polled<F> {
        Polled { future, mark: self }
    }

    /// Whether it has been in one poll since that step or longer.
    pub(crate) fn is_in_poll_since(&self, step: u64) -> bool {
        self.since.load(Ordering::Relaxed) <= step
    }
}

/// A future with its mark.
pub(crate) struct Polled<F> {
    future: F,
    mark: PollMark,
}

impl<F: Future + Unpin> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.mark.since.store(self.mark.steps.now(), Ordering::Relaxed);
        let polled = Pin::new(&mut self.future).poll(context);
        self.mark.since.store(NEVER, Ordering::Relaxed);
        polled
    }
}
