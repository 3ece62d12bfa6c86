//! The HTTP/1.1 server: its connections, and an end in good order.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use hyper::Response;
use hyper::body::{Frame, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::connections::{ConnectionLimits, Entry, Noted, Table, Turn};

/// The largest head of a request, in bytes; hyper answers a larger one with 431.
const LARGEST_HEAD: usize = 64 * 1024;
/// The pause after the machine could not give a connection (no file descriptor is free, most likely).
const PAUSE: Duration = Duration::from_millis(100);
/// How often the log tells of that.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// Serves until `shutdown` ends; then accepts nothing more, lets the requests that are being worked on end for at most
/// `drain`, and cuts off the rest. What they asked for goes on in the engine. Connections are bounded as
/// [`ConnectionLimits::default`] says.
///
/// # Errors
/// None at present: trouble with one connection ends that one, and trouble with accepting passes.
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

/// The same, with limits of one's own.
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
    let mut shutdown = std::pin::pin!(shutdown);
    let table = Table::new(limits);
    let mut sweep = tokio::time::interval(table.interval());
    sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut said: Option<Instant> = None;
    // Accepted, and waiting for a place: nothing is ended for a connection that has not come.
    let mut waiting: Option<TcpStream> = None;
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            _ = sweep.tick() => table.sweep(),
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = table.room(), if waiting.is_some() => {
                if let Some(stream) = waiting.take() {
                    connections.spawn(connection(stream, router.clone(), graceful.watcher(), table.enter()));
                }
            }
            accepted = listener.accept(), if waiting.is_none() => match accepted {
                Ok((stream, _)) => waiting = Some(stream),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    if said.is_none_or(|said| said.elapsed() > SAID_EVERY) {
                        said = Some(Instant::now());
                        tracing::warn!(%error, "cannot accept connections for the moment");
                    }
                    table.shed();
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop((listener, waiting));
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "requests did not end within the drain timeout"
        );
    }
    connections.shutdown().await;
    Ok(())
}

async fn connection(stream: TcpStream, router: Router, watcher: Watcher, entry: Entry) {
    // Answers are small and awaited: they must not wait to be joined with more.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let link = Arc::clone(&entry.link);
    let service = service_fn({
        let link = Arc::clone(&link);
        move |request| {
            let turn = link.turn();
            let answer = router.clone().oneshot(request);
            async move {
                let response = answer.await?;
                Ok::<Response<Answering>, Infallible>(response.map(|body| Answering { body, _turn: turn }))
            }
        }
    });
    let stream = Noted {
        stream,
        link: Arc::clone(&link),
    };
    let mut server = http1::Builder::new();
    // The table keeps the time of heads, and of more than heads.
    server.header_read_timeout(None).max_buf_size(LARGEST_HEAD);
    let connection = server.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        () = link.ended() => {}
        ended = watcher.watch(connection) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke");
            }
        }
    }
}

/// The body of an answer; while it lasts, the server works on the request.
struct Answering {
    body: Body,
    _turn: Turn,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The client of this connection went away before it was accepted; the next one is fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
