//! Whether the database answers check-ins while it does not answer another connection; if so, that connection is
//! unresponsive.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How long a question may be open before the answers to later check-ins count.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How much later its answer may come: after a stall of the whole database all answers come at once, in any order.
const GRACE: Duration = Duration::from_secs(1);

/// When the last answered check-in was sent. Cheap to clone; clones share it.
#[derive(Clone)]
pub(crate) struct LastAnswer(watch::Sender<Option<Instant>>);

impl LastAnswer {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Records that a check-in that was sent then was answered.
    pub(crate) fn record(&self, sent: Instant) {
        self.0.send_replace(Some(sent));
    }

    /// Returns when a question of `since` is overdue, as a much later check-in was answered; never without check-ins. Only for
    /// questions that wait for no lock. Cancellation safe.
    pub(crate) async fn overtaken(&self, since: Instant) {
        let mut answered = self.0.subscribe();
        let later = |sent: &Option<Instant>| sent.is_some_and(|sent| sent >= since + TIMEOUT);
        if answered.wait_for(later).await.is_err() {
            std::future::pending::<()>().await;
        }
        // In small steps: after a pause of this process, one long sleep would end before received answers are read.
        for _ in 0..10 {
            tokio::time::sleep(GRACE / 10).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_much_later_check_in_overtakes() {
        let answers = LastAnswer::new();
        let since = Instant::now();
        let overtaken = |timeout| tokio::time::timeout(timeout, answers.overtaken(since));
        // First no answer, then one to a check-in of about the same time.
        let (overtook, ()) = tokio::join!(overtaken(GRACE * 2), async {
            tokio::task::yield_now().await;
            answers.record(since + TIMEOUT / 2);
        });
        assert!(overtook.is_err());
        answers.record(since + TIMEOUT);
        overtaken(GRACE * 60).await.unwrap();
    }
}
