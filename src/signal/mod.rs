//! Cache signals: notifications that a cached definition may be stale.
//!
//! # Invariants
//!
//! - A notification is a hint. The revision keeps a cache correct: it grows in the transaction of each change, and every
//!   check-in reads it. A lost notification costs at most one check-in of staleness.
//! - A subscriber that may have missed a notification (new connection, queue overrun) receives
//!   [`CacheNotification::Invalidate`] and empties its cache.
//! - A member also receives its own notifications.
//!
//! # Layout
//!
//! One file per provider: `provider/{postgres,local,redis,rabbitmq}`. Each of them passes `testing::conformance::signal`
//! unchanged, and so does a provider in another crate.

mod provider;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::db::receive_or;
use crate::id::{DefinitionId, TenantId};

pub use provider::local::LocalSignal;
pub use provider::postgres::PostgresSignal;
#[cfg(feature = "rabbitmq")]
pub use provider::rabbitmq::RabbitSignal;
#[cfg(feature = "redis")]
pub use provider::redis::RedisSignal;

/// Carries cache notifications between the nodes of a cluster.
pub trait CacheSignal: Send + Sync {
    /// Notifies all members soon. Call it once the change is committed. It never waits, and may be called anywhere.
    fn notify(&self, change: DefinitionChange);

    /// Whether the engine's own commits notify all members, so that it need not call [`notify`](Self::notify).
    fn sent_in_commit(&self) -> bool {
        false
    }

    /// What carries the notifications: equal for two members that receive each other's, and different otherwise, as far as
    /// is known. An engine does not start beside a live node of another domain. What follows ` #` is a nonce of the server,
    /// which is left out until the server has answered. `None` means that domains are not compared.
    fn domain(&self) -> Option<String> {
        None
    }

    /// Whether the server that it needs is away; readiness shows it, and the node stays ready.
    fn is_away(&self) -> bool {
        false
    }

    /// Why it is away, in words for an operator and without secrets; readiness shows it. `None` if it is not away, or the
    /// cause is not known.
    fn away_cause(&self) -> Option<String> {
        None
    }

    /// This service for one cluster, if many share its server: members of two clusters receive nothing from each other.
    /// `None` means that it is used as it is. Called for each registration, within a tokio runtime.
    fn in_cluster(&self, _cluster: &str) -> Option<Arc<dyn CacheSignal>> {
        None
    }

    /// Receives all notifications from now on. Begin with an empty cache after this call.
    fn subscribe(&self) -> CacheSubscription;
}

/// The published version of a definition, or its metadata, has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinitionChange {
    /// The revision after the change, if the sender knows it.
    pub revision: Option<i64>,
    /// The tenant of the definition.
    pub tenant: TenantId,
    /// The definition.
    pub definition: DefinitionId,
}

/// What a subscriber receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheNotification {
    /// This definition has changed.
    Changed(DefinitionChange),
    /// Any definition may have changed.
    Invalidate,
}

/// A subscriber's queue of notifications.
pub struct CacheSubscription(Incoming);

/// Where the notifications of a subscriber come from.
enum Incoming {
    Queue(broadcast::Receiver<CacheNotification>),
    Stream(BoxStream<'static, CacheNotification>),
}

impl CacheSubscription {
    /// A subscription to a signal in another crate: what all members send, in order, and [`CacheNotification::Invalidate`]
    /// in place of what may have been lost. The stream ends with the signal.
    pub fn new(notifications: impl Stream<Item = CacheNotification> + Send + 'static) -> Self {
        Self(Incoming::Stream(Box::pin(notifications)))
    }

    fn of_queue(receiver: broadcast::Receiver<CacheNotification>) -> Self {
        Self(Incoming::Queue(receiver))
    }

    /// The next notification, or [`CacheNotification::Invalidate`] after an overrun of the queue; `None` once the provider
    /// has ended. Cancellation safe.
    pub async fn recv(&mut self) -> Option<CacheNotification> {
        match &mut self.0 {
            Incoming::Stream(notifications) => notifications.next().await,
            Incoming::Queue(receiver) => receive_or(receiver, CacheNotification::Invalidate).await,
        }
    }
}
