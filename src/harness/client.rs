//! A client of a node's REST door, for the programs that start nodes. A connection per request.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::failure::Failure;

/// Longer than any answer takes of a node that lives.
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer that is larger is none of those that are asked for here.
const LARGEST: usize = 16 * 1024 * 1024;

/// A client of one node.
#[derive(Clone)]
pub(crate) struct Client {
    /// Host and port.
    authority: String,
}

impl Client {
    /// A client of the node at `url`, as `serve` prints it.
    pub(crate) fn new(url: &str) -> Self {
        let authority = url.strip_prefix("http://").unwrap_or(url);
        Self {
            authority: authority.trim_end_matches('/').to_owned(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// The body of an answer of 2xx; `path` is below `/elsa/api`. Any other answer, or none, is a failure. Dropped
    /// half-way, nobody knows whether the node has done it.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let what = format!("{method} {path}");
        let exchanged = tokio::time::timeout(PATIENCE, self.exchange(method, path, body)).await;
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

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect(&self.authority).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let _driver = AbortOnDropHandle::new(tokio::spawn(async move {
            // An error shows at the request.
            let _ = connection.await;
        }));
        let request = Request::builder()
            .method(method)
            .uri(format!("/elsa/api/{path}"))
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json");
        let request = request.body(body.map_or_else(Body::empty, |body| Body::from(body.to_string())))?;
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let bytes = to_bytes(Body::new(response.into_body()), LARGEST).await?;
        let answer = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes)?
        };
        Ok((status, answer))
    }
}

/// A connection to a node that lasts, for who asks often.
pub(crate) struct Lasting {
    authority: String,
    sender: http1::SendRequest<Body>,
    _driver: AbortOnDropHandle<()>,
}

impl Lasting {
    pub(crate) async fn open(client: &Client) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", client.authority));
        let stream = TcpStream::connect(&client.authority)
            .await
            .map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&error))?;
        let driver = tokio::spawn(async move {
            // An error shows at the request.
            let _ = connection.await;
        });
        Ok(Self {
            authority: client.authority.clone(),
            sender,
            _driver: AbortOnDropHandle::new(driver),
        })
    }

    /// As [`Client::post`]; the body of the answer is text, for who reads little of it.
    pub(crate) async fn post(&mut self, path: &str, body: &'static str) -> Result<Vec<u8>, Failure> {
        let failed =
            |what: &dyn std::fmt::Display| Failure::failed(format!("POST {path} at {}: {what}", self.authority));
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/elsa/api/{path}"))
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| failed(&error))?;
        let exchange = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let response = match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(response) => response.map_err(|error| failed(&error))?,
            Err(_) => return Err(failed(&"no answer")),
        };
        let status = response.status();
        let bytes = to_bytes(Body::new(response.into_body()), LARGEST)
            .await
            .map_err(|error| failed(&error))?;
        if !status.is_success() {
            let text = String::from_utf8_lossy(&bytes);
            return Err(failed(&format!("{status} {text}")));
        }
        Ok(bytes.to_vec())
    }
}

/// A text in an answer; empty if it is not there.
pub(crate) fn text<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer.get(name).and_then(Value::as_str).unwrap_or_default()
}
