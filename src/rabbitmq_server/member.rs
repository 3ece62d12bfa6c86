//! A member of a topic: what wake notifications and cache notifications have in common over RabbitMQ.

use std::sync::Arc;

use tokio::sync::broadcast;

use super::connection::RabbitServer;
use super::link::RabbitLink;
use super::topic::{OpenTopic, Topic};
use super::traffic::{Ends, Traffic};
use crate::Result;
use crate::db::SUBSCRIBER_QUEUE;

/// A member of the topic of one service. Dropping it ends it.
pub(crate) struct RabbitMember<T: Traffic> {
    pub(crate) traffic: Arc<T>,
    received: broadcast::Sender<T::Received>,
    link: RabbitLink,
    domain: String,
}

impl<T: Traffic> RabbitMember<T> {
    /// Connects, and waits for the end of the first try.
    ///
    /// # Errors
    /// `invalid-rabbitmq-url`, `invalid-settings` and `rabbitmq-refused` where a setting must change, `rabbitmq-unavailable`.
    pub(crate) async fn connect(url: &str, prefix: &str) -> Result<Self> {
        let member = Self::open(RabbitServer::parse(url)?, prefix)?;
        member.link.first_try().await?;
        Ok(member)
    }

    /// The same without waiting for the broker.
    pub(crate) fn open(server: RabbitServer, prefix: &str) -> Result<Self> {
        let traffic = Arc::<T>::default();
        let (received, _) = broadcast::channel(SUBSCRIBER_QUEUE);
        let ends = Ends::new(Arc::clone(&traffic), received.clone());
        Ok(Self {
            traffic,
            received,
            link: RabbitLink::start(server, topic::<T>(prefix)?, ends),
            domain: format!("rabbitmq {prefix}"),
        })
    }

    /// Whether it could be opened now.
    ///
    /// # Errors
    /// As [`RabbitMember::connect`].
    #[cfg_attr(
        not(feature = "cli"),
        allow(dead_code, reason = "for the program, which waits for the broker")
    )]
    pub(crate) async fn check(server: &RabbitServer, prefix: &str) -> Result<()> {
        OpenTopic::open(server, &topic::<T>(prefix)?).await?.leave().await;
        Ok(())
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<T::Received> {
        self.received.subscribe()
    }

    /// Why the broker is away.
    pub(crate) fn away_cause(&self) -> Option<String> {
        self.link.away_cause()
    }

    pub(crate) fn domain(&self) -> String {
        self.domain.clone()
    }
}

fn topic<T: Traffic>(prefix: &str) -> Result<Topic> {
    Topic::new(prefix, T::SERVICE, T::MESSAGE_TYPE)
}
