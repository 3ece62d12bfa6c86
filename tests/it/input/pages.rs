//! A web page cannot control a node that requires no key.

use reqwest::Method;
use serde_json::json;

use crate::support::Http;
use crate::support::single_node::{SingleNode, literal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_acts_on_a_node_without_a_key() {
    let node = SingleNode::start(&[
        "--listen",
        "0.0.0.0:0",
        "--allow-anonymous",
        "--allowed-host",
        "studio.example",
    ])
    .await;
    let warned = node.child.stderr().join("\n");
    assert!(warned.contains("--allow-anonymous"), "{warned}");
    node.publish(
        "hello",
        json!({"id": "w", "type": "Elsa.WriteLine", "text": literal("driven")}),
    )
    .await;
    let http = Http::new(&format!("http://{}", node.address));
    let path = "workflow-definitions/hello/execute";
    let own = format!("http://{}", node.address);
    let evil = ("origin", "http://evil.example");
    for (method, header, code) in [
        // An img tag of a page, over plain HTTP: the browser sends no origin.
        (Method::GET, ("accept", "image/avif,image/webp,*/*"), "header-required"),
        (Method::GET, ("referer", "http://evil.example/"), "header-required"),
        (Method::GET, ("sec-fetch-site", "cross-site"), "cross-site-request"),
        (Method::GET, evil, "cross-site-request"),
        // A link in a mail.
        (Method::GET, ("sec-fetch-site", "none"), "header-required"),
        // Another program under an admitted name serves this page.
        (
            Method::POST,
            ("origin", "http://studio.example:3000"),
            "cross-site-request",
        ),
        (Method::POST, ("origin", "https://studio.example"), "cross-site-request"),
        (Method::POST, evil, "cross-site-request"),
        (Method::POST, ("origin", "null"), "cross-site-request"),
        (Method::POST, ("sec-fetch-site", "same-site"), "cross-site-request"),
        (Method::PUT, evil, "cross-site-request"),
        (Method::PATCH, evil, "cross-site-request"),
        (Method::DELETE, evil, "cross-site-request"),
    ] {
        let answer = http.send(method.clone(), path, &[header], None).await.unwrap();
        answer.assert_refused(403, code);
    }
    let list = http.get("workflow-instances").await.expect(200);
    assert_eq!(list["totalCount"], 0);
    for (method, headers) in [
        (Method::GET, vec![("sec-fetch-site", "same-origin")]),
        (Method::GET, vec![("x-requested-with", "curl")]),
        (Method::POST, vec![("origin", own.as_str())]),
        (
            Method::POST,
            vec![("host", "studio.example"), ("origin", "https://studio.example")],
        ),
        (Method::POST, vec![]),
    ] {
        let answer = http.send(method.clone(), path, &headers, None).await.unwrap();
        assert_eq!(answer.status, 200, "{method} {headers:?}: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_key_a_plain_get_acts() {
    let node = SingleNode::with_key(&[]).await;
    node.publish(
        "hello",
        json!({"id": "w", "type": "Elsa.WriteLine", "text": literal("driven")}),
    )
    .await;
    node.http.get("workflow-definitions/hello/execute").await.expect(200);
}
