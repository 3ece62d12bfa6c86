//! Requests of workflows to other servers: over the connections of a pool, to servers with certificates of a private authority, by
//! HTTP/2 and HTTP/1.1, and through a proxy that has such a certificate, too.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{endpoint, get, responds, serving, workflow};
use crate::support::certificates::Certificates;
use crate::support::receiver::Receiver;

/// Accepts connections of TLS with a certificate for 127.0.0.1.
fn acceptor(certificates: &Certificates, protocols: &[&str]) -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(certificates.path("server.pem")).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(certificates.path("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// A server whose answers name the version of HTTP; its URL.
async fn server(certificates: &Certificates, protocols: &[&str]) -> String {
    let acceptor = acceptor(certificates, protocols);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let is_second = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let service = service_fn(|request: Request<Incoming>| async move {
                    let version = format!("{:?}", request.version());
                    let response = Response::builder().header("content-type", "text/plain");
                    Ok::<_, Infallible>(response.body(Body::from(version)).unwrap())
                });
                let stream = TokioIo::new(stream);
                if is_second {
                    let served = http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service);
                    let _ = served.await;
                } else {
                    let _ = http1::Builder::new().serve_connection(stream, service).await;
                }
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_authority_is_trusted_where_a_setting_names_it() {
    let certificates = Certificates::make();
    let urls = [
        ("second", server(&certificates, &["h2", "http/1.1"]).await, "HTTP/2.0"),
        ("first", server(&certificates, &["http/1.1"]).await, "HTTP/1.1"),
        ("unnamed", server(&certificates, &[]).await, "HTTP/1.1"),
    ];
    let definitions: Vec<_> = urls
        .iter()
        .map(|(path, url, _)| {
            let asks = json!({"id": "ask", "type": "Elsa.SendHttpRequest", "url": url,
                "parsedContent": {"typeName": "Object", "memoryReference": {"id": "body"}}});
            let answer = responds("out", "variables.body ?? 'nothing'", json!({}));
            workflow(path, &[endpoint("in", path, &["GET"], json!({})), asks, answer])
        })
        .collect();
    let roots = certificates.path("ca.pem");
    let trusting = serving(&["--http-root-certificates", &roots], &definitions).await;
    for (path, _, version) in &urls {
        // The second request goes over the connection of the first one.
        for _ in 0..2 {
            assert_eq!(get(&trusting.http, path).await.expect(200), *version, "{path}");
        }
    }
    let other = serving(&[], &definitions).await;
    for (path, ..) in &urls {
        assert_eq!(get(&other.http, path).await.expect(200), "nothing", "{path}");
    }
}

/// A proxy that is reached by TLS, and asks for a password.
struct TlsProxy {
    address: String,
    /// The heads of its requests.
    heads: Arc<Mutex<Vec<String>>>,
}

impl TlsProxy {
    async fn start(certificates: &Certificates, protocols: &[&str]) -> Self {
        let acceptor = acceptor(certificates, protocols);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = serve_proxied(stream, &seen).await;
                    }
                });
            }
        });
        Self { address, heads }
    }

    /// The first lines of the requests since the last call.
    fn requests(&self) -> Vec<String> {
        let heads = std::mem::take(&mut *self.heads.lock().unwrap());
        let lines = heads.iter().map(|head| head.lines().next().unwrap().to_owned());
        lines.collect()
    }
}

/// Opens the tunnel that a client asks for, or answers the request itself.
async fn serve_proxied(mut stream: TlsStream<TcpStream>, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    seen.lock().unwrap().push(head.clone());
    // user:secret
    if !head
        .to_lowercase()
        .contains("proxy-authorization: basic dxnlcjpzzwnyzxq=")
    {
        let refused = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(refused).await?;
        return stream.shutdown().await;
    }
    let mut words = head.split_whitespace();
    if words.next() == Some("CONNECT") {
        let mut target = TcpStream::connect(words.next().unwrap_or_default()).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        tokio::io::copy_bidirectional(&mut stream, &mut target).await?;
        return Ok(());
    }
    let answer =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 7\r\nconnection: close\r\n\r\nproxied";
    stream.write_all(answer).await?;
    stream.shutdown().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_is_reached_by_tls_opens_a_tunnel() {
    let certificates = Certificates::make();
    // It offers HTTP/2, which no client uses to ask for a tunnel.
    let proxy = TlsProxy::start(&certificates, &["h2", "http/1.1"]).await;
    let second = server(&certificates, &["h2", "http/1.1"]).await;
    let first = server(&certificates, &["http/1.1"]).await;
    let plain = "http://127.0.0.1:9/x";
    let targets = [("second", second.as_str()), ("first", &first), ("plain", plain)];
    let definitions = targets.map(|(path, url)| {
        let asks = json!({"id": "ask", "type": "Elsa.SendHttpRequest", "url": url,
            "parsedContent": {"typeName": "Object", "memoryReference": {"id": "body"}}});
        let answer = responds("out", "variables.body ?? 'nothing'", json!({}));
        workflow(path, &[endpoint("in", path, &["GET"], json!({})), asks, answer])
    });
    let with = async |proxy: &str, more: &[&str]| {
        let settings = [&["--http-proxy", proxy], more].concat();
        serving(&settings, &definitions).await
    };
    let (roots, address) = (certificates.path("ca.pem"), proxy.address.as_str());
    let roots = ["--http-root-certificates", &roots];
    let node = with(&format!("https://user:secret@{address}"), &roots).await;
    let tunnel = |url: &str| {
        let target = url.trim_start_matches("https://").trim_end_matches('/');
        format!("CONNECT {target} HTTP/1.1")
    };
    for (path, url, version) in [("second", &second, "HTTP/2.0"), ("first", &first, "HTTP/1.1")] {
        // The second request goes through the tunnel of the first one.
        for _ in 0..2 {
            assert_eq!(get(&node.http, path).await.expect(200), version, "{path}");
        }
        assert_eq!(proxy.requests(), [tunnel(url)], "{path}");
    }
    // What needs no tunnel is encrypted as far as the proxy.
    let first_only = TlsProxy::start(&certificates, &["http/1.1"]).await;
    let other = with(&format!("https://user:secret@{}", first_only.address), &roots).await;
    assert_eq!(get(&other.http, "plain").await.expect(200), "proxied");
    assert_eq!(first_only.requests(), [format!("GET {plain} HTTP/1.1")]);
    // A proxy that refuses, or that has a certificate of an unknown authority, is not passed by.
    let refused = with(&format!("https://user:wrong@{address}"), &roots).await;
    assert_eq!(get(&refused.http, "second").await.expect(200), "nothing");
    assert_eq!(proxy.requests(), [tunnel(&second)]);
    let unknown = with(&format!("https://user:secret@{address}"), &[]).await;
    for path in ["second", "plain"] {
        assert_eq!(get(&unknown.http, path).await.expect(200), "nothing");
    }
    assert!(proxy.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_one_after_the_other_go_over_one_connection() {
    let target = Receiver::start().await;
    let asks = |path: &str| {
        let asks = json!({"id": "ask", "type": "Elsa.SendHttpRequest", "url": format!("{}/{path}", target.base()),
            "parsedContent": {"typeName": "Object", "memoryReference": {"id": "body"}}});
        let answer = responds("out", "variables.body", json!({}));
        workflow(path, &[endpoint("in", path, &["GET"], json!({})), asks, answer])
    };
    let node = serving(&[], &[asks("first"), asks("second")]).await;
    // The pool is that of the node, and not of a workflow.
    for path in ["first", "first", "second"] {
        assert_eq!(get(&node.http, path).await.expect(200), "noted", "{path}");
    }
    let paths: Vec<String> = target.received().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/first", "/first", "/second"]);
    assert_eq!(target.accepted(), 1);
}
