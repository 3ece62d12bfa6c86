//! The keys that sign resume links: their rotation, and what becomes of the links of one that is deleted.

use serde_json::{Value, json};

use super::links::{Pair, waits_for};
use crate::support::node::assert_invariants;
use crate::support::{LONG_TIMEOUT, command, poll_until};

#[tokio::test(flavor = "multi_thread")]
async fn keys_rotate_and_a_key_that_is_deleted_ends_its_links() {
    let pair = Pair::start().await;
    let client = pair.database.connect().await;
    let id = pair
        .waiting("w", json!([waits_for("A"), waits_for("B"), waits_for("C")]))
        .await;
    let (_, first) = pair.link(&id, json!({})).await;
    let (_, lost) = pair.link(&id, json!({})).await;
    assert_eq!(pair.one.post("cluster/link-keys", &json!({})).await.status, 401);
    pair.api
        .delete("cluster/link-keys/1")
        .await
        .assert_refused(409, "key-signs");
    let made = pair.api.post("cluster/link-keys", &json!({})).await.expect(200);
    assert_eq!((&made["id"], &made["isNewest"]), (&json!(2), &json!(true)));
    // As it is after a minute: the node that has added it reads it again with the next one.
    let ages = "UPDATE mainspring.token_key SET created_at = created_at - interval '1 hour'";
    client.run(ages).await;
    pair.api.post("cluster/link-keys", &json!({})).await.expect(200);
    let (_, second) = pair.link(&id, json!({})).await;
    assert_ne!(first[..24], second[..24], "another key signs");
    // The other node reads the keys before one signs; here their age is made up.
    poll_until(LONG_TIMEOUT, "the other node to read the keys", async || {
        (pair.two.get(&second).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(pair.two.get(&first).await.status, 200);
    pair.two.post(&first, &json!({})).await.expect(200);
    pair.api
        .delete("cluster/link-keys/9")
        .await
        .assert_refused(404, "key-not-found");
    pair.api
        .delete("cluster/link-keys/x")
        .await
        .assert_refused(404, "key-not-found");
    pair.api
        .delete("cluster/link-keys/3")
        .await
        .assert_refused(409, "key-signs");
    pair.api
        .delete("cluster/link-keys/1")
        .await
        .assert_refused(409, "key-in-use");
    let forced = "cluster/link-keys/1?force=true";
    assert_eq!(pair.api.delete(forced).await.status, 204);
    let listed = pair
        .api
        .get(&format!("workflow-instances/{id}/resume-links"))
        .await
        .expect(200);
    let statuses = listed["items"].as_array().unwrap().iter();
    let statuses: Vec<&str> = statuses.map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == "Revoked").count(),
        2,
        "{listed}"
    );
    pair.one
        .post(&lost, &json!({}))
        .await
        .assert_refused(404, "no-such-link");
    // The other node still has the key until it reads the keys again; until then the database decides.
    poll_until(LONG_TIMEOUT, "the other node to forget the key", async || {
        let late = pair.two.post(&lost, &json!({})).await;
        assert!(late.status == 404 || late.body["code"] == "link-revoked", "{late:?}");
        (late.status == 404).then_some(())
    })
    .await;
    let (_, third) = pair.link(&id, json!({})).await;
    pair.two.post(&third, &json!({})).await.expect(200);
    let keys = pair.api.get("cluster/link-keys").await.expect(200);
    assert_eq!(keys["count"], 2);
    assert!(keys["items"][0].get("key").is_none());
    assert_invariants(&pair.database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_rotates_the_keys_without_a_node() {
    let pair = Pair::start().await;
    let client = pair.database.connect().await;
    let run = |arguments: &[&str]| command(&pair.database, &[&["link-keys"], arguments].concat());
    let (code, printed) = run(&["rotate"]);
    assert_eq!(code, Some(0));
    assert!(
        printed.starts_with("2  made 20") && printed.contains("signs new links"),
        "{printed}"
    );
    assert_eq!(run(&["retire", "1"]).0, Some(1), "the other one is too young");
    let id = pair.waiting("w", json!([waits_for("A"), waits_for("B")])).await;
    let (_, path) = pair.link(&id, json!({})).await;
    let ages = "UPDATE mainspring.token_key SET created_at = created_at - interval '1 hour'";
    client.run(ages).await;
    let (code, printed) = run(&["list", "--json"]);
    let listed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (code, &listed["count"], &listed["items"][0]["id"]),
        (Some(0), &json!(2), &json!(2))
    );
    assert_eq!(listed, pair.api.get("cluster/link-keys").await.expect(200));
    assert_eq!(run(&["retire", "1"]).0, Some(1), "a link of it can be used");
    let (code, printed) = run(&["retire", "1", "--force"]);
    assert_eq!(
        (code, printed.as_str()),
        (Some(0), "the key 1 verifies no link any more")
    );
    assert_eq!(run(&["list"]).1.lines().count(), 1);
    // No node has read the keys since: the database decides.
    let late = pair.one.post(&path, &json!({})).await;
    assert!(late.status == 404 || late.body["code"] == "link-revoked", "{late:?}");
    assert_invariants(&pair.database).await;
}
