//! Mails of workflows, as an SMTP server gets them, and what becomes of those that it does not take.

mod approval;
mod attachments;
mod encryption;
mod kill;
mod refusals;
mod server_away;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::single_node::SingleNode;
use crate::support::smtp::{Encryption, SmtpServer};
use crate::support::wait_until;

/// A list as the value of an input.
fn list(items: &[&str]) -> Value {
    let items = serde_json::to_string(items).unwrap();
    json!({"typeName": "String[]", "expression": {"type": "Object", "value": items}})
}

fn script(text: &str) -> Value {
    json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": text}})
}

/// A mail to Ann, with these properties besides.
fn mail(more: Value) -> Value {
    let mut activity = json!({"id": "mail", "type": "Elsa.SendEmail", "to": list(&["ann@example.org"]),
        "subject": "Hello", "body": "<p>Hi</p>"});
    activity
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    activity
}

/// A definition with a mail alone.
fn sends(id: &str, mail: Value) -> Value {
    json!({"definitionId": id, "root": {"id": "root", "type": "Elsa.Sequence", "activities": [mail]}})
}

/// What runs where the mail is not sent.
fn on_error() -> Value {
    json!({"id": "failed", "type": "Elsa.SetName", "value": "not sent"})
}

/// A node with a mail server.
async fn serving(url: &str, settings: &[&str], definitions: &[Value]) -> SingleNode {
    let own = [
        "--smtp-url",
        url,
        "--mail-from",
        "Shop <shop@example.org>",
        "--smtp-timeout",
        "10s",
    ];
    let node = SingleNode::start(&[&own, settings].concat()).await;
    for definition in definitions {
        node.http.publish(definition).await;
    }
    node
}

/// Runs a workflow to its end; its state.
async fn run(node: &SingleNode, definition: &str) -> Value {
    let path = format!("workflow-definitions/{definition}/execute");
    let answer = node.http.post(&path, &json!({})).await;
    let is_faulted = answer.body["workflowState"]["subStatus"] == "Faulted";
    answer.expect(if is_faulted { 500 } else { 200 })["workflowState"].clone()
}

/// The message and the code of the only incident.
#[track_caller]
fn incident(state: &Value) -> (String, String) {
    let incidents = state["incidents"].as_array().unwrap();
    assert_eq!(
        (incidents.len(), &state["subStatus"]),
        (1, &json!("Faulted")),
        "{state}"
    );
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&incidents[0]["message"]), text(&incidents[0]["exception"]["code"]))
}

/// The bytes of the parts of a mail in Base64, in order.
fn attached(text: &str) -> Vec<Vec<u8>> {
    let parts = text.split("Content-Transfer-Encoding: base64\r\n\r\n").skip(1);
    let bodies = parts.map(|part| {
        let body = part.split("\r\n--").next().unwrap_or_default();
        STANDARD.decode(body.replace("\r\n", "")).unwrap()
    });
    bodies.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_has_what_its_inputs_say() {
    let server = SmtpServer::start(Encryption::None).await;
    let whole = mail(
        json!({"from": "Sales <sales@example.org>", "to": list(&["ann@example.org", "Bob <bob@example.org>", ""]),
        "cc": list(&["cat@example.org"]), "bcc": list(&["dan@example.org"]), "subject": "Grüße", "body": script("`<p>Order ${40 + 2}</p>\\n.\\n..`")}),
    );
    let definitions = [sends("whole", whole), sends("short", mail(json!({"body": null})))];
    let node = serving(&server.plain_url(), &[], &definitions).await;
    for definition in ["whole", "short"] {
        let state = run(&node, definition).await;
        assert_eq!(
            (&state["subStatus"], &state["incidents"]),
            (&json!("Finished"), &json!([])),
            "{definition}"
        );
    }
    let mails = server.mails();
    let [whole, short] = mails.as_slice() else {
        panic!("{mails:?}")
    };
    assert_eq!(whole.from, "sales@example.org");
    assert_eq!(
        whole.to,
        [
            "ann@example.org",
            "bob@example.org",
            "cat@example.org",
            "dan@example.org"
        ]
    );
    assert_eq!(whole.header("From"), "Sales <sales@example.org>");
    assert_eq!(whole.header("To"), "ann@example.org, Bob <bob@example.org>");
    assert_eq!(whole.header("Cc"), "cat@example.org");
    assert_eq!(whole.header("Subject"), "=?utf-8?b?R3LDvMOfZQ==?=");
    assert_eq!(whole.header("Content-Type"), "text/html; charset=utf-8");
    assert!(whole.text.contains("<p>Order 42</p>\r\n.\r\n..\r\n"), "{}", whole.text);
    assert!(!whole.text.contains("dan@example.org"), "{}", whole.text);
    assert_eq!(
        (&*short.from, short.header("From")),
        ("shop@example.org", "Shop <shop@example.org>")
    );
    let ids = mails.iter().map(|mail| mail.header("Message-ID")).collect::<Vec<_>>();
    assert!(
        ids[0].starts_with('<') && ids[0].ends_with("@example.org>") && ids[0] != ids[1],
        "{ids:?}"
    );
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_mail_server_an_incident_names_the_setting() {
    let node = SingleNode::start(&[]).await;
    node.http
        .publish(&sends("mails", mail(json!({"error": on_error()}))))
        .await;
    let (message, code) = incident(&run(&node, "mails").await);
    assert_eq!(code, "mail-not-configured");
    assert!(message.contains("smtp-url"), "{message}");
    assert_eq!(node.http.get("/health/ready").await.expect(200)["away"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_mails_share_few_connections() {
    let server = SmtpServer::start(Encryption::None).await;
    let node = serving(&server.plain_url(), &[], &[sends("mails", mail(json!({})))]).await;
    for _ in 0..40 {
        node.http.dispatch("mails", &json!({})).await;
    }
    wait_until("all mails", async || server.mails().len() == 40).await;
    // Eight, and the probe of a server that is away.
    assert!(server.most_open() <= 9, "{} connections", server.most_open());
}
