//! An HTTP server that records what it receives, as webhooks and requests of workflows, and answers as a test sets it.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::support::{Http, TIMEOUT, poll_until};

/// A secret of 24 bytes.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The signature of a webhook, as its receiver computes it.
pub(crate) fn signature(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Registers a sink; what its registration answers.
pub(crate) async fn register(http: &Http, id: &str, url: &str, more: Value) -> Value {
    let mut sink = json!({"id": id, "url": url, "secret": SECRET});
    sink.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    http.post("webhook-sinks", &sink).await.expect(201)
}

/// A request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) raw: Vec<u8>,
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// All values of a header.
    pub(crate) fn headers(&self, name: &str) -> Vec<String> {
        let values = self.headers.get_all(name).iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn id(&self) -> String {
        self.header("webhook-id").to_owned()
    }

    pub(crate) fn event(&self) -> &str {
        self.body["eventType"].as_str().unwrap()
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A status with headers.
    Status(u16, Vec<(&'static str, String)>),
    /// A file of this type.
    File(&'static str, Vec<u8>),
    /// 200 after a while.
    Slow(Duration),
    /// Nothing, ever.
    Hang,
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status(200, Vec::new())
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Status(status, Vec::new())
    }
}

type Decide = Box<dyn FnMut(&Received) -> Reply + Send>;

struct Shared {
    received: Mutex<Vec<Received>>,
    decide: Mutex<Decide>,
    accepted: AtomicUsize,
}

/// The receiver. It ends with this value.
pub(crate) struct Receiver {
    url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Receiver {
    /// One that takes everything.
    pub(crate) async fn start() -> Self {
        Self::answering(|_| Reply::ok()).await
    }

    pub(crate) async fn answering(decide: impl FnMut(&Received) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            received: Mutex::default(),
            decide: Mutex::new(Box::new(decide)),
            accepted: AtomicUsize::new(0),
        });
        let serving = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { url, shared, serving }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The URL without a path, and without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        self.url.trim_end_matches("/hooks")
    }

    /// How many connections it has accepted.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(SeqCst)
    }

    /// From now on it answers differently.
    pub(crate) fn answer(&self, decide: impl FnMut(&Received) -> Reply + Send + 'static) {
        *self.shared.decide.lock().unwrap() = Box::new(decide);
    }

    /// What has come so far, in order.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.received.lock().unwrap().len()
    }

    /// Waits until so many have come at least; what has come.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Received> {
        let what = format!("{count} webhooks");
        poll_until(TIMEOUT, &what, async || (self.count() >= count).then_some(())).await;
        self.received()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.accepted.fetch_add(1, SeqCst);
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request: Request<Incoming>| answer(Arc::clone(&shared), request));
        connections.spawn(async move {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let raw = to_bytes(Body::new(body), 16 << 20).await.unwrap().to_vec();
    let received = Received {
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body: serde_json::from_slice(&raw).unwrap_or_default(),
        raw,
        at: Instant::now(),
    };
    shared.received.lock().unwrap().push(received.clone());
    let reply = (shared.decide.lock().unwrap())(&received);
    match reply {
        Reply::Status(status, headers) => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            Ok(response.body(Body::from("noted")).unwrap())
        }
        Reply::File(content_type, bytes) => {
            let response = Response::builder().header("content-type", content_type);
            Ok(response.body(Body::from(bytes)).unwrap())
        }
        Reply::Slow(time) => {
            tokio::time::sleep(time).await;
            Ok(Response::new(Body::from("noted")))
        }
        Reply::Hang => std::future::pending().await,
    }
}
