//! One event that very many instances wait for.

use futures_util::StreamExt;
use serde_json::json;

use crate::support::node::{Node, assert_invariants};
use crate::support::{TIMEOUT, TestDatabase, assert_fields, long, poll_until, wait_until};

const WAITING: usize = 1500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_with_thousands_of_waiting_instances_is_run_by_all_nodes() {
    let database = TestDatabase::create().await;
    let nodes = ["one", "two", "three"].map(|name| Node::start_with(&database, name, &["--workers", "16"], ""));
    let http = nodes[0].http.clone().unwrap();
    let definition = json!({"definitionId": "crowd", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Event", "id": "gate", "eventName": "Open"},
        {"type": "Elsa.WriteLine", "id": "say", "text": "passed"}]}});
    http.publish(&definition).await;
    let starts = futures_util::stream::iter(0..WAITING).map(|n| {
        let http = nodes[n % 3].http.clone().unwrap();
        async move {
            http.dispatch("crowd", &json!({})).await;
        }
    });
    starts.buffer_unordered(32).collect::<()>().await;
    let client = database.connect().await;
    let count = async |query: &str| client.count(query).await;
    wait_until("all to wait", async || {
        count("SELECT count(*) FROM mainspring.bookmark").await == WAITING as i64
    })
    .await;

    http.trigger("Open", &json!({})).await;
    poll_until(TIMEOUT * 2, "all to pass", async || {
        let finished = count("SELECT count(*) FROM mainspring.instance WHERE status = 1 AND sub_status = 3").await;
        (finished == WAITING as i64).then_some(())
    })
    .await;
    // As operators see it.
    let listed = poll_until(TIMEOUT, "the fan-out to finish", async || {
        let listed = http.get("cluster/fan-outs").await.expect(200);
        (listed["items"][0]["state"] == "finished").then_some(listed)
    })
    .await;
    let fan_out = &listed["items"][0];
    assert_fields!(fan_out, {"activityTypeName": "Elsa.Event", "correlationId": null, "workflowInstanceId": null,
        "state": "finished", "resumed": WAITING, "started": 0, "leftAtMost": 0});
    let times = ["acceptedAt", "beganAt", "finishedAt"].map(|field| fan_out[field].as_str().unwrap_or_default());
    assert!(!times[0].is_empty() && times.is_sorted(), "{fan_out}");
    assert!(fan_out["perSecond"].as_f64().unwrap() > 1.0, "{fan_out}");
    assert_eq!(listed["totalCount"], 1);
    // Once each, and every node took part.
    let passed = |node: &Node| node.child.stdout().iter().filter(|line| *line == "passed").count();
    let said = || nodes.iter().map(passed).collect::<Vec<usize>>();
    wait_until("all messages to be logged", async || {
        said().iter().sum::<usize>() >= WAITING
    })
    .await;
    let said = said();
    assert_eq!(said.iter().sum::<usize>(), WAITING, "{said:?}");
    // On a busy machine one of them may be late to take its share.
    let least = if long() { WAITING / 30 } else { 0 };
    assert!(said.iter().all(|share| *share > least), "{said:?}");
    println!("shares of the nodes: {said:?}");
    let kept = "SELECT (SELECT count(*) FROM mainspring.work) + (SELECT count(*) FROM mainspring.inbox)";
    assert_eq!(count(kept).await, 0);
    assert_invariants(&database).await;
}
