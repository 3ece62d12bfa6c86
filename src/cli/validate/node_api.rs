//! Requests to one node, or to the load balancer in front of several.

use std::time::Duration;

use hyper::Method;
use serde_json::Value;

use crate::cli::remote_server::{RemoteRequest, RemoteServer};
use crate::harness::client::text_field;
use crate::harness::failure::Failure;
use crate::harness::secret::Secret;

/// The path of the API.
const API: &str = "elsa/api";
/// Longer than a node waits for the end of a burst before it answers 202.
const TIMEOUT: Duration = Duration::from_secs(40);
/// How long a node may take to say that it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest answer, in bytes.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// A node by its URL.
pub(super) struct NodeApi(RemoteServer);

/// The answer to a request.
pub(super) struct ApiAnswer {
    pub(super) status: u16,
    /// Null if it is empty or no JSON.
    pub(super) body: Value,
    /// The time that the node took.
    pub(super) took: Duration,
}

impl ApiAnswer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Status, code and message of a refusal.
    pub(super) fn refusal(&self) -> String {
        let parts = ["code", "message"].map(|name| text_field(&self.body, name));
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        format!("{} {}", self.status, parts.collect::<Vec<_>>().join(": "))
            .trim_end()
            .to_owned()
    }
}

/// A request without an answer.
pub(super) struct LostRequest {
    /// The node may have done what was asked for.
    pub(super) was_sent: bool,
    pub(super) problem: String,
}

impl NodeApi {
    /// The node at a URL, with or without the path of the API. Errors: wrong usage.
    pub(super) fn of(url: &str, key: Option<&Secret>) -> Result<Self, Failure> {
        let url = url.trim().trim_end_matches('/');
        let base = url.strip_suffix(API).unwrap_or(url);
        RemoteServer::of(base, "URLs as http://10.0.0.1:5001", key).map(Self)
    }

    /// Its URL.
    pub(super) fn url(&self) -> String {
        self.0.url("").trim_end_matches('/').to_owned()
    }

    /// Sends a request to a path of the API. Not cancellation safe.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Result<ApiAnswer, LostRequest> {
        let path = format!("{API}/{path}");
        let headers = key.map(|key| ("idempotency-key", key));
        let request = RemoteRequest {
            method,
            path: &path,
            headers: headers.as_slice(),
            body: body.map(Value::to_string),
            most_bytes: MAX_BODY,
        };
        let unanswered = |was_sent, problem: String| LostRequest {
            was_sent,
            problem: format!("{}: {problem}", self.url()),
        };
        match tokio::time::timeout(TIMEOUT, self.0.exchange(request)).await {
            Ok(Ok(answer)) => {
                let bytes = answer.body.map_err(|error| unanswered(true, error.to_string()))?;
                Ok(ApiAnswer {
                    status: answer.status.as_u16(),
                    body: serde_json::from_slice(&bytes).unwrap_or_default(),
                    took: answer.took,
                })
            }
            Ok(Err(error)) => {
                let hint = self.0.certificate_hint();
                Err(unanswered(error.was_sent, format!("{error}.{hint}")))
            }
            Err(_) => Err(unanswered(true, format!("no answer within {} s", TIMEOUT.as_secs()))),
        }
    }

    /// Sends a request that must succeed, and returns the body of the answer.
    async fn must(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let what = format!("{method} {path}");
        match self.send(method, path, None, body).await {
            Ok(answer) if answer.is_success() => Ok(answer.body),
            Ok(answer) => {
                let hint = match (answer.status, self.0.has_key()) {
                    (401, false) => "; give the file of the API key by --api-key-file",
                    (401 | 403, true) => "; give another key by --api-key-file",
                    _ => "",
                };
                Err(format!("{what} at {}: {}{hint}", self.url(), answer.refusal()))
            }
            Err(unanswered) => Err(format!("{what} at {}", unanswered.problem)),
        }
    }

    /// The body of the answer to a GET.
    pub(super) async fn get(&self, path: &str) -> Result<Value, String> {
        self.must(Method::GET, path, None).await
    }

    /// The body of the answer to a POST.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.must(Method::POST, path, Some(body)).await
    }

    /// Whether it says that it is ready.
    pub(super) async fn is_ready(&self) -> bool {
        let request = RemoteRequest {
            method: Method::GET,
            path: "health/ready",
            headers: &[],
            body: None,
            most_bytes: MAX_BODY,
        };
        let answer = tokio::time::timeout(READY_TIMEOUT, self.0.exchange(request)).await;
        matches!(answer, Ok(Ok(answer)) if answer.status == 200)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_with_or_without_the_path_of_its_api() {
        for url in [
            "http://h:1",
            "http://h:1/",
            "http://h:1/elsa/api",
            "http://h:1/elsa/api/",
        ] {
            assert_eq!(NodeApi::of(url, None).unwrap().url(), "http://h:1");
        }
        assert_eq!(NodeApi::of(" https://h/a/", None).unwrap().url(), "https://h/a");
        assert!(NodeApi::of("h:1", None).is_err());
    }

    #[test]
    fn a_refusal_is_said_in_one_line() {
        let answer = |status, body| ApiAnswer {
            status,
            body,
            took: Duration::ZERO,
        };
        let refused = answer(409, serde_json::json!({"code": "c", "message": "m"}));
        assert_eq!(refused.refusal(), "409 c: m");
        assert_eq!(answer(502, Value::Null).refusal(), "502");
        assert!(answer(204, Value::Null).is_success() && !refused.is_success());
    }
}
