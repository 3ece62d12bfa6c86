//! Mails that the server does not take, and those that are none.

use serde_json::json;

use super::{incident, list, mail, on_error, run, script, sends, serving};
use crate::support::smtp::{CONTENT, CUT, Encryption, SmtpServer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_an_incident_or_leads_to_the_port() {
    let server = SmtpServer::start(Encryption::None).await;
    let both = list(&["ann@example.org", "bob@example.org"]);
    let definitions = [
        sends("fails", mail(json!({"to": both}))),
        sends("goes-on", mail(json!({"to": both, "error": on_error()}))),
    ];
    let node = serving(&server.plain_url(), &[], &definitions).await;
    for (line, reply, kind, part) in [
        (
            "RCPT TO:<bob@",
            "451 4.7.1 greylisted, come back",
            "mail-deferred",
            "greylisted",
        ),
        (
            "RCPT TO:<bob@",
            "550 5.1.1 no such user",
            "mail-rejected",
            "the recipient bob@example.org",
        ),
        ("MAIL", "553 5.7.1 not yours", "mail-rejected", "naming the sender"),
        ("DATA", "452 4.3.1 full", "mail-deferred", "452"),
        ("MAIL", CUT, "mail-unreachable", "naming the sender"),
    ] {
        server.reply(line, reply);
        let (message, code) = incident(&run(&node, "fails").await);
        assert_eq!(code, kind, "{line} {reply}: {message}");
        assert!(
            message.starts_with("The mail was not sent: ") && message.contains(part),
            "{message}"
        );
        let state = run(&node, "goes-on").await;
        assert_eq!(
            (&state["subStatus"], &state["name"]),
            (&json!("Finished"), &json!("not sent")),
            "{state}"
        );
        let path = format!("workflow-instances/{}/journal", state["id"].as_str().unwrap());
        let journal = node.http.get(&path).await.expect(200);
        let mut entries = journal["items"].as_array().unwrap().iter();
        let noted = entries
            .find(|it| it["eventName"] == "Error")
            .map(|it| it["message"].to_string());
        assert!(noted.is_some_and(|message| message.contains(part)), "{journal}");
        server.reply_normally();
    }
    assert!(server.mails().is_empty(), "no recipient gets what is not for all");
    for definition in ["fails", "goes-on"] {
        assert_eq!(run(&node, definition).await["subStatus"], "Finished");
    }
    assert_eq!(server.mails().len(), 2);
    // A refusal of the whole content is one as well.
    server.reply(CONTENT, "554 5.7.1 spam");
    let (message, code) = incident(&run(&node, "fails").await);
    assert_eq!((&*code, message.contains("spam")), ("mail-rejected", true), "{message}");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_after_the_content_leaves_a_doubt() {
    let server = SmtpServer::start(Encryption::None).await;
    let node = serving(&server.plain_url(), &[], &[sends("mails", mail(json!({})))]).await;
    server.reply(CONTENT, CUT);
    let state = run(&node, "mails").await;
    let (message, code) = incident(&state);
    assert_eq!(code, "mail-in-doubt");
    assert!(
        message.starts_with("It is not known whether the mail was sent: "),
        "{message}"
    );
    assert_eq!(server.mails().len(), 1, "it is not sent again");
    // Who retries it sends the same mail again.
    server.reply_normally();
    let retry = json!({"workflowInstanceIds": [state["id"]]});
    node.http.post("alterations/workflows/retry", &retry).await.expect(200);
    node.http
        .instance_becomes(state["id"].as_str().unwrap(), "Finished")
        .await;
    let mails = server.mails();
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0].header("Message-ID"), mails[1].header("Message-ID"));
    // The server itself is not away.
    assert_eq!(node.http.get("/health/ready").await.expect(200)["away"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_mail_is_refused_by_name() {
    let server = SmtpServer::start(Encryption::None).await;
    let injected = "ann@example.org\r\nBcc: eve@example.org";
    let scripted = |text: &str| script(&serde_json::to_string(text).unwrap());
    let cases = [
        (
            json!({"to": script("['ann@example.org\\nRCPT TO:<eve@example.org>']")}),
            "To",
            "line break",
        ),
        (json!({"from": scripted(injected)}), "From", "line break"),
        (
            json!({"subject": scripted("Hi\r\nBcc: eve@example.org")}),
            "Subject",
            "line break",
        ),
        (
            json!({"attachments": script("({fileName: 'a\\r\\nX: y', content: 'aGk='})")}),
            "Attachments",
            "line break",
        ),
        (
            json!({"attachments": scripted("/etc/passwd")}),
            "Attachments",
            "not attached by their path",
        ),
        (json!({"to": script("[]")}), "To", "no recipient"),
        (
            json!({"to": script("Array.from({length: 101}, (_, n) => `a${n}@example.org`)")}),
            "To",
            "101 recipients",
        ),
    ];
    let named: Vec<_> = cases
        .iter()
        .zip(0..)
        .map(|((given, ..), n)| sends(&format!("m{n}"), mail(given.clone())))
        .collect();
    let node = serving(&server.plain_url(), &[], &named).await;
    for ((given, input, part), n) in cases.iter().zip(0..) {
        let (message, _) = incident(&run(&node, &format!("m{n}")).await);
        assert!(
            message.contains(&format!("The input {input} is invalid")) && message.contains(part),
            "{given}: {message}"
        );
    }
    // What is literal is refused by the publish.
    for (given, input, part) in [
        (json!({"to": list(&[injected])}), "To", "line break"),
        (json!({"to": null, "cc": list(&[])}), "To", "no recipient"),
        (
            json!({"subject": {"typeName": "String", "expression": {"type": "Literal", "value": "a\nb"}}}),
            "Subject",
            "line break",
        ),
        (
            json!({"attachments": {"typeName": "Object", "expression": {"type": "Literal", "value": "/etc/passwd"}}}),
            "Attachments",
            "path",
        ),
    ] {
        let save = json!({"model": sends("literal", mail(given.clone())), "publish": true});
        let answer = node.http.post("workflow-definitions", &save).await;
        let text = answer.body.to_string();
        assert!(
            answer.status == 400
                && text.contains("activity mail")
                && text.contains(&format!("the input {input}"))
                && text.contains(part),
            "{given}: {text}"
        );
    }
    assert!(!server.got("MAIL"), "nothing of it reaches the server");
}
