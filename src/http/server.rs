//! The HTTP/1.1 server: it accepts connections, encrypts them where it has a certificate, and drains them on shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{StatusCode, header};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::connections::{ConnectionLimits, ConnectionState, ConnectionTable, TrackedStream};
use super::error::ApiError;
use super::holding_body::HoldingBody;
use super::peer::{Peer, Scheme};
use super::tls::{HANDSHAKE_RECORD, ServerTls};
use super::trusted_proxies::TrustedProxies;

/// The largest head of a request, in bytes; hyper answers a larger one with 431.
const MAX_HEAD: usize = 64 * 1024;
/// The pause after a failed accept (most likely no file descriptor is free).
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The least interval between two warnings about it.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// How a listener serves.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// The limits of its connections.
    pub limits: ConnectionLimits,
    /// The proxies in front of it, which name the clients of their requests. Default: none.
    pub trusted_proxies: TrustedProxies,
    /// Its certificate. Default: none, so that connections are not encrypted.
    pub tls: Option<ServerTls>,
}

impl From<ConnectionLimits> for ServerOptions {
    fn from(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }
}

/// Serves until `shutdown` completes, then stops accepting, lets requests in flight end for at most `drain`, and closes
/// the remaining connections. Accepted work continues. The options are those of [`ServerOptions::default`].
///
/// # Errors
/// None at present: an error of one connection ends that connection, and a failed accept is retried.
///
/// # Cancellation
/// Dropping the future closes the listener and all connections at once.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
    drain: Duration,
) -> io::Result<()> {
    serve_within(ServerOptions::default(), listener, router, shutdown, drain).await
}

/// As [`serve`], with other options, or with other connection limits alone.
///
/// # Errors
/// As for [`serve`].
///
/// # Cancellation
/// As for [`serve`].
pub async fn serve_within(
    options: impl Into<ServerOptions>,
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
    drain: Duration,
) -> io::Result<()> {
    let closes = async {
        shutdown.await;
        Listening::Ends
    };
    serve_until(options, listener, router, closes, drain).await
}

/// What becomes of a listener while the requests in flight end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "the program decides"))]
pub(crate) enum Listening {
    /// It is closed: clients, and the balancers before them, connect to another node.
    Ends,
    /// It accepts connections until they have ended: there is no other node, and the router says so.
    GoesOn,
}

/// As [`serve_within`]; the shutdown decides whether the listener is closed at once.
pub(crate) async fn serve_until(
    options: impl Into<ServerOptions>,
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = Listening>,
    drain: Duration,
) -> io::Result<()> {
    let options = options.into();
    let mut certificate = std::pin::pin!(keep_current(options.tls.clone()));
    let mut server = Server::new(options, router);
    let listening = tokio::select! {
        biased;
        listening = shutdown => listening,
        never = server.accept(&listener) => match never {},
        never = &mut certificate => match never {},
    };
    let mut in_flight = server.close();
    let ended = async { while in_flight.join_next().await.is_some() {} };
    let drained = async {
        if listening == Listening::GoesOn {
            tokio::select! {
                () = ended => {}
                never = server.accept(&listener) => match never {},
                never = &mut certificate => match never {},
            }
            drop((listener, server.waiting.take()));
            // These end with the response that they wait for.
            let mut late = server.close();
            while late.join_next().await.is_some() {}
        } else {
            drop((listener, server.waiting.take()));
            ended.await;
        }
    };
    if tokio::time::timeout(drain, drained).await.is_err() {
        tracing::warn!(
            connections = in_flight.len(),
            "closing connections whose requests did not end within the drain timeout"
        );
    }
    in_flight.shutdown().await;
    server.close().shutdown().await;
    Ok(())
}

/// The connections of a listener.
struct Server {
    table: Arc<ConnectionTable>,
    served: Served,
    tls: Option<ServerTls>,
    connections: JoinSet<()>,
    /// Accepted, and waiting for room: others are closed only for a connection that exists.
    waiting: Option<(TcpStream, Peer)>,
    warned: Option<Instant>,
}

impl Server {
    fn new(options: ServerOptions, router: Router) -> Self {
        Self {
            table: ConnectionTable::new(options.limits),
            served: Served {
                router,
                trusted_proxies: options.trusted_proxies,
                closing: CancellationToken::new(),
            },
            tls: options.tls,
            connections: JoinSet::new(),
            waiting: None,
            warned: None,
        }
    }

    /// Accepts connections, and serves each in a task of its own. Cancellation safe: what is accepted is kept.
    async fn accept(&mut self, listener: &TcpListener) -> Infallible {
        let mut limit_check = tokio::time::interval(self.table.limit_check_interval());
        limit_check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = limit_check.tick() => self.table.close_overdue(),
                Some(_) = self.connections.join_next(), if !self.connections.is_empty() => {}
                () = self.table.wait_for_room(), if self.waiting.is_some() => {
                    if let Some((stream, peer)) = self.waiting.take() {
                        self.spawn(stream, peer);
                    }
                }
                accepted = listener.accept(), if self.waiting.is_none() => match accepted {
                    Ok((stream, mut address)) => {
                        // Also that of a client whose IPv4 address a socket for both kinds shows as an IPv6 address.
                        address.set_ip(address.ip().to_canonical());
                        self.waiting = Some((stream, Peer(address)));
                    }
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        if self.warned.is_none_or(|warned| warned.elapsed() > WARNING_INTERVAL) {
                            self.warned = Some(Instant::now());
                            tracing::warn!(%error, "cannot accept connections; retrying");
                        }
                        self.table.shed();
                        tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
                    }
                },
            }
        }
    }

    fn spawn(&mut self, stream: TcpStream, peer: Peer) {
        // Responses are small and clients wait for them: they must not wait to be joined with more data.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let stream = TrackedStream {
            stream,
            tracked: self.table.track(),
        };
        let served = serve_stream(stream, peer, self.served.clone(), self.tls.clone());
        self.connections.spawn(served);
    }

    /// Lets the connections end after their requests, and returns them. Those that are accepted later are others.
    fn close(&mut self) -> JoinSet<()> {
        std::mem::take(&mut self.served.closing).cancel();
        std::mem::take(&mut self.connections)
    }
}

/// Keeps the certificate current, and never ends.
async fn keep_current(tls: Option<ServerTls>) -> Infallible {
    match tls {
        Some(tls) => tls.keep_current().await,
        None => std::future::pending().await,
    }
}

/// What is served over each connection of a listener.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) router: Router,
    pub(super) trusted_proxies: TrustedProxies,
    pub(super) closing: CancellationToken,
}

/// Serves a connection, which is encrypted first if there is a certificate. The time limit of the first head has the handshake, too.
async fn serve_stream(stream: TrackedStream<TcpStream>, peer: Peer, served: Served, tls: Option<ServerTls>) {
    let state = Arc::clone(&stream.tracked.state);
    let Some(tls) = tls else {
        return serve_connection(stream, state, peer, Scheme::Http, served).await;
    };
    let opened = async {
        let mut first = [0];
        // Nothing is taken from the stream.
        stream.stream.peek(&mut first).await?;
        if first != [HANDSHAKE_RECORD] {
            return Ok(Opened::Plain(stream));
        }
        let stream = tls.accept(stream).await?;
        Ok::<_, io::Error>(Opened::Encrypted(Box::new(stream)))
    };
    let opened = tokio::select! {
        biased;
        () = state.ended() => return,
        () = served.closing.cancelled() => return,
        opened = opened => opened,
    };
    match opened {
        Ok(Opened::Encrypted(stream)) => serve_connection(*stream, state, peer, Scheme::Https, served).await,
        // The answer says so, whatever the request asks for.
        Ok(Opened::Plain(stream)) => {
            let router = Router::new().fallback(https_required);
            serve_connection(stream, state, peer, Scheme::Http, Served { router, ..served }).await;
        }
        Err(error) => {
            metrics::counter!("mainspring_tls_handshakes_failed_total").increment(1);
            tracing::debug!(%error, client = %peer.0.ip(), "a connection could not be encrypted");
        }
    }
}

/// A connection of a listener with a certificate.
enum Opened {
    Encrypted(Box<TlsStream<TrackedStream<TcpStream>>>),
    Plain(TrackedStream<TcpStream>),
}

/// The answer to all that comes over a plain connection to a listener with a certificate.
async fn https_required() -> ApiError {
    let message = "This server is reached over TLS only: use https:// in its address.";
    let error = ApiError::new(StatusCode::BAD_REQUEST, "https-required", message);
    error.header(header::CONNECTION, "close")
}

/// Serves a connection, whose stream records what it does in its state.
pub(super) async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    state: Arc<ConnectionState>,
    peer: Peer,
    scheme: Scheme,
    served: Served,
) {
    let Served {
        router,
        trusted_proxies,
        closing,
    } = served;
    let service = service_fn({
        let state = Arc::clone(&state);
        move |mut request: hyper::Request<hyper::body::Incoming>| {
            let active = state.begin_request();
            let (client, scheme) = trusted_proxies.origin(peer, scheme, request.headers());
            request.extensions_mut().insert(client);
            request.extensions_mut().insert(scheme);
            let response = router.clone().oneshot(request);
            async move {
                let response = response.await?;
                // While the body lasts, the request is in flight.
                Ok::<_, Infallible>(response.map(|body| HoldingBody::new(body, active)))
            }
        }
    });
    let mut server = http1::Builder::new();
    // The connection table enforces the time limit of heads, and further ones.
    server.header_read_timeout(None).max_buf_size(MAX_HEAD);
    // A request for a WebSocket ends this connection, and its handler continues with the stream.
    let connection = server.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let mut is_closing = false;
    loop {
        tokio::select! {
            biased;
            () = state.ended() => return,
            () = closing.cancelled(), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
            ended = connection.as_mut() => {
                match ended {
                    // Either the stream is closed, or a WebSocket continues with it.
                    Ok(()) => state.upgrade(),
                    Err(error) => tracing::debug!(%error, "a connection failed"),
                }
                return;
            }
        }
    }
}

/// The client closed this connection before it was accepted; the next accept is not affected.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::extract::WebSocketUpgrade;
    use axum::routing::get;
    use futures_util::{SinkExt, StreamExt};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_tungstenite::tungstenite::Message;

    use super::*;

    /// The first bytes of the answer to a request on a connection of its own.
    async fn answer(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET /plain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn a_websocket_counts_against_the_limit_of_connections() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let echo = |upgrade: WebSocketUpgrade| async {
            upgrade.on_upgrade(|mut socket| async move {
                while let Some(Ok(message)) = socket.recv().await {
                    if socket.send(message).await.is_err() {
                        return;
                    }
                }
            })
        };
        let router = Router::new()
            .route("/socket", get(echo))
            .route("/plain", get(|| async { "plain" }));
        let limits = ConnectionLimits {
            max_connections: 1,
            ..ConnectionLimits::default()
        };
        let server = serve_within(limits, listener, router, std::future::pending(), Duration::ZERO);
        let server = tokio::spawn(server);
        let (mut socket, _) = tokio_tungstenite::connect_async(format!("ws://{address}/socket"))
            .await
            .unwrap();
        socket.send(Message::text("hello")).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("hello"));

        let mut waiting = tokio::spawn(answer(address));
        let early = tokio::time::timeout(Duration::from_millis(300), &mut waiting).await;
        assert!(early.is_err(), "a second connection was accepted");
        // It was not closed for the one that waits.
        socket.send(Message::text("still")).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("still"));
        drop(socket);
        let answered = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        assert!(answered.unwrap().unwrap().ends_with("plain"));
        server.abort();
    }
}
