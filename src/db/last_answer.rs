//! Whether the database answers others while it does not answer us: then it is our connection that is silent.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How long the silent one is waited for before what others hear counts against it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How much longer it may take than an answer that was asked for later: after a stall of the whole database all come
/// at once, in any order.
const GRACE: Duration = Duration::from_secs(1);

/// When the last check-in was sent that was answered. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(crate) struct LastAnswer(watch::Sender<Option<Instant>>);

impl LastAnswer {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// A question that was sent then was answered.
    pub(crate) fn record(&self, sent: Instant) {
        self.0.send_replace(Some(sent));
    }

    /// Returns when a question of `since` should have been answered long ago, as others were that were asked much
    /// later; never if nobody else asks. Only for questions that wait for nothing. Cancellation safe.
    pub(crate) async fn overtaken(&self, since: Instant) {
        let mut answered = self.0.subscribe();
        let later = |sent: &Option<Instant>| sent.is_some_and(|sent| sent >= since + TIMEOUT);
        if answered.wait_for(later).await.is_err() {
            std::future::pending::<()>().await;
        }
        // In small steps: after a pause of this process one long sleep would be over before what had come is read.
        for _ in 0..10 {
            tokio::time::sleep(GRACE / 10).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_was_asked_much_later_overtakes() {
        let answers = LastAnswer::new();
        let since = Instant::now();
        let overtaken = |patience| tokio::time::timeout(patience, answers.overtaken(since));
        // Nobody was answered at first, and then somebody who asked at about the same time.
        let (overtook, ()) = tokio::join!(overtaken(GRACE * 2), async {
            tokio::task::yield_now().await;
            answers.record(since + TIMEOUT / 2);
        });
        assert!(overtook.is_err());
        answers.record(since + TIMEOUT);
        overtaken(GRACE * 60).await.unwrap();
    }
}
