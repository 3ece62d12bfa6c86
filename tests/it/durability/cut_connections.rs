//! A connection that is cut at each step of each call: what is reported undone is undone, what is reported done is done.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::failpoints::CALL;
use crate::support::node::{Node, assert_invariants};
use crate::support::{Answer, Connection, Http, TIMEOUT, TestDatabase, long, wait_until};

/// The steps of them that `scripts/test` alone tries.
const FEW: [&str; 5] = [
    "accept.before",
    "accept.after",
    "claim.after",
    "commit.written",
    "commit.answered",
];

const CALLS: [&str; 7] = [
    "execute",
    "dispatch",
    "resume",
    "event",
    "cancel",
    "bulk-cancel",
    "bulk-delete",
];

/// What a node logs that releases rows that it had claimed and does not run.
const ORPHANED_CLAIM: &str = "a claim was orphaned";

fn model() -> Value {
    let event = json!({"typeName": "String", "expression": {"type": "JavaScript", "value": "getCorrelationId()"}});
    json!({"definitionId": "w", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.WriteLine", "id": "first", "text": "1"},
        {"type": "Elsa.Event", "id": "word", "eventName": event},
        {"type": "Elsa.WriteLine", "id": "second", "text": "2"}]}})
}

struct Case {
    http: Http,
    client: Connection,
    call: &'static str,
    /// The instance that it is about, and its correlation id.
    name: String,
}

impl Case {
    async fn sends(&self) -> Answer {
        let Self { http, call, name, .. } = self;
        let start = json!({"correlationId": format!("new-{name}")});
        let ids = json!({"ids": [name]});
        let (path, body) = match *call {
            "execute" | "dispatch" => (format!("workflow-definitions/w/{call}"), start),
            "resume" => (format!("workflow-instances/{name}/resume"), json!({})),
            "event" => (format!("events/{name}/trigger"), json!({})),
            "cancel" => (format!("cancel/workflow-instances/{name}"), json!({})),
            "bulk-cancel" => ("bulk-actions/cancel/workflow-instances".to_owned(), ids),
            _ => ("bulk-actions/delete/workflow-instances/by-id".to_owned(), ids),
        };
        http.send(Method::POST, &path, &[], Some(&body)).await.unwrap()
    }

    /// Whether all that it was to do is done, and done once.
    async fn is_done(&self) -> bool {
        let name = &self.name;
        let of =
            |sub: i16| format!("SELECT count(*) FROM mainspring.instance WHERE id = '{name}' AND sub_status = {sub}");
        match self.call {
            "execute" | "dispatch" => {
                let new = format!(
                    "SELECT count(*) FROM mainspring.instance WHERE correlation_id = 'new-{name}' AND sub_status = 2"
                );
                self.client.count(&new).await == 1
            }
            "resume" | "event" => self.client.count(&of(3)).await == 1,
            "cancel" | "bulk-cancel" => self.client.count(&of(4)).await == 1,
            _ => self.client.rows(&format!("instance WHERE id = '{name}'")).await == 0,
        }
    }

    async fn is_at_rest(&self) -> bool {
        self.client.rows("work").await == 0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_at_any_step_leaves_every_answer_true() {
    let points = if long() { &CALL[..] } else { &FEW };
    let database = TestDatabase::create().await;
    let settings = ["--check-in", "200ms"];
    {
        let mut node = Node::start_with(&database, "one", &settings, "");
        let http = node.http.clone().unwrap();
        http.post("workflow-definitions", &json!({"publish": true, "model": model()}))
            .await
            .expect(200);
        for (point, call) in points.iter().flat_map(|point| CALLS.map(|call| (point, call))) {
            let name = format!("{call}-{point}");
            let start = json!({"instanceId": name, "correlationId": name});
            http.dispatch("w", &start).await;
        }
        let client = database.connect().await;
        client
            .wait_for_rows("instance WHERE sub_status = 2", (points.len() * CALLS.len()) as i64)
            .await;
        node.child.signal("TERM");
        node.child.wait(TIMEOUT);
    }
    let mut complaints = Vec::new();
    for point in points {
        for call in CALLS {
            let node = Node::start_with(&database, "one", &settings, &format!("{point}=cut"));
            let case = Case {
                http: node.http.clone().unwrap(),
                client: database.connect().await,
                call,
                name: format!("{call}-{point}"),
            };
            let answer = case.sends().await;
            let outcome = format!("{point} {call}: {} {}", answer.status, answer.body["code"]);
            let is_unknown = answer.body["code"] == "outcome-unknown";
            match answer.status {
                200 | 202 | 204 => {}
                503 if is_unknown => {}
                503 => {
                    // Nothing was done, so the same call succeeds, once.
                    let again = case.sends().await;
                    if again.status >= 300 {
                        complaints.push(format!("{outcome}, then {} {}", again.status, again.body["code"]));
                    }
                }
                _ => complaints.push(outcome.clone()),
            }
            let what = format!("{outcome} to be settled");
            wait_until(&what, async || {
                // What is unknown may be done or not.
                case.is_at_rest().await && (is_unknown || case.is_done().await)
            })
            .await;
            if node.child.logs(ORPHANED_CLAIM) {
                complaints.push(format!("{outcome}: {ORPHANED_CLAIM}"));
            }
        }
    }
    assert_invariants(&database).await;
    let client = database.connect().await;
    let twice = "SELECT count(*) FROM (SELECT instance_id, activity_id FROM mainspring.journal
                 WHERE event_name = 'Completed' GROUP BY 1, 2 HAVING count(*) > 1) t";
    assert_eq!(client.count(twice).await, 0);
    assert_eq!(complaints, [""; 0]);
}
