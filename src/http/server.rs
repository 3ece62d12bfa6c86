//! The HTTP/1.1 server: it accepts connections and drains them on shutdown.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::connections::{ConnectionLimits, ConnectionTable, TrackedConnection, TrackedStream};
use super::holding_body::HoldingBody;

/// The largest head of a request, in bytes; hyper answers a larger one with 431.
const MAX_HEAD: usize = 64 * 1024;
/// The pause after a failed accept (most likely no file descriptor is free).
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The least interval between two warnings about it.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Serves until `shutdown` completes, then stops accepting, lets requests in flight end for at most `drain`, and closes
/// the remaining connections. Accepted work continues. The limits are those of [`ConnectionLimits::default`].
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
    serve_within(ConnectionLimits::default(), listener, router, shutdown, drain).await
}

/// As [`serve`], with other connection limits.
///
/// # Errors
/// As for [`serve`].
///
/// # Cancellation
/// As for [`serve`].
pub async fn serve_within(
    limits: ConnectionLimits,
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
    drain: Duration,
) -> io::Result<()> {
    let closes = async {
        shutdown.await;
        Listening::Ends
    };
    serve_until(limits, listener, router, closes, drain).await
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
    limits: ConnectionLimits,
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = Listening>,
    drain: Duration,
) -> io::Result<()> {
    let mut server = Server::new(limits, router);
    let listening = tokio::select! {
        biased;
        listening = shutdown => listening,
        never = server.accept(&listener) => match never {},
    };
    let mut in_flight = server.close();
    let ended = async { while in_flight.join_next().await.is_some() {} };
    let drained = async {
        if listening == Listening::GoesOn {
            tokio::select! {
                () = ended => {}
                never = server.accept(&listener) => match never {},
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
    router: Router,
    connections: JoinSet<()>,
    /// Ends them after their requests.
    closing: CancellationToken,
    /// Accepted, and waiting for room: others are closed only for a connection that exists.
    waiting: Option<(TcpStream, Peer)>,
    warned: Option<Instant>,
}

impl Server {
    fn new(limits: ConnectionLimits, router: Router) -> Self {
        Self {
            table: ConnectionTable::new(limits),
            router,
            connections: JoinSet::new(),
            closing: CancellationToken::new(),
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
                    Ok((stream, address)) => self.waiting = Some((stream, Peer(address))),
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
        let (router, closing) = (self.router.clone(), self.closing.clone());
        let served = serve_connection(stream, peer, router, closing, self.table.track());
        self.connections.spawn(served);
    }

    /// Lets the connections end after their requests, and returns them. Those that are accepted later are others.
    fn close(&mut self) -> JoinSet<()> {
        std::mem::take(&mut self.closing).cancel();
        std::mem::take(&mut self.connections)
    }
}

/// The address of the client, in the extensions of each of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

pub(super) async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    closing: CancellationToken,
    tracked: TrackedConnection,
) {
    let state = Arc::clone(&tracked.state);
    let service = service_fn({
        let state = Arc::clone(&state);
        move |mut request: hyper::Request<hyper::body::Incoming>| {
            let active = state.begin_request();
            request.extensions_mut().insert(peer);
            let response = router.clone().oneshot(request);
            async move {
                let response = response.await?;
                // While the body lasts, the request is in flight.
                Ok::<_, Infallible>(response.map(|body| HoldingBody::new(body, active)))
            }
        }
    });
    let stream = TrackedStream { stream, tracked };
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
