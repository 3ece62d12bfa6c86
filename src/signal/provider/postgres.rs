//! Cache notifications over NOTIFY. The engine sends one in the transaction of each publish: a node that receives it
//! sees the change.

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::Result;
use crate::db::{Channel, ChannelListener, Malformed, Notifier, NotifierTask, SUBSCRIBER_QUEUE, listen_to};
use crate::signal::{CacheNotification, CacheSignal, CacheSubscription, DefinitionChange};

/// The longest payload in bytes. NOTIFY takes less than 8,000.
const LONGEST: usize = 7_900;

/// Cache notifications between all processes that use one schema of a database. Dropping it ends it.
pub struct PostgresSignal {
    listener: ChannelListener<CacheNotification>,
    /// When it is full the notification is dropped; the next check-in brings the revision.
    outgoing: mpsc::Sender<DefinitionChange>,
    _sender: AbortOnDropHandle<()>,
    _connection: Option<NotifierTask>,
}

impl PostgresSignal {
    /// Connects to a database, on its own connection. It must be a direct one, because a pooler that lends a connection per
    /// transaction loses notifications. Errors: an invalid URL or schema name, an unreachable database.
    pub async fn connect(database_url: &str, schema: &str) -> Result<Self> {
        let (notifier, task) = listen_to(database_url, schema, Channel::Signals).await?;
        Ok(Self::new(&notifier, Some(task)))
    }

    /// Uses a connection that listens to [`Channel::Signals`].
    pub(crate) fn new(notifier: &Notifier, connection: Option<NotifierTask>) -> Self {
        let missed = CacheNotification::Invalidate;
        let failpoint = Some("signal.lost");
        let listener = ChannelListener::start(notifier, Channel::Signals, missed, failpoint, |payload| {
            let change = serde_json::from_str(payload).map_err(|_| Malformed)?;
            Ok(Some(CacheNotification::Changed(change)))
        });
        let (outgoing, queue) = mpsc::channel(SUBSCRIBER_QUEUE);
        let channel = notifier.name(Channel::Signals).to_owned();
        Self {
            listener,
            outgoing,
            _sender: AbortOnDropHandle::new(tokio::spawn(send(notifier.clone(), queue, channel))),
            _connection: connection,
        }
    }
}

impl CacheSignal for PostgresSignal {
    fn notify(&self, change: DefinitionChange) {
        if self.outgoing.try_send(change).is_err() {
            tracing::debug!("a cache notification was dropped: the queue is full; check-ins bring the revision");
        }
    }

    fn sent_in_commit(&self) -> bool {
        true
    }

    fn domain(&self) -> Option<String> {
        Some("postgres".to_owned())
    }

    fn subscribe(&self) -> CacheSubscription {
        CacheSubscription::of_queue(self.listener.subscribe())
    }
}

async fn send(notifier: Notifier, mut queue: mpsc::Receiver<DefinitionChange>, channel: String) {
    while let Some(change) = queue.recv().await {
        let Some(payload) = serde_json::to_string(&change).ok().filter(|text| text.len() <= LONGEST) else {
            continue;
        };
        if let Err(error) = notifier.notify(&channel, &[payload]).await {
            tracing::debug!(%error, "a cache notification could not be sent; check-ins bring the revision");
        }
    }
}
