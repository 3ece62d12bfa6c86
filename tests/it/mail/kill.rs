//! A node that is killed between a mail and the commit of its burst: the repeated burst sends the mail again, with its Message-ID.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};

use super::{mail, script};
use crate::support::node::{Node, assert_invariants};
use crate::support::smtp::{Encryption, SmtpServer};
use crate::support::{TestDatabase, wait_until};

/// Between the mail and its commit.
const POINTS: [&str; 3] = ["burst.after", "commit.begun", "commit.written"];

/// How many instances are started at the armed node at most.
const ATTEMPTS: usize = 20;

fn mails() -> Value {
    let subject = script("getWorkflowInstanceId()");
    let waits = json!({"id": "event", "type": "Elsa.Event", "eventName": "never"});
    json!({"definitionId": "mails", "root": {"id": "root", "type": "Elsa.Sequence", "activities": [mail(json!({"subject": subject})), waits]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_that_is_sent_again_has_the_same_message_id() {
    let server = SmtpServer::start(Encryption::None).await;
    let url = server.plain_url();
    let settings = [
        "--check-in",
        "200ms",
        "--smtp-url",
        &url,
        "--mail-from",
        "shop@example.org",
    ];
    let database = TestDatabase::create().await;
    let node = Node::start_with(&database, "alive", &settings, "");
    let alive = node.http.clone().unwrap();
    alive.publish(&mails()).await;
    for point in POINTS {
        let armed = Node::start_armed_with(&database, "armed", &settings, &format!("{point}=abort")).await;
        die(armed, point).await;
    }
    wait_until("all instances to wait", async || {
        let path = "workflow-instances?definitionId=mails&pageSize=1000";
        let listed = alive.get(path).await.expect(200)["items"].as_array().unwrap().clone();
        listed.len() >= POINTS.len() && listed.iter().all(|it| it["subStatus"] == "Suspended")
    })
    .await;
    let mut sent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for mail in server.mails() {
        let id = mail.header("Message-ID").to_owned();
        sent.entry(mail.header("Subject").to_owned()).or_default().push(id);
    }
    assert!(sent.values().all(|ids| ids.iter().all(|id| *id == ids[0])), "{sent:?}");
    let repeated = sent.values().filter(|ids| ids.len() > 1).count();
    assert_eq!(repeated, POINTS.len(), "each kill repeats one: {sent:?}");
    let own: BTreeSet<&String> = sent.values().flatten().collect();
    assert_eq!(own.len(), sent.len(), "each instance has a Message-ID of its own");
    assert_invariants(&database).await;
}

/// Starts instances at the armed node until it is killed.
async fn die(mut armed: Node, point: &str) {
    let http = armed
        .http
        .clone()
        .expect("nothing passes the failpoint before a request");
    for _ in 0..ATTEMPTS {
        let path = "workflow-definitions/mails/execute";
        if http.send(Method::POST, path, &[], Some(&json!({}))).await.is_err() {
            wait_until("the node to be gone", async || armed.child.has_ended()).await;
            return;
        }
    }
    panic!("no node dies at {point}");
}
