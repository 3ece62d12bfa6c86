//! Passwords are sent over encrypted connections to the right server, and nowhere else.

use serde_json::json;

use super::{incident, mail, on_error, run, sends, serving};
use crate::support::certificates::Certificates;
use crate::support::single_node::SingleNode;
use crate::support::smtp::{Encryption, PASSWORD, SmtpServer, USER, acceptor};
use crate::support::wait_until;

fn url(scheme: &str, server: &SmtpServer) -> String {
    format!("{scheme}://{USER}:{PASSWORD}@{}", server.address())
}

/// No word of a password in what the node shows.
async fn assert_no_password(node: &SingleNode) {
    let ready = node.http.get("/health/ready").await.body.to_string();
    let shown = [ready, node.child.stderr().join("\n"), node.child.stdout().join("\n")];
    assert!(shown.iter().all(|text| !text.contains(PASSWORD)), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mails_go_by_starttls_and_by_tls_from_the_begin() {
    let certificates = Certificates::make();
    let roots = certificates.path("ca.pem");
    let acceptor = acceptor(&certificates);
    for (scheme, encryption) in [
        ("smtp", Encryption::StartTls(acceptor.clone())),
        ("smtps", Encryption::Implicit(acceptor.clone())),
    ] {
        let server = SmtpServer::start(encryption).await;
        let settings = ["--smtp-root-certificates", &roots, "--log", "debug"];
        let node = serving(&url(scheme, &server), &settings, &[sends("mails", mail(json!({})))]).await;
        for _ in 0..2 {
            assert_eq!(run(&node, "mails").await["subStatus"], "Finished", "{scheme}");
        }
        let mails = server.mails();
        assert_eq!(mails.len(), 2, "{scheme}");
        assert!(
            mails.iter().all(|mail| mail.is_encrypted && mail.has_user),
            "{scheme}: {mails:?}"
        );
        assert_no_password(&node).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_wrong_certificate_gets_no_password() {
    let certificates = Certificates::make();
    let acceptor = acceptor(&certificates);
    for (scheme, encryption) in [
        ("smtp", Encryption::StartTls(acceptor.clone())),
        ("smtps", Encryption::Implicit(acceptor.clone())),
    ] {
        let server = SmtpServer::start(encryption).await;
        let node = serving(&url(scheme, &server), &[], &[sends("mails", mail(json!({})))]).await;
        let (message, code) = incident(&run(&node, "mails").await);
        assert_eq!(code, "mail-unreachable", "{message}");
        assert!(message.contains("certificate"), "{message}");
        let ready = node.http.get("/health/ready").await.expect(200);
        assert_eq!(
            (&ready["status"], &ready["away"]),
            (&json!("ready"), &json!(["mail"])),
            "{ready}"
        );
        assert!(
            ready["causes"]["mail"].as_str().unwrap().contains("certificate"),
            "{ready}"
        );
        assert!(!server.got("AUTH") && !server.got("MAIL"), "{scheme}");
        assert_no_password(&node).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_said_and_not_shown() {
    let certificates = Certificates::make();
    let server = SmtpServer::start(Encryption::StartTls(acceptor(&certificates))).await;
    let wrong = format!("smtp://{USER}:{PASSWORD}x@{}", server.address());
    let settings = ["--smtp-root-certificates", &certificates.path("ca.pem")];
    let definitions = [
        sends("mails", mail(json!({}))),
        sends("goes-on", mail(json!({"error": on_error()}))),
    ];
    let node = serving(&wrong, &settings, &definitions).await;
    let (message, code) = incident(&run(&node, "mails").await);
    assert_eq!(code, "mail-unreachable", "{message}");
    assert!(message.contains("logging in") && message.contains("535"), "{message}");
    let state = run(&node, "goes-on").await;
    assert_eq!(
        (&state["subStatus"], &state["name"]),
        (&json!("Finished"), &json!("not sent")),
        "{state}"
    );
    assert!(server.mails().is_empty());
    // Some servers lock a user out after few of them: the node tries it, and after its first mails no other one.
    for _ in 0..10 {
        assert_eq!(incident(&run(&node, "mails").await).1, "mail-unreachable");
    }
    let tries = server.count("AUTH");
    assert!(tries <= 3, "{tries} logins");
    assert_no_password(&node).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_in_latin_1_is_read_and_one_without_an_end_is_not() {
    let certificates = Certificates::make();
    let settings = ["--smtp-root-certificates", &certificates.path("ca.pem")];
    let acceptor = acceptor(&certificates);
    for encryption in [
        Encryption::None,
        Encryption::StartTls(acceptor.clone()),
        Encryption::Implicit(acceptor.clone()),
    ] {
        let scheme = match encryption {
            Encryption::Implicit(_) => "smtps",
            _ => "smtp",
        };
        let is_plain = matches!(encryption, Encryption::None);
        let server = SmtpServer::start(encryption).await;
        let url = match is_plain {
            true => server.plain_url(),
            false => url(scheme, &server),
        };
        let node = serving(&url, &settings, &[sends("mails", mail(json!({})))]).await;
        server.reply("RCPT", b"550 Empf\xe4nger unbekannt");
        let (message, code) = incident(&run(&node, "mails").await);
        assert_eq!(code, "mail-rejected", "{url}: {message}");
        assert!(message.contains("nger unbekannt"), "{url}: {message}");
        server.reply_normally();
        server.reply("MAIL", "2".repeat(200_000));
        let (message, _) = incident(&run(&node, "mails").await);
        assert!(message.contains("65536 bytes"), "{url}: {message}");
        server.reply_normally();
        assert_eq!(run(&node, "mails").await["subStatus"], "Finished", "{url}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_encrypt_or_answers_before_it_does_gets_nothing() {
    let certificates = Certificates::make();
    let settings = ["--smtp-root-certificates", &certificates.path("ca.pem")];
    let plain = SmtpServer::start(Encryption::None).await;
    let node = serving(&url("smtp", &plain), &settings, &[sends("mails", mail(json!({})))]).await;
    let (message, code) = incident(&run(&node, "mails").await);
    assert_eq!(code, "mail-unreachable", "{message}");
    assert!(message.contains("offers no STARTTLS"), "{message}");
    assert!(!plain.got("AUTH") && !plain.got("MAIL"));

    // Who is between the two sends an answer of its own behind that to STARTTLS.
    let server = SmtpServer::start(Encryption::StartTls(acceptor(&certificates))).await;
    server.reply("STARTTLS", "220 go ahead\r\n250 AUTH PLAIN");
    let node = serving(&url("smtp", &server), &settings, &[sends("mails", mail(json!({})))]).await;
    let (message, code) = incident(&run(&node, "mails").await);
    assert_eq!(code, "mail-unreachable", "{message}");
    assert!(message.contains("encrypting"), "{message}");
    assert!(server.mails().is_empty());
    server.reply_normally();
    wait_until("the server to be back", async || {
        node.http.get("/health/ready").await.expect(200)["away"] == json!([])
    })
    .await;
    assert_eq!(run(&node, "mails").await["subStatus"], "Finished");
}
