//! Behind a proxy, a node knows its clients, and no client can name another address than its own.

use std::net::IpAddr;

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use crate::support::haproxy::HaProxy;
use crate::support::node::Node;
use crate::support::single_node::KEY;
use crate::support::{TIMEOUT, TestDatabase, client_builder};

/// A client whose connections come from an address of its own.
fn client(address: &str) -> Client {
    let address: IpAddr = address.parse().unwrap();
    client_builder()
        .local_address(address)
        .timeout(TIMEOUT)
        .build()
        .unwrap()
}

/// Publishes a workflow that answers who has called it.
async fn publish(base: &str) {
    let model = json!({"definitionId": "who", "root": {"id": "steps", "type": "Elsa.Sequence", "activities": [
        {"id": "in", "type": "Elsa.HttpEndpoint", "path": "who", "customProperties": {"canStartWorkflow": true},
         "result": {"typeName": "Object", "memoryReference": {"id": "request"}}},
        {"id": "out", "type": "Elsa.WriteHttpResponse", "content": {"typeName": "Object", "expression":
            {"type": "JavaScript", "value": "[getRequest().RemoteIpAddress, getRequest().Scheme]"}}},
    ]}, "variables": [{"id": "request", "name": "Request", "typeName": "Object"}]});
    let save = client("127.0.0.1").post(format!("{base}/elsa/api/workflow-definitions"));
    let save = save.header("authorization", format!("ApiKey {KEY}"));
    let saved = save
        .json(&json!({"model": model, "publish": true}))
        .send()
        .await
        .unwrap();
    assert_eq!(saved.status(), StatusCode::OK, "{}", saved.text().await.unwrap());
}

/// Who a workflow finds that it was called by, and over which scheme.
async fn seen(client: &Client, base: &str, headers: &[(&str, &str)]) -> Value {
    let request = client.get(format!("{base}/workflows/who"));
    let request = headers
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value));
    request.send().await.unwrap().json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_behind_haproxy_knows_its_clients() {
    let database = TestDatabase::create().await;
    let settings = ["--trusted-proxy", "127.0.0.1", "--api-key", KEY];
    let node = Node::start_with(&database, "one", &settings, "");
    let direct = format!("http://{}", node.http.as_ref().unwrap().address());
    publish(&direct).await;
    let proxy = HaProxy::start(&["one"]).await;
    proxy.serve(&node);
    proxy.waits_for(1).await;
    let base = format!("http://{}", proxy.address());
    let (near, far) = (client("127.0.0.2"), client("127.0.0.3"));
    assert_eq!(seen(&near, &base, &[]).await, json!(["127.0.0.2", "http"]));
    assert_eq!(seen(&far, &base, &[]).await, json!(["127.0.0.3", "http"]));
    // What a client says of itself is in front of what its proxy says, in a field of its own or in the same one.
    for forged in ["198.51.100.1", "198.51.100.1, 127.0.0.1", "unknown", "\"", ","] {
        assert_eq!(
            seen(
                &near,
                &base,
                &[("x-forwarded-for", forged), ("forwarded", "for=198.51.100.2")]
            )
            .await[0],
            "127.0.0.2",
            "{forged}"
        );
    }
    assert_eq!(
        seen(&near, &base, &[("x-forwarded-proto", "https")]).await,
        json!(["127.0.0.2", "https"])
    );
    // Without the proxy nothing is read.
    let headers = [("x-forwarded-for", "198.51.100.1"), ("x-forwarded-proto", "https")];
    assert_eq!(seen(&near, &direct, &headers).await, json!(["127.0.0.2", "http"]));
    // The log names who has shown a wrong key, and not the proxy.
    let wrong = far.get(format!("{base}/elsa/api/workflow-definitions"));
    let wrong = wrong.header("authorization", "ApiKey wrong").send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    node.child.wait_for_log("127.0.0.3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_trusts_everybody_is_warned_of_and_one_that_is_none_is_refused() {
    let database = TestDatabase::create().await;
    let settings = ["--trusted-proxy", "0.0.0.0/0", "--trusted-proxy-header", "forwarded"];
    let node = Node::start_with(&database, "one", &settings, "");
    node.child
        .wait_for_log("--trusted-proxy has a network of all addresses")
        .await;
    let base = format!("http://{}", node.http.as_ref().unwrap().address());
    publish(&base).await;
    let headers = [
        ("forwarded", "for=\"[2001:db8::1]:80\";proto=https"),
        ("x-forwarded-for", "198.51.100.1"),
    ];
    assert_eq!(
        seen(&client("127.0.0.2"), &base, &headers).await,
        json!(["2001:db8::1", "https"])
    );
    let arguments = ["--trusted-proxy", "proxy.internal"];
    let mut refused = crate::support::node::spawn("postgres://127.0.0.1:1/nowhere", "two", &arguments, &[]);
    assert_eq!(refused.wait(TIMEOUT).code(), Some(2));
    assert!(refused.logs("give the address of a proxy, or a network"));
}
