//! A server that notes what workflows send to it.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// A request, as far as it is noted.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) path: String,
    /// All values of `Idempotency-Key`.
    pub(super) keys: Vec<String>,
}

/// Answers each request with `noted`, and keeps its connections open. It ends with this value.
pub(super) struct Recorder {
    url: String,
    recorded: Arc<Mutex<Vec<Recorded>>>,
    accepted: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Recorder {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (recorded, accepted) = (Arc::default(), Arc::default());
        let serving = tokio::spawn(accept(listener, Arc::clone(&recorded), Arc::clone(&accepted)));
        Self {
            url,
            recorded,
            accepted,
            serving,
        }
    }

    /// Without a slash at its end.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The requests so far, in order.
    pub(super) fn recorded(&self) -> Vec<Recorded> {
        self.recorded.lock().unwrap().clone()
    }

    /// How many connections it has accepted.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(SeqCst)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, recorded: Arc<Mutex<Vec<Recorded>>>, accepted: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        accepted.fetch_add(1, SeqCst);
        let recorded = Arc::clone(&recorded);
        let service = service_fn(move |request: Request<Incoming>| {
            let keys = request.headers().get_all("idempotency-key").iter();
            let keys = keys.map(|key| key.to_str().unwrap().to_owned()).collect();
            let path = request.uri().path().to_owned();
            recorded.lock().unwrap().push(Recorded { path, keys });
            async { Ok::<_, Infallible>(Response::new(Body::from("noted"))) }
        });
        connections.spawn(async move {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}
