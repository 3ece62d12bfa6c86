//! LISTEN and NOTIFY over one direct connection of a node.
//!
//! # Invariants
//!
//! - No transaction is ever open on this connection: a listener inside one keeps the server's queue from being emptied.
//! - [`Notification::Reconnected`] comes after LISTEN: a receiver that reads the database then misses nothing that follows.
//! - A lost connection is opened again for as long as the owner lives; nothing else of the node ends with it.
//! - An error that the server returns for a NOTIFY is a lost hint: the connection continues to listen. Only a connection
//!   that does not answer is replaced.
//! - A slow receiver loses the oldest notifications; it treats `Lagged` as [`Notification::Reconnected`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio_util::task::AbortOnDropHandle;

use super::{ANSWER_TIMEOUT, Channel, Connector, Notification, Session, is_in_doubt, within};
use crate::refusals::Refusals;
use crate::{Error, Result};

const NOTIFY: &str = include_str!("../../sql/queries/channel/notify.sql");

/// Notifications that a slow receiver may fall behind; each has at most 8 kB.
const RECEIVER_QUEUE: usize = 256;

/// How long a NOTIFY may take; a later one is useless.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// The pauses between attempts to connect again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The channels of a schema, over one connection. Cheap to clone; the connection ends with its [`NotifierTask`].
#[derive(Clone)]
pub(crate) struct Notifier {
    current: watch::Receiver<Option<Arc<Session>>>,
    received: broadcast::Sender<Notification>,
    reconnect: Arc<Notify>,
    names: Arc<[(Channel, String)]>,
    /// The notifications that the server refused.
    refusals: Arc<Refusals>,
}

/// Owns the task that keeps the connection.
pub(crate) type NotifierTask = AbortOnDropHandle<()>;

impl Notifier {
    /// Connects and listens.
    pub(crate) async fn start(connector: &Connector, channels: &[Channel]) -> Result<(Self, NotifierTask)> {
        let (received, _) = broadcast::channel(RECEIVER_QUEUE);
        let first = connector.open_listening(received.clone()).await?;
        let mut names = Vec::new();
        for channel in channels {
            names.push((*channel, channel.name(&first.client, connector.schema()).await?));
        }
        let names: Arc<[_]> = names.into();
        listen(&first, &names).await?;
        let (sender, current) = watch::channel(Some(Arc::new(first)));
        let reconnect = Arc::new(Notify::new());
        let reconnector = Reconnector {
            connector: connector.clone(),
            names: Arc::clone(&names),
            received: received.clone(),
            current: sender,
            reconnect: Arc::clone(&reconnect),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(reconnector.run()));
        Ok((
            Self {
                current,
                received,
                reconnect,
                names,
                refusals: Arc::default(),
            },
            task,
        ))
    }

    /// The name of one of its channels; empty for any other.
    pub(crate) fn name(&self, channel: Channel) -> &str {
        let named = self.names.iter().find(|(of, _)| *of == channel);
        named.map_or("", |(_, name)| name)
    }

    /// Receives everything from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.received.subscribe()
    }

    /// Sends payloads, each below 8,000 bytes, in one statement. If the future is dropped, all or none are sent.
    pub(crate) async fn notify(&self, channel: &str, payloads: &[String]) -> Result<()> {
        let session = self.current.borrow().clone().ok_or_else(|| {
            Error::unavailable(
                "database-unavailable",
                "the connection for notifications is not open; it is being opened again",
            )
        })?;
        let sent: Result<_> = within(SEND_TIMEOUT, async {
            session
                .client
                .query_typed(
                    NOTIFY,
                    &[
                        (&channel, postgres_types::Type::TEXT),
                        (&payloads, postgres_types::Type::TEXT_ARRAY),
                    ],
                )
                .await
        })
        .await;
        let Err(error) = sent else { return Ok(()) };
        metrics::counter!("mainspring_notify_failures_total").increment(1);
        if is_in_doubt(&error) || error.code() == "database-read-only" {
            self.reconnect.notify_one();
            return Err(error);
        }
        if let Some(refused) = self.refusals.count() {
            tracing::warn!(
                %error,
                refused,
                "a notification to other nodes is lost; check-ins find work and changes in the meantime"
            );
        }
        Err(error)
    }
}

/// The task that opens the connection again.
struct Reconnector {
    connector: Connector,
    names: Arc<[(Channel, String)]>,
    received: broadcast::Sender<Notification>,
    current: watch::Sender<Option<Arc<Session>>>,
    reconnect: Arc<Notify>,
}

impl Drop for Reconnector {
    fn drop(&mut self) {
        // Handles may outlive the connection.
        self.current.send_replace(None);
    }
}

impl Reconnector {
    async fn open(&self) -> Result<Session> {
        let session = self.connector.open_listening(self.received.clone()).await?;
        listen(&session, &self.names).await?;
        Ok(session)
    }

    async fn run(self) {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let lost = self.current.borrow().as_ref().map(|session| session.lost());
            if let Some(mut lost) = lost {
                // Both are cancellation safe.
                tokio::select! {
                    _ = lost.wait_for(|lost| *lost) => {}
                    () = self.reconnect.notified() => {}
                }
                self.current.send_replace(None);
                tracing::warn!(
                    "the connection for notifications was lost; it is opened again, and check-ins find work and \
                     changes in the meantime"
                );
            }
            match self.open().await {
                Ok(session) => {
                    pause = SHORTEST_PAUSE;
                    self.current.send_replace(Some(Arc::new(session)));
                    // There may be no receiver.
                    let _ = self.received.send(Notification::Reconnected);
                }
                Err(error) => {
                    tracing::debug!(%error, "the connection for notifications cannot be opened; it is retried");
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

async fn listen(session: &Session, names: &[(Channel, String)]) -> Result<()> {
    let listens: String = names.iter().map(|(_, name)| format!("LISTEN {name};")).collect();
    within(ANSWER_TIMEOUT, session.client.batch_execute(&listens)).await
}
