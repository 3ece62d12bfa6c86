//! Attachments: of 10 MB, by content, from other servers by the rules of requests, and within their limit.

use serde_json::json;

use super::{attached, incident, mail, on_error, run, script, sends, serving};
use crate::support::receiver::{Receiver, Reply};
use crate::support::smtp::{Encryption, SmtpServer};

const TEN_MB: usize = 10_000_000;

fn large() -> Vec<u8> {
    (0..TEN_MB).map(|n| (n % 251) as u8).collect()
}

/// A server of one large file, and of nothing else.
async fn file_server() -> Receiver {
    Receiver::answering(|request| match request.path.as_str() {
        "/large.pdf" => Reply::File("application/pdf", large()),
        _ => Reply::status(404),
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_megabytes_are_attached_and_more_than_the_limit_is_not() {
    let server = SmtpServer::start(Encryption::None).await;
    let server_of_files = file_server().await;
    let files = server_of_files.base();
    let several = format!(
        "['{files}/large.pdf', {{fileName: 'é.txt', contentType: 'text/plain', content: 'aGk='}}, {{total: 3}}]"
    );
    let download = json!({"id": "get", "type": "Elsa.DownloadHttpFile", "url": format!("{files}/large.pdf"),
        "result": {"typeName": "Object", "memoryReference": {"id": "file"}}});
    let downloaded = json!({"definitionId": "downloaded", "root": {"id": "root", "type": "Elsa.Sequence",
        "variables": [{"id": "file", "name": "file", "typeName": "Object"}],
        "activities": [download, mail(json!({"attachments": script("variables.file")}))]}});
    let twice = format!("['{files}/large.pdf', '{files}/large.pdf']");
    let definitions = [
        sends("several", mail(json!({"attachments": script(&several)}))),
        downloaded,
        sends(
            "twice",
            mail(json!({"attachments": script(&twice), "error": on_error()})),
        ),
    ];
    let node = serving(&server.plain_url(), &["--mail-attachment-mib", "15"], &definitions).await;
    for definition in ["several", "downloaded"] {
        let state = run(&node, definition).await;
        assert_eq!(state["subStatus"], "Finished", "{definition}: {}", state["incidents"]);
    }
    let mails = server.mails();
    let [several, downloaded] = mails.as_slice() else {
        panic!("{} mails", mails.len())
    };
    let parts = attached(&several.text);
    assert!(parts[0] == large() && parts[1] == b"hi" && parts[2] == b"{\"total\":3}");
    for part in [
        "large.pdf",
        "Content-Type: application/pdf",
        "%C3%A9.txt",
        "Attachment-1",
    ] {
        assert!(several.text.contains(part), "{part}");
    }
    assert!(attached(&downloaded.text) == [large()] && downloaded.text.contains("large.pdf"));
    // It is the workflow's, so the port for failures does not hide it.
    let (message, code) = incident(&run(&node, "twice").await);
    assert_eq!(code, "attachments-too-large", "{message}");
    assert!(
        message.contains("15 MiB") && message.contains("mail-attachment-mib"),
        "{message}"
    );
    assert_eq!(server.mails().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attachment_is_got_by_the_rules_of_requests() {
    let server = SmtpServer::start(Encryption::None).await;
    let server_of_files = file_server().await;
    let files = server_of_files.base();
    let missing = format!("{files}/missing?token=hunter2");
    let attaches =
        |url: &str| json!({"attachments": {"typeName": "Object", "expression": {"type": "Literal", "value": url}}});
    let mut goes_on = attaches(&missing);
    goes_on["error"] = on_error();
    let definitions = [
        sends("denied", mail(attaches("http://169.254.169.254/latest/meta-data"))),
        sends("missing", mail(attaches(&missing))),
        sends("goes-on", mail(goes_on)),
    ];
    let node = serving(&server.plain_url(), &[], &definitions).await;
    let (message, code) = incident(&run(&node, "denied").await);
    assert_eq!(code, "target-refused", "{message}");
    let (message, code) = incident(&run(&node, "missing").await);
    assert_eq!(code, "attachment-unavailable", "{message}");
    assert!(
        message.contains("404") && message.contains("127.0.0.1") && !message.contains("hunter2"),
        "{message}"
    );
    let state = run(&node, "goes-on").await;
    assert_eq!(
        (&state["subStatus"], &state["name"]),
        (&json!("Finished"), &json!("not sent")),
        "{state}"
    );
    assert!(!server.got("MAIL"));
}
