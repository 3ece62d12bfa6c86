//! A server that plays an issuer, and breaks as a test wants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::signer::Signer;
use crate::openid::issuer::ReadTimes;
use crate::openid::{DatabaseTime, Issuer, IssuerOptions};
use crate::outgoing::OutgoingClient;

/// The time of the database, in seconds.
pub(super) const NOW: i64 = 1_800_000_000;

pub(super) const AUDIENCE: &str = "mainspring";

pub(super) const DOCUMENT: &str = "/.well-known/openid-configuration";
pub(super) const KEYS: &str = "/keys";
pub(super) const TOKEN: &str = "/token";

/// A request that came: its head, and its body.
pub(super) type Received = (String, String);

#[derive(Default)]
struct Shared {
    /// By path: the status, further headers, and the body.
    answers: Mutex<HashMap<&'static str, (u16, String, String)>>,
    received: Mutex<Vec<Received>>,
}

/// It ends with this value.
pub(super) struct FakeIssuer {
    pub(super) url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl FakeIssuer {
    /// One with these keys.
    pub(super) async fn with_keys(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::<Shared>::default();
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        let issuer = Self { url, shared, serving };
        issuer.answer(DOCUMENT, 200, &issuer.document());
        issuer.set_keys(keys);
        issuer
    }

    pub(super) fn document(&self) -> Value {
        let below = |path: &str| format!("{}{path}", self.url);
        json!({
            "issuer": self.url, "jwks_uri": below(KEYS), "authorization_endpoint": below("/authorize?tenant=a"),
            "token_endpoint": below(TOKEN), "end_session_endpoint": below("/logout"),
        })
    }

    pub(super) fn set_keys(&self, keys: &[&Signer]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
        self.answer(KEYS, 200, &json!({"keys": keys}));
    }

    /// From now on a path answers this.
    pub(super) fn answer(&self, path: &'static str, status: u16, body: &Value) {
        self.answer_text(path, status, "", body.to_string());
    }

    pub(super) fn answer_text(&self, path: &'static str, status: u16, headers: &str, body: String) {
        let answer = (status, headers.to_owned(), body);
        self.shared.answers.lock().unwrap().insert(path, answer);
    }

    /// What came for a path so far.
    pub(super) fn received(&self, path: &str) -> Vec<Received> {
        let all = self.shared.received.lock().unwrap();
        let of_path = |(head, _): &&Received| head.split(' ').nth(1) == Some(path);
        all.iter().filter(of_path).cloned().collect()
    }

    pub(super) fn options(&self) -> IssuerOptions {
        IssuerOptions::new("company", &self.url, AUDIENCE)
    }

    /// The issuer as a node knows it.
    pub(super) fn known(&self, options: IssuerOptions) -> KnownIssuer {
        let time: DatabaseTime = Arc::new(|| Some(NOW));
        let times = ReadTimes {
            least_pause: Duration::from_millis(20),
            first_retry: Duration::from_millis(10),
            longest_retry: Duration::from_millis(20),
            ..ReadTimes::default()
        };
        let issuer = Issuer::with_times(options, OutgoingClient::default(), time, times);
        let issuer = Arc::new(issuer);
        let reader = tokio::spawn(Arc::clone(&issuer).keep_read());
        KnownIssuer { issuer, reader }
    }

    /// Claims of an access token that is good.
    pub(super) fn claims(&self) -> Value {
        json!({"iss": self.url, "aud": AUDIENCE, "sub": "u1", "iat": NOW, "exp": NOW + 300})
    }
}

impl Drop for FakeIssuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An issuer whose document is kept read as long as this value lives.
pub(super) struct KnownIssuer {
    pub(super) issuer: Arc<Issuer>,
    reader: JoinHandle<()>,
}

impl Drop for KnownIssuer {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// One request: each has a connection of its own.
async fn answer(mut stream: TcpStream, shared: Arc<Shared>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    shared
        .received
        .lock()
        .unwrap()
        .push((head, String::from_utf8(body).unwrap()));
    let found = shared.answers.lock().unwrap().get(path.as_str()).cloned();
    let (status, headers, body) = found.unwrap_or((404, String::new(), String::new()));
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}");
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}
