//! `--health-listen`: health on a listener, a thread and a runtime of its own, which no load of the node reaches.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::api::{self, ConnectionLimits};
use crate::harness::failure::Failure;
use crate::runtime::Engine;

/// Probes that are connected at the same time.
pub(super) const CONNECTIONS: usize = 64;

/// How long any of a probe's steps may take.
const STEP: Duration = Duration::from_secs(5);

/// The thread that answers. It ends when this is dropped.
pub(super) struct Probe {
    engine: Arc<OnceLock<Engine>>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Probe {
    /// Takes the address and answers: live, and not ready as long as there is no engine.
    pub(super) fn start(address: SocketAddr) -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("cannot listen on {address} for --health-listen: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (engine, stop) = (Arc::new(OnceLock::new()), CancellationToken::new());
        let router = api::probe_router(Arc::clone(&engine));
        let asked = stop.clone();
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let limits = ConnectionLimits {
                most: CONNECTIONS,
                head: STEP,
                idle: STEP * 2,
                stall: STEP,
            };
            api::serve_within(limits, listener, router, asked.cancelled(), STEP).await
        };
        let thread = std::thread::Builder::new().name("mainspring-health".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!(%error, "the listener for health has ended");
            }
        });
        tracing::info!(%address, "health is answered");
        Ok(Self {
            engine,
            stop,
            thread: Some(thread.map_err(failed)?),
        })
    }

    /// From now on it says whether this engine is ready.
    pub(super) fn watch(&self, engine: &Engine) {
        let _ = self.engine.set(engine.clone());
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.is_finished()
            && thread.join().is_err()
        {
            tracing::error!("the thread that answered for health has panicked");
        }
    }
}
