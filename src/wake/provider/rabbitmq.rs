//! Wake notifications over RabbitMQ: one fanout exchange, and a queue for each member. The messages are those of NOTIFY.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::broadcast;

use crate::db::{SUBSCRIBER_QUEUE, SenderNumbers};
use crate::rabbitmq_server::{RabbitLink, RabbitServer, Topic, Traffic, try_to_open};
use crate::wake::message::{Payload, pack};
use crate::wake::outbox::Outbox;
use crate::wake::{Message, WakeNotification, WakeSubscription, WakeTransport, missed};
use crate::{Result, failpoint};

/// The pause after a message, for more to come, as over NOTIFY.
const COALESCE: Duration = Duration::from_millis(3);

/// Wake notifications between all processes that use one prefix in one virtual host of a RabbitMQ broker. Cheap to
/// clone; it ends with the last clone.
///
/// While the broker is away, or has an alarm, nothing is sent, and check-ins find work.
#[derive(Clone)]
pub struct RabbitWake {
    traffic: Arc<WakeTraffic>,
    link: Arc<RabbitLink>,
    domain: Arc<str>,
}

struct WakeTraffic {
    outbox: Outbox,
    received: broadcast::Sender<Message>,
    from: String,
    sent: Mutex<Sent>,
    last: Mutex<SenderNumbers>,
}

/// The number of the last message, and when it was given to the link.
#[derive(Default)]
struct Sent {
    no: u64,
    at: Option<Instant>,
}

impl RabbitWake {
    /// Connects to `amqp://user:password@host:port/virtual-host` (`amqps://` with TLS; several hosts with a comma). Members of one
    /// prefix notify each other. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// `invalid-rabbitmq-url`, `invalid-settings` and `rabbitmq-refused` where a setting must change, `rabbitmq-unavailable`.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self> {
        let wake = Self::open(RabbitServer::parse(url)?, prefix)?;
        wake.link.first_try().await?;
        Ok(wake)
    }

    /// The same without waiting for the broker.
    pub(crate) fn open(server: RabbitServer, prefix: &str) -> Result<Self> {
        let traffic = Arc::new(WakeTraffic {
            outbox: Outbox::default(),
            received: broadcast::channel(SUBSCRIBER_QUEUE).0,
            from: uuid::Uuid::new_v4().simple().to_string(),
            sent: Mutex::default(),
            last: Mutex::default(),
        });
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
    /// As [`RabbitWake::connect`].
    #[cfg_attr(
        not(feature = "cli"),
        allow(dead_code, reason = "for the program, which waits for the broker")
    )]
    pub(crate) async fn check(server: &RabbitServer, prefix: &str) -> Result<()> {
        try_to_open(server, &topic(prefix)?).await
    }
}

fn topic(prefix: &str) -> Result<Topic> {
    Topic::new(prefix, "wake", "mainspring.wake.1")
}

impl WakeTransport for RabbitWake {
    fn notify(&self, notifications: Vec<WakeNotification>) {
        self.traffic.outbox.add(notifications);
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

    fn subscribe(&self) -> WakeSubscription {
        // What this process has sent is left out already.
        WakeSubscription::of_queue(self.traffic.received.subscribe(), u64::MAX)
    }
}

impl Traffic for WakeTraffic {
    async fn outgoing(&self) -> Vec<String> {
        let before = self.sent.lock().unwrap_or_else(PoisonError::into_inner).at;
        if let Some(before) = before {
            tokio::time::sleep(COALESCE.saturating_sub(before.elapsed())).await;
        }
        let notifications = self.outbox.take().await;
        let messages = {
            let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            sent.at = Some(Instant::now());
            pack(&self.from, &mut sent.no, notifications)
        };
        // The gap in the numbers shows it to the others with the next message.
        if failpoint::hit("wake.lost").await.is_err() {
            return Vec::new();
        }
        messages
    }

    fn lost(&self) {
        self.outbox.add([WakeNotification::Poll]);
    }

    fn opened(&self) {
        // Fails without subscribers.
        let _ = self.received.send(missed());
    }

    fn incoming(&self, message: &str) -> bool {
        let Some(payload) = Payload::parse(message) else {
            return false;
        };
        if payload.from == self.from {
            return true;
        }
        let gap = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.has_gap(&payload.from, payload.no)
        };
        let mut notifications = payload.notifications();
        if gap {
            notifications.push(WakeNotification::Poll);
        }
        let _ = self.received.send((0, Arc::from(notifications)));
        true
    }
}
