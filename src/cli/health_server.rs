//! `--health-listen`: a listener for health requests and scrapes of the metrics, with its own thread and runtime, so that load does not delay it.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::api::{self, ConnectionLimits, MetricsText};
use crate::harness::failure::Failure;
use crate::runtime::Engine;

/// The limit of concurrent connections.
pub(super) const CONNECTIONS: usize = 64;

/// The timeout of each step of a request.
const STEP: Duration = Duration::from_secs(5);

/// The thread that serves. Dropping this stops it.
pub(super) struct HealthServer {
    engine: Arc<OnceLock<Engine>>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl HealthServer {
    /// Binds the address and serves: live, and not ready until an engine exists.
    pub(super) fn start(address: SocketAddr, metrics: Option<MetricsText>) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("cannot listen on {address} for --health-listen: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (engine, stop) = (Arc::new(OnceLock::new()), CancellationToken::new());
        let router = api::probe_router(Arc::clone(&engine), metrics);
        let stopped = stop.clone();
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let limits = ConnectionLimits {
                max_connections: CONNECTIONS,
                head: STEP,
                idle: STEP * 2,
                stall: STEP,
            };
            api::serve_within(limits, listener, router, stopped.cancelled(), STEP).await
        };
        let thread = std::thread::Builder::new().name("mainspring-health".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!(%error, "the health listener has stopped");
            }
        });
        tracing::info!(%address, "health requests are served");
        Ok(Self {
            engine,
            stop,
            thread: Some(thread.map_err(failed)?),
        })
    }

    /// From now on the answer is that of this engine.
    pub(super) fn watch(&self, engine: &Engine) {
        let _ = self.engine.set(engine.clone());
    }
}

impl Drop for HealthServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.is_finished()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the health listener has panicked");
        }
    }
}
