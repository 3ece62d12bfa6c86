//! Wake notifications over NOTIFY.
//!
//! The first notification is sent at once; those of the next few milliseconds share one message. A message carries its
//! sender and a number, so that a receiver notices a gap.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::db::{Channel, ChannelListener, Malformed, Notifier, NotifierTask, SenderNumbers, listen_to};
use crate::wake::message::{Payload, pack};
use crate::wake::outbox::Outbox;
use crate::wake::{Message, WakeNotification, WakeSubscription, WakeTransport, missed};
use crate::{Result, failpoint};

/// The pause after a message, for more to come: of the 2 to 10 ms that cause no noticeable delay, rather few.
const COALESCE: Duration = Duration::from_millis(3);

/// The pauses after a message that could not be sent: the first, and the longest.
const FIRST_RETRY: Duration = Duration::from_millis(60);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// Wake notifications between all processes that use one schema of a database. Dropping it ends it.
pub struct PostgresWake {
    outbox: Arc<Outbox>,
    listener: ChannelListener<Message>,
    _sender: AbortOnDropHandle<()>,
    _connection: Option<NotifierTask>,
}

impl PostgresWake {
    /// Connects to a database, on its own connection. It must be a direct one, because a pooler that lends a connection per
    /// transaction loses notifications. Errors: an invalid URL or schema name, an unreachable database.
    pub async fn connect(database_url: &str, schema: &str) -> Result<Self> {
        let (notifier, task) = listen_to(database_url, schema, Channel::WakeNotifications).await?;
        Ok(Self::new(&notifier, "", Some(task)))
    }

    /// Uses a connection that listens to [`Channel::WakeNotifications`]. `name` identifies the sender for operators.
    pub(crate) fn new(notifier: &Notifier, name: &str, connection: Option<NotifierTask>) -> Self {
        let from = format!("{name}-{}", uuid::Uuid::new_v4().simple());
        let outbox = Arc::new(Outbox::default());
        let (own, mut last) = (from.clone(), SenderNumbers::default());
        let listener = ChannelListener::start(notifier, Channel::WakeNotifications, missed(), None, move |text| {
            let payload = Payload::parse(text).ok_or(Malformed)?;
            if payload.from == own {
                return Ok(None);
            }
            let gap = last.has_gap(&payload.from, payload.no);
            let mut notifications = payload.notifications();
            if gap {
                notifications.push(WakeNotification::Poll);
            }
            Ok(Some((0, Arc::from(notifications))))
        });
        let channel = notifier.name(Channel::WakeNotifications).to_owned();
        let sender = send(notifier.clone(), Arc::clone(&outbox), channel, from);
        Self {
            outbox,
            listener,
            _sender: AbortOnDropHandle::new(tokio::spawn(sender)),
            _connection: connection,
        }
    }
}

impl WakeTransport for PostgresWake {
    fn notify(&self, notifications: Vec<WakeNotification>) {
        self.outbox.add(notifications);
    }

    fn domain(&self) -> Option<String> {
        Some("postgres".to_owned())
    }

    fn subscribe(&self) -> WakeSubscription {
        // The listener leaves out what this process has sent.
        WakeSubscription::of_queue(self.listener.subscribe(), u64::MAX)
    }
}

async fn send(notifier: Notifier, outbox: Arc<Outbox>, channel: String, from: String) {
    let mut no = 0;
    let mut failing = false;
    let mut pause = COALESCE;
    loop {
        let mut notifications = outbox.take().await;
        if failing {
            notifications.push(WakeNotification::Poll);
        }
        let payloads = pack(&from, &mut no, notifications);
        if failpoint::hit("wake.lost").await.is_err() {
            continue;
        }
        let sent = notifier.notify(&channel, &payloads).await;
        if let Err(error) = &sent {
            // The gap in the numbers shows it to the others with the next message.
            tracing::debug!(%error, "wake notifications could not be sent");
            outbox.add([WakeNotification::Poll]);
        }
        failing = sent.is_err();
        pause = if failing {
            (pause * 2).clamp(FIRST_RETRY, LONGEST_RETRY)
        } else {
            COALESCE
        };
        tokio::time::sleep(pause).await;
    }
}
