//! A server as the services use it: resolved for each connection, and recognised by a nonce.
//!
//! # Invariants
//!
//! - Each connection reads the URL, the TLS files and, with sentinels, the master again. Whether it is one server or a
//!   cluster is fixed at the start.
//! - The server keeps a nonce outside the keys of locks. Two nodes that see the same nonce share the server; a changed nonce
//!   means another server, or an emptied one. In a cluster the master of its hash slot has it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::address::{AddressKind, RedisAddress};
use super::cluster::{self, ClusterView};
use super::connection::{self, Endpoint, ServerRole, Subscriber, refused, unavailable};
use super::hash_slot::HashSlot;
use super::sentinel;
use super::tls::RedisTlsFiles;
use super::topology::{ClusterTopology, NodeAddress};
use crate::{Error, Result};

/// The longest file with a URL, in bytes.
const LONGEST_FILE: u64 = 16 << 10;
/// The key of the nonce.
const NONCE: &str = "mainspring:nonce";
/// How often the nonce of a connected server is read.
const READ_NONCE: Duration = Duration::from_secs(1);
/// The longest nonce that is compared.
const LONGEST_NONCE: usize = 64;

/// A server. Its text, which may hold a password, is in no message and no debug output. Clones share what is known of it.
#[derive(Clone)]
pub(crate) struct RedisServer {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    tls_files: RedisTlsFiles,
    is_cluster: bool,
    /// What messages call it, as the address was read last.
    place: Mutex<String>,
    /// The masters of the cluster as they were seen last.
    masters: Mutex<Vec<NodeAddress>>,
    nonce: Mutex<Option<String>>,
    /// How often sentinels have reported another master.
    switched: watch::Sender<u64>,
    watcher: OnceLock<AbortOnDropHandle<()>>,
}

#[derive(Clone)]
enum Source {
    Text(String),
    /// Read again for each connection, so that a password can change while nodes run.
    File(PathBuf),
}

impl std::fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RedisServer({})", self.place())
    }
}

fn address(source: &Source, tls_files: &RedisTlsFiles) -> Result<RedisAddress> {
    match source {
        Source::Text(text) => RedisAddress::parse(text, tls_files),
        Source::File(path) => RedisAddress::parse(&read(path)?, tls_files),
    }
}

impl RedisServer {
    /// A server by URL or by a connection string of StackExchange.Redis.
    ///
    /// # Errors
    /// `invalid-redis-url`, without any value.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Self::with(Source::Text(text.to_owned()), RedisTlsFiles::default())
    }

    /// The same with files for TLS.
    #[cfg(feature = "cli")]
    pub(crate) fn parse_with(text: &str, tls_files: RedisTlsFiles) -> Result<Self> {
        Self::with(Source::Text(text.to_owned()), tls_files)
    }

    /// The same from a file, which is read again for each connection.
    #[cfg(feature = "cli")]
    pub(crate) fn from_file(path: impl Into<PathBuf>, tls_files: RedisTlsFiles) -> Result<Self> {
        Self::with(Source::File(path.into()), tls_files)
    }

    fn with(source: Source, tls_files: RedisTlsFiles) -> Result<Self> {
        let found = address(&source, &tls_files)?;
        // The files are read once, so that what is missing fails at the start.
        if let Some((host, port)) = found.hosts.first() {
            found.server(host, *port)?;
        }
        let shared = Shared {
            source,
            tls_files,
            is_cluster: found.kind.is_cluster(),
            place: Mutex::new(found.place()),
            masters: Mutex::default(),
            nonce: Mutex::default(),
            switched: watch::Sender::new(0),
            watcher: OnceLock::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    fn address(&self) -> Result<RedisAddress> {
        let address = address(&self.shared.source, &self.shared.tls_files)?;
        if address.kind.is_cluster() != self.shared.is_cluster {
            let message = "the Redis URL names a cluster instead of one server, or the reverse: start the node again";
            return Err(Error::invalid("invalid-redis-url", message));
        }
        Ok(address)
    }

    /// Whether it is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.shared.is_cluster
    }

    /// Whether a server that is away at the start is an error (`abortConnect` of a connection string).
    pub(crate) fn aborts_without(&self) -> bool {
        self.address().is_ok_and(|address| address.abort_connect)
    }

    /// Host, port and database, for messages.
    pub(crate) fn place(&self) -> String {
        let place = self.shared.place.lock();
        place.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The database number.
    pub(crate) fn database(&self) -> i64 {
        self.address().map_or(0, |address| address.database())
    }

    /// The nonce of the server, as it was seen last; none before the first connection.
    pub(crate) fn nonce(&self) -> Option<String> {
        let nonce = self.shared.nonce.lock();
        nonce.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server of now, and what it is to be. Must be called within a tokio runtime.
    async fn endpoint(&self) -> Result<(Endpoint, ServerRole)> {
        let address = self.address()?;
        *self.shared.place.lock().unwrap_or_else(PoisonError::into_inner) = address.place();
        if let AddressKind::Sentinels(service) = &address.kind {
            let (source, tls_files) = (self.shared.source.clone(), self.shared.tls_files.clone());
            let switched = self.shared.switched.clone();
            self.shared.watcher.get_or_init(|| {
                let again = move || self::address(&source, &tls_files);
                AbortOnDropHandle::new(tokio::spawn(sentinel::watch(again, switched)))
            });
            let (host, port) = sentinel::master(&address, service).await?;
            return Ok((address.server(&host, port)?, ServerRole::MasterOfSentinels));
        }
        match address.hosts.first() {
            Some((host, port)) => Ok((address.server(host, *port)?, ServerRole::Master)),
            None => Err(connection::away("")),
        }
    }

    /// Connects, checks what answers, and agrees on the nonce. In a cluster the connection is one to the master that has the nonce.
    ///
    /// # Errors
    /// `redis-refused` where a setting must change: a wrong password, a replica, a cluster where none is named or the reverse, a version
    /// below 6.0. `redis-unavailable` where the server does not answer.
    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection> {
        if self.shared.is_cluster {
            let found = self.discover().await?;
            if !found.is_ok || !found.topology.is_complete() {
                return Err(unavailable(
                    &self.place(),
                    "the cluster is down, or not all hash slots have a master",
                ));
            }
            return self.agree_in_cluster(&found.topology).await;
        }
        let (endpoint, expected) = self.endpoint().await?;
        let mut connection = cluster::open(&endpoint, expected).await?;
        self.agree(&mut connection).await?;
        Ok(connection)
    }

    /// What a node says of the cluster, one of those that were seen last or that the address names.
    ///
    /// # Errors
    /// Those of the servers.
    pub(crate) async fn discover(&self) -> Result<ClusterView> {
        let known = self.known_masters().clone();
        let found = cluster::discover(&self.address()?, known).await?;
        self.note_masters(&found.topology);
        Ok(found)
    }

    /// The cluster is found by these masters from now on.
    pub(crate) fn note_masters(&self, topology: &ClusterTopology) {
        if !topology.masters.is_empty() {
            self.known_masters().clone_from(&topology.masters);
        }
    }

    fn known_masters(&self) -> MutexGuard<'_, Vec<NodeAddress>> {
        self.shared.masters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects to a master of the cluster, and checks that it is one.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) async fn connect_to(&self, node: &NodeAddress) -> Result<MultiplexedConnection> {
        let endpoint = self.address()?.server(&node.host, node.port)?;
        cluster::open(&endpoint, ServerRole::MasterOfSlots).await
    }

    /// Connects to the master that has the nonce, and agrees on it.
    async fn agree_in_cluster(&self, topology: &ClusterTopology) -> Result<MultiplexedConnection> {
        let Some(owner) = topology.owner(Self::nonce_slot()) else {
            return Err(unavailable(&self.place(), "the hash slot of the nonce has no master"));
        };
        let mut connection = self.connect_to(owner).await?;
        self.agree(&mut connection).await?;
        Ok(connection)
    }

    /// A connection that publishes, and in a cluster the node that it leads to: any, whichever has the nonce.
    ///
    /// # Errors
    /// Those of the server.
    pub(super) async fn publisher(&self) -> Result<(MultiplexedConnection, Option<NodeAddress>)> {
        if !self.shared.is_cluster {
            return Ok((self.connect().await?, None));
        }
        let found = self.discover().await?;
        if let Err(error) = self.agree_in_cluster(&found.topology).await {
            tracing::debug!(%error, "the nonce of the cluster cannot be read");
        }
        let mut away = None;
        let address = self.address()?;
        for node in cluster::nodes(&address, found.topology.masters) {
            match self.connect_to(&node).await {
                Ok(connection) => return Ok((connection, Some(node))),
                Err(error) => away = Some(error),
            }
        }
        Err(away.unwrap_or_else(|| connection::away(&self.place())))
    }

    /// A connection that receives what is published on these channels, of a cluster what is published at any node. It leads to another
    /// node than that of the publisher, if there is one: a node that has left the cluster would hear only itself.
    pub(super) async fn subscribe(&self, channels: &[&str], publisher: Option<&NodeAddress>) -> Result<Subscriber> {
        if !self.shared.is_cluster {
            return self.endpoint().await?.0.subscribe(channels).await;
        }
        let address = self.address()?;
        let known = self.known_masters().clone();
        let mut nodes = cluster::nodes(&address, known);
        nodes.sort_by_key(|node| Some(node) == publisher);
        let mut away = None;
        for node in nodes {
            match address.server(&node.host, node.port)?.subscribe(channels).await {
                Ok(subscriber) => return Ok(subscriber),
                Err(error) => away = Some(error),
            }
        }
        Err(away.unwrap_or_else(|| connection::away(&self.place())))
    }

    /// The hash slot of the nonce.
    pub(crate) fn nonce_slot() -> HashSlot {
        HashSlot::of(NONCE)
    }

    /// Reads the nonce of the server, and sets one where there is none. One that has changed is logged.
    ///
    /// # Errors
    /// Those of the server.
    pub(crate) async fn agree(&self, connection: &mut MultiplexedConnection) -> Result<()> {
        let failed = |error| refused(&self.place(), error);
        let mut get = redis::cmd("GET");
        get.arg(NONCE);
        let mut found: Option<String> = get.query_async(connection).await.map_err(failed)?;
        if found.is_none() {
            let mut set = redis::cmd("SET");
            set.arg(NONCE).arg(uuid::Uuid::new_v4().simple().to_string()).arg("NX");
            set.query_async::<Option<String>>(connection).await.map_err(failed)?;
            // Another node may have been first.
            found = get.query_async(connection).await.map_err(failed)?;
        }
        let found = found.filter(|nonce| nonce.len() <= LONGEST_NONCE);
        let before = {
            let mut nonce = self.shared.nonce.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *nonce, found.clone())
        };
        if before.is_some() && before != found {
            tracing::warn!(
                place = %self.place(),
                "the Redis server has another nonce than before: it was emptied, or another one answers; nodes agree on the new one"
            );
        }
        Ok(())
    }

    /// Reads the nonce from time to time. Returns why it cannot be read any more; of a cluster, whose other masters serve on, never.
    pub(crate) async fn keep_nonce(&self, mut connection: MultiplexedConnection) -> Error {
        loop {
            tokio::time::sleep(READ_NONCE).await;
            match self.agree(&mut connection).await {
                Ok(()) => {}
                Err(error) if !self.shared.is_cluster => return error,
                Err(_) => {
                    // Another master has it by now, or is about to.
                    match self.agree_anew().await {
                        Ok(at_its_master) => connection = at_its_master,
                        Err(error) => tracing::debug!(%error, "the nonce of the cluster cannot be read"),
                    }
                }
            }
        }
    }

    async fn agree_anew(&self) -> Result<MultiplexedConnection> {
        let found = self.discover().await?;
        self.agree_in_cluster(&found.topology).await
    }

    /// Changes when sentinels report another master. Taken before a connection is opened, it misses none.
    pub(crate) fn switches(&self) -> watch::Receiver<u64> {
        self.shared.switched.subscribe()
    }
}

fn read(path: &Path) -> Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let opened = std::fs::File::open(path);
    let read = opened.and_then(|file| file.take(LONGEST_FILE).read_to_string(&mut text));
    let unreadable = |error| {
        let message = format!("the file {} with the Redis URL cannot be read", path.display());
        Error::invalid("invalid-redis-url", message).caused_by(error)
    };
    read.map_err(unreadable)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_server_is_unavailable() {
        let server = RedisServer::parse("redis://u:geheim@127.0.0.1:1").unwrap();
        let error = server.connect().await.err().unwrap();
        assert!(
            error.is_unavailable() && !format!("{error} {server:?}").contains("geheim"),
            "{error}"
        );
    }
}
