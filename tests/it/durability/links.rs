//! A burst that is repeated after a crash makes the same resume links, which work once it is committed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::calls::Calls;
use crate::support::node::{Node, assert_invariants};
use crate::support::{Gate, LONG_TIMEOUT, TestDatabase, poll_until};

const NODE: [&str; 2] = ["--check-in", "200ms"];

/// Where the burst that sends the links is lost.
const LOST_AT: [&str; 5] = [
    "call.made.second",
    "burst.after",
    "commit.begun",
    "commit.written",
    "commit.committed",
];

fn text(script: &str) -> Value {
    json!({"typeName": "String", "expression": {"type": "JavaScript", "value": script}})
}

/// Sends two links, as a mail would, and waits for the event of one of them.
fn approval() -> Value {
    let call = |id: &str, script: &str| json!({"type": "Mainspring.Call", "id": id, "name": text(script)});
    let event = json!({"type": "Elsa.Event", "id": "wait", "eventName": text("(createResumeUrl(), 'Approved')")});
    json!({"definitionId": "approval", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        call("mail", "createEventTriggerUrl('Approved') + ' ' + createEventTriggerUrl('Rejected')"),
        call("second", "'second'"), event, call("last", "createEventTriggerUrl('Late')")]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repeat_of_a_lost_burst_sends_the_same_links() {
    for point in LOST_AT {
        let database = TestDatabase::create().await;
        let client = database.connect().await;
        let file = Calls::new();
        let variables = |failpoints: &'static str| [file.variable(), ("MAINSPRING_FAILPOINTS", failpoints)];
        let accepting = [NODE[0], NODE[1], "--workers", "0"];
        let accepting = Node::start_at(&database.url(), "accepting", &accepting, &variables(""));
        let http = accepting.http.clone().unwrap();
        http.publish(&approval()).await;
        let stall = Gate::new();
        let stalls = stall.stalls(point);
        let mut lost = Node::start_at(
            &database.url(),
            "lost",
            &NODE,
            &[file.variable(), ("MAINSPRING_FAILPOINTS", &stalls)],
        );
        http.dispatch("approval", &json!({"instanceId": "a"})).await;
        stall.reached().await;
        let links: Vec<String> = mails(&file);
        assert_eq!(links.len(), 1, "{point}");
        let (approve, _) = links[0].split_once(' ').unwrap();
        if point != "commit.committed" {
            // Nothing is committed for two seconds: the link is genuine, and leads nowhere yet.
            assert_eq!(http.get(approve).await.status, 410, "{point}");
            http.post(approve, &json!({})).await.assert_refused(410, "link-unknown");
        }
        lost.child.kill9();
        let _taking_over = Node::start_at(&database.url(), "other", &NODE, &variables(""));
        poll_until(LONG_TIMEOUT, "the instance to wait", async || {
            let waits = "instance WHERE id = 'a' AND status = 0 AND sub_status = 2";
            (client.rows(waits).await == 1).then_some(())
        })
        .await;
        let distinct: BTreeSet<String> = mails(&file).into_iter().collect();
        assert_eq!(distinct.len(), 1, "{point}: {distinct:?}");
        assert_eq!(client.rows("resume_link").await, 3, "{point}");
        let bound = "resume_link l WHERE EXISTS (SELECT 1 FROM mainspring.bookmark b WHERE b.id = l.bookmark_id)";
        assert_eq!(client.rows(bound).await, 1, "{point}");
        http.post(approve, &json!({})).await.expect(200);
        http.post(approve, &json!({})).await.assert_refused(410, "link-used");
        poll_until(LONG_TIMEOUT, "the instance to end", async || {
            (client.rows("instance WHERE id = 'a' AND status = 1").await == 1).then_some(())
        })
        .await;
        assert_eq!(client.rows("resume_link").await, 4, "{point}");
        let all: BTreeSet<String> = file.all().iter().map(|call| call["name"].to_string()).collect();
        assert_eq!(all.len(), 3, "{point}: {all:?}");
        assert_invariants(&database).await;
    }
}

/// What was sent, each time that it was.
fn mails(file: &Calls) -> Vec<String> {
    let calls = file.all().into_iter();
    let names = calls.map(|call| call["name"].as_str().unwrap().to_owned());
    names
        .filter(|name| name.contains("trigger?t="))
        .filter(|name| name.contains(' '))
        .collect()
}
