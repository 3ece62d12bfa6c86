//! A hundred starts at once on three nodes, and exactly as many instances as the activation strategy allows.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants, wait_until_finished};
use crate::support::single_node::literal;
use crate::support::{Gate, Http, TestDatabase, wait_until};

const STARTS: usize = 100;

/// The name that a designer offers for a strategy, and writes into the definition.
async fn offered(http: &Http, strategy: &str) -> String {
    let offered = http.get("descriptors/workflow-activation-strategies").await.expect(200);
    let items = offered["items"].as_array().unwrap().clone();
    assert_eq!((items.len(), &offered["count"]), (4, &json!(4)), "{offered}");
    let shown = |item: &Value| {
        ["displayName", "description"]
            .iter()
            .all(|field| item[field].as_str().is_some_and(|text| !text.is_empty()))
    };
    assert!(items.iter().all(shown), "{offered}");
    let names: Vec<&str> = items.iter().map(|item| item["typeName"].as_str().unwrap()).collect();
    let wanted = format!(".{strategy}Strategy, ");
    let mut found = names.iter().filter(|name| name.contains(&wanted));
    found.next().expect(strategy).to_string()
}

async fn publish(http: &Http, id: &str, strategy: &str) {
    let definition = json!({
        "definitionId": id,
        "options": {"activationStrategyType": offered(http, strategy).await},
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.WriteLine", "id": "say", "text": literal("here")},
            {"type": "Elsa.Event", "id": "wait", "eventName": literal("end")}
        ]}
    });
    http.publish(&definition).await;
}

/// Starts through one of the routes; whether it was allowed.
async fn start(http: &Http, route: usize, id: &str, correlation: Option<&str>) -> bool {
    let body = json!({"correlationId": correlation, "definitionId": id});
    let path = match route % 3 {
        0 => format!("workflow-definitions/{id}/execute"),
        1 => format!("workflow-definitions/{id}/dispatch"),
        _ => "workflow-instances".to_owned(),
    };
    let answer = http.post(&path, &body).await;
    if route.is_multiple_of(3) {
        assert_eq!(answer.status, 200, "{}", answer.body);
        let refused = answer.header("x-elsa-workflow-cannot-start") == "True";
        assert_eq!(refused, answer.body == Value::Null, "{}", answer.body);
        return !refused;
    }
    match answer.status {
        200 => true,
        409 => {
            assert_eq!(answer.body["code"], "cannot-start");
            false
        }
        status => panic!("{status}: {}", answer.body),
    }
}

/// Starts a hundred at once, spread over nodes and routes; how many were allowed.
async fn start_many(nodes: &[Http], ids: &[&str], correlations: &[Option<&str>]) -> usize {
    let starts = (0..STARTS).map(|n| {
        let (node, id) = (&nodes[n % nodes.len()], ids[n % ids.len()]);
        start(node, n / 3, id, correlations[n % correlations.len()])
    });
    join_all(starts).await.into_iter().filter(|allowed| *allowed).count()
}

async fn exactly(strategy: &str, ids: &[&str], correlations: &[Option<&str>], wanted: usize) {
    let database = TestDatabase::create().await;
    let nodes: Vec<Node> = ["one", "two", "three"]
        .into_iter()
        .map(|name| Node::start(&database, name))
        .collect();
    let clients: Vec<Http> = nodes.iter().map(|node| node.http.clone().unwrap()).collect();
    let client = database.connect().await;
    for id in ids {
        publish(&clients[0], id, strategy).await;
    }
    for round in 1..=2 {
        assert_eq!(start_many(&clients, ids, correlations).await, wanted, "{strategy}");
        client.wait_for_rows("bookmark", wanted as i64).await;
        let instances = client.rows("instance").await;
        assert_eq!(instances, (wanted * round) as i64, "{strategy}");
        assert_invariants(&database).await;
        // They end, and new ones may start.
        clients[2].trigger("end", &json!({})).await;
        wait_until_finished(&client, instances).await;
    }
    let held = client.rows("activation").await;
    assert_eq!(held, 0, "{strategy}");
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn always_allows_every_start() {
    exactly("AllowAlways", &["a"], &[None, Some("x")], STARTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_singleton_runs_once() {
    exactly("Singleton", &["s"], &[None, Some("x"), Some("y")], 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correlated_singleton_runs_once_per_definition_and_correlation() {
    // 7 correlation ids, each with both definitions.
    let ids = ["a", "b", "c", "d", "e", "f", "g"].map(Some);
    exactly("CorrelatedSingleton", &["s", "t"], &ids, 14).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correlation_runs_once_whatever_the_definition() {
    let ids = ["a", "b", "c", "d", "e", "f", "g"].map(Some);
    exactly("Correlation", &["s", "t"], &ids, 7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_singleton_whose_node_is_killed_keeps_its_key_until_it_ends_on_another_node() {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let mut one = Node::start_armed(&database, "one", &gate.stalls("burst.after")).await;
    let two = Node::start(&database, "two");
    let (first, other) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    publish(&first, "s", "Singleton").await;
    // An execute is run by the node that accepts it.
    let lost = tokio::spawn(async move {
        let path = "workflow-definitions/s/execute";
        first.send(reqwest::Method::POST, path, &[], Some(&json!({}))).await
    });
    gate.reached().await;
    assert!(!start(&other, 1, "s", None).await, "it runs on the other node");
    one.child.kill9();
    lost.await.unwrap().unwrap_err();
    let client = database.connect().await;
    wait_until("the instance to wait on the other node", async || {
        assert!(!start(&other, 1, "s", None).await, "its key is held all the time");
        client.rows("bookmark").await == 1
    })
    .await;
    other.trigger("end", &json!({})).await;
    wait_until_finished(&client, 1).await;
    assert_eq!(
        client
            .rows("journal WHERE activity_id = 'say' AND event_name = 'Completed'")
            .await,
        1
    );
    assert!(start(&other, 0, "s", None).await, "it ended, so another may start");
    assert_eq!(client.rows("instance").await, 2);
    assert_invariants(&database).await;
}
