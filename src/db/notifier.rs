//! LISTEN and NOTIFY, over one direct connection of a node.
//!
//! # Invariants
//!
//! - No transaction is ever open on this connection: a listener inside one keeps the server's queue from being emptied.
//! - First LISTEN, then [`Notification::Reconnected`]: whoever looks for itself when it hears that misses nothing that follows.
//! - A lost connection is opened again for as long as the owner lives; nothing else of the node ends with it.
//! - Whoever reads too slowly loses the oldest notices and is told so by its receiver, which it takes as `Anew`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio_util::task::AbortOnDropHandle;

use super::{ANSWER_TIMEOUT, Channel, Connector, Notification, Session, within};
use crate::{Error, Result};

const NOTIFY: &str = include_str!("../../sql/queries/channel/notify.sql");

/// Notifier that a slow reader may be behind; each has at most 8 kB.
const KEPT: usize = 256;

/// How long a hint may take to be sent; one that takes longer is worth nothing any more.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// The pauses between attempts to connect again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The channels of a schema, over one connection. Cheap to clone; the connection ends with its [`NotifierTask`].
#[derive(Clone)]
pub(crate) struct Notifier {
    current: watch::Receiver<Option<Arc<Session>>>,
    heard: broadcast::Sender<Notification>,
    suspect: Arc<Notify>,
    names: Arc<[(Channel, String)]>,
}

/// Owns the task that keeps the connection.
pub(crate) type NotifierTask = AbortOnDropHandle<()>;

impl Notifier {
    /// Connects and listens.
    pub(crate) async fn start(connector: &Connector, channels: &[Channel]) -> Result<(Self, NotifierTask)> {
        let (heard, _) = broadcast::channel(KEPT);
        let first = connector.open_listening(heard.clone()).await?;
        let mut names = Vec::new();
        for channel in channels {
            names.push((*channel, channel.name(&first.client, connector.schema()).await?));
        }
        let names: Arc<[_]> = names.into();
        listen(&first, &names).await?;
        let (sender, current) = watch::channel(Some(Arc::new(first)));
        let suspect = Arc::new(Notify::new());
        let keeper = Reconnector {
            connector: connector.clone(),
            names: Arc::clone(&names),
            heard: heard.clone(),
            current: sender,
            suspect: Arc::clone(&suspect),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(keeper.run()));
        Ok((
            Self {
                current,
                heard,
                suspect,
                names,
            },
            task,
        ))
    }

    /// What one of its channels is called; empty if it is none of them.
    pub(crate) fn name(&self, channel: Channel) -> &str {
        let named = self.names.iter().find(|(of, _)| *of == channel);
        named.map_or("", |(_, name)| name)
    }

    /// Hears everything from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.heard.subscribe()
    }

    /// Sends payloads, each below 8,000 bytes, in one statement. Dropped half-way they are sent all or none.
    pub(crate) async fn notify(&self, channel: &str, payloads: &[String]) -> Result<()> {
        let session = self.current.borrow().clone().ok_or_else(|| {
            Error::unavailable(
                "database-unavailable",
                "the connection for notifications is not there just now",
            )
        })?;
        let sent = within(SEND_TIMEOUT, async {
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
        if let Err(error) = sent {
            // Whatever is wrong with it, a new one costs little.
            self.suspect.notify_one();
            return Err(error);
        }
        Ok(())
    }
}

struct Reconnector {
    connector: Connector,
    names: Arc<[(Channel, String)]>,
    heard: broadcast::Sender<Notification>,
    current: watch::Sender<Option<Arc<Session>>>,
    suspect: Arc<Notify>,
}

impl Drop for Reconnector {
    fn drop(&mut self) {
        // Handles may live on; the connection does not.
        self.current.send_replace(None);
    }
}

impl Reconnector {
    async fn open(&self) -> Result<Session> {
        let session = self.connector.open_listening(self.heard.clone()).await?;
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
                    () = self.suspect.notified() => {}
                }
                self.current.send_replace(None);
                tracing::warn!(
                    "the connection for notifications ended; it is opened again, and check-ins must do meanwhile"
                );
            }
            match self.open().await {
                Ok(session) => {
                    pause = SHORTEST_PAUSE;
                    self.current.send_replace(Some(Arc::new(session)));
                    // Nobody may be listening.
                    let _ = self.heard.send(Notification::Reconnected);
                }
                Err(error) => {
                    tracing::debug!(%error, "no connection for notifications yet");
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
