//! A client of a node's REST API, for the commands that start nodes.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::failure::Failure;

const API: &str = "/elsa/api";
/// The timeout of a request, longer than a live node takes to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest response body, in bytes.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// A client of one node, with a new connection per request.
#[derive(Clone)]
pub struct Client {
    /// Host and port.
    authority: String,
}

impl Client {
    /// A client of the node at `url`, in the form that `serve` prints.
    pub fn new(url: &str) -> Self {
        let authority = url.strip_prefix("http://").unwrap_or(url);
        Self {
            authority: authority.trim_end_matches('/').to_owned(),
        }
    }

    /// The host and port of the node.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends a GET, and returns the body of a 2xx response.
    pub async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.send(Method::GET, path, None).await
    }

    /// Sends a POST, and returns the body of a 2xx response.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Saves and publishes a definition.
    pub async fn publish(&self, definition: &Value) -> Result<(), Failure> {
        let save = json!({"model": definition, "publish": true});
        self.post("workflow-definitions", &save).await.map(drop)
    }

    /// Sends a request, and returns the body of a 2xx response. Any other status, and a timeout, is a failure. Not
    /// cancellation safe: the node may have executed a request whose future was dropped.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let path = format!("{API}/{path}");
        let what = format!("{method} {path}");
        let exchanged = tokio::time::timeout(TIMEOUT, self.exchange(method, &path, body)).await;
        let (status, answer) = match exchanged {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(Failure::failed(format!("{what} at {}: {error}", self.authority))),
            Err(_) => return Err(Failure::failed(format!("{what} at {}: no answer", self.authority))),
        };
        if !(200..300).contains(&status) {
            return Err(Failure::failed(format!(
                "{what} at {}: {status} {answer}",
                self.authority
            )));
        }
        Ok(answer)
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(u16, Value), AnyError> {
        let (mut sender, _driver) = connect(&self.authority).await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json");
        let request = request.body(body.map_or_else(Body::empty, |body| Body::from(body.to_string())))?;
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let bytes = to_bytes(Body::new(response.into_body()), MAX_BODY).await?;
        let answer = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes)?
        };
        Ok((status, answer))
    }
}

/// Why an exchange failed.
pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Opens a connection to a host and port. Its requests report its errors.
pub(crate) async fn connect(authority: &str) -> Result<(http1::SendRequest<Body>, AbortOnDropHandle<()>), AnyError> {
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    connect_over(stream).await
}

/// The same over a stream that is open.
pub(crate) async fn connect_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<(http1::SendRequest<Body>, AbortOnDropHandle<()>), AnyError> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(async move { drop(connection.await) });
    Ok((sender, AbortOnDropHandle::new(driver)))
}

/// A connection to a node that serves many requests.
pub struct PersistentConnection {
    authority: String,
    sender: http1::SendRequest<Body>,
    _driver: AbortOnDropHandle<()>,
}

impl PersistentConnection {
    /// Opens a connection to the node of a client.
    pub async fn open(client: &Client) -> Result<Self, Failure> {
        let (sender, driver) = connect(&client.authority)
            .await
            .map_err(|error| Failure::failed(format!("{}: {error}", client.authority)))?;
        Ok(Self {
            authority: client.authority.clone(),
            sender,
            _driver: driver,
        })
    }

    /// As [`Client::post`], but returns the body unparsed, which is cheaper.
    pub async fn post(&mut self, path: &str, body: impl Into<Body>) -> Result<Vec<u8>, Failure> {
        self.send(Method::POST, &format!("{API}/{path}"), body.into()).await
    }

    /// Sends a GET for a path of the node, beside the API, and returns the body of a 2xx response.
    pub async fn get_at(&mut self, path: &str) -> Result<Vec<u8>, Failure> {
        self.send(Method::GET, path, Body::empty()).await
    }

    /// As [`Client::get`], but returns the body unparsed, which is cheaper.
    pub async fn get(&mut self, path: &str) -> Result<Vec<u8>, Failure> {
        self.get_at(&format!("{API}/{path}")).await
    }

    async fn send(&mut self, method: Method, path: &str, body: Body) -> Result<Vec<u8>, Failure> {
        let what = format!("{method} {path} at {}", self.authority);
        let failed = |problem: &dyn std::fmt::Display| Failure::failed(format!("{what}: {problem}"));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| failed(&error))?;
        let exchange = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let response = match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(response) => response.map_err(|error| failed(&error))?,
            Err(_) => return Err(failed(&"no answer")),
        };
        let status = response.status();
        let bytes = to_bytes(Body::new(response.into_body()), MAX_BODY)
            .await
            .map_err(|error| failed(&error))?;
        if !status.is_success() {
            let text = String::from_utf8_lossy(&bytes);
            return Err(failed(&format!("{status} {text}")));
        }
        Ok(bytes.to_vec())
    }
}

/// A string field of a response; empty if it is missing.
pub fn text_field<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer.get(name).and_then(Value::as_str).unwrap_or_default()
}
