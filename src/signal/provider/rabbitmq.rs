//! Cache notifications over RabbitMQ: one fanout exchange, and a queue for each member. The revision, which each check-in
//! reads, reveals lost notifications.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::Result;
use crate::db::SUBSCRIBER_QUEUE;
use crate::rabbitmq_server::{Incoming, RabbitMember, RabbitServer, Sender, Traffic};
use crate::signal::{CacheNotification, CacheSignal, CacheSubscription, DefinitionChange};

/// The longest sender of a message, in bytes.
const LONGEST_SENDER: usize = 64;

/// Cache notifications between all processes that use one prefix in one virtual host of a RabbitMQ broker. Cheap to
/// clone; it ends with the last clone.
///
/// While the broker is away, or has an alarm, nothing is sent, and check-ins bring the revision.
#[derive(Clone)]
pub struct RabbitSignal(Arc<RabbitMember<Changes>>);

/// The changes that wait to be sent, in order. `None` if any definition may have changed.
#[derive(Default)]
struct Changes {
    waiting: Mutex<Vec<Option<DefinitionChange>>>,
    filled: Notify,
}

/// What one message carries.
#[derive(Serialize, Deserialize)]
struct SignalMessage {
    /// Identifies one member.
    from: String,
    /// The number of the message, from 1 for each sender.
    no: u64,
    /// Absent if some of the sender's messages were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    change: Option<DefinitionChange>,
}

impl RabbitSignal {
    /// Connects to `amqp://user:password@host:port/virtual-host` (`amqps://` with TLS; commas separate several hosts).
    /// Members of one prefix notify each other. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// `invalid-rabbitmq-url`, `invalid-settings` and `rabbitmq-refused` where a setting must change, `rabbitmq-unavailable`.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self> {
        Ok(Self(Arc::new(RabbitMember::connect(url, prefix).await?)))
    }

    /// The same without waiting for the broker.
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the program opens it"))]
    pub(crate) fn open(server: RabbitServer, prefix: &str) -> Result<Self> {
        Ok(Self(Arc::new(RabbitMember::open(server, prefix)?)))
    }

    /// Whether it could be opened now.
    ///
    /// # Errors
    /// As [`RabbitSignal::connect`].
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the program waits for the broker"))]
    pub(crate) async fn check(server: &RabbitServer, prefix: &str) -> Result<()> {
        RabbitMember::<Changes>::check(server, prefix).await
    }
}

impl CacheSignal for RabbitSignal {
    fn notify(&self, change: DefinitionChange) {
        self.0.traffic.add(Some(change));
    }

    fn away_cause(&self) -> Option<String> {
        self.0.away_cause()
    }

    fn is_away(&self) -> bool {
        self.away_cause().is_some()
    }

    fn domain(&self) -> Option<String> {
        Some(self.0.domain())
    }

    fn subscribe(&self) -> CacheSubscription {
        CacheSubscription::of_queue(self.0.subscribe())
    }
}

impl Changes {
    /// Adds a change; too many become one that means "any".
    fn add(&self, change: Option<DefinitionChange>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < SUBSCRIBER_QUEUE {
            waiting.push(change);
        } else {
            *waiting = vec![None];
        }
        self.filled.notify_one();
    }
}

impl Traffic for Changes {
    const SERVICE: &'static str = "signal";
    const MESSAGE_TYPE: &'static str = "mainspring.signal.1";
    const RECEIVES_OWN: bool = true;
    const COALESCE: Duration = Duration::ZERO;
    type Received = CacheNotification;

    async fn outgoing(&self, sender: &mut Sender) -> Vec<String> {
        loop {
            let changes = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            if changes.is_empty() {
                self.filled.notified().await;
                continue;
            }
            let messages = changes.into_iter().filter_map(|change| {
                sender.no += 1;
                let (from, no) = (sender.from.clone(), sender.no);
                // Serializing strings and numbers does not fail.
                serde_json::to_string(&SignalMessage { from, no, change }).ok()
            });
            return messages.collect();
        }
    }

    fn lost(&self) {
        self.add(None);
    }

    fn read(message: &str) -> Option<Incoming<CacheNotification>> {
        let SignalMessage { from, no, change } = serde_json::from_str(message).ok()?;
        let is_sound = no > 0 && (1..=LONGEST_SENDER).contains(&from.len());
        let received = change.map_or_else(Self::missed, CacheNotification::Changed);
        is_sound.then_some(Incoming { from, no, received })
    }

    fn missed() -> CacheNotification {
        CacheNotification::Invalidate
    }

    fn after_gap(_: CacheNotification) -> CacheNotification {
        // What is missing may be any definition.
        CacheNotification::Invalidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conformance::signal::change;

    #[tokio::test]
    async fn changes_keep_their_order_and_too_many_are_any() {
        let changes = Changes::default();
        let mut sender = Sender {
            from: "a".to_owned(),
            no: 0,
        };
        let mut read = async || {
            let sent = changes.outgoing(&mut sender).await;
            let read = sent.iter().map(|message| Changes::read(message).unwrap());
            read.map(|read| (read.no, read.received)).collect::<Vec<_>>()
        };
        changes.add(Some(change(1, "a")));
        changes.add(Some(change(2, "b")));
        changes.lost();
        let of = |n, definition| CacheNotification::Changed(change(n, definition));
        let expected = [(1, of(1, "a")), (2, of(2, "b")), (3, CacheNotification::Invalidate)];
        assert_eq!(read().await, expected);
        for n in 0..=SUBSCRIBER_QUEUE {
            changes.add(Some(change(n.try_into().unwrap(), "a")));
        }
        assert_eq!(read().await, [(4, CacheNotification::Invalidate)]);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
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
            assert!(Changes::read(message).is_none(), "{message}");
        }
        // A newer node may send more.
        assert!(Changes::read(r#"{"from": "a", "no": 1, "more": 1}"#).is_some());
    }
}
