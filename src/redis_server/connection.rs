//! Connects to one server, and checks it: it must have version 6 or newer, be a master where it stores data, and be a
//! cluster only where one is named.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::FutureExt;
use redis::aio::MultiplexedConnection;
use redis::io::AsyncDNSResolver;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, Msg, ProtocolVersion, PushInfo, PushKind,
    RedisError, RedisFuture, TlsCertificates, Value,
};
use tokio::sync::mpsc;

use crate::{Error, Result};

/// How long an answer may take. Then the connection counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);

/// One server or sentinel, as a connection needs it.
pub(super) struct Endpoint {
    client: Client,
    /// The same with the protocol that subscriptions need.
    subscriber: Client,
    /// Where it is, whatever the name in its certificate.
    host: String,
    place: String,
    has_tls: bool,
    connect_timeout: Duration,
}

impl Endpoint {
    /// A server at this host. That of `info` is the name in its certificate.
    pub(super) fn new(
        host: &str,
        info: ConnectionInfo,
        tls: Option<TlsCertificates>,
        connect_timeout: Duration,
    ) -> Result<Self> {
        let port = match info.addr() {
            ConnectionAddr::Tcp(_, port) | ConnectionAddr::TcpTls { port, .. } => *port,
            _ => 0,
        };
        let settings = info.redis_settings().clone();
        let place = format!("{host}:{port}/{}", settings.db());
        let resp3 = settings.set_protocol(ProtocolVersion::RESP3);
        Ok(Self {
            client: client(info.clone(), tls.clone())?,
            subscriber: client(info.set_redis_settings(resp3), tls.clone())?,
            host: host.to_owned(),
            place,
            has_tls: tls.is_some(),
            connect_timeout,
        })
    }

    /// Host, port and database, for messages.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Connects.
    ///
    /// # Errors
    /// `redis-refused` for a wrong password, `redis-unavailable`.
    pub(super) async fn open(&self) -> Result<MultiplexedConnection> {
        let config = self.config();
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        self.within(connecting).await
    }

    /// A connection that receives what is published on these channels.
    pub(super) async fn subscribe(&self, channels: &[&str]) -> Result<Subscriber> {
        let (sender, received) = mpsc::unbounded_channel();
        let config = self.config().set_push_sender(sender);
        let subscribing = async {
            let connecting = self.subscriber.get_multiplexed_async_connection_with_config(&config);
            let mut connection = connecting.await?;
            connection.subscribe(channels).await?;
            Ok(Subscriber { connection, received })
        };
        self.within(subscribing).await
    }

    fn config(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_dns_resolver(HostOf(self.host.clone()))
    }

    async fn within<T>(&self, connecting: impl Future<Output = redis::RedisResult<T>>) -> Result<T> {
        match tokio::time::timeout(self.connect_timeout + ANSWER_TIMEOUT, connecting).await {
            Ok(connected) => connected.map_err(|error| self.refused(error)),
            Err(_) => Err(unavailable(&self.place, "it does not answer")),
        }
    }

    fn refused(&self, error: RedisError) -> Error {
        let why = if self.has_tls {
            "it cannot be reached, does not speak TLS (then use redis://, or ssl=false), or its certificate is not \
             for its name or not of a known authority (redis-ca-file)"
        } else {
            "it cannot be reached, or speaks TLS (then use rediss://, or ssl=true)"
        };
        if is_login(&error) || error.code() == Some("NOPERM") {
            return refused(&self.place, error);
        }
        unavailable(&self.place, why).caused_by(error)
    }
}

fn client(info: ConnectionInfo, tls: Option<TlsCertificates>) -> Result<Client> {
    match tls {
        Some(files) => Client::build_with_tls(info, files).map_err(|_| {
            let message =
                "the files for TLS with Redis cannot be used: give certificates and the key of the first one, as PEM";
            Error::invalid("invalid-settings", message)
        }),
        None => Client::open(info).map_err(|_| {
            Error::invalid(
                "invalid-redis-url",
                "the Redis server cannot be addressed as configured",
            )
        }),
    }
}

/// Resolves this host in the place of the name in the certificate.
struct HostOf(String);

impl AsyncDNSResolver for HostOf {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _name: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        let found = async move {
            let found = tokio::net::lookup_host((self.0.as_str(), port)).await?;
            let found: Vec<SocketAddr> = found.collect();
            Ok(Box::new(found.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        };
        found.boxed()
    }
}

/// A connection that receives what is published, until it is dropped.
pub(crate) struct Subscriber {
    connection: MultiplexedConnection,
    received: mpsc::UnboundedReceiver<PushInfo>,
}

impl Subscriber {
    /// The next message; `None` if the connection has ended. Cancellation safe.
    pub(super) async fn next(&mut self) -> Option<Msg> {
        loop {
            let push = self.received.recv().await?;
            if push.kind == PushKind::Disconnection {
                return None;
            }
            if let Some(message) = Msg::from_push_info(push) {
                return Some(message);
            }
        }
    }

    /// Whether the server answers.
    pub(super) async fn answers(&mut self) -> bool {
        redis::cmd("PING")
            .query_async::<Value>(&mut self.connection)
            .await
            .is_ok()
    }
}

/// What a server is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerRole {
    /// The master that the address names, alone.
    Master,
    /// The same as sentinels name it.
    MasterOfSentinels,
    /// A node of the cluster that the address names, which names the others.
    Member,
    /// The same, where the address names several servers and no `serviceName`.
    MemberOfSeveral,
    /// The master of some slots of the cluster, as a node names it.
    MasterOfSlots,
}

/// Refuses a server that is not what it is to be.
pub(super) fn check(place: &str, info: &str, expected: ServerRole) -> Result<()> {
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
    if field("redis_mode") == Some("sentinel") {
        return refuse("it is a sentinel; add `serviceName` (in a URL: redis-sentinel://HOSTS/0?service=NAME)");
    }
    let is_member = field("redis_mode") == Some("cluster") || field("cluster_enabled") == Some("1");
    let is_replica = field("role").is_some_and(|role| role != "master");
    match expected {
        ServerRole::Master | ServerRole::MasterOfSentinels if is_member => refuse(
            "it belongs to a cluster; let --redis-url be a URL of its nodes, redis-cluster://HOSTS (with TLS rediss-cluster://), or a \
             connection string that names several of them",
        ),
        ServerRole::Master if is_replica => {
            refuse("it is a replica, which takes no locks; name the master, or sentinels, which know it")
        }
        ServerRole::MasterOfSentinels if is_replica => Err(unavailable(
            place,
            "it is a replica, though a sentinel names it as the master",
        )),
        ServerRole::Member if !is_member => refuse(
            "it belongs to no cluster; let --redis-url name it with redis:// (with TLS rediss://), or name the nodes of a cluster",
        ),
        ServerRole::MemberOfSeveral if !is_member => refuse(
            "the connection string names several servers, and it belongs to no cluster; name one, or sentinels and the `serviceName` \
             of their master",
        ),
        ServerRole::MasterOfSlots if !is_member || is_replica => Err(unavailable(
            place,
            "it is not a master of the cluster, though a node names it as one",
        )),
        _ => Ok(()),
    }
}

/// Whether the server has answered, and the connection serves on.
pub(crate) fn is_answer(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(_) | ErrorKind::UnexpectedReturnType | ErrorKind::Extension
    )
}

fn is_login(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed || matches!(error.code(), Some("WRONGPASS" | "NOAUTH"))
}

/// Why a command has failed, without its text, which may repeat an argument.
pub(super) fn refused(place: &str, error: RedisError) -> Error {
    if is_login(&error) {
        let message = format!("the Redis server {place} refuses the user or the password: correct them in its URL");
        return Error::invalid("redis-refused", message);
    }
    if error.code() == Some("NOPERM") {
        let message = format!(
            "the Redis server {place} denies its user a command: allow it INFO, GET, SET, EVALSHA, SCRIPT, SUBSCRIBE, PUBLISH, in a \
             cluster PING, ASKING and CLUSTER, the keys and the channels"
        );
        return Error::invalid("redis-refused", message);
    }
    unavailable(place, "it refuses a command, or does not answer").caused_by(error)
}

pub(super) fn unavailable(place: &str, why: &str) -> Error {
    Error::unavailable("redis-unavailable", format!("the Redis server {place} is away: {why}"))
}

/// What a server that answers lacks for locks; the word that its error begins with, also where a script quotes it.
const REFUSALS: [(&str, &str); 4] = [
    ("OOM", "its memory is used up (maxmemory)"),
    ("MISCONF", "it cannot save to its disk"),
    ("NOREPLICAS", "too few of its replicas are connected"),
    ("NOPERM", "its user lacks rights"),
];

/// Whether the server has refused to write, so that nothing was written.
pub(crate) fn is_refusal(error: &RedisError) -> bool {
    refusal(error).is_some()
}

fn refusal(error: &RedisError) -> Option<(&'static str, &'static str)> {
    let code = error.code()?;
    let quoted = error.detail().filter(|_| code == "ERR").unwrap_or_default();
    let mut each = REFUSALS.into_iter();
    each.find(|(word, _)| code == *word || quoted.contains(&format!("-{word} ")))
}

/// Why a server that answers keeps no locks. The text of the error is left out: it may repeat an argument.
pub(crate) fn lacks(place: &str, error: &RedisError) -> Error {
    match refusal(error) {
        Some(("NOPERM", _)) => {
            let message = format!(
                "the Redis server {place} keeps no locks: its user lacks rights (NOPERM): allow it the keys under lock-prefix and \
                 mainspring:*, INFO, GET, SET, EVALSHA, SCRIPT, SUBSCRIBE, PUBLISH, in a cluster PING, ASKING and CLUSTER, and the \
                 commands of the scripts (docs/adapters.md)"
            );
            Error::invalid("redis-refused", message)
        }
        Some((word, why)) => unavailable(place, &format!("it keeps no locks: {why} ({word})")),
        None => unavailable(
            place,
            &format!("it keeps no locks ({})", error.code().unwrap_or("no answer")),
        ),
    }
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
        let info = |version: &str, role: &str, cluster: &str, mode: &str| {
            format!(
                "# Server\r\nredis_version:{version}\r\nredis_mode:{mode}\r\nrole:{role}\r\ncluster_enabled:{cluster}\r\n"
            )
        };
        let alone = info("7.0.15", "master", "0", "standalone");
        let (member, replica) = (
            info("7.0.15", "master", "1", "cluster"),
            info("7.0.15", "slave", "1", "cluster"),
        );
        assert!(check("h", &alone, ServerRole::Master).is_ok());
        for (role, good) in [
            (ServerRole::Member, &member),
            (ServerRole::MemberOfSeveral, &replica),
            (ServerRole::MasterOfSlots, &member),
        ] {
            assert!(check("h", good, role).is_ok());
        }
        for (bad, role, why) in [
            (&info("5.0.3", "master", "0", "standalone"), ServerRole::Master, "6.0"),
            (
                &info("7.0.15", "slave", "0", "standalone"),
                ServerRole::Master,
                "replica",
            ),
            (
                &info("7.0.15", "master", "1", "standalone"),
                ServerRole::Master,
                "redis-cluster://",
            ),
            (&member, ServerRole::MasterOfSentinels, "redis-cluster://"),
            (&info("7.0.15", "", "", "sentinel"), ServerRole::Member, "serviceName"),
            (&alone, ServerRole::Member, "redis://"),
            (&alone, ServerRole::MemberOfSeveral, "serviceName"),
        ] {
            let error = check("h", bad, role).unwrap_err();
            assert!(
                error.to_string().contains(why) && error.code() == "redis-refused",
                "{error}"
            );
        }
        let stale = check("h", &replica, ServerRole::MasterOfSlots).unwrap_err();
        assert!(stale.is_unavailable(), "{stale}");
    }
}
