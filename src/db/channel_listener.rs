//! The notifications of one channel, decoded and passed on to any number of subscribers.
//!
//! # Invariants
//!
//! - A subscriber that may have missed a notification (new connection, queue overrun) receives `missed` instead.
//! - A payload that cannot be decoded was not sent by a node. It is ignored.

use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use super::{Channel, Connector, DatabaseUrl, Notification, Notifier, NotifierTask, SchemaName};
use crate::{Result, failpoint};

/// Notifications that a slow subscriber may fall behind before the oldest ones are dropped.
pub(crate) const SUBSCRIBER_QUEUE: usize = 256;

/// The payload does not have the form that a node sends.
pub(crate) struct Malformed;

/// Receives the notifications of one channel. Dropping it ends its task.
pub(crate) struct ChannelListener<T> {
    sender: broadcast::Sender<T>,
    _task: AbortOnDropHandle<()>,
}

impl<T: Clone + Send + 'static> ChannelListener<T> {
    /// Starts the task. `decode` returns none for a payload that this node has sent itself. `drop_point` names a
    /// failpoint at which a received notification is lost.
    pub(crate) fn start(
        notifier: &Notifier,
        channel: Channel,
        missed: T,
        drop_point: Option<&'static str>,
        mut decode: impl FnMut(&str) -> Result<Option<T>, Malformed> + Send + 'static,
    ) -> Self {
        let (sender, _) = broadcast::channel(SUBSCRIBER_QUEUE);
        let (mut received, subscribers) = (notifier.subscribe(), sender.clone());
        let name = notifier.name(channel).to_owned();
        let task = async move {
            loop {
                let decoded = match received.recv().await {
                    Ok(Notification::Received { channel: other, .. }) if *other != *name => continue,
                    Ok(Notification::Received { payload, .. }) => {
                        if let Some(point) = drop_point
                            && failpoint::hit(point).await.is_err()
                        {
                            continue;
                        }
                        match decode(&payload) {
                            Ok(Some(decoded)) => decoded,
                            Ok(None) => continue,
                            Err(Malformed) => {
                                tracing::debug!(channel = name, "a malformed notification was ignored");
                                continue;
                            }
                        }
                    }
                    Ok(Notification::Reconnected) | Err(broadcast::error::RecvError::Lagged(_)) => missed.clone(),
                    Err(broadcast::error::RecvError::Closed) => return,
                };
                // Fails without subscribers.
                let _ = subscribers.send(decoded);
            }
        };
        Self {
            sender,
            _task: AbortOnDropHandle::new(tokio::spawn(task)),
        }
    }

    /// Receives all that is decoded from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<T> {
        self.sender.subscribe()
    }
}

/// The next item of a subscriber's queue, `missed` after an overrun; none when the sender was dropped. Cancellation safe.
pub(crate) async fn receive_or<T: Clone>(queue: &mut broadcast::Receiver<T>, missed: T) -> Option<T> {
    match queue.recv().await {
        Ok(item) => Some(item),
        Err(broadcast::error::RecvError::Lagged(_)) => Some(missed),
        Err(broadcast::error::RecvError::Closed) => None,
    }
}

/// Opens a connection of its own that listens to one channel of a schema.
pub(crate) async fn listen_to(database_url: &str, schema: &str, channel: Channel) -> Result<(Notifier, NotifierTask)> {
    let connector = Connector::new(&DatabaseUrl::parse(database_url)?, &SchemaName::parse(schema)?)?;
    Notifier::start(&connector, &[channel]).await
}
