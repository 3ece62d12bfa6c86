//! Wake notifications over RabbitMQ: one fanout exchange, and a queue for each member. The messages are those of NOTIFY.

use std::sync::Arc;
use std::time::Duration;

use crate::rabbitmq_server::{Incoming, RabbitMember, RabbitServer, Sender, Traffic};
use crate::wake::message::{Payload, pack};
use crate::wake::outbox::Outbox;
use crate::wake::{Message, WakeNotification, WakeSubscription, WakeTransport, missed};
use crate::{Result, failpoint};

/// Wake notifications between all processes that use one prefix in one virtual host of a RabbitMQ broker. Cheap to
/// clone; it ends with the last clone.
///
/// While the broker is away, or has an alarm, nothing is sent, and check-ins find work.
#[derive(Clone)]
pub struct RabbitWake(Arc<RabbitMember<Outbox>>);

impl RabbitWake {
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
    /// As [`RabbitWake::connect`].
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the program waits for the broker"))]
    pub(crate) async fn check(server: &RabbitServer, prefix: &str) -> Result<()> {
        RabbitMember::<Outbox>::check(server, prefix).await
    }
}

impl WakeTransport for RabbitWake {
    fn notify(&self, notifications: Vec<WakeNotification>) {
        self.0.traffic.add(notifications);
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

    fn subscribe(&self) -> WakeSubscription {
        // What this process has sent is left out already.
        WakeSubscription::of_queue(self.0.subscribe(), u64::MAX)
    }
}

impl Traffic for Outbox {
    const SERVICE: &'static str = "wake";
    const MESSAGE_TYPE: &'static str = "mainspring.wake.1";
    const RECEIVES_OWN: bool = false;
    /// As over NOTIFY.
    const COALESCE: Duration = Duration::from_millis(3);
    type Received = Message;

    async fn outgoing(&self, sender: &mut Sender) -> Vec<String> {
        let notifications = self.take().await;
        let messages = pack(&sender.from, &mut sender.no, notifications);
        // The gap in the numbers shows it to the others with the next message.
        if failpoint::hit("wake.lost").await.is_err() {
            return Vec::new();
        }
        messages
    }

    fn lost(&self) {
        self.add([WakeNotification::Poll]);
    }

    fn read(message: &str) -> Option<Incoming<Message>> {
        let mut payload = Payload::parse(message)?;
        let from = std::mem::take(&mut payload.from);
        Some(Incoming {
            from,
            no: payload.no,
            received: (0, Arc::from(payload.notifications())),
        })
    }

    fn missed() -> Message {
        missed()
    }

    fn after_gap((sender, notifications): Message) -> Message {
        let notifications = notifications.iter().cloned().chain([WakeNotification::Poll]);
        (sender, notifications.collect())
    }
}
