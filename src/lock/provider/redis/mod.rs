//! Locks in Redis: keys with a time to live, which is extended while they are held.
//!
//! # Invariants
//!
//! - A lock is a key, named by a prefix and the name of the lock; its value is the holder (of an engine: cluster and
//!   incarnation) and the number of its grant. A shared lock is a sorted set of such values by their expiry.
//! - Releases, extensions and draws of tokens compare the value in the same script.
//! - In a cluster the keys beside a lock are in its hash slot, by a tag; the name of the lock's own key is the same everywhere.
//! - No answer of Redis decides what is committed. A lock that expires too early, is deleted by hand, or is lost in a
//!   failover costs at most a repeated activity.
//!
//! # Layout
//!
//! - `actor`: batches and leases; `queue`: what waits for one master; `take`: grants, tokens and take-over; `holders`: which
//!   registrations are live.
//! - `links`: where the scripts run: `link`, the connection to one server, and the circuit breaker; `cluster`, the masters of a cluster.
//! - `calls`: the arguments of the scripts; `*.lua`: the scripts, each with its keys and arguments described at its head.

mod actor;
mod calls;
mod cluster;
mod holders;
mod link;
mod links;
mod queue;
mod take;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::lock::LockProvider;
use crate::lock::handle::{self, LockHandle};
use crate::lock::key::{KeyFunction, LockKey};
use crate::lock::owner::LockOwner;
use crate::lock::request::LockRequest;
use crate::lock::shared_table::SharedTable;
use crate::lock::stats::LockStats;
use crate::lock::table::{Backend, HeldLock};
use crate::redis_server::{ChannelEvent, RedisServer, follow};
use crate::{Error, Result};
use actor::Actor;
use calls::CallForm;
use links::RedisLinks;

/// The most freed names that a slow receiver has not seen.
const FREED: usize = 1024;
/// The least time between the end of a lease at its holder and at the server.
const LEAST_MARGIN: Duration = Duration::from_millis(20);
/// How long the connection outlives the last clone, for the last releases.
const LAST_RELEASES: Duration = Duration::from_secs(2);

/// How a provider on Redis is set up. The names and defaults are those of DistributedLock.Redis.
#[derive(Clone, Debug)]
pub struct RedisLockOptions {
    prefix: String,
    expiry: Duration,
    min_validity: Duration,
    extension: Duration,
    most_locks: usize,
}

impl Default for RedisLockOptions {
    fn default() -> Self {
        Self {
            prefix: "workflow:".to_owned(),
            expiry: Duration::from_secs(30),
            min_validity: Duration::from_secs(27),
            extension: Duration::from_secs(9),
            most_locks: 16_384,
        }
    }
}

impl RedisLockOptions {
    /// The prefix of each key. Locks of one name under two prefixes are two locks. Default: `workflow:`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a lock outlives a process that dies without releasing it. Sets the minimum validity to 90 % of it, and the
    /// interval of extensions to a third of that. Default: 30 s.
    #[must_use]
    pub fn expiry(mut self, expiry: Duration) -> Self {
        self.expiry = expiry;
        self.min_validity = expiry.mul_f64(0.9);
        self.extension = self.min_validity / 3;
        self
    }

    /// How much of the expiry must be left when the answer arrives; otherwise the lock counts as not granted. It is extended
    /// after a third of this time. Default: 27 s.
    #[must_use]
    pub fn min_validity(mut self, min_validity: Duration) -> Self {
        self.min_validity = min_validity;
        self.extension = min_validity / 3;
        self
    }

    /// How many locks this provider holds at a time; additional requests wait. Default: 16,384.
    #[must_use]
    pub fn most_locks(mut self, locks: usize) -> Self {
        self.most_locks = locks.max(1);
        self
    }

    /// How long a lease counts. Clocks of two machines do not run exactly alike, and its holder learns of its end before another one has it.
    fn validity(&self) -> Duration {
        self.expiry.saturating_sub((self.expiry / 100).max(LEAST_MARGIN))
    }

    fn check(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::invalid("invalid-settings", what.to_owned()));
        if self.expiry < Duration::from_millis(500) || self.expiry > Duration::from_secs(3600) {
            return refuse("the expiry of locks must be 500 ms to 1 h");
        }
        if self.min_validity.is_zero() || self.min_validity >= self.expiry {
            return refuse("the minimum validity of locks must be longer than zero and shorter than their expiry");
        }
        if self.prefix.len() > 255 {
            return refuse("the prefix of locks has at most 255 bytes");
        }
        Ok(())
    }
}

/// Locks in Redis 6.0 or newer, on a single server, behind sentinels or in a cluster. Cheap to clone; when the last clone is dropped,
/// every lock is released.
///
/// A lost connection loses no lock as long as the server keeps it: leases are extended over the next connection. While the
/// server is away, a try fails at once with `redis-unavailable`, and a waiting request continues to wait. Tokens grow as
/// long as the server keeps its counter, or its clock does not go back.
///
/// In a cluster a try fails this way while the master of the lock is away, and locks of other masters continue to work. If
/// several locks are requested at once, the first is tried before the others, and all are released again if one of them is
/// held.
#[derive(Clone)]
pub struct RedisLocks {
    shared: Arc<Shared>,
}

struct Shared {
    table: Arc<SharedTable>,
    links: Arc<RedisLinks>,
    server: RedisServer,
    options: RedisLockOptions,
    freed: broadcast::Sender<Arc<str>>,
    /// Dropped with the last clone: the actor releases what is held, and ends.
    _closing: DropGuard,
    /// The provider whose link this one uses, and which must not end earlier.
    _parent: Option<Arc<Shared>>,
    _subscriber: AbortOnDropHandle<()>,
}

impl RedisLocks {
    /// Connects to `redis://user:password@host:port/database` (`rediss://` with TLS), `redis-sentinel://…`, `redis-cluster://host1,host2`,
    /// or to a connection string of StackExchange.Redis (`host:6379,password=…`). Must be called within a tokio runtime.
    ///
    /// # Errors
    /// `invalid-redis-url` and `redis-refused` where a setting must change, `redis-unavailable`.
    pub async fn connect(url: &str, options: RedisLockOptions) -> Result<Self> {
        let locks = Self::open(RedisServer::parse(url)?, options)?;
        locks.shared.links.first_try().await?;
        Ok(locks)
    }

    /// The same without waiting for the server: requests wait for the first try to connect.
    pub(crate) fn open(server: RedisServer, options: RedisLockOptions) -> Result<Self> {
        Self::with(server, options, None, LockKey::of)
    }

    pub(in crate::lock) fn with(
        server: RedisServer,
        options: RedisLockOptions,
        owner: Option<LockOwner>,
        key_function: KeyFunction,
    ) -> Result<Self> {
        Self::beside(None, server, options, owner, key_function)
    }

    /// A provider that uses the link of another one, so that an outage is reported once.
    fn beside(
        parent: Option<Arc<Shared>>,
        server: RedisServer,
        options: RedisLockOptions,
        owner: Option<LockOwner>,
        key_function: KeyFunction,
    ) -> Result<Self> {
        options.check()?;
        let parts = SharedTable::open(Backend::Leased(options.most_locks), "redis", key_function);
        let table = Arc::clone(&parts.table);
        let channel = format!("mainspring:freed:{}:{}", server.database(), options.prefix);
        let (freed, _) = broadcast::channel(FREED);
        let closing = CancellationToken::new();
        let form = CallForm::new(&options.prefix, channel.clone(), options.expiry, server.is_cluster());
        let form = Arc::new(form);
        let links = match &parent {
            Some(parent) => Arc::clone(&parent.links),
            None => Arc::new(RedisLinks::new(server.clone(), Arc::clone(&form))),
        };
        let actor = Actor::new(&table, &links, options.clone(), form, owner);
        if parent.is_none() {
            tokio::spawn(keep(Arc::clone(&links), closing.clone()));
        }
        actor::start(actor, parts, closing.clone());
        let subscriber = receive_freed(server.clone(), channel, Arc::clone(&table), freed.clone());
        Ok(Self {
            shared: Arc::new(Shared {
                table,
                links,
                server,
                options,
                freed,
                _closing: closing.drop_guard(),
                _parent: parent,
                _subscriber: AbortOnDropHandle::new(tokio::spawn(subscriber)),
            }),
        })
    }
}

/// Keeps the link until some time after the provider is closed: the last releases still need it.
async fn keep(links: Arc<RedisLinks>, closing: CancellationToken) {
    let gone = async {
        closing.cancelled().await;
        tokio::time::sleep(LAST_RELEASES).await;
    };
    tokio::select! {
        () = links.keep() => {}
        () = gone => {}
    }
}

/// Receives the names that are freed. While there is no subscription, requests that wait try again in time.
async fn receive_freed(
    server: RedisServer,
    channel: String,
    table: Arc<SharedTable>,
    freed: broadcast::Sender<Arc<str>>,
) {
    // Releases are published by the scripts.
    let (_none, outgoing) = mpsc::channel(1);
    let receive = |event| match event {
        ChannelEvent::Received(name) if !name.starts_with("slot/") => {
            table.retry_name(&name);
            let _ = freed.send(name.into());
        }
        ChannelEvent::Received(name) => {
            table.step(|table, step| table.retry_all(step));
            let _ = freed.send(name.into());
        }
        ChannelEvent::Subscribed => table.step(|table, step| table.retry_all(step)),
    };
    follow(&server, &channel, outgoing, None, receive).await;
}

impl LockProvider for RedisLocks {
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>> {
        Box::pin(handle::acquire(&self.shared.table, request, timeout))
    }

    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>> {
        Box::pin(async move {
            self.shared.links.check_request(&self.shared.options.prefix, &request)?;
            handle::try_acquire(&self.shared.table, request).await
        })
    }

    fn try_acquire_many(&self, requests: Vec<LockRequest>) -> BoxFuture<'_, Result<Vec<Option<LockHandle>>>> {
        Box::pin(async move {
            self.shared
                .links
                .check_requests(&self.shared.options.prefix, &requests)?;
            handle::try_acquire_many(&self.shared.table, requests).await
        })
    }

    fn registered(&self, owner: LockOwner) -> Option<Arc<dyn LockProvider>> {
        let shared = &self.shared;
        let (parent, server) = (Some(Arc::clone(shared)), shared.server.clone());
        let own = Self::beside(parent, server, shared.options.clone(), Some(owner), LockKey::of);
        own.ok().map(|own| Arc::new(own) as Arc<dyn LockProvider>)
    }

    fn domain(&self) -> Option<String> {
        let nonce = self.shared.server.nonce().map(|nonce| format!(" #{nonce}"));
        Some(format!(
            "redis {}{}",
            self.shared.options.prefix,
            nonce.unwrap_or_default()
        ))
    }

    fn is_away(&self) -> bool {
        self.shared.links.is_away() || self.shared.table.is_lost()
    }

    fn away_cause(&self) -> Option<String> {
        let ended = || "the task that keeps the locks in Redis has ended; start the node again".to_owned();
        let cause = self.shared.links.cause();
        cause.or_else(|| self.shared.table.is_lost().then(ended))
    }

    fn freed(&self) -> BoxStream<'static, Arc<str>> {
        let names = stream::unfold(self.shared.freed.subscribe(), |mut names| async {
            loop {
                match names.recv().await {
                    Ok(name) => return Some((name, names)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        });
        Box::pin(names)
    }

    fn stats(&self) -> LockStats {
        self.shared.table.stats()
    }

    fn held(&self) -> Vec<HeldLock> {
        self.shared.table.held()
    }
}
