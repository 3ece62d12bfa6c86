//! The audit: each request that changes something has one entry, in the transaction of its change.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::{KEY, SingleNode, waits_for};
use crate::support::{Gate, Http, TIMEOUT, TestDatabase, poll_until};

/// The entries that meet some criteria, the newest first.
async fn entries(http: &Http, criteria: &str) -> Vec<Value> {
    let page = http.get(&format!("audit?action=Request&{criteria}")).await.expect(200);
    page["items"].as_array().unwrap().clone()
}

/// The only entry of a route since the last read, without what differs at each run.
async fn only(http: &Http, seen: &mut i64, route: &str) -> Value {
    let all = entries(http, "pageSize=1000").await;
    let new: Vec<&Value> = all
        .iter()
        .filter(|entry| entry["id"].as_i64().unwrap() > *seen)
        .collect();
    assert_eq!(new.len(), 1, "of {route}: {new:#?}");
    *seen = new[0]["id"].as_i64().unwrap();
    assert_eq!(new[0]["route"], format!("/elsa/api{route}"));
    assert_eq!(
        (&new[0]["callerKind"], &new[0]["clientAddress"]),
        (&json!("api-key"), &json!("127.0.0.1"))
    );
    new[0].clone()
}

fn model(id: &str) -> Value {
    json!({"model": {"definitionId": id, "root": waits_for("A")}, "publish": true})
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_that_changes_something_has_one_entry_and_no_other_request_has_one() {
    let node = SingleNode::with_key(&[]).await;
    let (http, mut seen) = (&node.http, 0);
    http.post("workflow-definitions", &model("w")).await.expect(200);
    let entry = only(http, &mut seen, "/workflow-definitions").await;
    assert_eq!(
        (&entry["method"], &entry["outcome"]),
        (&json!("POST"), &json!("Accepted"))
    );
    assert!(
        entry.get("code").is_none() && entry.get("callerId").is_none(),
        "{entry}"
    );

    http.post("workflow-definitions/w/dispatch", &json!({"instanceId": "one"}))
        .await
        .expect(200);
    let entry = only(http, &mut seen, "/workflow-definitions/{id}/dispatch").await;
    assert_eq!(
        (&entry["workflowInstanceId"], &entry["target"]),
        (&json!("one"), &json!("w"))
    );
    http.instance_becomes("one", "Suspended").await;
    http.post("workflow-definitions/w/execute", &json!({}))
        .await
        .expect(200);
    only(http, &mut seen, "/workflow-definitions/{id}/execute").await;
    // Many starts are one request.
    http.post("workflow-definitions/w/bulk-dispatch", &json!({"count": 5}))
        .await
        .expect(200);
    only(http, &mut seen, "/workflow-definitions/{id}/bulk-dispatch").await;
    // So is the repeat of such a request, whose first start is none.
    for _ in 0..2 {
        let headers = [("idempotency-key", "many")];
        let bulk = json!({"count": 3});
        let path = "workflow-definitions/w/bulk-dispatch";
        let sent = http.send(Method::POST, path, &headers, Some(&bulk)).await.unwrap();
        let started = sent.expect(200)["workflowInstanceIds"].as_array().unwrap().len();
        assert_eq!(started, 3);
        only(http, &mut seen, "/workflow-definitions/{id}/bulk-dispatch").await;
    }
    http.post("workflow-instances", &json!({"definitionId": "w"}))
        .await
        .expect(200);
    only(http, &mut seen, "/workflow-instances").await;
    http.post("events/B/trigger", &json!({})).await.expect(200);
    only(http, &mut seen, "/events/{id}/trigger").await;

    // A list by POST changes nothing, nor does any other read.
    http.post("workflow-instances", &json!({"page": 0, "pageSize": 5}))
        .await
        .expect(200);
    http.post("workflow-instances/one/journal", &json!({}))
        .await
        .expect(200);
    http.get("workflow-instances/one").await.expect(200);
    http.get("audit").await.expect(200);

    http.post("workflow-instances/one/resume-links", &json!({}))
        .await
        .expect(200);
    only(http, &mut seen, "/workflow-instances/{id}/resume-links").await;
    http.post("workflow-instances/one/resume", &json!({})).await.expect(200);
    let entry = only(http, &mut seen, "/workflow-instances/{id}/resume").await;
    assert_eq!(entry["workflowInstanceId"], "one");
    http.post("workflow-definitions/w/dispatch", &json!({"instanceId": "two"}))
        .await
        .expect(200);
    only(http, &mut seen, "/workflow-definitions/{id}/dispatch").await;
    http.instance_becomes("two", "Suspended").await;
    http.post("cancel/workflow-instances/two", &json!({})).await;
    let entry = only(http, &mut seen, "/cancel/workflow-instances/{id}").await;
    assert_eq!(entry["workflowInstanceId"], "two");
    http.delete("workflow-instances/two").await;
    only(http, &mut seen, "/workflow-instances/{id}").await;
    http.post("admin/workflow-runtime/pause", &json!({})).await.expect(200);
    only(http, &mut seen, "/admin/workflow-runtime/pause").await;
    http.post("admin/workflow-runtime/resume", &json!({})).await.expect(200);
    only(http, &mut seen, "/admin/workflow-runtime/resume").await;
    http.post("workflow-definitions/w/retract", &json!({}))
        .await
        .expect(200);
    only(http, &mut seen, "/workflow-definitions/{id}/retract").await;
    http.delete("workflow-definitions/w").await;
    only(http, &mut seen, "/workflow-definitions/{id}").await;

    // One whose instance faults has that of its start, and no other one.
    let faults =
        json!({"model": {"definitionId": "faults", "root": {"type": "Elsa.Fault", "id": "f"}}, "publish": true});
    http.post("workflow-definitions", &faults).await.expect(200);
    only(http, &mut seen, "/workflow-definitions").await;
    let executed = http.post("workflow-definitions/faults/execute", &json!({})).await;
    assert_eq!(executed.status, 500, "{}", executed.body);
    let entry = only(http, &mut seen, "/workflow-definitions/{id}/execute").await;
    assert_eq!(entry["outcome"], "Accepted");

    // What is refused has its entry, too, with its code.
    http.post("workflow-definitions/none/dispatch", &json!({}))
        .await
        .assert_refused(404, "definition-not-found");
    let entry = only(http, &mut seen, "/workflow-definitions/{id}/dispatch").await;
    assert_eq!(
        (&entry["outcome"], &entry["code"]),
        (&json!("Refused"), &json!("definition-not-found"))
    );
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_written_by_the_transaction_of_its_change() {
    // Without a worker what is accepted stays as it was written.
    let node = SingleNode::with_key(&["--roles", "api"]).await;
    let http = &node.http;
    http.post("workflow-definitions", &model("w")).await.expect(200);
    for id in ["one", "two"] {
        http.post("workflow-definitions/w/dispatch", &json!({"instanceId": id}))
            .await
            .expect(200);
    }
    // A draft: what is published is changed once more, by the seeding of its strategy.
    let draft = json!({"model": {"definitionId": "draft", "root": waits_for("A")}});
    http.post("workflow-definitions", &draft).await.expect(200);
    http.post("events/B/trigger", &json!({})).await.expect(200);
    let client = node.database.connect().await;
    let together = async |table: &str, route: &str| {
        let query = format!(
            "SELECT count(*) FROM mainspring.audit a JOIN mainspring.{table} t ON t.xmin::text = a.xmin::text
             WHERE a.route = '/elsa/api{route}'"
        );
        client.count(&query).await
    };
    assert_eq!(
        together("definition", "/workflow-definitions' AND t.definition_id = 'draft").await,
        1
    );
    assert_eq!(together("work", "/workflow-definitions/{id}/dispatch").await, 2);
    assert_eq!(together("inbox", "/events/{id}/trigger").await, 1);
}

/// Sends a request to a node that stalls at a gate, and leaves.
async fn leave(http: &Http, gate: &Gate, method: &str, path: &str, body: &Value) {
    let mut client = TcpStream::connect(http.address()).await.unwrap();
    let body = body.to_string();
    let request = format!(
        "{method} /elsa/api/{path} HTTP/1.1\r\nHost: localhost\r\nX-Requested-With: test\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    gate.reached().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_client_leaves_has_one_entry() {
    let (database, accepts, deletes) = (TestDatabase::create().await, Gate::new(), Gate::new());
    let points = format!(
        "{};{}",
        accepts.stalls("accept.before"),
        deletes.stalls("delete.before")
    );
    let node = Node::start_with(&database, "one", &[], &points);
    let http = node.http.as_ref().unwrap();
    http.publish(&model("w")["model"]).await;

    // A start goes on, and its transaction has the entry.
    let start = json!({"instanceId": "left"});
    leave(http, &accepts, "POST", "workflow-definitions/w/dispatch", &start).await;
    accepts.open();
    http.instance_becomes("left", "Suspended").await;
    let all = entries(http, "method=POST&workflowInstanceId=left").await;
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(all[0]["outcome"], "Accepted");

    // A delete ends with its request.
    leave(http, &deletes, "DELETE", "workflow-instances/left", &json!({})).await;
    let entry = poll_until(TIMEOUT, "the entry", async || {
        entries(http, "method=DELETE").await.pop()
    })
    .await;
    assert_eq!(
        (&entry["code"], &entry["outcome"], &entry["target"]),
        (&json!("client-gone"), &json!("Failed"), &json!("left"))
    );
    deletes.open();
    http.get("workflow-instances/left").await.expect(200);
    assert_eq!(entries(http, "method=DELETE").await.len(), 1);
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_is_filtered_and_exported_line_by_line() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    http.post("workflow-definitions", &model("w")).await.expect(200);
    for number in 0..3 {
        let start = json!({"instanceId": format!("i{number}")});
        http.post("workflow-definitions/w/dispatch", &start).await.expect(200);
    }
    http.post("workflow-definitions/none/dispatch", &json!({})).await;
    let route = "route=/elsa/api/workflow-definitions/%7Bid%7D/dispatch";
    for (criteria, wanted) in [
        (route.to_owned(), 4),
        (format!("{route}&outcome=accepted"), 3),
        ("outcome=Refused".to_owned(), 1),
        ("workflowInstanceId=i1".to_owned(), 1),
        ("callerName=API%20key".to_owned(), 5),
        ("callerId=nobody".to_owned(), 0),
        ("method=post".to_owned(), 5),
        ("from=2001-01-01T00:00:00Z&to=2001-01-02T00:00:00Z".to_owned(), 0),
        ("from=2001-01-01T00:00:00Z".to_owned(), 5),
    ] {
        assert_eq!(entries(http, &criteria).await.len(), wanted, "{criteria}");
    }
    for wrong in [
        "outcome=Maybe",
        "action=Dance",
        "from=yesterday",
        "before=x",
        "pageSize=0",
    ] {
        http.get(&format!("audit?{wrong}"))
            .await
            .assert_refused(400, "invalid-field");
    }
    let (status, headers, body) = http.download(&format!("audit/export?{route}"), None).await;
    assert_eq!(
        (status, headers["content-type"].to_str().unwrap()),
        (200, "application/jsonl")
    );
    let text = String::from_utf8(body).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, entries(http, route).await);
    // No secret is in it.
    let all = http.download("audit/export", None).await.2;
    assert!(!String::from_utf8(all).unwrap().contains(KEY));
}
