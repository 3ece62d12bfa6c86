//! A client of the REST API.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::wait_until;

/// A client of one node.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    base: String,
    authorization: Option<String>,
}

/// A client to be made. The library's own client brings its TLS; here the process needs one.
pub(crate) fn client_builder() -> reqwest::ClientBuilder {
    // Another test may have set it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Method and path of the request.
    request: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Null for an empty body; a string for one that is not JSON.
    pub(crate) body: Value,
}

impl Http {
    /// A client of the node at `base`, the URL that it prints when it is ready.
    pub(crate) fn new(base: &str) -> Self {
        let client = client_builder().timeout(Duration::from_secs(60));
        Self {
            client: client.build().unwrap(),
            base: base.trim_end_matches('/').to_owned(),
            authorization: None,
        }
    }

    /// The same, with an API key.
    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.authorization = Some(format!("ApiKey {key}"));
        self
    }

    /// The same, with a token of a user.
    pub(crate) fn with_token(mut self, token: &str) -> Self {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// Host and port of the node.
    pub(crate) fn address(&self) -> String {
        self.base.trim_start_matches("http://").to_owned()
    }

    /// `path` is below `/elsa/api`, or begins with `/` and is taken as it is.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await.expect(path)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, &[], Some(body)).await.expect(path)
    }

    /// Saves and publishes a definition.
    pub(crate) async fn publish(&self, model: &Value) {
        let save = json!({"model": model, "publish": true});
        self.post("workflow-definitions", &save).await.expect(200);
    }

    /// Starts an instance, and does not wait for it.
    pub(crate) async fn dispatch(&self, definition: &str, start: &Value) -> Value {
        let path = format!("workflow-definitions/{definition}/dispatch");
        self.post(&path, start).await.expect(200)
    }

    /// Starts an instance, and waits for its first burst.
    pub(crate) async fn execute(&self, definition: &str, start: &Value) -> Value {
        let path = format!("workflow-definitions/{definition}/execute");
        self.post(&path, start).await.expect(200)
    }

    /// Publishes an event.
    pub(crate) async fn trigger(&self, event: &str, body: &Value) {
        self.post(&format!("events/{event}/trigger"), body).await.expect(200);
    }

    /// Waits until the readiness has this status.
    pub(crate) async fn readiness_becomes(&self, status: u16) {
        let what = format!("the readiness to become {status}");
        wait_until(&what, async || self.get("/health/ready").await.status == status).await;
    }

    /// Waits until an instance is shown with this sub-status.
    pub(crate) async fn instance_becomes(&self, id: &str, sub_status: &str) {
        let path = format!("workflow-instances/{id}");
        wait_until(sub_status, async || {
            self.get(&path).await.body["subStatus"] == sub_status
        })
        .await;
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, &[], Some(body)).await.expect(path)
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PATCH, path, &[], Some(body)).await.expect(path)
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], None).await.expect(path)
    }

    /// Sends bytes that are no JSON.
    pub(crate) async fn upload(&self, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
        let request = self.request(Method::POST, path, headers).body(body);
        let (status, headers, content) = received(request).await.expect(path);
        answer(
            format!("POST {path}"),
            status,
            headers,
            &String::from_utf8_lossy(&content),
        )
    }

    /// Status, headers and content of a file; a `body` is posted.
    pub(crate) async fn download(&self, path: &str, body: Option<&Value>) -> (u16, HeaderMap, Vec<u8>) {
        let request = match body {
            None => self.request(Method::GET, path, &[]),
            Some(body) => self.request(Method::POST, path, &[]).json(body),
        };
        received(request).await.expect(path)
    }

    /// Any request; an error where no answer came, as from a node that is killed.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer, reqwest::Error> {
        let sent_as = format!("{method} {path}");
        let mut request = self.request(method, path, headers);
        if let Some(body) = body {
            request = request.json(body);
        }
        let (status, headers, content) = received(request).await?;
        Ok(answer(sent_as, status, headers, &String::from_utf8_lossy(&content)))
    }

    fn request(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> RequestBuilder {
        let url = match path.strip_prefix('/') {
            Some(path) => format!("{}/{path}", self.base),
            None => format!("{}/elsa/api/{path}", self.base),
        };
        let mut request = self.client.request(method, url);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request
    }
}

async fn received(request: RequestBuilder) -> Result<(u16, HeaderMap, Vec<u8>), reqwest::Error> {
    let response = request.send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok((status, headers, response.bytes().await?.to_vec()))
}

fn answer(request: String, status: u16, headers: HeaderMap, text: &str) -> Answer {
    let body = match text {
        "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    };
    Answer {
        request,
        status,
        headers,
        body,
    }
}

impl Answer {
    /// The text of a header; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The body, if the status is the expected one.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.request, self.body);
        self.body
    }

    /// The status and the code of an error.
    #[track_caller]
    pub(crate) fn assert_refused(&self, status: u16, code: &str) {
        let (request, body) = (&self.request, &self.body);
        assert_eq!(
            (self.status, &body["code"]),
            (status, &json!(code)),
            "{request}: {body}"
        );
    }
}

/// Asserts that a value has these fields; it may have more.
macro_rules! assert_fields {
    ($value:expr, $wanted:tt) => {
        $crate::support::compare_fields(&$value, &serde_json::json!($wanted))
    };
}
pub(crate) use assert_fields;

#[track_caller]
pub(crate) fn compare_fields(value: &Value, wanted: &Value) {
    for (name, wanted) in wanted.as_object().unwrap() {
        assert_eq!(&value[name], wanted, "{name} of {value}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use crate::support::{Answer, Http};

    /// Answers one connection with `body`, and returns the request.
    async fn serve(body: &'static str) -> (Http, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = String::new();
            while !(asked.contains("\r\n\r\n") && (asked.ends_with('}') || !asked.contains("content-length"))) {
                let mut part = [0; 1024];
                let length = stream.read(&mut part).await.unwrap();
                assert_ne!(length, 0, "{asked}");
                asked.push_str(std::str::from_utf8(&part[..length]).unwrap());
            }
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 201 Created\r\nx-it: here\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            asked
        });
        (Http::new(&base).with_key("secret"), asked)
    }

    #[tokio::test]
    async fn a_request_is_below_the_api_and_carries_the_key() {
        let (http, asked) = serve("{\"ok\": true}").await;
        let answer: Answer = http.post("events/Order/trigger", &json!({"a": 1})).await;
        assert_eq!(answer.header("x-it"), "here");
        assert_eq!(answer.header("x-other"), "");
        assert_eq!(answer.expect(201), json!({"ok": true}));
        let asked = asked.await.unwrap();
        assert!(
            asked.starts_with("POST /elsa/api/events/Order/trigger HTTP/1.1\r\n"),
            "{asked}"
        );
        assert!(asked.contains("authorization: ApiKey secret\r\n"), "{asked}");
        assert!(asked.contains("content-type: application/json\r\n"), "{asked}");
        assert!(asked.ends_with("{\"a\":1}"), "{asked}");
    }

    #[tokio::test]
    async fn bodies_that_are_empty_or_no_json_are_distinguished() {
        let (http, asked) = serve("").await;
        assert_eq!(http.get("/health/live").await.body, Value::Null);
        assert!(asked.await.unwrap().starts_with("GET /health/live "));
        let (http, _asked) = serve("plain").await;
        assert_eq!(http.delete("x").await.body, json!("plain"));
    }
}
