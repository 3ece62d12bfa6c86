//! Wake notifications: a node notifies the others that work is ready, so no node polls the database all the time.
//!
//! # Invariants
//!
//! - A notification is a hint. A notification that is lost, doubled, late or forged costs a poll of the database, or at most
//!   one check-in of waiting, never correctness: a node that receives one polls, and the database is right.
//! - Sending never waits and never fails. A notification that cannot be sent is dropped; one with too much to name becomes
//!   [`WakeNotification::Poll`].
//! - A member does not receive its own notifications.
//! - A subscriber that may have missed a notification (a gap in a sender's numbers, a new connection, a queue overrun)
//!   receives `Poll` instead.
//!
//! # Layout
//!
//! - One file per provider: `provider/{postgres,local,rabbitmq}`. Each of them passes `testing::conformance::wake`
//!   unchanged, and so does a provider in another crate.
//! - `message`: what a message carries between processes. `outbox`: what has yet to be sent.

mod message;
mod outbox;
mod provider;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::db::receive_or;
use crate::id::{InstanceId, RequestId, TenantId, WorkId};

pub use provider::local::LocalWake;
pub use provider::postgres::PostgresWake;
#[cfg(feature = "rabbitmq")]
pub use provider::rabbitmq::RabbitWake;

/// Carries wake notifications between the nodes of a cluster.
pub trait WakeTransport: Send + Sync {
    /// Notifies the other nodes soon. It never waits, and may be called anywhere.
    fn notify(&self, notifications: Vec<WakeNotification>);

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
    fn in_cluster(&self, _cluster: &str) -> Option<Arc<dyn WakeTransport>> {
        None
    }

    /// Receives what other nodes send from now on. Poll once after this call: earlier notifications are not repeated.
    fn subscribe(&self) -> WakeSubscription;
}

/// A notification from another node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WakeNotification {
    /// Work may be ready: poll.
    Poll,
    /// A schedule may be due sooner: poll the schedules.
    Schedules,
    /// Work for this instance is ready.
    WorkReady(InstanceId),
    /// A caller at the sender awaits the end of this row of work: the node that consumes it sends
    /// [`WakeNotification::WorkDone`].
    ReplyAwaited(WorkId),
    /// This row of work was consumed.
    WorkDone(WorkId),
    /// This instance of a tenant was cancelled or deleted: a running burst of it cannot commit.
    InstanceCancelled(TenantId, InstanceId),
    /// This instance is observed at the sender: a node that changes it sends [`WakeNotification::InstanceChanged`], for a while.
    InstanceObserved(TenantId, InstanceId),
    /// This observed instance was changed.
    InstanceChanged(TenantId, InstanceId),
    /// The cluster was paused or resumed: read which of them.
    PauseChanged,
    /// An instance that kept other instances of its schedule from starting has ended: a queued occurrence may start.
    OverlapEnded,
    /// The request of an HTTP client has ended with a commit of the sender, which another node accepted.
    RequestEnded(RequestId),
    /// Events are written for sinks of webhooks: a node that sends to one of them reads what is due.
    Deliveries,
    /// The sinks of webhooks have changed: read them again.
    SinksChanged,
}

/// What came in one message, and the number of its sender within this process (0: another process).
type Message = (u64, Arc<[WakeNotification]>);

/// A subscriber's queue of notifications.
pub struct WakeSubscription(Incoming);

/// Where the notifications of a subscriber come from.
enum Incoming {
    Queue {
        receiver: broadcast::Receiver<Message>,
        own: u64,
    },
    Stream(BoxStream<'static, Arc<[WakeNotification]>>),
}

impl WakeSubscription {
    /// A subscription to a transport in another crate: what other members send, and [`WakeNotification::Poll`] in place of
    /// what may have been lost. The stream ends with the transport.
    pub fn new(notifications: impl Stream<Item = Arc<[WakeNotification]>> + Send + 'static) -> Self {
        Self(Incoming::Stream(Box::pin(notifications)))
    }

    fn of_queue(receiver: broadcast::Receiver<Message>, own: u64) -> Self {
        Self(Incoming::Queue { receiver, own })
    }

    /// The next notifications, or [`WakeNotification::Poll`] after an overrun of the queue; `None` once the transport has
    /// ended. Cancellation safe.
    pub async fn recv(&mut self) -> Option<Arc<[WakeNotification]>> {
        match &mut self.0 {
            Incoming::Stream(notifications) => notifications.next().await,
            Incoming::Queue { receiver, own } => loop {
                let (sender, notifications) = receive_or(receiver, missed()).await?;
                if sender != *own {
                    return Some(notifications);
                }
            },
        }
    }
}

/// Takes the place of messages that were lost.
fn missed() -> Message {
    (0, Arc::from([WakeNotification::Poll]))
}
