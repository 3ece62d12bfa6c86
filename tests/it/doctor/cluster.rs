//! Nodes that are missing, lost, wrong about the time, of another version, or set up in another way.

use super::{assert_finds, assert_silent, examine, of};
use crate::support::node::Node;
use crate::support::{Clock, TIMEOUT, TestDatabase, command, poll_until};

/// A live node that is only a row.
const LIVE: &str = "INSERT INTO mainspring.node (incarnation, node_id, tolerance, facts)
                    VALUES (71, 'seven', '1 hour', '{\"version\": \"0.0.9\", \"connections\": 20, \"workers\": 8}')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_without_a_role_is_found() {
    let database = TestDatabase::create().await;
    let found = examine(&database);
    assert_finds(&found, "missing-roles", &["no live node runs workflows"]);
    assert_finds(&found, "missing-roles", &["no live node serves the API"]);
    let _api = Node::start_with(&database, "api", &["--check-in", "200ms", "--workers", "0"], "");
    let found = examine(&database);
    assert_eq!(of(&found, "missing-roles").len(), 1, "{found:#}");
    assert_finds(&found, "missing-roles", &["no live node runs workflows"]);
}

#[tokio::test]
async fn nodes_that_are_expired_hung_or_not_removed_are_found() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    client.run(LIVE).await;
    assert_silent(&examine(&database), "lost-nodes");
    client
        .run(
            "UPDATE mainspring.node SET hung = true;
             INSERT INTO mainspring.node (incarnation, node_id, tolerance, last_seen) VALUES (72, 'eight', '1 s', now() - interval '1 hour');
             INSERT INTO mainspring.removed_node (incarnation, node_id, crashed, removed_at)
                 VALUES (73, 'nine', true, now() - interval '1 hour')",
        )
        .await;
    let found = examine(&database);
    assert_finds(&found, "lost-nodes", &["seven", "71", "hangs"]);
    assert_finds(&found, "lost-nodes", &["eight", "has not checked in"]);
    assert_finds(&found, "lost-nodes", &["nine", "claims are not released"]);
}

/// Real nodes, one of which takes the time for an hour later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_another_clock_is_found() {
    let database = TestDatabase::create().await;
    let _right = Node::start(&database, "right");
    let clock = Clock::new("+0s");
    let _wrong = clock.node(&database, "wrong");
    assert_silent(&examine(&database), "clocks");
    clock.set("+3600s");
    let found = poll_until(TIMEOUT, "a check-in by the other clock", async || {
        let found = examine(&database);
        (!of(&found, "clocks").is_empty()).then_some(found)
    })
    .await;
    assert_finds(&found, "clocks", &["node wrong", "s ahead of the database's"]);
    assert_eq!(of(&found, "clocks").len(), 1, "{found:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_other_settings_or_of_another_version_are_found() {
    let database = TestDatabase::create().await;
    let key = |key: &'static str| ["--check-in", "200ms", "--api-key", key];
    let _one = Node::start_with(&database, "one", &key("0123456789abcdef"), "");
    let found = examine(&database);
    assert_silent(&found, "settings");
    assert_silent(&found, "versions");
    let other = [&key("fedcba9876543210")[..], &["--value-kib", "512"]].concat();
    let _two = Node::start_with(&database, "two", &other, "");
    let found = examine(&database);
    assert_finds(
        &found,
        "settings",
        &["value-kib differs", "one has 1024", "two has 512"],
    );
    let digests = assert_finds_without(&found, "api-key differs: nodes one, two");
    assert!(!digests.contains("0123456789abcdef"), "{digests}");
    let older = "UPDATE mainspring.node SET facts = jsonb_set(facts::jsonb, '{version}', '\"0.0.9\"')::json WHERE node_id = 'two'";
    database.connect().await.run(older).await;
    assert_finds(&examine(&database), "versions", &["0.0.9 (two)", "(one)"]);
}

/// What the finding on a setting says, which shows no value.
fn assert_finds_without(found: &serde_json::Value, what: &str) -> String {
    assert_finds(found, "settings", &[what]);
    found.to_string()
}

#[tokio::test]
async fn a_pause_is_found_with_its_reason_and_what_ends_it() {
    let database = TestDatabase::create().await;
    assert_silent(&examine(&database), "pause");
    let (code, printed) = command(&database, &["pause", "--reason", "the disk is moved"]);
    assert_eq!(code, Some(0), "{printed}");
    let remedy = assert_finds(&examine(&database), "pause", &["is paused by ", "the disk is moved"]);
    assert_eq!(remedy, "mainspring resume");
}

#[tokio::test]
async fn jobs_that_no_node_runs_are_found() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    client.run(LIVE).await;
    client
        .run("UPDATE mainspring.cluster_job SET next_run_at = now() + interval '1 minute'")
        .await;
    assert_silent(&examine(&database), "jobs");
    client.run("UPDATE mainspring.cluster_job SET next_run_at = now() - interval '1 hour' WHERE name = 'create-partitions'").await;
    assert_finds(&examine(&database), "jobs", &["create-partitions", "has not run"]);
}
