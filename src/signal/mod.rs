//! Cache signals: notifications that a cached definition may be stale.
//!
//! # Invariants
//!
//! - A notification is a hint. The revision keeps a cache correct: it grows in the transaction of each change, and every
//!   check-in reads it. A lost notification costs at most one check-in of staleness.
//! - A subscriber that may have missed a notification (new connection, queue overrun) receives
//!   [`CacheNotification::Invalidate`] and empties its cache.
//! - A member receives its own notifications, too.
//!
//! # Layout
//!
//! One file per provider: `provider/{postgres,local}`. Each provider passes `conformance`, unchanged.

#[cfg(test)]
mod conformance;
mod provider;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::db::receive_or;
use crate::id::{DefinitionId, TenantId};

pub use provider::local::LocalSignal;
pub use provider::postgres::PostgresSignal;

/// Carries cache notifications between the nodes of a cluster.
pub trait CacheSignal: Send + Sync {
    /// Notifies all members, soon. Call it once the change is committed. Never waits, and may be called anywhere.
    fn notify(&self, change: DefinitionChange);

    /// Whether the engine's own commits notify all members, so that it need not call [`notify`](Self::notify).
    fn sent_in_commit(&self) -> bool {
        false
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheNotification {
    /// This definition has changed.
    Changed(DefinitionChange),
    /// Any definition may have changed.
    Invalidate,
}

/// A subscriber's queue of notifications.
pub struct CacheSubscription(broadcast::Receiver<CacheNotification>);

impl CacheSubscription {
    /// The next notification, [`CacheNotification::Invalidate`] after an overrun of the queue; none when the provider has
    /// ended. Cancellation safe.
    pub async fn recv(&mut self) -> Option<CacheNotification> {
        receive_or(&mut self.0, CacheNotification::Invalidate).await
    }
}
