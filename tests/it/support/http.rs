//! A client of the REST API.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// A client of one node.
#[derive(Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    base: String,
    key: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Null for an empty body; a string for one that is not JSON.
    pub(crate) body: Value,
}

impl Http {
    /// A client of the node at `base`, the URL that it prints when it is ready.
    pub(crate) fn new(base: &str) -> Self {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(60)).no_proxy();
        Self {
            client: client.build().unwrap(),
            base: base.trim_end_matches('/').to_owned(),
            key: None,
        }
    }

    /// The same, with an API key.
    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// `path` is below `/elsa/api`, or begins with `/` and is taken as it is.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await.expect(path)
    }

    /// Posts JSON.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, &[], Some(body)).await.expect(path)
    }

    /// Deletes.
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], None).await.expect(path)
    }

    /// Any request; an error where no answer came, as from a node that is killed.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Answer, reqwest::Error> {
        let url = match path.strip_prefix('/') {
            Some(path) => format!("{}/{path}", self.base),
            None => format!("{}/elsa/api/{path}", self.base),
        };
        let mut request = self.client.request(method, url);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("ApiKey {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await?;
        let body = match text.as_str() {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
        };
        Ok(Answer { status, headers, body })
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
        assert_eq!(self.status, status, "{}", self.body);
        self.body
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
