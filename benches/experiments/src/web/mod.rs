//! `uploads`, `outgoing`, `links` and `webhooks`: workflows that receive and send requests, against the same work without a workflow;
//! `credentials`: requests with one credential against those with another; `traces`: executes at a node with a collector against one
//! without.

mod credentials;
mod links;
mod outgoing;
mod traces;
mod uploads;
mod webhooks;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::Router;
use mainspring::internals::Failure;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use credentials::run as credentials;
pub(crate) use links::run as links;
pub(crate) use outgoing::run as outgoing;
pub(crate) use traces::run as traces;
pub(crate) use uploads::run as uploads;
pub(crate) use webhooks::run as webhooks;

/// The pairs of measurements without and with a workflow.
pub(crate) const PAIRS: usize = 5;

/// The time before each measurement.
const WARM_UP: Duration = Duration::from_millis(500);

/// A server of this process. It ends with this value.
struct LocalServer {
    url: String,
    _serves: AbortOnDropHandle<()>,
}

impl LocalServer {
    async fn start(router: Router) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let serves = tokio::spawn(async move { drop(axum::serve(listener, router).await) });
        Ok(Self {
            url: format!("http://{address}"),
            _serves: AbortOnDropHandle::new(serves),
        })
    }
}

/// A client that follows no settings of the environment.
pub(crate) fn client() -> Result<reqwest::Client, Failure> {
    // The library's own client brings its TLS; here the process needs one, though nothing is encrypted.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .build()
        .map_err(|error| failed(&error))
}

/// How many units per second so many clients do, one after another; `work` does one call and returns its units.
pub(crate) async fn rate<W, F>(clients: usize, seconds: usize, work: W) -> Result<f64, Failure>
where
    W: Fn() -> F,
    F: Future<Output = Result<u64, Failure>> + Send + 'static,
    W: Clone + Send + 'static,
{
    let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (done, stop, work) = (Arc::clone(&done), Arc::clone(&stop), work.clone());
        tasks.spawn(async move {
            while !stop.load(Relaxed) {
                done.fetch_add(work().await?, Relaxed);
            }
            Ok::<_, Failure>(())
        });
    }
    tokio::time::sleep(WARM_UP).await;
    let (began, before) = (Instant::now(), done.load(Relaxed));
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    let rate = (done.load(Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Failure::failed(format!("a client ended early: {error}")))??;
    }
    Ok(rate)
}

pub(crate) fn failed(problem: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("a request of the experiment: {problem}"))
}

pub(crate) fn to_three_digits(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
