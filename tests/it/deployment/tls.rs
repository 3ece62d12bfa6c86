//! TLS by the program: it needs no proxy, and a new certificate needs no restart.

use std::path::Path;
use std::time::Duration;

use reqwest::tls::{Certificate, TlsInfo};
use reqwest::{Client, StatusCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::certificates::Certificates;
use crate::support::node::{Node, spawn};
use crate::support::{TIMEOUT, TestDatabase, client_builder, wait_until};

/// The certificate of a test, and the copies that a node reads.
struct Deployed {
    certificates: Certificates,
    certificate: String,
    key: String,
}

impl Deployed {
    /// With the certificate of this name.
    fn new(name: &str) -> Self {
        let certificates = Certificates::make();
        let (certificate, key) = (certificates.path("deployed.pem"), certificates.path("deployed.key"));
        let deployed = Self {
            certificates,
            certificate,
            key,
        };
        deployed.replace(&deployed.certificate, &format!("{name}.pem"));
        deployed.replace(&deployed.key, &format!("{name}.key"));
        deployed
    }

    fn settings(&self) -> [&str; 4] {
        ["--tls-cert", &self.certificate, "--tls-key", &self.key]
    }

    /// Replaces one of the files, as tools do.
    fn replace(&self, file: &str, by: &str) {
        self.write(file, &std::fs::read(self.certificates.path(by)).unwrap());
    }

    fn write(&self, file: &str, content: &[u8]) {
        let beside = Path::new(file).with_extension("new");
        std::fs::write(&beside, content).unwrap();
        std::fs::rename(beside, file).unwrap();
    }

    fn der(&self, name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.certificates.path(&format!("{name}.pem"))).unwrap()
    }

    /// A client that trusts the authority of the test alone, and keeps its connections if it is to.
    fn client(&self, keeps: bool) -> Client {
        let authority = std::fs::read(self.certificates.path("ca.pem")).unwrap();
        let builder = client_builder().tls_info(true).timeout(TIMEOUT);
        let builder = builder.tls_certs_only([Certificate::from_pem(&authority).unwrap()]);
        builder.pool_max_idle_per_host(usize::from(keeps)).build().unwrap()
    }

    /// The certificate that a new connection is shown.
    async fn shown(&self, url: &str) -> Vec<u8> {
        let answer = self
            .client(false)
            .get(format!("{url}/health/live"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        peer_of(&answer)
    }
}

fn peer_of(answer: &reqwest::Response) -> Vec<u8> {
    let info: &TlsInfo = answer.extensions().get().unwrap();
    info.peer_certificate().unwrap().to_vec()
}

/// All that a connection answers to these bytes, up to its end.
async fn raw(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut answer)).await;
    // It may be reset.
    let _ = read.expect("the end of the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_takes_a_new_certificate_without_a_restart_and_no_broken_one() {
    let database = TestDatabase::create().await;
    let deployed = Deployed::new("server");
    let node = Node::start_with(&database, "one", &deployed.settings(), "");
    let url = node.child.wait_for_line("ready ", TIMEOUT);
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    assert_eq!(deployed.shown(&url).await, deployed.der("server").as_ref());
    // A connection of before goes on.
    let kept = deployed.client(true);
    let model = json!({"definitionId": "scheme", "root": {"id": "steps", "type": "Elsa.Sequence", "activities": [
        {"id": "in", "type": "Elsa.HttpEndpoint", "path": "scheme", "customProperties": {"canStartWorkflow": true},
         "result": {"typeName": "Object", "memoryReference": {"id": "request"}}},
        {"id": "out", "type": "Elsa.WriteHttpResponse", "content": {"typeName": "Object", "expression":
            {"type": "JavaScript", "value": "({ scheme: getRequest().Scheme, client: getRequest().RemoteIpAddress })"}}},
    ]}, "variables": [{"id": "request", "name": "Request", "typeName": "Object"}]});
    let saved = kept.post(format!("{url}/elsa/api/workflow-definitions"));
    let saved = saved
        .json(&json!({"model": model, "publish": true}))
        .send()
        .await
        .unwrap();
    assert_eq!(saved.status(), StatusCode::OK, "{}", saved.text().await.unwrap());
    let seen: Value = kept
        .get(format!("{url}/workflows/scheme"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(seen, json!({"scheme": "https", "client": "127.0.0.1"}));

    // The key of the new certificate comes later: until then the former pair is in use.
    deployed.replace(&deployed.certificate, "client.pem");
    node.child.wait_for_log("the former one stays in use: the key in").await;
    assert_eq!(deployed.shown(&url).await, deployed.der("server").as_ref());
    deployed.replace(&deployed.key, "client.key");
    wait_until("the new certificate", async || {
        deployed.shown(&url).await == deployed.der("client").as_ref()
    })
    .await;
    let answer = kept.get(format!("{url}/health/ready")).send().await.unwrap();
    assert_eq!(
        peer_of(&answer),
        deployed.der("server").as_ref(),
        "the connection was not kept"
    );

    // What cannot be used changes nothing, is said once, and is no longer said when it is repaired.
    deployed.write(&deployed.certificate, b"s3cret");
    node.child.wait_for_log("it has no certificate in PEM").await;
    std::fs::remove_file(&deployed.key).unwrap();
    node.child.wait_for_log("deployed.key cannot be read").await;
    assert_eq!(deployed.shown(&url).await, deployed.der("client").as_ref());
    deployed.replace(&deployed.certificate, "client.pem");
    deployed.replace(&deployed.key, "client.key");
    node.child.wait_for_log("again those in use").await;
    let said = node.child.stderr().join("\n");
    assert_eq!(said.matches("it has no certificate in PEM").count(), 1, "{said}");
    assert!(!said.contains("s3cret") && !said.contains("BEGIN"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_encrypted_gets_a_clear_answer_or_none() {
    let database = TestDatabase::create().await;
    let deployed = Deployed::new("server");
    let node = Node::start_with(&database, "one", &deployed.settings(), "");
    let url = node.child.wait_for_line("ready ", TIMEOUT);
    let address = url.trim_start_matches("https://");
    // A plain request reaches no route, not even that of its health.
    for path in ["/health/ready", "/elsa/api/workflow-definitions"] {
        let answer = raw(
            address,
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes(),
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(
            (&body["code"], &body["statusCode"]),
            (&json!("https-required"), &json!(400))
        );
    }
    // A handshake that is none ends its own connection.
    let answer = raw(address, b"\x16\x03\x01\x00\x05hello").await;
    assert!(!answer.contains("HTTP"), "{answer}");
    // So does one whose client takes no TLS that is still safe, or nothing but a protocol that is not served.
    let authority = std::fs::read(deployed.certificates.path("ca.pem")).unwrap();
    let builder = client_builder().http2_prior_knowledge();
    let second = builder
        .tls_certs_only([Certificate::from_pem(&authority).unwrap()])
        .build()
        .unwrap();
    assert!(second.get(format!("{url}/health/live")).send().await.is_err());
    // Clients that begin no handshake take no place for longer than a head may take.
    let silent = TcpStream::connect(address).await.unwrap();
    let half = {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"\x16\x03").await.unwrap();
        stream
    };
    for mut stream in [silent, half] {
        let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_u8()).await;
        assert!(ended.expect("the end of the connection").is_err());
    }
    assert_eq!(deployed.shown(&url).await, deployed.der("server").as_ref());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_with_a_certificate_that_cannot_be_used_is_refused() {
    let deployed = Deployed::new("server");
    let path = |name: &str| deployed.certificates.path(name);
    let (no_pem, gone) = (path("names"), path("gone.pem"));
    let (certificate, key) = (deployed.certificate.as_str(), deployed.key.as_str());
    let (other, client) = (path("client.key"), path("client.pem"));
    for (settings, why) in [
        (&["--tls-cert", certificate][..], "needs its --tls-key"),
        (&["--tls-key", key], "needs its --tls-cert"),
        (
            &["--tls-cert", &no_pem, "--tls-key", key],
            "it has no certificate in PEM",
        ),
        (
            &["--tls-cert", certificate, "--tls-key", &client],
            "it has no private key in PEM",
        ),
        (
            &["--tls-cert", certificate, "--tls-key", &other],
            "is not that of the certificate",
        ),
        (&["--tls-cert", &gone, "--tls-key", key], "cannot be read"),
    ] {
        let mut node = spawn("postgres://127.0.0.1:1/nowhere", "one", settings, &[]);
        assert_eq!(node.wait(TIMEOUT).code(), Some(2), "{settings:?}");
        let said = node.stderr().join("\n");
        assert!(said.contains(why), "{settings:?}: {said}");
    }
}
