//! Reads have connections and bounds of their own: as many of them as clients send stop neither work nor reads by key.

use std::time::Duration;

use serde_json::json;

use crate::support::node::{Node, assert_invariants, publish};
use crate::support::single_node::waits_for;
use crate::support::{TIMEOUT, TestDatabase, poll_until};

/// More lists than run and wait at a time.
const LISTS: usize = 90;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_beyond_the_bound_are_refused_while_work_goes_on() {
    let database = TestDatabase::create().await;
    let node = Node::start_with(&database, "one", &[], "");
    let http = node.http.clone().unwrap();
    publish(&http).await;
    let ran = http.execute("walk", &json!({"input": {"n": 1}})).await;
    // Its executions have times, which a list reads.
    assert_eq!(ran["workflowState"]["subStatus"], "Suspended");
    let id = ran["workflowState"]["id"].as_str().unwrap().to_owned();
    // Only a list reads this table here, and it waits until it is cancelled.
    let mut client = database.connect().await;
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE mainspring.dead_letter IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let lists = (0..LISTS).map(|_| {
        let http = http.clone();
        tokio::spawn(async move { http.get("cluster/dead-letters").await })
    });
    let lists: Vec<_> = lists.collect();
    let mut codes = Vec::new();
    let meanwhile = async {
        for _ in 0..20 {
            http.execute("walk", &json!({"input": {"n": 1}})).await;
            http.get(&format!("workflow-instances/{id}")).await.expect(200);
        }
    };
    tokio::time::timeout(TIMEOUT, meanwhile)
        .await
        .expect("work and reads by key go on");
    for list in lists {
        let answer = tokio::time::timeout(Duration::from_secs(20), list)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (answer.status, answer.headers["retry-after"].to_str().unwrap()),
            (503, "1")
        );
        codes.push(answer.body["code"].as_str().unwrap().to_owned());
    }
    assert!(codes.iter().any(|code| code == "reads-busy"), "{codes:?}");
    assert!(codes.iter().any(|code| code == "read-timeout"), "{codes:?}");
    held.rollback().await.unwrap();
    // The connections of slow lists rest first.
    poll_until(TIMEOUT, "a list", async || {
        (http.get("cluster/dead-letters").await.status == 200).then_some(())
    })
    .await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_cannot_be_read_holds_up_no_state() {
    let database = TestDatabase::create().await;
    let node = Node::start_with(&database, "one", &[], "");
    let http = node.http.clone().unwrap();
    http.publish(&json!({"definitionId": "waits", "root": waits_for("Go")}))
        .await;
    http.execute("waits", &json!({})).await;
    let listed = http.get("workflow-instances").await.expect(200);
    let path = format!("workflow-instances/{}", listed["items"][0]["id"].as_str().unwrap());
    let has_times = async || {
        let instance = http.get(&path).await.expect(200);
        let contexts = instance["workflowState"]["activityExecutionContexts"].as_array();
        contexts.unwrap()[0].get("startedAt").is_some()
    };
    assert!(has_times().await);
    let mut client = database.connect().await;
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE mainspring.burst_record IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    assert!(!has_times().await);
    // What only wants to know how an instance is asks for no times at all.
    let resume = json!({"bookmarkId": "none"});
    let refused = http.post(&format!("{path}/resume"), &resume).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("already-resumed"))
    );
    held.rollback().await.unwrap();
    // The connection of a slow list rests first.
    poll_until(TIMEOUT, "the times", async || has_times().await.then_some(())).await;
    assert_invariants(&database).await;
}
