//! A fanout exchange with a queue for this member: whatever one member sends, all connected members receive.
//!
//! Both are durable, because RabbitMQ 4 phases out queues that are neither durable nor exclusive. The messages are not: each
//! is a hint that is worth nothing a minute later.

use std::future::Future;

use lapin::message::Delivery;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Consumer, ExchangeKind, PublisherConfirm};

use super::connection::{ANSWER_TIMEOUT, Asked, BrokerConnection, RabbitServer, failed, unavailable};
use crate::{Error, Result};

/// How long the queue of a member that is gone is kept, in milliseconds.
const QUEUE_EXPIRES: i64 = 300_000;
/// The most messages and bytes that wait in a queue. The oldest are dropped, and their numbers are missing.
const QUEUE_MESSAGES: i64 = 10_000;
const QUEUE_BYTES: i64 = 16 << 20;
/// How long a message waits in a queue, in milliseconds.
const MESSAGE_EXPIRES: &str = "60000";
/// How many messages the broker sends before they are acknowledged.
const PREFETCH: u16 = 50;
/// The longest message that is read, in bytes.
const LONGEST_MESSAGE: usize = 64 << 10;
/// The longest prefix of names, in bytes.
const LONGEST_PREFIX: usize = 100;

/// What is sent over one exchange.
#[derive(Clone, Debug)]
pub(super) struct Topic {
    /// `wake` or `signal`; for names, logs and metrics.
    pub(super) service: &'static str,
    /// The kind and version of a message, in its property `type`.
    pub(super) message_type: &'static str,
    pub(super) exchange: String,
    pub(super) queue: String,
}

impl Topic {
    /// The topic of one member. Members of one prefix receive what the others send.
    ///
    /// # Errors
    /// `invalid-settings`: a prefix that cannot be part of a name.
    pub(super) fn new(prefix: &str, service: &'static str, message_type: &'static str) -> Result<Self> {
        let is_sound = |prefix: &str| prefix.chars().all(|c| c.is_ascii_alphanumeric() || "._-:".contains(c));
        if prefix.is_empty() || prefix.len() > LONGEST_PREFIX || !is_sound(prefix) || prefix.starts_with("amq.") {
            let message = "the prefix of names in RabbitMQ (rabbitmq-prefix) has 1 to 100 letters, digits and `.`, `_`, `-`, `:`, \
                           and does not begin with `amq.`";
            return Err(Error::invalid("invalid-settings", message));
        }
        let exchange = format!("{prefix}.{service}");
        Ok(Self {
            service,
            message_type,
            queue: format!("{exchange}.{}", uuid::Uuid::new_v4().simple()),
            exchange,
        })
    }
}

/// An open topic.
pub(super) struct OpenTopic {
    pub(super) broker: BrokerConnection,
    pub(super) consumer: Consumer,
    channel: Channel,
    place: String,
    topic: Topic,
}

impl OpenTopic {
    /// Connects, declares exchange and queue, and consumes.
    pub(super) async fn open(server: &RabbitServer, topic: &Topic) -> Result<Self> {
        let place = server.place();
        let broker = server.connect(&format!("mainspring {}", topic.service)).await?;
        let opening = declare(&broker, &place, topic);
        let (channel, consumer) = tokio::time::timeout(ANSWER_TIMEOUT, opening)
            .await
            .map_err(|_| unavailable(&place, "it does not answer"))??;
        Ok(Self {
            broker,
            consumer,
            channel,
            place,
            topic: topic.clone(),
        })
    }

    /// Publishes a message. The future within it ends when the broker has put it into all queues.
    pub(super) async fn publish(&self, message: &str) -> Result<PublisherConfirm> {
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_type(self.topic.message_type.into())
            .with_expiration(MESSAGE_EXPIRES.into())
            .with_delivery_mode(1);
        let (exchange, options) = (self.topic.exchange.as_str().into(), BasicPublishOptions::default());
        let published = self
            .channel
            .basic_publish(exchange, "".into(), options, message.as_bytes(), properties);
        published.await.map_err(|error| self.failed(&error))
    }

    /// The text of a message; none if no member can have sent it.
    pub(super) fn text<'a>(&self, delivery: &'a Delivery) -> Option<&'a str> {
        let kind = delivery.properties.kind().as_ref()?;
        let is_known = kind.as_str() == self.topic.message_type && delivery.data.len() <= LONGEST_MESSAGE;
        std::str::from_utf8(&delivery.data).ok().filter(|_| is_known)
    }

    pub(super) fn failed(&self, error: &lapin::Error) -> Error {
        failed(&self.place, error, &Asked::Use(&self.topic.exchange))
    }

    pub(super) fn unavailable(&self, what: &str) -> Error {
        unavailable(&self.place, what)
    }

    /// Removes the queue, which no member will read again.
    pub(super) async fn leave(&self) {
        let removing = async {
            let queue = self.topic.queue.as_str().into();
            let _ = self.channel.queue_delete(queue, QueueDeleteOptions::default()).await;
            let _ = self.broker.connection.close(200, "the node leaves".into()).await;
        };
        let _ = tokio::time::timeout(ANSWER_TIMEOUT / 5, removing).await;
    }
}

async fn declare(broker: &BrokerConnection, place: &str, topic: &Topic) -> Result<(Channel, Consumer)> {
    async fn ask<T>(place: &str, asked: Asked<'_>, asking: impl Future<Output = lapin::Result<T>>) -> Result<T> {
        asking.await.map_err(|error| failed(place, &error, &asked))
    }
    let (exchange, queue) = (topic.exchange.as_str(), topic.queue.as_str());
    let channel = ask(place, Asked::Open, broker.connection.create_channel()).await?;
    let options = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let declaring = channel.exchange_declare(exchange.into(), ExchangeKind::Fanout, options, FieldTable::default());
    ask(place, Asked::Exchange(exchange), declaring).await?;
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let declaring = channel.queue_declare(queue.into(), options, bounds());
    ask(place, Asked::Queue(queue), declaring).await?;
    let binding = channel.queue_bind(
        queue.into(),
        exchange.into(),
        "".into(),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    ask(place, Asked::Queue(queue), binding).await?;
    let confirming = channel.confirm_select(ConfirmSelectOptions::default());
    ask(place, Asked::Open, confirming).await?;
    let limiting = channel.basic_qos(PREFETCH, BasicQosOptions::default());
    ask(place, Asked::Open, limiting).await?;
    let options = BasicConsumeOptions::default();
    let consuming = channel.basic_consume(queue.into(), "mainspring".into(), options, FieldTable::default());
    let consumer = ask(place, Asked::Queue(queue), consuming).await?;
    Ok((channel, consumer))
}

/// A queue of bounded length and life, which drops its oldest messages.
fn bounds() -> FieldTable {
    let mut arguments = FieldTable::default();
    for (name, value) in [
        ("x-expires", QUEUE_EXPIRES),
        ("x-max-length", QUEUE_MESSAGES),
        ("x-max-length-bytes", QUEUE_BYTES),
    ] {
        arguments.insert(name.into(), AMQPValue::LongLongInt(value));
    }
    arguments.insert("x-overflow".into(), AMQPValue::LongString("drop-head".into()));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_prefix_that_fits() {
        let topic = Topic::new("a-b.c:d_1", "wake", "t").unwrap();
        assert_eq!(topic.exchange, "a-b.c:d_1.wake");
        assert!(topic.queue.starts_with("a-b.c:d_1.wake.") && topic.queue.len() < 255);
        for prefix in ["", "a b", "amq.x", "é", &"x".repeat(101)] {
            assert_eq!(Topic::new(prefix, "wake", "t").unwrap_err().code(), "invalid-settings");
        }
    }
}
