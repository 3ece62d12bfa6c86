//! A publish of a trigger for which the inbox keeps many events: it answers at once, and each event starts one instance.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::failpoints::INBOX_MATCH;
use crate::support::node::{Node, assert_invariants, wait_until_finished};
use crate::support::{Connection, Http, TIMEOUT, TestDatabase, poll_until};

fn definition() -> Value {
    json!({"definitionId": "paid", "root": {"type": "Elsa.Event", "id": "paid", "canStartWorkflow": true, "eventName":
        {"typeName": "String", "expression": {"type": "Literal", "value": "Paid"}}}})
}

/// Keeps so many events, each with a payload of its own; every second one has a correlation id.
async fn keep(http: &Http, client: &Connection, count: i64) {
    http.post("events/Paid/trigger", &json!({"input": {"n": 0}}))
        .await
        .expect(200);
    let copy = "INSERT INTO mainspring.inbox (tenant_id, hash, name, payload, correlation_id, expires_at)
                SELECT x.tenant_id, x.hash, x.name, json_build_object('n', n), CASE WHEN n % 2 = 0 THEN 'c' || n END,
                       x.expires_at
                FROM mainspring.inbox x, generate_series(1, $1::bigint - 1) n";
    client.execute(copy, &[&count]).await.unwrap();
}

async fn count(client: &Connection, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Waits until each kept event, and `later` others, have started one instance and all are finished.
async fn assert_each_started(database: &TestDatabase, client: &Connection, kept: i64, later: i64) {
    let expected = kept + later;
    poll_until(TIMEOUT, "all kept events to start", async || {
        let left = "SELECT (SELECT count(*) FROM mainspring.inbox) + (SELECT count(*) FROM mainspring.inbox_match)";
        (count(client, left).await == 0).then_some(())
    })
    .await;
    wait_until_finished(client, expected).await;
    let instances = "SELECT count(*) FROM mainspring.instance";
    let correlated = "SELECT count(DISTINCT correlation_id) FROM mainspring.instance";
    assert_eq!(count(client, instances).await, expected);
    assert_eq!(count(client, correlated).await, (kept - 1) / 2);
    assert_invariants(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_beside_many_kept_events_answers_at_once_and_each_starts_one_instance() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let node = Node::start(&database, "one");
    let http = node.http.as_ref().unwrap();
    keep(http, &client, 20_000).await;
    let began = Instant::now();
    http.post("workflow-definitions", &json!({"model": definition(), "publish": true}))
        .await
        .expect(200);
    let answered = began.elapsed();
    // An event after the publish starts at once; it is not kept.
    http.post("events/Paid/trigger", &json!({})).await.expect(200);
    assert_each_started(&database, &client, 20_000, 1).await;
    println!(
        "the publish answered after {answered:?}, all had finished after {:?}",
        began.elapsed()
    );
    assert!(answered < Duration::from_secs(5), "{answered:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_continues_what_a_killed_one_was_starting() {
    for point in INBOX_MATCH {
        let database = TestDatabase::create().await;
        let client = database.connect().await;
        let mut one = Node::start_armed(&database, "one", &format!("{point}=abort@2")).await;
        keep(one.http.as_ref().unwrap(), &client, 2_001).await;
        let body = json!({"model": definition(), "publish": true});
        let http = one.http.clone().unwrap();
        let published = http.send(reqwest::Method::POST, "workflow-definitions", &[], Some(&body));
        // Without an answer it is committed all the same: the pages come after.
        let _ = published.await;
        poll_until(TIMEOUT, "the armed node to die", async || {
            one.child.has_ended().then_some(())
        })
        .await;
        let begun = "SELECT count(*) FROM mainspring.inbox_match WHERE cursor > 0";
        assert_eq!(count(&client, begun).await, 1);
        let _two = Node::start(&database, "two");
        assert_each_started(&database, &client, 2_001, 0).await;
    }
}
