//! The traffic of a topic: the messages of a service, numbered by their sender.
//!
//! A message carries its sender and a number. A gap in the numbers of a sender, or a reopened connection of this member,
//! means that something was missed.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::broadcast;

use crate::db::SenderNumbers;

/// What distinguishes a service: what waits to be sent, and the form of its messages.
pub(crate) trait Traffic: Default + Send + Sync + 'static {
    /// `wake` or `signal`; for names, logs and metrics.
    const SERVICE: &'static str;
    /// The kind and version of a message, in its property `type`.
    const MESSAGE_TYPE: &'static str;
    /// Whether a member receives what it has sent itself.
    const RECEIVES_OWN: bool;
    /// The pause after a message, for more to come.
    const COALESCE: Duration;
    /// What a subscriber receives for each message.
    type Received: Clone + Send + 'static;

    /// Waits for the next messages to send; their numbers follow that of the sender. Cancellation safe.
    fn outgoing(&self, sender: &mut Sender) -> impl Future<Output = Vec<String>> + Send;

    /// What was taken last may not have arrived: the next message says so.
    fn lost(&self);

    /// Reads a message of any member. `None` if no member can have sent it.
    fn read(message: &str) -> Option<Incoming<Self::Received>>;

    /// What takes the place of messages that were missed.
    fn missed() -> Self::Received;

    /// What is received where messages of the sender are missing before this one.
    fn after_gap(received: Self::Received) -> Self::Received;
}

/// The sender of this member, and the number of its last message.
pub(crate) struct Sender {
    pub(crate) from: String,
    pub(crate) no: u64,
}

/// A message that was read.
pub(crate) struct Incoming<R> {
    pub(crate) from: String,
    /// From 1 for each sender.
    pub(crate) no: u64,
    pub(crate) received: R,
}

/// The two ends of a member that its link needs.
pub(super) struct Ends<T: Traffic> {
    pub(super) outgoing: OutgoingEnd<T>,
    pub(super) incoming: IncomingEnd<T>,
}

pub(super) struct OutgoingEnd<T> {
    traffic: Arc<T>,
    sender: Sender,
    last: Option<Instant>,
}

pub(super) struct IncomingEnd<T: Traffic> {
    received: broadcast::Sender<T::Received>,
    own: String,
    numbers: SenderNumbers,
}

impl<T: Traffic> Ends<T> {
    pub(super) fn new(traffic: Arc<T>, received: broadcast::Sender<T::Received>) -> Self {
        let from = uuid::Uuid::new_v4().simple().to_string();
        let own = from.clone();
        let sender = Sender { from, no: 0 };
        Self {
            outgoing: OutgoingEnd {
                traffic,
                sender,
                last: None,
            },
            incoming: IncomingEnd {
                received,
                own,
                numbers: SenderNumbers::default(),
            },
        }
    }
}

impl<T: Traffic> OutgoingEnd<T> {
    /// Waits for the next messages to send. Cancellation safe.
    pub(super) async fn next(&mut self) -> Vec<String> {
        let left = self.last.map(|last| T::COALESCE.saturating_sub(last.elapsed()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            tokio::time::sleep(left).await;
        }
        let messages = self.traffic.outgoing(&mut self.sender).await;
        self.last = Some(Instant::now());
        messages
    }

    /// What was taken last may not have arrived.
    pub(super) fn lost(&self) {
        self.traffic.lost();
    }
}

impl<T: Traffic> IncomingEnd<T> {
    /// A connection is open: what others have sent before may be lost.
    pub(super) fn opened(&self) {
        // Fails without subscribers.
        let _ = self.received.send(T::missed());
    }

    /// A message of any member, this one too. Returns false if it cannot be read.
    pub(super) fn take(&mut self, message: &str) -> bool {
        let Some(message) = T::read(message) else {
            return false;
        };
        if message.from == self.own && !T::RECEIVES_OWN {
            return true;
        }
        let received = if self.numbers.has_gap(&message.from, message.no) {
            T::after_gap(message.received)
        } else {
            message.received
        };
        let _ = self.received.send(received);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A service whose messages are numbers.
    #[derive(Default)]
    struct Numbers(Mutex<Vec<u64>>);

    impl Traffic for Numbers {
        const SERVICE: &'static str = "test";
        const MESSAGE_TYPE: &'static str = "test.1";
        const RECEIVES_OWN: bool = false;
        const COALESCE: Duration = Duration::ZERO;
        type Received = Vec<u64>;

        async fn outgoing(&self, sender: &mut Sender) -> Vec<String> {
            let waiting = std::mem::take(&mut *self.0.lock().unwrap());
            let numbered = waiting.into_iter().map(|number| {
                sender.no += 1;
                format!("{} {} {number}", sender.from, sender.no)
            });
            numbered.collect()
        }

        fn lost(&self) {
            self.0.lock().unwrap().push(0);
        }

        fn read(message: &str) -> Option<Incoming<Vec<u64>>> {
            let mut parts = message.split(' ');
            Some(Incoming {
                from: parts.next()?.to_owned(),
                no: parts.next()?.parse().ok()?,
                received: vec![parts.next()?.parse().ok()?],
            })
        }

        fn missed() -> Vec<u64> {
            Vec::new()
        }

        fn after_gap(mut received: Vec<u64>) -> Vec<u64> {
            received.push(u64::MAX);
            received
        }
    }

    fn ends() -> (Ends<Numbers>, broadcast::Receiver<Vec<u64>>) {
        let (sender, receiver) = broadcast::channel(8);
        (Ends::new(Arc::default(), sender), receiver)
    }

    #[tokio::test]
    async fn what_may_be_missing_is_said_and_own_messages_are_left_out() {
        let ((mut one, mut at_one), (mut two, mut at_two)) = (ends(), ends());
        let send = |number| one.outgoing.traffic.0.lock().unwrap().push(number);
        send(1);
        let first = one.outgoing.next().await;
        let send = |number| one.outgoing.traffic.0.lock().unwrap().push(number);
        send(2);
        drop(one.outgoing.next().await);
        let send = |number| one.outgoing.traffic.0.lock().unwrap().push(number);
        send(3);
        one.outgoing.lost();
        for message in first.into_iter().chain(one.outgoing.next().await) {
            assert!(two.incoming.take(&message) && one.incoming.take(&message));
        }
        two.incoming.opened();
        let mut next = || at_two.try_recv().unwrap();
        assert_eq!(next(), [1]);
        assert_eq!(next(), [3, u64::MAX], "the second is missing");
        assert_eq!(next(), [0], "the sender says so");
        assert!(next().is_empty(), "of a new connection");
        assert!(at_one.try_recv().is_err());
        assert!(!two.incoming.take("rubbish"));
    }
}
