//! Hints over NOTIFY.
//!
//! A flusher sends the first hint at once; what comes within the next few milliseconds goes together. Each message says
//! who sends it and the how-many-eth it is, so that whoever misses one knows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio_util::task::AbortOnDropHandle;

use super::WakeTransport;
use super::hint::{Batch, Hint, Hints};
use super::message::{Message, pack};
use super::outbox::Outbox;
use crate::Result;
use crate::db::{Channel, Connector, DatabaseUrl, Notice, Notices, NoticesTask, SchemaName};
use crate::failpoint;

/// What follows a message waits this long for more: of the 2 to 10 ms that cost nobody anything, rather few.
const COALESCE: Duration = Duration::from_millis(3);

/// Messages that a slow reader may be behind before it hears `Look` instead.
const KEPT: usize = 256;

/// Senders whose numbers are remembered; past these all are forgotten, which costs a look.
const SENDERS: usize = 1024;

/// Hints between all that use one schema of a database. Dropping it ends it.
pub struct PostgresWake {
    outbox: Arc<Outbox>,
    sender: broadcast::Sender<Batch>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl PostgresWake {
    /// Connects to a database, on a connection of its own. It must be a direct one: a pooler that lends a connection
    /// per transaction loses what is said. Errors: the URL or the schema's name is wrong, or nobody answers.
    pub async fn connect(database_url: &str, schema: &str) -> Result<Self> {
        let connector = Connector::new(&DatabaseUrl::parse(database_url)?, &SchemaName::parse(schema)?)?;
        let (notices, task) = Notices::start(&connector, &[Channel::Hints]).await?;
        Ok(Self::new(&notices, "", Some(task)))
    }

    /// Speaks over a connection that listens to [`Channel::Hints`]. `name` tells people who speaks.
    pub(crate) fn new(notices: &Notices, name: &str, task: Option<NoticesTask>) -> Self {
        let from = format!("{name}-{}", uuid::Uuid::new_v4().simple());
        let channel = notices.name(Channel::Hints).to_owned();
        let outbox = Arc::new(Outbox::default());
        let (sender, _) = broadcast::channel(KEPT);
        let hearing = hear(notices.subscribe(), sender.clone(), channel.clone(), from.clone());
        let flushing = flush(notices.clone(), Arc::clone(&outbox), channel, from);
        let tasks = [tokio::spawn(hearing), tokio::spawn(flushing)].map(AbortOnDropHandle::new);
        Self {
            outbox,
            sender,
            _tasks: tasks.into_iter().chain(task).collect(),
        }
    }
}

impl WakeTransport for PostgresWake {
    fn send(&self, hints: Vec<Hint>) {
        self.outbox.add(hints);
    }

    fn listen(&self) -> Hints {
        // All that comes here was sent by others.
        Hints::new(self.sender.subscribe(), u64::MAX)
    }
}

async fn flush(notices: Notices, outbox: Arc<Outbox>, channel: String, from: String) {
    let mut no = 0;
    let mut failing = false;
    loop {
        let mut hints = outbox.take().await;
        if failing {
            hints.push(Hint::Look);
        }
        let payloads = pack(&from, &mut no, hints);
        if failpoint::hit("wake.lost").await.is_err() {
            continue;
        }
        let sent = notices.notify(&channel, &payloads).await;
        if let Err(error) = &sent {
            // The numbers tell the others, as soon as anything comes through.
            tracing::debug!(%error, "hints could not be sent");
            outbox.add([Hint::Look]);
        }
        failing = sent.is_err();
        let pause = if failing { COALESCE * 20 } else { COALESCE };
        tokio::time::sleep(pause).await;
    }
}

async fn hear(
    mut notices: broadcast::Receiver<Notice>,
    sender: broadcast::Sender<Batch>,
    channel: String,
    own: String,
) {
    let mut last = LastNumbers::default();
    loop {
        let hints = match notices.recv().await {
            Ok(Notice::Heard { channel: other, .. }) if *other != *channel => continue,
            Ok(Notice::Heard { payload, .. }) => match Message::parse(&payload) {
                Some(message) if message.from == own => continue,
                Some(message) => {
                    let missed = last.misses(&message.from, message.no);
                    let mut hints = message.hints();
                    if missed {
                        hints.push(Hint::Look);
                    }
                    hints
                }
                None => {
                    tracing::debug!("a notification that no node has written was ignored");
                    continue;
                }
            },
            Ok(Notice::Anew) | Err(broadcast::error::RecvError::Lagged(_)) => vec![Hint::Look],
            Err(broadcast::error::RecvError::Closed) => return,
        };
        // Nobody may be listening.
        let _ = sender.send((0, Arc::from(hints)));
    }
}

/// The number of the last message of each sender.
#[derive(Default)]
struct LastNumbers(HashMap<String, u64>);

impl LastNumbers {
    /// Whether messages of this sender were missed before this one. The first of a sender misses nothing: whoever
    /// begins to listen looks for itself.
    fn misses(&mut self, from: &str, no: u64) -> bool {
        let forgot = self.0.len() >= SENDERS && !self.0.contains_key(from);
        if forgot {
            self.0.clear();
        }
        let before = self.0.insert(from.to_owned(), no);
        forgot || before.is_some_and(|before| no != before + 1)
    }
}

#[cfg(test)]
mod numbers {
    use super::*;

    #[test]
    fn a_gap_is_seen_and_the_senders_are_bounded() {
        let mut last = LastNumbers::default();
        assert!(!last.misses("a", 5));
        assert!(!last.misses("a", 6));
        assert!(last.misses("a", 8));
        assert!(!last.misses("b", 1));
        assert!(!last.misses("a", 9));
        let forgotten = (0..SENDERS).filter(|n| last.misses(&n.to_string(), 1)).count();
        assert_eq!(forgotten, 1);
        assert!(last.0.len() <= SENDERS);
    }
}
