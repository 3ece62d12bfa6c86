//! A mail server that is away at the start of a node, or later: the node runs, names it, and heals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use serde_json::json;
use tokio::net::TcpListener;

use super::{incident, mail, run, sends, serving};
use crate::support::smtp::{Encryption, SmtpServer};
use crate::support::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_named_until_it_is_back() {
    // Its port is kept, and no process accepts there.
    let kept = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = kept.local_addr().unwrap().to_string();
    drop(kept);
    let url = format!("smtp://{address}?tls=none");
    let node = serving(&url, &[], &[sends("mails", mail(json!({})))]).await;
    let is_away = async || node.http.get("/health/ready").await.expect(200)["away"] == json!(["mail"]);
    wait_until("the server to be named", is_away).await;
    let ready = node.http.get("/health/ready").await.expect(200);
    assert_eq!(ready["status"], "ready");
    assert!(
        ready["causes"]["mail"].as_str().unwrap().contains("connecting"),
        "{ready}"
    );
    let (_, code) = incident(&run(&node, "mails").await);
    assert_eq!(code, "mail-unreachable");
    node.child.wait_for_log("the mail server is away").await;

    let server = SmtpServer::at(&address, Encryption::None).await;
    wait_until("the server to be back", async || !is_away().await).await;
    node.child.wait_for_log("the mail server is back").await;
    assert_eq!(run(&node, "mails").await["subStatus"], "Finished");
    assert_eq!(server.mails().len(), 1);

    // A mail finds out that it has gone.
    drop(server);
    wait_until("a mail to fail", async || {
        run(&node, "mails").await["subStatus"] == "Faulted"
    })
    .await;
    assert!(is_away().await);
    let _server = SmtpServer::at(&address, Encryption::None).await;
    wait_until("the server to be back again", async || !is_away().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_ends_with_the_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}?tls=none", silent.local_addr().unwrap());
    let node = serving(&url, &["--smtp-timeout", "300ms"], &[sends("mails", mail(json!({})))]).await;
    let (message, code) = incident(&run(&node, "mails").await);
    assert_eq!(code, "mail-timeout");
    assert!(message.contains("smtp-timeout"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mails_do_not_try_a_server_that_is_away() {
    const MAILS: usize = 20;
    let broken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}?tls=none", broken.local_addr().unwrap());
    let tried = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tried);
    // Ends each connection at once.
    let accepting = tokio::spawn(async move {
        while broken.accept().await.is_ok() {
            count.fetch_add(1, SeqCst);
        }
    });
    let node = serving(&url, &[], &[sends("mails", mail(json!({})))]).await;
    wait_until("the server to be named", async || {
        node.http.get("/health/ready").await.expect(200)["away"] == json!(["mail"])
    })
    .await;
    let before = tried.load(SeqCst);
    for _ in 0..MAILS {
        let (message, code) = incident(&run(&node, "mails").await);
        assert_eq!(code, "mail-unreachable");
        assert!(
            message.contains("the mail server is away") && message.contains("connecting"),
            "{message}"
        );
    }
    // The node itself tries it, in growing intervals.
    let tries = tried.load(SeqCst) - before;
    assert!(tries < MAILS / 2, "{tries} connections for {MAILS} mails");
    accepting.abort();
}
