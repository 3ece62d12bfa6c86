//! Cache notifications over RabbitMQ: one fanout exchange, and a queue for each member.
//!
//! A message carries its sender and a number. A gap in the numbers of a sender, or a connection of one's own that was opened anew,
//! empties the cache; the revision, which each check-in reads, finds what is left.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, broadcast};

use crate::Result;
use crate::db::{SUBSCRIBER_QUEUE, SenderNumbers};
use crate::rabbitmq_server::{RabbitLink, RabbitServer, Topic, Traffic, try_to_open};
use crate::signal::{CacheNotification, CacheSignal, CacheSubscription, DefinitionChange};

/// The longest sender of a message, in bytes.
const LONGEST_SENDER: usize = 64;

/// Cache notifications between all processes that use one prefix in one virtual host of a RabbitMQ broker. Cheap to
/// clone; it ends with the last clone.
///
/// While the broker is away, or has an alarm, nothing is sent, and check-ins bring the revision.
#[derive(Clone)]
pub struct RabbitSignal {
    traffic: Arc<SignalTraffic>,
    link: Arc<RabbitLink>,
    domain: Arc<str>,
}

struct SignalTraffic {
    waiting: Mutex<Waiting>,
    filled: Notify,
    received: broadcast::Sender<CacheNotification>,
    from: String,
    last: Mutex<SenderNumbers>,
}

/// What is to be sent. When there is too much, the oldest are dropped: their numbers are missing then.
#[derive(Default)]
struct Waiting {
    no: u64,
    messages: Vec<String>,
}

/// What one message carries.
#[derive(Serialize, Deserialize)]
struct SignalMessage {
    /// Identifies one member.
    from: String,
    /// The number of the message, from 1 for each sender.
    no: u64,
    /// Absent: some of the sender's were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    change: Option<DefinitionChange>,
}

impl RabbitSignal {
    /// Connects to `amqp://user:password@host:port/virtual-host` (`amqps://` with TLS; several hosts with a comma). Members of one
    /// prefix notify each other. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// `invalid-rabbitmq-url`, `invalid-settings` and `rabbitmq-refused` where a setting must change, `rabbitmq-unavailable`.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self> {
        let signal = Self::open(RabbitServer::parse(url)?, prefix)?;
        signal.link.first_try().await?;
        Ok(signal)
    }

    /// The same without waiting for the broker.
    pub(crate) fn open(server: RabbitServer, prefix: &str) -> Result<Self> {
        let traffic = Arc::new(SignalTraffic::new());
        let link = RabbitLink::start(server, topic(prefix)?, Arc::clone(&traffic));
        Ok(Self {
            traffic,
            link: Arc::new(link),
            domain: format!("rabbitmq {prefix}").into(),
        })
    }

    /// Whether it could be opened now.
    ///
    /// # Errors
    /// As [`RabbitSignal::connect`].
    #[cfg_attr(
        not(feature = "cli"),
        allow(dead_code, reason = "for the program, which waits for the broker")
    )]
    pub(crate) async fn check(server: &RabbitServer, prefix: &str) -> Result<()> {
        try_to_open(server, &topic(prefix)?).await
    }
}

fn topic(prefix: &str) -> Result<Topic> {
    Topic::new(prefix, "signal", "mainspring.signal.1")
}

impl CacheSignal for RabbitSignal {
    fn notify(&self, change: DefinitionChange) {
        self.traffic.add(Some(change));
    }

    fn away_cause(&self) -> Option<String> {
        self.link.away_cause()
    }

    fn is_away(&self) -> bool {
        self.link.is_away()
    }

    fn domain(&self) -> Option<String> {
        Some(self.domain.as_ref().to_owned())
    }

    fn subscribe(&self) -> CacheSubscription {
        CacheSubscription::of_queue(self.traffic.received.subscribe())
    }
}

impl SignalTraffic {
    fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            filled: Notify::new(),
            received: broadcast::channel(SUBSCRIBER_QUEUE).0,
            from: uuid::Uuid::new_v4().simple().to_string(),
            last: Mutex::default(),
        }
    }

    fn add(&self, change: Option<DefinitionChange>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.no += 1;
        let from = self.from.clone();
        let message = serde_json::to_string(&SignalMessage {
            from,
            no: waiting.no,
            change,
        });
        // Serializing strings and numbers does not fail.
        waiting.messages.extend(message);
        if waiting.messages.len() > SUBSCRIBER_QUEUE {
            waiting.messages.remove(0);
        }
        self.filled.notify_one();
    }
}

impl Traffic for SignalTraffic {
    async fn outgoing(&self) -> Vec<String> {
        loop {
            let messages = std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner).messages);
            if !messages.is_empty() {
                return messages;
            }
            self.filled.notified().await;
        }
    }

    fn lost(&self) {
        self.add(None);
    }

    fn opened(&self) {
        // Fails without subscribers.
        let _ = self.received.send(CacheNotification::Invalidate);
    }

    fn incoming(&self, message: &str) -> bool {
        let Ok(message) = serde_json::from_str::<SignalMessage>(message) else {
            return false;
        };
        if message.no == 0 || !(1..=LONGEST_SENDER).contains(&message.from.len()) {
            return false;
        }
        let gap = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.has_gap(&message.from, message.no)
        };
        let notification = match message.change {
            // What is missing may be any definition.
            _ if gap => CacheNotification::Invalidate,
            Some(change) => CacheNotification::Changed(change),
            None => CacheNotification::Invalidate,
        };
        let _ = self.received.send(notification);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conformance::signal::change;

    #[tokio::test]
    async fn what_may_be_missing_empties_the_cache() {
        let (sender, receiver) = (SignalTraffic::new(), SignalTraffic::new());
        let mut received = receiver.received.subscribe();
        sender.add(Some(change(1, "a")));
        sender.add(Some(change(2, "b")));
        let first = sender.outgoing().await;
        sender.add(Some(change(3, "never sent")));
        drop(sender.outgoing().await);
        sender.add(Some(change(4, "c")));
        sender.lost();
        for message in first.into_iter().chain(sender.outgoing().await) {
            assert!(receiver.incoming(&message));
        }
        let mut next = async || received.recv().await.unwrap();
        assert_eq!(next().await, CacheNotification::Changed(change(1, "a")));
        assert_eq!(next().await, CacheNotification::Changed(change(2, "b")));
        assert_eq!(next().await, CacheNotification::Invalidate, "the third is missing");
        assert_eq!(next().await, CacheNotification::Invalidate, "the sender says so");
        receiver.opened();
        assert_eq!(next().await, CacheNotification::Invalidate);
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_what_cannot_be_read_is_refused() {
        let traffic = SignalTraffic::new();
        for n in 0..5_000 {
            traffic.add(Some(change(n, "a")));
        }
        assert_eq!(traffic.outgoing().await.len(), SUBSCRIBER_QUEUE);
        let long = "x".repeat(LONGEST_SENDER + 1);
        for message in [
            "",
            "[]",
            "{}",
            r#"{"from": "a", "no": 0}"#,
            r#"{"from": "", "no": 1}"#,
            r#"{"from": "a", "no": 1, "change": {"definition": 1}}"#,
            &format!(r#"{{"from": "{long}", "no": 1}}"#),
        ] {
            assert!(!traffic.incoming(message), "{message}");
        }
        // A newer node may send more.
        assert!(traffic.incoming(r#"{"from": "a", "no": 1, "more": 1}"#));
    }
}
