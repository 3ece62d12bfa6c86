//! Admission, bodies and connections in front of small test routes, over real connections and without an engine.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::{Value, json};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

use super::path::Id;
use super::*;
use crate::http::RequestBody;

struct TestServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn echo(body: RequestBody) -> Response {
    axum::Json(json!({"got": body.value, "key": body.idempotency.map(|key| key.key)})).into_response()
}

async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_millis(300)).await;
    "slow"
}

/// The one request to `/stopped` has begun.
static BEGUN: Notify = Notify::const_new();

async fn stopped() -> &'static str {
    BEGUN.notify_one();
    slow().await
}

/// Dropped with the response of `endless`, so that the test sees its end.
static ENDLESS: std::sync::Mutex<Option<oneshot::Sender<()>>> = std::sync::Mutex::new(None);

async fn endless() -> Response {
    let held = ENDLESS.lock().unwrap().take();
    let parts = futures_util::stream::repeat_with(move || {
        let _ = &held;
        Ok::<_, std::convert::Infallible>(vec![b'x'; 1 << 16])
    });
    axum::body::Body::from_stream(parts).into_response()
}

use axum::response::Response;

impl TestServer {
    async fn open(change: impl FnOnce(&mut ApiOptions)) -> Self {
        Self::within(ConnectionLimits::default(), change).await
    }

    async fn within(limits: ConnectionLimits, change: impl FnOnce(&mut ApiOptions)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut options = ApiOptions {
            listen: address,
            ..ApiOptions::default()
        };
        change(&mut options);
        let body_limits = Arc::new(BodyLimits::new(options.body_timeout, options.body_memory_mib));
        let routes = Router::new()
            .route("/echo", post(echo).get(echo))
            .route("/id/{id}", get(async |Id(id): Id| id))
            .route("/slow", get(slow))
            .route("/stopped", get(stopped))
            .route("/endless", get(endless))
            .route("/studio/endless", get(endless))
            .route("/long", get(async || axum::Json("x".repeat(8 << 20))))
            .route(
                "/panic",
                get(async || {
                    if true {
                        panic!("a defect");
                    }
                }),
            )
            .route(path::LIVE, get(async || axum::Json(json!({"status": "live"}))))
            .with_state(body_limits);
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { drop(stopped.await) };
        let server = tokio::spawn(serve_within(
            limits,
            listener,
            protect(routes, options),
            shutdown,
            Duration::from_secs(5),
        ));
        Self {
            address,
            stop: Some(stop),
            server,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn response(&self, request: reqwest::RequestBuilder) -> (u16, Value) {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// The status and the code of an error response.
    async fn error(&self, request: reqwest::RequestBuilder) -> (u16, String) {
        let (status, body) = self.response(request).await;
        assert_eq!(body["statusCode"], status, "{body}");
        assert!(
            body["message"].as_str().is_some_and(|message| !message.is_empty()),
            "{body}"
        );
        assert!(
            body["errors"].as_object().is_some_and(|errors| !errors.is_empty()),
            "{body}"
        );
        (status, body["code"].as_str().unwrap_or_default().to_owned())
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        client().get(self.url(path))
    }

    fn post(&self, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        client()
            .post(self.url("/echo"))
            .header("content-type", "application/json")
            .body(body)
    }

    /// Sends raw bytes and returns all that is received until the connection ends.
    async fn raw(&self, parts: &[&[u8]]) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        for part in parts {
            // The server may have closed the connection already.
            let _ = stream.write_all(part).await;
            let _ = stream.flush().await;
        }
        let mut response = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut response));
        let _ = read.await.expect("the server closes the connection");
        String::from_utf8_lossy(&response).into_owned()
    }
}

fn client() -> reqwest::Client {
    // Another test may have set it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn errors_without_a_route_are_json_too() {
    let server = TestServer::open(|_| {}).await;
    assert_eq!(server.error(server.get("/nowhere")).await, is(404, "no-such-route"));
    assert_eq!(server.error(server.get("/")).await, is(404, "no-such-route"));
    let deleted = client().delete(server.url("/echo")).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(deleted.headers()["allow"], "POST,GET,HEAD");
    let body: Value = serde_json::from_str(&deleted.text().await.unwrap()).unwrap();
    assert_eq!(body["code"], "method-not-allowed");
    assert_eq!(server.error(server.get("/panic")).await, is(500, "internal-error"));
    assert_eq!(server.error(server.get("/id/%FF")).await, is(400, "invalid-path"));
    assert_eq!(server.error(server.get("/id/a%00b")).await, is(400, "invalid-text"));
    assert_eq!(
        server.response(server.get("/id/a%2Fb%20c")).await,
        (200, json!("a/b c"))
    );
}

#[tokio::test]
async fn a_request_of_a_foreign_page_is_rejected() {
    let server = TestServer::open(|_| {}).await;
    for (name, value, code) in [
        ("host", "evil.example", "host-not-allowed"),
        ("sec-fetch-site", "cross-site", "cross-site-request"),
        ("sec-fetch-site", "same-site", "cross-site-request"),
        ("origin", "https://evil.example", "cross-site-request"),
        ("origin", "null", "cross-site-request"),
    ] {
        assert_eq!(
            server.error(server.get("/echo").header(name, value)).await,
            is(403, code),
            "{value}"
        );
        assert_eq!(
            server
                .get("/health/live")
                .header(name, value)
                .send()
                .await
                .unwrap()
                .status(),
            200
        );
    }
    for (name, value) in [
        ("host", "localhost:1"),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
    ] {
        assert_eq!(
            server.response(server.get("/echo").header(name, value)).await.0,
            200,
            "{value}"
        );
    }
    let own = format!("http://{}", server.address);
    assert_eq!(server.response(server.get("/echo").header("origin", own)).await.0, 200);
    let twice =
        server.raw(&[b"GET /echo HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"]);
    assert!(twice.await.starts_with("HTTP/1.1 403 "));
    let absolute =
        server.raw(&[b"GET http://evil.example/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]);
    assert!(absolute.await.starts_with("HTTP/1.1 403 "));
    let none = server.raw(&[b"GET /echo HTTP/1.0\r\n\r\n"]).await;
    assert!(none.starts_with("HTTP/1.0 403 "), "{none}");
}

#[tokio::test]
async fn with_a_key_only_requests_with_the_key_are_admitted() {
    let server = TestServer::open(|options| options.api_key = Some(ApiKey::new("s3cret"))).await;
    let rejected = server.get("/echo").send().await.unwrap();
    assert_eq!(rejected.status(), 401);
    assert_eq!(rejected.headers()["www-authenticate"], "Bearer, ApiKey");
    assert_eq!(server.error(server.get("/nowhere")).await, is(401, "unauthorized"));
    assert_eq!(
        server
            .error(server.get("/echo").header("authorization", "ApiKey no"))
            .await,
        is(401, "unauthorized")
    );
    assert_eq!(
        server
            .response(server.get("/echo").header("authorization", "ApiKey s3cret"))
            .await
            .0,
        200
    );
    assert_eq!(
        server.response(server.get("/health/live")).await,
        (200, json!({"status": "live"}))
    );
}

#[tokio::test]
async fn invalid_bodies_have_distinct_errors() {
    let server = TestServer::open(|_| {}).await;
    assert_eq!(
        server.response(server.post("{\"a\": 1}")).await,
        (200, json!({"got": {"a": 1}, "key": null}))
    );
    assert_eq!(server.response(server.post("\u{feff}[1]")).await.1["got"], json!([1]));
    assert_eq!(
        server.response(client().post(server.url("/echo"))).await,
        (200, json!({"got": null, "key": null}))
    );
    assert_eq!(
        server.error(client().post(server.url("/echo")).body("{}")).await,
        is(415, "json-required")
    );
    let form = client()
        .post(server.url("/echo"))
        .header("content-type", "text/plain")
        .body("{}");
    assert_eq!(server.error(form).await, is(415, "json-required"));
    assert_eq!(server.error(server.post("{\"a\":")).await, is(400, "invalid-json"));
    assert_eq!(
        server.error(server.post(r#"{"a": "\u0000"}"#)).await,
        is(400, "invalid-text")
    );
    assert_eq!(
        server.error(server.post(r#"{"a": "\ud800"}"#)).await,
        is(400, "invalid-text")
    );
    assert_eq!(
        server
            .error(server.post("[".repeat(10_000) + &"]".repeat(10_000)))
            .await,
        is(400, "nesting-too-deep")
    );
    assert_eq!(
        server.response(server.post("1").header("idempotency-key", "k")).await.1["key"],
        "k"
    );
    assert_eq!(
        server.error(server.post("1").header("idempotency-key", "k k")).await,
        is(400, "invalid-idempotency-key")
    );
}

/// A body of this many bytes: a JSON string.
fn sized(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

#[tokio::test]
async fn a_body_has_at_most_ten_mebibytes() {
    let server = TestServer::open(|_| {}).await;
    assert_eq!(server.response(server.post(sized(MAX_BODY))).await.0, 200);
    assert_eq!(
        server.error(server.post(sized(MAX_BODY + 1))).await,
        is(413, "body-too-large")
    );
    // Without a declared length, the bytes are counted.
    for (bytes, status) in [(MAX_BODY, 200), (MAX_BODY + 1, 413)] {
        let head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        let chunks = format!("{:x}\r\n{}\r\n0\r\n\r\n", bytes, sized(bytes));
        let response = server.raw(&[head.as_bytes(), chunks.as_bytes()]).await;
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status} ")),
            "{}",
            response.get(..200).unwrap_or(&response)
        );
    }
    // A client that sends `Expect` gets the error before it sends the body.
    let expects = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
                 Content-Length: 10485761\r\nExpect: 100-continue\r\n\r\n";
    assert!(server.raw(&[expects]).await.starts_with("HTTP/1.1 413 "));
}

#[tokio::test]
async fn a_body_that_does_not_arrive_times_out() {
    let server = TestServer::open(|options| options.body_timeout = Duration::from_millis(100)).await;
    let incomplete =
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{}";
    let response = server.raw(&[incomplete]).await;
    assert!(
        response.starts_with("HTTP/1.1 408 ") && response.contains("body-timeout"),
        "{response}"
    );
}

#[tokio::test]
async fn beyond_the_limit_of_requests_a_server_answers_503() {
    let server = TestServer::open(|options| options.max_requests = 1).await;
    let first = tokio::spawn(server.get("/slow").send());
    let mut seen = 200;
    while seen == 200 && !first.is_finished() {
        let response = server.get("/echo").send().await.unwrap();
        seen = response.status().as_u16();
        assert!(seen == 200 || response.headers()["retry-after"] == "1");
    }
    assert_eq!(seen, 503);
    assert_eq!(server.response(server.get("/health/live")).await.0, 200);
    assert_eq!(first.await.unwrap().unwrap().status(), 200);
    assert_eq!(server.response(server.get("/echo")).await.0, 200);
}

#[tokio::test]
async fn a_response_that_is_being_read_counts_as_a_request() {
    let server = TestServer::open(|options| options.max_requests = 1).await;
    let reading = server.get("/endless").send().await.unwrap();
    assert_eq!(server.response(server.get("/echo")).await.0, 503);
    drop(reading);
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.response(server.get("/echo")).await.0 != 200 {
        assert!(Instant::now() < deadline, "the permit came back");
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_counts_until_its_client_has_taken_it() {
    let server = TestServer::open(|options| options.max_requests = 1).await;
    // More than the buffers of both ends; the client reads the head alone.
    let mut reading = server.begin(b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut head = [0; 15];
    reading.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    for _ in 0..20 {
        assert_eq!(server.response(server.get("/echo")).await.0, 503);
    }
    drop(reading);
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.response(server.get("/echo")).await.0 != 200 {
        assert!(Instant::now() < deadline, "the permit came back");
    }
}

#[tokio::test]
async fn readers_of_files_take_no_place_of_requests_with_a_key() {
    let server = TestServer::open(|options| {
        options.max_requests = 1;
        options.api_key = Some(ApiKey::new("k"));
    })
    .await;
    let _reading = server.get("/studio/endless").send().await.unwrap();
    let with_key = server.get("/echo").header("authorization", "ApiKey k");
    assert_eq!(server.response(with_key).await.0, 200);
}

#[tokio::test]
async fn no_answer_is_kept_by_a_cache() {
    let server = TestServer::open(|options| options.api_key = Some(ApiKey::new("k"))).await;
    let with_key = server.get("/echo").header("authorization", "ApiKey k");
    for request in [
        with_key,
        server.get("/echo"),
        server.get("/nothing"),
        server.get("/health/live"),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn a_server_that_stops_completes_requests_in_flight() {
    let mut server = TestServer::open(|_| {}).await;
    let idle = client();
    assert_eq!(idle.get(server.url("/echo")).send().await.unwrap().status(), 200);
    let request = tokio::spawn(server.get("/stopped").send());
    BEGUN.notified().await;
    drop(server.stop.take());
    let ended = tokio::time::timeout(Duration::from_secs(60), &mut server.server).await;
    assert!(matches!(ended, Ok(Ok(Ok(())))));
    assert_eq!(request.await.unwrap().unwrap().text().await.unwrap(), "slow");
    assert!(idle.get(server.url("/echo")).send().await.is_err());
}

const PARTIAL_HEAD: &[u8] = b"GET /echo HTTP/1.1\r\nHost: loc";
const ECHO_REQUEST: &[u8] = b"GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n";
const NO_LIMIT: Duration = Duration::from_secs(3600);

fn limits(max_connections: usize) -> ConnectionLimits {
    ConnectionLimits {
        max_connections,
        head: NO_LIMIT,
        idle: NO_LIMIT,
        stall: NO_LIMIT,
    }
}

impl TestServer {
    async fn begin(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }
}

/// Reads a response, and leaves the connection open.
async fn read_response(stream: &mut TcpStream) -> String {
    let (mut seen, mut part) = (Vec::new(), [0; 1024]);
    let reading = async {
        while !seen.ends_with(b"}") {
            match stream.read(&mut part).await {
                Ok(length) if length > 0 => seen.extend_from_slice(&part[..length]),
                _ => break,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

/// Waits until the server has closed the connection.
async fn expect_closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let reading = stream.read_to_end(&mut rest);
    let _ = tokio::time::timeout(Duration::from_secs(60), reading)
        .await
        .expect("the server closes");
    assert!(rest.is_empty());
}

#[tokio::test]
async fn an_incomplete_head_ends_its_connection_but_no_request() {
    let head = Duration::from_millis(100);
    let server = TestServer::within(ConnectionLimits { head, ..limits(100) }, |_| {}).await;
    let mut idle = server.begin(ECHO_REQUEST).await;
    assert!(read_response(&mut idle).await.starts_with("HTTP/1.1 200 "));
    let mut slow = server
        .begin(b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await;
    expect_closed(server.begin(b"").await).await;
    expect_closed(server.begin(PARTIAL_HEAD).await).await;
    // The limit of a head does not apply to a response, nor to the time between two requests.
    let mut response = String::new();
    slow.read_to_string(&mut response).await.unwrap();
    assert!(response.ends_with("slow"), "{response}");
    idle.write_all(ECHO_REQUEST).await.unwrap();
    assert!(read_response(&mut idle).await.starts_with("HTTP/1.1 200 "));
    // The head of a later request has the same limit.
    idle.write_all(PARTIAL_HEAD).await.unwrap();
    expect_closed(idle).await;
}

#[tokio::test]
async fn an_idle_connection_ends_after_its_limit() {
    let idle = Duration::from_millis(100);
    let server = TestServer::within(ConnectionLimits { idle, ..limits(100) }, |_| {}).await;
    let head = server.begin(PARTIAL_HEAD).await;
    let mut stream = server.begin(ECHO_REQUEST).await;
    assert!(read_response(&mut stream).await.starts_with("HTTP/1.1 200 "));
    expect_closed(stream).await;
    drop(head);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let stall = Duration::from_millis(200);
    let server = TestServer::within(ConnectionLimits { stall, ..limits(100) }, |_| {}).await;
    let (held, dropped) = oneshot::channel();
    *ENDLESS.lock().unwrap() = Some(held);
    let _stream = server.begin(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let ended = tokio::time::timeout(Duration::from_secs(60), dropped).await;
    assert!(ended.expect("the response is dropped").is_err());
}

#[tokio::test]
async fn without_room_incomplete_heads_end_first() {
    let server = TestServer::within(limits(6), |_| {}).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        let mut stream = server.begin(ECHO_REQUEST).await;
        assert!(read_response(&mut stream).await.starts_with("HTTP/1.1 200 "));
        idle.push(stream);
    }
    let mut heads = Vec::new();
    for _ in 0..3 {
        heads.push(server.begin(PARTIAL_HEAD).await);
    }
    // Incomplete heads, however many, do not keep other connections out.
    for _ in 0..50 {
        heads.push(server.begin(PARTIAL_HEAD).await);
        let mut stream = server.begin(ECHO_REQUEST).await;
        let response = read_response(&mut stream).await;
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        let mut oldest = heads.remove(0);
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(60), oldest.read_to_end(&mut rest))
            .await
            .unwrap();
    }
    for stream in &mut idle {
        stream.write_all(ECHO_REQUEST).await.unwrap();
        assert!(read_response(stream).await.starts_with("HTTP/1.1 200 "));
    }
}
