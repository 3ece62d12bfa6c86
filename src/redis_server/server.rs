//! A server as the services use it: found anew for each connection, and known again by a nonce.
//!
//! # Invariants
//!
//! - Each connection reads the URL, the files for TLS and, with sentinels, the master anew.
//! - The server keeps a nonce outside of the keys of locks. Two nodes that see one nonce share the server; one that has changed means
//!   another server, or an emptied one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::address::RedisAddress;
use super::connection::{self, Endpoint, refused};
use super::sentinel;
use super::tls::RedisTlsFiles;
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
            nonce: Mutex::default(),
            switched: watch::Sender::new(0),
            watcher: OnceLock::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    fn address(&self) -> Result<RedisAddress> {
        address(&self.shared.source, &self.shared.tls_files)
    }

    /// Whether a server that is away at the start is an error (`abortConnect` of a connection string).
    pub(crate) fn aborts_without(&self) -> bool {
        self.address().is_ok_and(|address| address.abort_connect)
    }

    /// Host, port and database, for messages.
    pub(crate) fn place(&self) -> String {
        self.address()
            .map_or_else(|_| "Redis".to_owned(), |address| address.place())
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

    /// The server of now. Must be called within a tokio runtime.
    async fn endpoint(&self) -> Result<Endpoint> {
        let address = self.address()?;
        if let Some(service) = &address.service {
            let (source, tls_files) = (self.shared.source.clone(), self.shared.tls_files.clone());
            let switched = self.shared.switched.clone();
            self.shared.watcher.get_or_init(|| {
                let again = move || self::address(&source, &tls_files);
                AbortOnDropHandle::new(tokio::spawn(sentinel::watch(again, switched)))
            });
            let (host, port) = sentinel::master(&address, service).await?;
            return address.server(&host, port);
        }
        match address.hosts.first() {
            Some((host, port)) => address.server(host, *port),
            None => Err(connection::away("")),
        }
    }

    /// Connects, checks what answers, and agrees on the nonce.
    ///
    /// # Errors
    /// `redis-refused` where a setting must change: a wrong password, a replica, a cluster, a version below 6.0. `redis-unavailable`
    /// where the server does not answer.
    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection> {
        let endpoint = self.endpoint().await?;
        let mut connection = endpoint.open().await?;
        let answered = redis::cmd("INFO").query_async(&mut connection).await;
        let info: String = answered.map_err(|error| refused(endpoint.place(), error))?;
        let by_sentinel = self.shared.watcher.get().is_some();
        connection::check(endpoint.place(), &info, by_sentinel)?;
        self.agree(&mut connection).await?;
        Ok(connection)
    }

    /// A connection that receives what is published on these channels.
    pub(crate) async fn subscribe(&self, channels: &[&str]) -> Result<PubSub> {
        self.endpoint().await?.subscribe(channels).await
    }

    /// Reads the nonce of the server, and sets one where there is none. One that has changed is logged.
    ///
    /// # Errors
    /// Those of the server.
    async fn agree(&self, connection: &mut MultiplexedConnection) -> Result<()> {
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

    /// Reads the nonce from time to time. Returns why it cannot be read any more.
    pub(crate) async fn keep_nonce(&self, mut connection: MultiplexedConnection) -> Error {
        loop {
            tokio::time::sleep(READ_NONCE).await;
            if let Err(error) = self.agree(&mut connection).await {
                return error;
            }
        }
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
