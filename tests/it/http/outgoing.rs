//! Requests of workflows to other servers: over the connections of a pool, and to servers with certificates of a private
//! authority, by HTTP/2 and HTTP/1.1.

use std::convert::Infallible;
use std::sync::Arc;

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
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{endpoint, get, responds, serving, workflow};
use crate::support::certificates::Certificates;
use crate::support::receiver::Receiver;

/// A server whose answers name the version of HTTP; its URL.
async fn server(certificates: &Certificates, protocols: &[&str]) -> String {
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
    let acceptor = TlsAcceptor::from(Arc::new(config));
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
