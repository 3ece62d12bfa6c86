//! The HTTP/1.1 server: connections, their bounds, and an end in good order.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// Connections that are open at the same time; more wait in the kernel's queue.
const CONNECTIONS: usize = 8192;
/// How long the head of a request may take, and an idle connection may stay.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause after the machine could not give a connection (no file descriptor is free, most likely).
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` ends; then accepts nothing more, lets the requests that are being worked on end for at most
/// `drain`, and cuts off the rest. What they asked for goes on in the engine.
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
    let mut shutdown = std::pin::pin!(shutdown);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = accept(&listener, &places) => match accepted {
                Ok((stream, place)) => {
                    connections.spawn(connection(stream, router.clone(), graceful.watcher(), place));
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections for the moment");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "requests did not end within the drain timeout"
        );
    }
    connections.shutdown().await;
    Ok(())
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

async fn connection(stream: TcpStream, router: Router, watcher: Watcher, _place: OwnedSemaphorePermit) {
    // Answers are small and awaited: they must not wait to be joined with more.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let connection = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection broke");
    }
}

/// The client of this connection went away before it was accepted; the next one is fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
