//! What the audit has of attempts at resume links, and the lists of both.

use std::time::Instant;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::links::Pair;
use crate::support::node::assert_invariants;
use crate::support::single_node::waits_for;
use crate::support::{Http, LONG_TIMEOUT, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_cannot_be_used_is_refused_before_its_body_and_noted_within_bounds() {
    let pair = Pair::start().await;
    let id = pair.waiting("w", json!([waits_for("A")])).await;
    let (link, path) = pair.link(&id, json!({})).await;
    let (other, _) = pair.link(&id, json!({})).await;
    pair.one.post(&path, &json!({})).await.expect(200);
    for _ in 0..30 {
        // A body that is refused is not read.
        pair.two
            .post(&path, &json!({"input": 7}))
            .await
            .assert_refused(410, "link-used");
    }
    let attempts = pair.attempts(&link).await;
    assert_eq!(attempts, [&["Accepted"][..], &["Used"; 10]].concat());
    let list = async |query: String| {
        let path = format!("workflow-instances/{id}/resume-links?{query}");
        pair.api.get(&path).await.expect(200)
    };
    let first = list("pageSize=1".to_owned()).await;
    assert_eq!(
        (&first["items"][0]["id"], &first["next"]),
        (&json!(other), &json!(other)),
        "the newest first"
    );
    let rest = list(format!("before={other}")).await;
    assert_eq!(rest["items"][0]["id"], link);
    assert!(rest.get("next").is_none());
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_links_to_one_bookmark_the_audit_tells_which_came_too_late() {
    let pair = Pair::start().await;
    pair.waiting("w", json!([waits_for("A")])).await;
    for _ in 0..5 {
        let id = pair.started("w").await;
        let links = [pair.link(&id, json!({})).await, pair.link(&id, json!({})).await];
        let uses = links.iter().zip([&pair.one, &pair.two]);
        let uses = uses.map(async |((_, path), http)| http.post(path, &json!({})).await.status);
        let statuses = futures_util::future::join_all(uses).await;
        let mut sorted = statuses.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [200, 410]);
        for ((link, _), status) in links.iter().zip(statuses) {
            let last = pair.attempts(link).await.pop();
            assert_eq!(last.as_deref(), Some(if status == 200 { "Accepted" } else { "Ended" }));
        }
    }
    assert_invariants(&pair.database).await;
}

/// The head of a POST to a link, whose body is still to come.
async fn head(http: &Http, path: &str) -> TcpStream {
    let address = http.address();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let fields = "Content-Type: application/json\r\nContent-Length: 2";
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_use_whose_client_is_gone_keeps_its_place() {
    /// The places of requests with a link at one node.
    const PLACES: usize = 16;
    let pair = Pair::start_with(&["--max-requests", "16"]).await;
    let id = pair.waiting("w", json!([waits_for("A")])).await;
    let (link, path) = pair.link(&id, json!({})).await;
    let mut client = pair.database.connect().await;
    let locked = client.transaction().await.unwrap();
    let row = "SELECT 1 FROM mainspring.resume_link FOR UPDATE";
    locked.execute(row, &[]).await.unwrap();
    let mut used = head(&pair.one, &path).await;
    used.write_all(b"{}").await.unwrap();
    let observer = pair.database.connect().await;
    let waits = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%resume_link%'";
    wait_until("the use to wait for the link", async || {
        observer.count(waits).await == 1
    })
    .await;
    // The node closes the connection once it has dropped the request.
    used.shutdown().await.unwrap();
    assert_eq!(used.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    let mut others = Vec::new();
    for _ in 1..PLACES {
        others.push(head(&pair.one, &path).await);
    }
    let deadline = Instant::now() + LONG_TIMEOUT;
    // The page may take the place of one of the others, which is then refused.
    while pair.one.get(&path).await.status != 503 {
        assert!(Instant::now() < deadline, "the use holds no place");
        others.push(head(&pair.one, &path).await);
    }
    locked.rollback().await.unwrap();
    drop(others);
    // The others may be noted later: their bodies are cut.
    wait_until("the use to be accepted", async || {
        pair.attempts(&link).await.iter().any(|outcome| outcome == "Accepted")
    })
    .await;
    wait_until("a place to be free", async || pair.one.get(&path).await.status != 503).await;
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_is_read_page_by_page() {
    let pair = Pair::start().await;
    let id = pair.waiting("w", json!([waits_for("A")])).await;
    let (link, path) = pair.link(&id, json!({})).await;
    for _ in 0..7 {
        pair.one.post(&path, &json!({})).await;
    }
    let (mut seen, mut next) = (Vec::new(), None);
    loop {
        let before = next.map_or(String::new(), |next: i64| format!("&before={next}"));
        let page = pair
            .api
            .get(&format!("audit?pageSize=3&linkId={link}{before}"))
            .await
            .expect(200);
        let items = page["items"].as_array().unwrap();
        assert!((1..=3).contains(&items.len()));
        seen.extend(items.iter().map(|item| item["id"].as_i64().unwrap()));
        next = page["next"].as_i64();
        if next.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.windows(2).all(|two| two[0] > two[1]), "{seen:?}");
    assert_eq!(pair.one.get("audit").await.status, 401);
    assert_invariants(&pair.database).await;
}
