//! Cache notifications over a channel of Redis. A missing revision, and each new subscription, empties the caches, because
//! notifications published without a subscription are gone.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::db::SUBSCRIBER_QUEUE;
use crate::redis_server::{Availability, ChannelEvent, RedisServer, away, follow};
use crate::signal::{CacheNotification, CacheSignal, CacheSubscription, DefinitionChange};
use crate::{Error, Result};

/// How long the first subscription may take.
const FIRST: Duration = Duration::from_secs(10);
/// The longest name of a cluster.
const LONGEST_NAME: usize = 255;
/// The form of the messages: the JSON of a [`DefinitionChange`].
const VERSION: u32 = 1;

/// Cache notifications between all members with one name on one Redis server of version 6.0 or newer. In an engine the
/// cluster is added to the name. While the server is away, check-ins bring the changes. Dropping it ends it.
pub struct RedisSignal {
    server: RedisServer,
    name: String,
    runtime: Handle,
    member: OnceLock<Member>,
}

/// What a member needs once it is used.
struct Member {
    /// When it is full the notification is dropped; the next check-in brings the revision.
    outgoing: mpsc::Sender<String>,
    received: broadcast::Sender<CacheNotification>,
    availability: Arc<Availability>,
    /// Whether there was a subscription.
    subscribed: watch::Receiver<bool>,
    _follower: AbortOnDropHandle<()>,
}

impl RedisSignal {
    /// Connects to `redis://user:password@host:port/database`, as [`RedisLocks`](crate::lock::RedisLocks) does. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// `invalid-redis-url` and `redis-refused` where a setting must change, `redis-unavailable`.
    pub async fn connect(url: &str, name: &str) -> Result<Self> {
        if name.len() > LONGEST_NAME {
            let message = "the name under which members of a signal meet has at most 255 bytes";
            return Err(Error::invalid("invalid-settings", message));
        }
        let server = RedisServer::parse(url)?;
        // What must be corrected is an error here; later it is retried.
        server.connect().await?;
        let signal = Self::open(server, name);
        let mut subscribed = signal.member().subscribed.clone();
        let first = tokio::time::timeout(FIRST, subscribed.wait_for(|subscribed| *subscribed).map(|_| ()));
        first.await.map_err(|_| away(&signal.server.place()))?;
        Ok(signal)
    }

    /// The same without waiting for the server. It connects when it is used.
    pub(crate) fn open(server: RedisServer, name: &str) -> Self {
        Self {
            server,
            name: name.to_owned(),
            runtime: Handle::current(),
            member: OnceLock::new(),
        }
    }

    fn channel(&self) -> String {
        format!("mainspring:signal:{VERSION}:{}:{}", self.server.database(), self.name)
    }

    fn member(&self) -> &Member {
        self.member.get_or_init(|| {
            let (outgoing, queue) = mpsc::channel(SUBSCRIBER_QUEUE);
            let (received, _) = broadcast::channel(SUBSCRIBER_QUEUE);
            let (first, subscribed) = watch::channel(false);
            let availability = Arc::new(Availability::of_signal());
            let (server, channel) = (self.server.clone(), self.channel());
            let (subscribers, known) = (received.clone(), Arc::clone(&availability));
            let follower = async move {
                let receive = |event| {
                    let Some(notification) = decode(&event) else {
                        metrics::counter!("mainspring_signal_messages_dropped_total").increment(1);
                        return;
                    };
                    // Fails without subscribers.
                    let _ = subscribers.send(notification);
                    if matches!(event, ChannelEvent::Subscribed) {
                        first.send_replace(true);
                    }
                };
                follow(&server, &channel, queue, Some(&known), receive).await;
            };
            Member {
                outgoing,
                received,
                availability,
                subscribed,
                _follower: AbortOnDropHandle::new(self.runtime.spawn(follower)),
            }
        })
    }
}

/// What an event means to a subscriber; `None` if no node has sent it.
fn decode(event: &ChannelEvent) -> Option<CacheNotification> {
    match event {
        ChannelEvent::Subscribed => Some(CacheNotification::Invalidate),
        ChannelEvent::Received(text) => serde_json::from_str(text).ok().map(CacheNotification::Changed),
    }
}

impl CacheSignal for RedisSignal {
    fn notify(&self, change: DefinitionChange) {
        let Ok(text) = serde_json::to_string(&change) else {
            return;
        };
        if self.member().outgoing.try_send(text).is_err() {
            tracing::debug!("a cache notification was dropped: the queue is full; check-ins bring the revision");
        }
    }

    fn domain(&self) -> Option<String> {
        let nonce = self.server.nonce().map(|nonce| format!(" #{nonce}"));
        Some(format!("redis{}", nonce.unwrap_or_default()))
    }

    fn away_cause(&self) -> Option<String> {
        self.member.get()?.availability.cause()
    }

    fn is_away(&self) -> bool {
        self.member.get().is_some_and(|member| member.availability.is_away())
    }

    fn in_cluster(&self, cluster: &str) -> Option<Arc<dyn CacheSignal>> {
        let name = format!("{}{cluster}", self.name);
        let (server, runtime) = (self.server.clone(), self.runtime.clone());
        Some(Arc::new(Self {
            server,
            name,
            runtime,
            member: OnceLock::new(),
        }))
    }

    fn subscribe(&self) -> CacheSubscription {
        CacheSubscription::of_queue(self.member().received.subscribe())
    }
}
