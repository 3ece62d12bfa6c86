//! Connects to a broker, and says in our own words why a connection is refused, because the broker's words may name a user.

use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_rs::Runtime;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, ErrorKind};
use rustls::ClientConfig;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::address::RabbitAddress;
use super::stream::{BrokerStream, runtime, tls_config};
use crate::{Error, Result};

/// How long an answer may take. Then the connection counts as lost.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest file with a URL, in bytes.
const LONGEST_FILE: u64 = 16 << 10;

/// A broker. Its text, which may hold a password, is in no message and no debug output.
#[derive(Clone)]
pub(crate) struct RabbitServer {
    source: Source,
}

#[derive(Clone)]
enum Source {
    Text(String),
    /// Read again for each connection, so that a password can change while nodes run.
    File(PathBuf),
}

/// An open connection. Dropping it ends it, with the client's thread for it.
pub(super) struct BrokerConnection {
    pub(super) connection: Connection,
    _cut: DropGuard,
}

impl std::fmt::Debug for RabbitServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RabbitServer({})", self.place())
    }
}

impl RabbitServer {
    /// A broker by URL.
    ///
    /// # Errors
    /// `invalid-rabbitmq-url`, without any value.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let source = Source::Text(text.to_owned());
        Self { source }.checked()
    }

    /// The same from a file, which is read again for each connection.
    #[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "a setting of the program"))]
    pub(crate) fn from_file(path: impl Into<PathBuf>) -> Result<Self> {
        let source = Source::File(path.into());
        Self { source }.checked()
    }

    fn checked(self) -> Result<Self> {
        self.address()?;
        Ok(self)
    }

    fn address(&self) -> Result<RabbitAddress> {
        match &self.source {
            Source::Text(text) => RabbitAddress::parse(text),
            Source::File(path) => RabbitAddress::parse(&read(path)?),
        }
    }

    /// Hosts, ports and virtual host, for messages.
    pub(crate) fn place(&self) -> String {
        self.address()
            .map_or_else(|_| "RabbitMQ".to_owned(), |address| address.place())
    }

    /// Connects to the first host that accepts. `name` is what the broker shows.
    ///
    /// # Errors
    /// `rabbitmq-refused` where a setting must change, `rabbitmq-unavailable` where no host answers.
    pub(super) async fn connect(&self, name: &str) -> Result<BrokerConnection> {
        let address = self.address()?;
        let tls = match address.tls.clone() {
            Some(tls) => {
                let read = tokio::task::spawn_blocking(move || tls_config(&tls)).await;
                let read = read.map_err(|_| Error::internal("the reader of certificates has ended"))?;
                Some(read.map_err(|error| {
                    refused(
                        &address.place(),
                        &format!("the certificates of its URL cannot be used: {error}"),
                    )
                })?)
            }
            None => None,
        };
        let mut failed = None;
        for (host, port) in &address.hosts {
            match connect_to(&address, host, *port, tls.clone(), name).await {
                Ok(connection) => return Ok(connection),
                // A refusal says more than that another host is away.
                Err(error) if error.is_invalid() || failed.is_none() => failed = Some(error),
                Err(_) => {}
            }
        }
        Err(failed.unwrap_or_else(|| unavailable(&address.place(), "it has no host")))
    }
}

async fn connect_to(
    address: &RabbitAddress,
    host: &str,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    name: &str,
) -> Result<BrokerConnection> {
    let place = format!("{host}:{port}");
    let cut = CancellationToken::new();
    let guard = cut.clone().drop_guard();
    let server_name = address.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
    let encrypted = tls.as_ref().map(|config| (config, server_name.unwrap_or(host)));
    let connecting = BrokerStream::connect(host, port, encrypted, &cut);
    let connected = tokio::time::timeout(address.connect_timeout, connecting).await;
    let stream = connected
        .map_err(|_| unavailable(&place, "it does not answer"))?
        .map_err(|error| unreachable(&place, tls.is_some(), &error))?;
    // The client takes a function that connects; it calls it once, because it does not recover by itself.
    let stream = std::sync::Mutex::new(Some(stream));
    let take = async move |_, _| {
        let taken = stream.lock().ok().and_then(|mut stream| stream.take());
        let stream = taken.ok_or_else(|| lapin::Error::from(std::io::Error::from(IoErrorKind::ConnectionAborted)))?;
        Ok(AsyncTcpStream::Plain(stream))
    };
    let uri = AMQPUri {
        scheme: AMQPScheme::AMQP,
        authority: AMQPAuthority {
            userinfo: AMQPUserInfo {
                username: address.user.clone(),
                password: address.password.clone(),
            },
            host: host.to_owned(),
            port,
        },
        vhost: address.virtual_host.clone(),
        query: AMQPQueryString {
            heartbeat: Some(address.heartbeat),
            auth_mechanism: address.is_external.then_some(SASLMechanism::External),
            ..AMQPQueryString::default()
        },
    };
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let opening = Connection::connector(uri, Runtime::new(runtime()), take, properties);
    let opened = tokio::time::timeout(address.connect_timeout + ANSWER_TIMEOUT, opening).await;
    let connection = opened
        .map_err(|_| unavailable(&place, "it does not speak AMQP, or requires TLS (amqps://)"))?
        .map_err(|error| failed(&place, &error, &Asked::Connection(address)))?;
    Ok(BrokerConnection {
        connection,
        _cut: guard,
    })
}

/// What was asked for when the broker refused.
pub(super) enum Asked<'a> {
    Connection(&'a RabbitAddress),
    Exchange(&'a str),
    Queue(&'a str),
    /// A message by this exchange.
    Use(&'a str),
    /// Something of an open channel.
    Open,
}

/// An error of the client in our words.
pub(super) fn failed(place: &str, error: &lapin::Error, asked: &Asked<'_>) -> Error {
    let kind = match error.kind() {
        ErrorKind::ProtocolError(error) => error.kind().clone(),
        ErrorKind::MissingHeartbeatError => return unavailable(place, "it no longer answers"),
        _ if matches!(asked, Asked::Connection(_)) => {
            return unavailable(place, "it ended the connection; does it require TLS (amqps://)?");
        }
        _ => return unavailable(place, "the connection ended"),
    };
    match (kind, asked) {
        (AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED), Asked::Connection(address)) if address.is_external => {
            refused(place, "it accepts no certificate as a user (auth_mechanism=external)")
        }
        (AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED), Asked::Connection(_)) => refused(
            place,
            "it does not accept this user with this password (in --rabbitmq-url)",
        ),
        (AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED), Asked::Connection(address)) => {
            let name = &address.virtual_host;
            let what = format!(
                "the virtual host {name:?} (in --rabbitmq-url) does not exist, or this user may not use it; \
                 `rabbitmqctl add_vhost` and `set_permissions` change that"
            );
            refused(place, &what)
        }
        (
            AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED),
            Asked::Exchange(name) | Asked::Queue(name) | Asked::Use(name),
        ) => {
            let what = format!(
                "this user may not configure, read and write {name:?}; `rabbitmqctl set_permissions` grants it, and \
                 rabbitmq-prefix chooses other names"
            );
            refused(place, &what)
        }
        (AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED), Asked::Exchange(name)) => {
            let what = format!(
                "the exchange {name:?} was declared by another program with another type or other arguments: delete it, or \
                 give another rabbitmq-prefix"
            );
            refused(place, &what)
        }
        (AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED), Asked::Queue(name)) => {
            let what = format!(
                "the queue {name:?} was declared by another program with other arguments: delete it, or give another \
                 rabbitmq-prefix"
            );
            refused(place, &what)
        }
        (kind, _) => {
            let code = match kind {
                AMQPErrorKind::Soft(error) => error.get_id(),
                AMQPErrorKind::Hard(error) => error.get_id(),
            };
            unavailable(
                place,
                &format!("it closed the connection or the channel with code {code}"),
            )
        }
    }
}

fn unreachable(place: &str, is_tls: bool, error: &std::io::Error) -> Error {
    match error.kind() {
        // A code of its own, so that it is logged also where the broker was away before.
        IoErrorKind::InvalidData if is_tls => Error::unavailable(
            "rabbitmq-tls-failed",
            format!(
                "the RabbitMQ broker {place} is not available: its certificate or its TLS is not accepted ({error}); \
                 `cacertfile` names a private authority, and a port without TLS needs amqp://"
            ),
        ),
        kind => unavailable(place, &format!("it cannot be reached ({kind})")),
    }
}

pub(super) fn unavailable(place: &str, what: &str) -> Error {
    Error::unavailable(
        "rabbitmq-unavailable",
        format!("the RabbitMQ broker {place} is not available: {what}"),
    )
}

fn refused(place: &str, what: &str) -> Error {
    Error::invalid(
        "rabbitmq-refused",
        format!("the RabbitMQ broker {place} cannot be used: {what}"),
    )
}

fn read(path: &Path) -> Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let opened = std::fs::File::open(path);
    let read = opened.and_then(|file| file.take(LONGEST_FILE).read_to_string(&mut text));
    let unreadable = |error| {
        let message = format!("the file {} with the RabbitMQ URL cannot be read", path.display());
        Error::invalid("invalid-rabbitmq-url", message).caused_by(error)
    };
    read.map_err(unreadable)?;
    Ok(text)
}
