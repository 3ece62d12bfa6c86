//! Cancels and deletes of many instances: each is changed once, also when the node is killed that works on them.

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::failpoints::BULK_ACTION;
use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::waits_for;
use crate::support::{Connection, Http, LONG_TIMEOUT, TIMEOUT, TestDatabase, poll_until};

/// More than are changed at once, and than a page has.
const WAITING: i64 = 1100;

/// Starts so many instances of `crowd` and one of `other`, and waits until all wait.
async fn gather(http: &Http, client: &Connection) {
    for id in ["crowd", "other"] {
        http.publish(&json!({"definitionId": id, "root": waits_for("Open")}))
            .await;
    }
    http.dispatch("other", &json!({"instanceId": "other"})).await;
    let starts = futures_util::stream::iter(0..WAITING).map(|n| async move {
        http.dispatch(
            "crowd",
            &json!({"instanceId": format!("i{n}"), "correlationId": format!("c{n}")}),
        )
        .await;
    });
    starts.buffer_unordered(32).collect::<()>().await;
    poll_until(LONG_TIMEOUT, "all to wait", async || {
        let waiting = client.count("SELECT count(*) FROM mainspring.bookmark").await;
        (waiting == WAITING + 1).then_some(())
    })
    .await;
}

/// Sends a request to a node that dies while it is at it; then another one finishes. The finished action as that one shows it.
async fn killed_at(point: &str, path: &str, body: &Value) -> (TestDatabase, Connection, Node, Value) {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    // The first page has the starts that did not run yet: none here.
    let mut one = Node::start_armed(&database, "one", &format!("{point}=abort@2")).await;
    let http = one.http.clone().unwrap();
    gather(&http, &client).await;
    // It may die before it answers.
    let _ = http.send(Method::POST, path, &[], Some(body)).await;
    poll_until(TIMEOUT, "the armed node to die", async || {
        one.child.has_ended().then_some(())
    })
    .await;
    let unfinished = "SELECT count(*) FROM mainspring.bulk_action WHERE finished_at IS NULL";
    assert_eq!(client.count(unfinished).await, 1, "{point}");
    let two = Node::start_with(&database, "two", &["--check-in", "200ms"], "");
    let http = two.http.clone().unwrap();
    let listed = poll_until(LONG_TIMEOUT, "the bulk action to finish", async || {
        let listed = http.get("cluster/bulk-actions").await.expect(200);
        (listed["items"][0]["state"] == "finished").then_some(listed)
    })
    .await;
    assert_eq!(listed["totalCount"], 1);
    let action = listed["items"][0].clone();
    assert_eq!(
        (&action["processed"], &action["failed"]),
        (&json!(WAITING), &json!(0)),
        "{point}"
    );
    (database, client, two, action)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_finishes_the_bulk_delete_of_a_killed_one() {
    for point in BULK_ACTION {
        let body = json!({"workflowDefinitionIds": ["crowd"]});
        let (database, client, two, _) = killed_at(point, "bulk-actions/delete/workflow-instances", &body).await;
        for table in ["instance", "bookmark", "burst_record"] {
            let left = format!(
                "SELECT count(DISTINCT {}) FROM mainspring.{table}",
                if table == "instance" { "id" } else { "instance_id" }
            );
            assert_eq!(client.count(&left).await, 1, "{point} {table}");
        }
        let http = two.http.clone().unwrap();
        http.get("workflow-instances/other").await.expect(200);
        http.get("workflow-instances/i7").await.expect(404);
        assert_invariants(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_finishes_the_cancels_of_a_killed_one() {
    let body = json!({"alterations": [{"type": "Cancel"}], "filter": {"definitionIds": ["crowd"], "statuses": []}});
    let (database, client, two, action) = killed_at("bulk_action.written", "alterations/submit", &body).await;
    poll_until(LONG_TIMEOUT, "all to be cancelled", async || {
        let cancelled = "SELECT count(*) FROM mainspring.instance WHERE status = 1 AND sub_status = 4";
        (client.count(cancelled).await == WAITING).then_some(())
    })
    .await;
    assert_eq!(
        client.count("SELECT count(*) FROM mainspring.work").await,
        0,
        "each has one cancel"
    );
    let http = two.http.clone().unwrap();
    let plan = http
        .get(&format!("alterations/{}", action["id"].as_str().unwrap()))
        .await
        .expect(200);
    assert_eq!(plan["plan"]["status"], "Completed");
    assert_eq!(plan["plan"]["processed"], WAITING);
    assert_eq!(
        http.get("workflow-instances/other").await.body["subStatus"],
        "Suspended"
    );

    // What is not meant is refused by name.
    for (body, code) in [
        (
            json!({"alterations": [{"type": "Migrate"}], "filter": {}}),
            "not-supported",
        ),
        (json!({"alterations": [], "filter": {}}), "invalid-field"),
        (
            json!({"alterations": [{"type": "Cancel"}], "filter": {}}),
            "missing-field",
        ),
        (
            json!({"alterations": [{"type": "Cancel"}], "filter": {"activityFilters": [{}]}}),
            "not-supported",
        ),
        (
            json!({"alterations": [{"type": "Cancel"}], "filter": {"emptyFilterSelectsAll": true, "correlationIdz": ["none"]}}),
            "invalid-field",
        ),
    ] {
        let answer = http.post("alterations/submit", &body).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!(code)), "{body}");
    }
    http.get("alterations/none").await.expect(404);
    // A filter of the list: the other one has no correlation id, and continues.
    let body = json!({"alterations": [{"type": "Cancel"}], "filter": {"emptyFilterSelectsAll": true, "correlationIds": ["none"]}});
    let answer = http.post("alterations/submit", &body).await.expect(200);
    let path = format!("alterations/{}", answer["planId"].as_str().unwrap());
    poll_until(TIMEOUT, "the plan to end", async || {
        (http.get(&path).await.expect(200)["plan"]["status"] == "Completed").then_some(())
    })
    .await;
    assert_eq!(
        http.get("workflow-instances/other").await.body["subStatus"],
        "Suspended"
    );
    let all = json!({"alterations": [{"type": "Cancel"}], "filter": {"emptyFilterSelectsAll": true}});
    http.post("alterations/submit", &all).await.expect(200);
    http.instance_becomes("other", "Cancelled").await;
    assert_invariants(&database).await;
}

/// The search for what is meant has the time of a list; beyond it, the cancel continues as a bulk action.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_whose_instances_are_not_found_in_time_goes_on_after_its_answer() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let node = Node::start_with(&database, "one", &["--check-in", "200ms"], "");
    let http = node.http.clone().unwrap();
    http.publish(&json!({"definitionId": "few", "root": waits_for("Open")}))
        .await;
    http.dispatch("few", &json!({"instanceId": "i"})).await;
    http.instance_becomes("i", "Suspended").await;
    let mut blocker = database.connect().await;
    let blocked = blocker.transaction().await.unwrap();
    blocked
        .batch_execute("LOCK TABLE mainspring.instance IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let version = "SELECT version_id FROM mainspring.definition WHERE definition_id = 'few'";
    let version: String = client.query_one(version, &[]).await.unwrap().get(0);
    let body = json!({"definitionVersionId": version});
    let answer = http
        .post("bulk-actions/cancel/workflow-instances", &body)
        .await
        .expect(202);
    assert!(answer["planId"].is_string(), "{answer}");
    blocked.rollback().await.unwrap();
    http.instance_becomes("i", "Cancelled").await;
    assert_invariants(&database).await;
}
