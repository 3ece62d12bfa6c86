//! Signals over NOTIFY. A publish is rare, so there it rides in the publishing transaction: whoever hears it sees the
//! change.

use tokio::sync::{broadcast, mpsc};
use tokio_util::task::AbortOnDropHandle;

use super::{CacheSignal, Change, Heard, Signals};
use crate::Result;
use crate::db::{Channel, Connector, DatabaseUrl, Notice, Notices, NoticesTask, SchemaName};
use crate::failpoint;

/// Signals that a slow reader may be behind before it hears `Unsure` instead.
const KEPT: usize = 256;

/// The longest payload that NOTIFY takes is below 8,000 bytes.
const LONGEST: usize = 7_900;

/// Signals between all that use one schema of a database. Dropping it ends it.
pub struct PostgresSignal {
    sender: broadcast::Sender<Heard>,
    /// Full: the announcement is dropped, and the check-ins tell.
    announcements: mpsc::Sender<Change>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl PostgresSignal {
    /// Connects to a database, on a connection of its own. It must be a direct one: a pooler that lends a connection
    /// per transaction loses what is said. Errors: the URL or the schema's name is wrong, or nobody answers.
    pub async fn connect(database_url: &str, schema: &str) -> Result<Self> {
        let connector = Connector::new(&DatabaseUrl::parse(database_url)?, &SchemaName::parse(schema)?)?;
        let (notices, task) = Notices::start(&connector, &[Channel::Signals]).await?;
        Ok(Self::new(&notices, Some(task)))
    }

    /// Speaks over a connection that listens to [`Channel::Signals`].
    pub(crate) fn new(notices: &Notices, task: Option<NoticesTask>) -> Self {
        let channel = notices.name(Channel::Signals).to_owned();
        let (sender, _) = broadcast::channel(KEPT);
        let (announcements, queue) = mpsc::channel(KEPT);
        let hearing = hear(notices.subscribe(), sender.clone(), channel.clone());
        let announcing = announce(notices.clone(), queue, channel);
        let tasks = [tokio::spawn(hearing), tokio::spawn(announcing)].map(AbortOnDropHandle::new);
        Self {
            sender,
            announcements,
            _tasks: tasks.into_iter().chain(task).collect(),
        }
    }
}

impl CacheSignal for PostgresSignal {
    fn announce(&self, change: Change) {
        if self.announcements.try_send(change).is_err() {
            tracing::debug!("too many announcements at once; check-ins tell of this one");
        }
    }

    fn rides_in_commit(&self) -> bool {
        true
    }

    fn listen(&self) -> Signals {
        Signals::new(self.sender.subscribe())
    }
}

async fn announce(notices: Notices, mut queue: mpsc::Receiver<Change>, channel: String) {
    while let Some(change) = queue.recv().await {
        let Some(payload) = serde_json::to_string(&change).ok().filter(|text| text.len() <= LONGEST) else {
            continue;
        };
        if let Err(error) = notices.notify(&channel, &[payload]).await {
            tracing::debug!(%error, "a change could not be announced; check-ins tell of it");
        }
    }
}

async fn hear(mut notices: broadcast::Receiver<Notice>, sender: broadcast::Sender<Heard>, channel: String) {
    loop {
        let heard = match notices.recv().await {
            Ok(Notice::Heard { channel: other, .. }) if *other != *channel => continue,
            Ok(Notice::Heard { .. }) if failpoint::hit("signal.lost").await.is_err() => continue,
            Ok(Notice::Heard { payload, .. }) => match serde_json::from_str(&payload) {
                Ok(change) => Heard::Changed(change),
                Err(_) => {
                    tracing::debug!("a notification that no node has written was ignored");
                    continue;
                }
            },
            Ok(Notice::Anew) | Err(broadcast::error::RecvError::Lagged(_)) => Heard::Unsure,
            Err(broadcast::error::RecvError::Closed) => return,
        };
        // Nobody may be listening.
        let _ = sender.send(heard);
    }
}
