//! Connects to a server, and checks that it can keep what is written: a master of version 6 or newer, alone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError};

use super::address::RedisAddress;
use crate::{Error, Result};

/// How long an answer may take. Then the connection counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest file with a URL, in bytes.
const LONGEST_FILE: u64 = 16 << 10;

/// A server. Its text, which may hold a password, is in no message and no debug output.
#[derive(Clone)]
pub(crate) struct RedisServer {
    source: Source,
}

#[derive(Clone)]
enum Source {
    Text(String),
    /// Read again for each connection, so that a password can change while nodes run.
    File(PathBuf),
}

impl std::fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = self.address().map(|address| address.place());
        write!(f, "RedisServer({})", place.unwrap_or_default())
    }
}

impl RedisServer {
    /// A server by URL or by a connection string of StackExchange.Redis.
    ///
    /// # Errors
    /// `invalid-redis-url`, without any value.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let source = Source::Text(text.to_owned());
        Self { source }.checked()
    }

    /// The same from a file, which is read again for each connection.
    pub(crate) fn from_file(path: impl Into<PathBuf>) -> Result<Self> {
        let source = Source::File(path.into());
        Self { source }.checked()
    }

    fn checked(self) -> Result<Self> {
        self.address()?;
        Ok(self)
    }

    fn address(&self) -> Result<RedisAddress> {
        match &self.source {
            Source::Text(text) => RedisAddress::parse(text),
            Source::File(path) => RedisAddress::parse(&read(path)?),
        }
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
        self.address().map_or(0, |address| address.info.redis_settings().db())
    }

    /// Connects, and checks what answers.
    ///
    /// # Errors
    /// `redis-refused` where a setting must change: a wrong password, a replica, a cluster, a version below 6.0. `redis-unavailable`
    /// where the server does not answer.
    pub(crate) async fn connect(&self) -> Result<MultiplexedConnection> {
        let address = self.address()?;
        let place = address.place();
        let client = client(&address)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(address.connect_timeout))
            .set_response_timeout(Some(ANSWER_TIMEOUT));
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let connected = tokio::time::timeout(address.connect_timeout + ANSWER_TIMEOUT, connecting).await;
        let mut connection = connected
            .map_err(|_| unavailable(&place, "it does not answer"))?
            .map_err(|error| refused(&place, error))?;
        let answered = redis::cmd("INFO").query_async(&mut connection).await;
        let info: String = answered.map_err(|error| refused(&place, error))?;
        check(&place, &info)?;
        Ok(connection)
    }

    /// A connection that receives what is published on these channels.
    pub(crate) async fn subscribe(&self, channel: &str) -> Result<PubSub> {
        let address = self.address()?;
        let place = address.place();
        let subscribing = async {
            let mut subscriber = client(&address)?
                .get_async_pubsub()
                .await
                .map_err(|error| refused(&place, error))?;
            let subscribed = subscriber.subscribe(channel).await;
            subscribed.map_err(|error| refused(&place, error))?;
            Ok(subscriber)
        };
        let subscribed = tokio::time::timeout(address.connect_timeout + ANSWER_TIMEOUT, subscribing).await;
        subscribed.map_err(|_| unavailable(&place, "it does not answer"))?
    }
}

fn client(address: &RedisAddress) -> Result<Client> {
    let opened = Client::open(address.info.clone());
    opened.map_err(|_| Error::invalid("invalid-redis-url", "the Redis server cannot be addressed as it is set"))
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

/// Refuses a server that cannot keep what is written.
fn check(place: &str, info: &str) -> Result<()> {
    let field = |name: &str| {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(key, _)| *key == name);
        found.next().map(|(_, value)| value.trim())
    };
    let refuse = |why: &str| {
        Err(Error::invalid(
            "redis-refused",
            format!("the Redis server {place} cannot be used: {why}"),
        ))
    };
    let major = field("redis_version").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    if major.is_some_and(|major| major < 6) {
        return refuse("it is older than 6.0; upgrade it");
    }
    if field("cluster_enabled") == Some("1") {
        return refuse("it belongs to a cluster, which is not supported; name a single server");
    }
    if field("role").is_some_and(|role| role != "master") {
        return refuse("it is a replica, which takes no locks; name the master");
    }
    Ok(())
}

/// Whether the server has answered, and the connection serves on.
pub(crate) fn is_answer(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(_) | ErrorKind::UnexpectedReturnType | ErrorKind::Extension
    )
}

fn refused(place: &str, error: RedisError) -> Error {
    let code = error.code().unwrap_or_default().to_owned();
    let is_login = error.kind() == ErrorKind::AuthenticationFailed || matches!(code.as_str(), "WRONGPASS" | "NOAUTH");
    if is_login {
        let message = format!("the Redis server {place} refuses the user or the password: correct them in its URL");
        return Error::invalid("redis-refused", message);
    }
    if code == "NOPERM" {
        let message = format!(
            "the Redis server {place} denies its user a command: allow it INFO, EVALSHA, SCRIPT, SUBSCRIBE, PUBLISH and the keys"
        );
        return Error::invalid("redis-refused", message);
    }
    unavailable(
        place,
        "it cannot be reached, or speaks another protocol (TLS: rediss://)",
    )
    .caused_by(error)
}

fn unavailable(place: &str, why: &str) -> Error {
    Error::unavailable("redis-unavailable", format!("the Redis server {place} is away: {why}"))
}

/// The error of what needs the server while it is away.
pub(crate) fn away(place: &str) -> Error {
    unavailable(place, "it does not answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_keep_locks_is_refused() {
        let info = |version: &str, role: &str, cluster: &str| {
            format!("# Server\r\nredis_version:{version}\r\nrole:{role}\r\ncluster_enabled:{cluster}\r\n")
        };
        assert!(check("h", &info("7.0.15", "master", "0")).is_ok());
        for (bad, why) in [
            (info("5.0.3", "master", "0"), "6.0"),
            (info("7.0.15", "slave", "0"), "replica"),
            (info("7.0.15", "master", "1"), "cluster"),
        ] {
            let error = check("h", &bad).unwrap_err();
            assert!(
                error.to_string().contains(why) && error.code() == "redis-refused",
                "{error}"
            );
        }
    }

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
