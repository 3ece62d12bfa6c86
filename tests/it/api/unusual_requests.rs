//! Requests that pass for others: paths that end in a dot, cookies of other servers. Each gets a clear answer, and none gets more
//! than it would get otherwise.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::single_node::{KEY, SingleNode};

/// Sends a request as it stands: clients clean up the paths that they send.
async fn answer(node: &SingleNode, method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = node.connect().await;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    // A head that is too large may be refused before it has been sent.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{path}: {text:?}")), text)
}

fn code_of(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    body["code"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_ends_in_a_dot_is_another_path() {
    let node = SingleNode::with_key(&[]).await;
    node.publish("dotted.", json!({"type": "Elsa.WriteLine", "id": "line", "text": "x"}))
        .await;
    let key = format!("Authorization: ApiKey {KEY}\r\n");
    // It is no way around the key, by a path that needs none.
    for path in [
        "/elsa/api/workflow-definitions.",
        "/elsa/api/workflow-definitions/.",
        "/elsa/api/./workflow-definitions",
        "/health/../elsa/api/workflow-definitions",
        "/health/live.",
        "/health/live/.",
        "/openapi.json.",
        "/openapi.",
        "/studio./index.html",
        "/studio/../elsa/api/workflow-definitions.",
        "/elsa/api/identity/users.",
    ] {
        let (status, text) = answer(&node, "POST", path, "Content-Length: 0\r\n").await;
        assert_eq!((status, code_of(&text)), (401, json!("unauthorized")), "{path}: {text}");
    }
    for (path, status, code) in [
        ("/elsa/api/workflow-definitions.", 404, "no-such-route"),
        ("/elsa/api/./workflow-definitions", 404, "no-such-route"),
        ("/health/live.", 404, "no-such-route"),
        ("/openapi.json.", 404, "no-such-route"),
        ("/elsa/api/workflow-definitions/dotted", 404, "definition-not-found"),
        ("/elsa/api/workflow-definitions/.", 404, "definition-not-found"),
        ("/elsa/api/workflow-definitions/..", 404, "definition-not-found"),
    ] {
        let (found, text) = answer(&node, "GET", path, &key).await;
        assert_eq!((found, code_of(&text)), (status, json!(code)), "{path}: {text}");
    }
    // A dot at the end of an id belongs to the id.
    let (found, text) = answer(&node, "GET", "/elsa/api/workflow-definitions/dotted.", &key).await;
    assert!(found == 200 && text.contains("\"definitionId\":\"dotted.\""), "{text}");
    // Studio and workflows have no such file and no such route, and a link with it is not that link.
    for path in [
        "/studio/.",
        "/studio/index.html.",
        "/studio/../Cargo.toml",
        "/workflows/none.",
    ] {
        let (found, text) = answer(&node, "GET", path, "").await;
        assert_eq!(found, 404, "{path}: {text}");
    }
    let (found, text) = answer(&node, "GET", "/workflows/resume/abc.", "").await;
    assert!((400..500).contains(&found), "{text}");
    // Nor is a name with a dot at its end another host.
    let (found, _) = answer(&node, "GET", "/openapi.json", "").await;
    assert_eq!(found, 200);
    let head = "GET /openapi.json HTTP/1.1\r\nConnection: close\r\nHost: ";
    assert!(
        node.head_of(&format!("{head}localhost.\r\n\r\n"))
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    assert!(
        node.head_of(&format!("{head}localhost..\r\n\r\n"))
            .await
            .starts_with("HTTP/1.1 403 ")
    );
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jar_of_cookies_is_no_credential_and_no_obstacle() {
    let node = SingleNode::with_key(&[]).await;
    let path = "/elsa/api/workflow-definitions";
    // Cookies of one host go to all its ports, so a browser brings those of other servers along.
    let jar = format!(
        "Cookie: .AspNetCore.Cookies=CfDJ8; access_token={KEY}; Authorization=ApiKey {KEY}; apiKey={KEY}; a; =b; \u{e9}=\"\r\n"
    );
    let (status, text) = answer(&node, "GET", path, &jar).await;
    assert_eq!((status, code_of(&text)), (401, json!("unauthorized")), "{text}");
    let key = format!("Authorization: ApiKey {KEY}\r\n");
    let (status, text) = answer(&node, "GET", path, &(jar.clone() + &jar + &key)).await;
    assert_eq!(status, 200, "{text}");
    assert!(!text.to_ascii_lowercase().contains("set-cookie"), "{text}");
    // A jar beyond the bytes of a head.
    let large = format!("Cookie: a={}\r\n{key}", "x".repeat(200_000));
    let (status, text) = answer(&node, "GET", path, &large).await;
    assert_eq!(status, 431, "{text}");
    assert_eq!(answer(&node, "GET", path, &key).await.0, 200);
}
