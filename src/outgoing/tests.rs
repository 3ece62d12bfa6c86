//! The client against servers that want to harm it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::resolver::Lookup;
use super::{OutgoingBody, OutgoingClient, OutgoingOptions, OutgoingRequest, SendError};

/// A server that answers each connection by a function of the request's head.
struct Server {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(String, TcpStream) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen) = (Arc::new(answer), Arc::clone(&heads));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    let head = String::from_utf8(head).unwrap();
                    seen.lock().unwrap().push(head.clone());
                    answer(head, stream).await;
                });
            }
        });
        Self { port, heads }
    }

    /// One that answers with these bytes and closes.
    async fn fixed(answer: impl Into<String>) -> Self {
        let answer: String = answer.into();
        Self::start(move |_, mut stream| {
            let answer = answer.clone();
            async move {
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/", self.port)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// Answers each lookup with the next list, and the last one again and again.
struct Scripted {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Scripted {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parsed = answers
            .iter()
            .map(|list| list.iter().map(|text| text.parse().unwrap()).collect());
        Arc::new(Self {
            answers: parsed.collect(),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Lookup for Scripted {
    fn lookup(&self, _name: &str) -> std::pin::Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>> {
        let at = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let answer = self.answers[at].clone();
        Box::pin(async move { Ok(answer) })
    }
}

fn get(url: &str) -> OutgoingRequest {
    OutgoingRequest {
        method: Method::GET,
        url: Url::parse(url).unwrap(),
        headers: HeaderMap::new(),
        body: OutgoingBody::None,
    }
}

async fn body_of(client: &OutgoingClient, request: OutgoingRequest) -> Result<(u16, Vec<u8>), SendError> {
    let mut response = client.send(request, Duration::from_secs(10)).await?;
    let mut bytes = Vec::new();
    while let Some(part) = response.next().await? {
        bytes.extend_from_slice(&part);
    }
    Ok((response.status(), bytes))
}

fn limited(bytes: u64) -> OutgoingClient {
    let options = OutgoingOptions {
        response_bytes: bytes,
        ..OutgoingOptions::default()
    };
    OutgoingClient::new(options).unwrap()
}

fn looking_up(lookup: &Arc<Scripted>, options: OutgoingOptions) -> OutgoingClient {
    OutgoingClient::with_lookup(options, Some(Arc::clone(lookup) as Arc<dyn Lookup>)).unwrap()
}

#[tokio::test]
async fn a_body_is_read_with_and_without_a_length() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "hello"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "hello",
        ),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello", "hello"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ""),
    ] {
        let server = Server::fixed(answer).await;
        let read = body_of(&OutgoingClient::default(), get(&server.url("127.0.0.1"))).await;
        assert_eq!(read, Ok((200, expected.as_bytes().to_vec())), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_that_never_ends_is_cut_off_at_the_limit() {
    let endless = |head: &'static str| {
        Server::start(move |_, mut stream| async move {
            let _ = stream.write_all(head.as_bytes()).await;
            let block = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
            while stream.write_all(block.as_bytes()).await.is_ok() {}
        })
    };
    // Ten gigabytes are refused before a byte of them is read.
    for head in [
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n",
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
    ] {
        let server = endless(head).await;
        let read = body_of(&limited(1 << 20), get(&server.url("127.0.0.1"))).await;
        assert_eq!(read, Err(SendError::TooLarge(1 << 20)), "{head}");
    }
}

#[tokio::test]
async fn a_server_that_only_drips_runs_into_the_timeout() {
    let drip = |head: &'static str| {
        Server::start(move |_, mut stream| async move {
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    };
    for head in [
        "HTTP/1.1 200 OK\r\nx-endless: ",
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
    ] {
        let server = drip(head).await;
        let limit = Duration::from_millis(300);
        let read = async {
            let mut response = OutgoingClient::default()
                .send(get(&server.url("127.0.0.1")), limit)
                .await?;
            while response.next().await?.is_some() {}
            Ok::<_, SendError>(())
        };
        assert_eq!(read.await, Err(SendError::TimedOut(limit)), "{head}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\nhalf",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "no http at all\r\n\r\n",
        "",
    ] {
        let server = Server::fixed(answer).await;
        let read = body_of(&OutgoingClient::default(), get(&server.url("127.0.0.1"))).await;
        assert!(matches!(read, Err(SendError::Failed(_))), "{answer}: {read:?}");
    }
}

/// Resets the connection, where closing it would be an end.
fn reset(stream: TcpStream) {
    stream.set_zero_linger().unwrap();
    drop(stream);
}

#[tokio::test]
async fn an_answer_that_is_reset_is_a_failure() {
    for answer in [
        "",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\nhalf",
        // After an orderly end this is a whole body.
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhalf",
    ] {
        let server = Server::start(move |_, mut stream| async move {
            let _ = stream.write_all(answer.as_bytes()).await;
            reset(stream);
        })
        .await;
        let read = body_of(&OutgoingClient::default(), get(&server.url("127.0.0.1"))).await;
        assert!(matches!(read, Err(SendError::Failed(_))), "{answer}: {read:?}");
        assert_eq!(server.heads().len(), 1, "{answer}: it is not sent again");
    }
}

#[tokio::test]
async fn a_request_that_is_reset_while_it_is_sent_is_a_failure() {
    let server = Server::start(|_, stream| async { reset(stream) }).await;
    let mut request = get(&server.url("127.0.0.1"));
    request.method = Method::POST;
    // More than the buffers of a connection take.
    request.body = OutgoingBody::Bytes(vec![b'x'; 32 << 20].into());
    let read = body_of(&OutgoingClient::default(), request).await;
    assert!(matches!(read, Err(SendError::Failed(_))), "{read:?}");
    assert_eq!(server.heads().len(), 1, "it is not sent again");
}

#[tokio::test]
async fn a_connection_of_the_pool_that_is_reset_fails_its_request_once() {
    let second = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&second);
    let server = Server::start(move |_, mut stream| {
        let seen = Arc::clone(&seen);
        async move {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
            stream.write_all(answer).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => return,
                }
            }
            seen.lock().unwrap().push(head);
            reset(stream);
        }
    })
    .await;
    let client = OutgoingClient::default();
    let url = server.url("127.0.0.1");
    assert_eq!(body_of(&client, get(&url)).await, Ok((200, b"hello".to_vec())));
    let read = body_of(&client, get(&url)).await;
    assert!(matches!(read, Err(SendError::Failed(_))), "{read:?}");
    // It came over the connection of the first one, and not again over another one.
    assert_eq!((server.heads().len(), second.lock().unwrap().len()), (1, 1));
    assert_eq!(body_of(&client, get(&url)).await, Ok((200, b"hello".to_vec())));
    assert_eq!(server.heads().len(), 2);
}

#[tokio::test]
async fn as_many_requests_as_a_sink_is_sent_at_once_come_over_the_connections_of_those_before() {
    const AT_ONCE: usize = 128;
    let all = Arc::new(tokio::sync::Barrier::new(AT_ONCE));
    let server = Server::start(move |_, mut stream| {
        let all = Arc::clone(&all);
        async move {
            loop {
                all.wait().await;
                if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.is_err() {
                    return;
                }
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => return,
                    }
                }
            }
        }
    })
    .await;
    let client = OutgoingClient::default();
    let url = server.url("127.0.0.1");
    // A connection is back in the pool a moment after its answer: some waves may come too early for it.
    for _ in 0..50 {
        let before = server.heads().len();
        let wave = (0..AT_ONCE).map(|_| body_of(&client, get(&url)));
        for answer in futures_util::future::join_all(wave).await {
            assert_eq!(answer, Ok((204, Vec::new())));
        }
        if server.heads().len() == before {
            return;
        }
    }
    panic!("each wave opens connections: {} in all", server.heads().len());
}

#[tokio::test]
async fn a_failure_quotes_no_url() {
    let port = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://u:s3cret@127.0.0.1:{port}/s3cret?k=s3cret");
    let Err(SendError::Failed(message)) = body_of(&OutgoingClient::default(), get(&url)).await else {
        panic!("a closed port answers");
    };
    assert!(!message.contains("s3cret") && message.contains("onnect"), "{message}");
}

#[tokio::test]
async fn a_redirect_to_a_denied_address_is_refused() {
    for target in [
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "http://0xa9fea9fe/",
        "http://2852039166/",
        "http://[fd00:ec2::254]/",
        "//169.254.169.254/",
    ] {
        let server = Server::fixed(format!(
            "HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n"
        ))
        .await;
        let read = body_of(&OutgoingClient::default(), get(&server.url("127.0.0.1"))).await;
        assert!(
            matches!(&read, Err(SendError::Refused(reason)) if reason.contains("169.254") || reason.contains("a9fe") || reason.contains("metadata")),
            "{target}: {read:?}"
        );
        assert_eq!(server.heads().len(), 1);
    }
}

#[tokio::test]
async fn a_name_is_checked_by_the_address_that_it_has_at_each_connection() {
    let server = Server::fixed("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
    let lookup = Scripted::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let client = looking_up(&lookup, OutgoingOptions::default());
    let url = server.url("rebinding.example");
    assert_eq!(body_of(&client, get(&url)).await, Ok((200, Vec::new())));
    let second = body_of(&client, get(&url)).await;
    assert!(
        matches!(&second, Err(SendError::Refused(reason)) if reason.contains("link-local")),
        "{second:?}"
    );
    assert_eq!(server.heads().len(), 1);
    // The denied address among admitted ones is left out.
    let lookup = Scripted::new(&[&["169.254.169.254", "127.0.0.1"]]);
    assert!(
        body_of(&looking_up(&lookup, OutgoingOptions::default()), get(&url))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn settings_deny_and_allow_targets() {
    let server = Server::fixed("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
    let lookup = Scripted::new(&[&["127.0.0.1"]]);
    let options = |allowed: &[&str], denied: &[&str], deny_private| OutgoingOptions {
        allowed_targets: allowed.iter().map(|text| (*text).to_owned()).collect(),
        denied_targets: denied.iter().map(|text| (*text).to_owned()).collect(),
        deny_private,
        ..OutgoingOptions::default()
    };
    for (given, expected) in [
        (options(&[], &[], true), false),
        (options(&["127.0.0.0/8"], &[], true), true),
        (options(&["a.example"], &[], true), false),
        (options(&["a.example"], &[], false), true),
        (options(&["b.example"], &[], false), false),
        (options(&[], &["*.example"], false), false),
        (options(&["127.0.0.1"], &["a.example"], false), false),
    ] {
        let client = looking_up(&lookup, given.clone());
        let read = body_of(&client, get(&server.url("a.example"))).await;
        match read {
            Ok(_) => assert!(expected, "{given:?}"),
            Err(SendError::Refused(_)) => assert!(!expected, "{given:?}"),
            Err(other) => panic!("{given:?}: {other:?}"),
        }
    }
    let refused = OutgoingClient::new(options(&["http://a.example"], &[], false)).unwrap_err();
    assert!(refused.to_string().contains("http-allowed-target"), "{refused}");
}

#[tokio::test]
async fn redirects_are_followed_up_to_their_limit() {
    let server =
        Server::fixed("HTTP/1.1 307 Temporary Redirect\r\nlocation: /again\r\nconnection: close\r\n\r\nend").await;
    let options = OutgoingOptions {
        redirects: 3,
        ..OutgoingOptions::default()
    };
    let client = OutgoingClient::new(options).unwrap();
    let read = body_of(&client, get(&server.url("127.0.0.1"))).await;
    assert_eq!(read, Ok((307, b"end".to_vec())));
    assert_eq!(server.heads().len(), 4);
}

#[tokio::test]
async fn credentials_of_the_url_become_a_header_that_another_origin_does_not_get() {
    let second = Server::fixed("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
    let to = second.url("127.0.0.1");
    let first = Server::fixed(format!(
        "HTTP/1.1 302 Found\r\nlocation: {to}\r\nconnection: close\r\n\r\n"
    ))
    .await;
    let mut request = get(&format!("http://user:p%40ss@127.0.0.1:{}/", first.port));
    request
        .headers
        .insert(HeaderName::from_static("x-mine"), HeaderValue::from_static("1"));
    assert_eq!(
        body_of(&OutgoingClient::default(), request).await,
        Ok((200, Vec::new()))
    );
    let head = |server: &Server| server.heads().concat().to_lowercase();
    assert!(
        head(&first).contains("authorization: basic dxnlcjpwqhnz"),
        "{}",
        head(&first)
    );
    assert!(!head(&second).contains("authorization"), "{}", head(&second));
    assert!(head(&second).contains("x-mine: 1") && head(&second).contains("user-agent: mainspring/"));
}

#[tokio::test]
async fn a_proxy_gets_what_is_not_exempted() {
    let proxy = Server::fixed("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nproxied").await;
    let direct = Server::fixed("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndirect").await;
    let options = OutgoingOptions {
        proxy: Some(format!("http://u:p@127.0.0.1:{}", proxy.port)),
        no_proxy: vec!["*.inside.example".to_owned()],
        ..OutgoingOptions::default()
    };
    let client = looking_up(&Scripted::new(&[&["127.0.0.1"]]), options.clone());
    let read = body_of(&client, get("http://outside.example/x")).await;
    assert_eq!(read, Ok((200, b"proxied".to_vec())));
    let head = proxy.heads().concat().to_lowercase();
    assert!(
        head.starts_with("get http://outside.example/x ") && head.contains("proxy-authorization: basic"),
        "{head}"
    );
    let read = body_of(&client, get(&direct.url("a.inside.example"))).await;
    assert_eq!(read, Ok((200, b"direct".to_vec())));
    // What the proxy would reach is denied here where it is known.
    let client = looking_up(&Scripted::new(&[&["169.254.169.254"]]), options);
    for url in ["http://outside.example/", "http://169.254.169.254/"] {
        let read = body_of(&client, get(url)).await;
        assert!(matches!(read, Err(SendError::Refused(_))), "{read:?}");
    }
    for wrong in ["proxy:3128", "socks5://proxy", "http://"] {
        let options = OutgoingOptions {
            proxy: Some(wrong.to_owned()),
            ..OutgoingOptions::default()
        };
        assert!(OutgoingClient::new(options).is_err(), "{wrong}");
    }
}
