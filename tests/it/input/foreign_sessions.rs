//! Locks of the engine that a role without rights on its schema holds are reported with their holder.

use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::support::node::{Node, assert_invariants, publish, send_event, spawn, start_walk, wait_until_finished};
use crate::support::{Server, TIMEOUT, TestDatabase, poll_until, wait_until};

/// Computes the key of a lock by its documented rule.
async fn lock_key(client: &Client, parts: &[&str]) {
    let key = "SELECT pg_advisory_lock(('x' || substr(encode(sha256(string_agg(
                   int8send(octet_length(p)) || convert_to(p, 'UTF8'), ''::bytea ORDER BY n)), 'hex'), 1, 16))::bit(64)::bigint)
               FROM unnest($1::text[]) WITH ORDINALITY u(p, n)";
    client.query(key, &[&parts]).await.unwrap();
}

fn names_holder(said: &str, process: i32) -> bool {
    said.contains(&process.to_string()) && said.contains("foreign_role")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_session_that_holds_a_lock_key_is_reported() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let node = Node::start(&database, "one");
    publish(node.http.as_ref().unwrap()).await;
    let owner = database.connect().await;
    let foreign_role = server.foreign_role(&database).await;
    let process: i32 = foreign_role
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0);
    // It calls itself a node.
    foreign_role
        .run(
            "SELECT set_config('application_name',
                               'mainspring/' || substr(encode(sha256('mainspring'), 'hex'), 1, 8) || '/1/one', false)",
        )
        .await;
    lock_key(&foreign_role, &["mainspring", "instance", "", "held"]).await;
    lock_key(&foreign_role, &["mainspring", "node", "two"]).await;
    let class =
        "SELECT pg_advisory_lock(('x' || substr(encode(sha256('mainspring'), 'hex'), 1, 8))::bit(32)::integer, 7)";
    foreign_role.query(class, &[]).await.unwrap();

    let http = node.http.clone();
    let mut next = || http.clone();
    start_walk(1, &json!({"instanceId": "held", "input": {"n": 1}}), &mut next).await;
    send_event(1, &mut next).await;
    // A list of locks names it, by the instance that waits for it, and one of those that nodes exclude each other with.
    poll_until(TIMEOUT, "the list of locks to name the holder", async || {
        let listed = node.http.as_ref()?.get("cluster/locks").await.expect(200);
        let items: Vec<Value> = listed["items"].as_array()?.clone();
        let foreign = |name: &str| {
            items.iter().any(|item| {
                item["foreign"]["processId"] == process
                    && item["foreign"]["user"] == "foreign_role"
                    && item["nodeId"].is_null()
                    && item["name"].as_str().is_some_and(|is| is.starts_with(name))
            })
        };
        (foreign("instance:held") && foreign("key:")).then_some(())
    })
    .await;
    wait_until("the log to name it", async || {
        let said = node.child.stderr();
        let named = said
            .iter()
            .filter(|line| line.contains("a foreign session holds a lock") && names_holder(line, process));
        named.count() >= 2
    })
    .await;
    // So does a node that cannot start for it.
    let settings = ["--tolerance", "1s", "--check-in", "200ms"];
    let mut second = spawn(&database.url(), "two", &settings, &[]);
    assert!(!second.wait(TIMEOUT).success());
    let said = second.stderr().join("\n");
    assert!(names_holder(&said, process), "{said}");
    // All continues as soon as it is gone.
    owner
        .query("SELECT pg_terminate_backend($1)", &[&process])
        .await
        .unwrap();
    wait_until_finished(&owner, 1).await;
    assert_invariants(&database).await;
}
