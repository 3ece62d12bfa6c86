//! Clusters that are broken on purpose.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

use super::false_proxy::{FalseProxy, Resume};
use super::{Folder, Validation, urls};
use crate::support::node::{NAMES, Node, start_three};
use crate::support::{Connection, TestDatabase, assert_contains};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_urls_of_one_node_are_not_three_nodes() {
    let database = TestDatabase::create().await;
    let nodes = [Node::start(&database, "one")];
    let one = urls(&nodes);
    let validation = Validation::of(&[one.clone(), one.clone(), one].concat(), &["--points", "1"]);
    let reasons = [
        "lead to the same node, one",
        "asks for 3 distinct nodes, and the URLs lead to 1",
    ];
    validation.assert_failed(1, &reasons);
    // It is the only reason: its resumes run once.
    let (_, found) = validation.point(1);
    assert_eq!(found.lines().count(), 3, "{found}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_two_databases_are_two_clusters() {
    let (database, other) = (TestDatabase::create().await, TestDatabase::create().await);
    let nodes = [
        Node::start(&database, "one"),
        Node::start(&database, "two"),
        Node::start(&other, "three"),
    ];
    let validation = Validation::of(&urls(&nodes), &["--points", "1,3"]);
    validation.assert_failed(1, &["does not list three at ", "they are of two clusters"]);
    validation.assert_failed(3, &["404 definition-not-found"]);
}

/// Each kind of proxy stands in front of all nodes, so that the resume that runs passes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_changes_resumes_fails_the_first_point() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    for (resume, reasons) in [
        (
            Resume::Repeated,
            &["0 of 30 resumes say that they ran it, and 30 that it was resumed already"][..],
        ),
        (
            Resume::Swallowed,
            &[
                "30 of 30 resumes failed",
                "is Suspended after its resumes, not Finished",
            ],
        ),
        (
            Resume::Pretended,
            &[
                "30 of 30 resumes say that they ran it",
                "is Suspended after its resumes, not Finished",
            ],
        ),
    ] {
        let mut proxies = Vec::new();
        for node in &nodes {
            proxies.push(FalseProxy::start(node.http.as_ref().unwrap().address(), resume).await);
        }
        let addresses: Vec<String> = proxies.iter().map(FalseProxy::url).collect();
        let validation = Validation::of(&addresses, &["--points", "1"]);
        validation.assert_failed(1, reasons);
        let (_, found) = validation.point(1);
        assert!(!found.contains("distinct nodes"), "{resume:?}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_worker_no_timer_fires() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &["--workers", "0"]);
    let validation = Validation::of(&urls(&nodes), &["--points", "2", "--timer", "1s"]);
    let reasons = [
        "30 of 30 timers have not fired 30 s after their time; does a node have the roles worker and scheduler?",
        "no node has run it",
    ];
    validation.assert_failed(2, &reasons);
}

/// One node hears nothing of the changes at others, and its check-ins, which find them out, are rare.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_cache_is_named_with_its_node() {
    let database = TestDatabase::create().await;
    let settings = ["--check-in", "20s", "--tolerance", "70s"];
    let failpoints = ["", "", "signal.lost=error"];
    let nodes = [0, 1, 2].map(|slot| Node::start_with(&database, NAMES[slot], &settings, failpoints[slot]));
    let validation = Validation::of(&urls(&nodes), &["--points", "3"]);
    validation.assert_failed(
        3,
        &[
            "three still shows version 1, 2 s after two had published version 2: its cache is stale",
            "three still shows version 3, 2 s after one had published version 4",
        ],
    );
    let (_, found) = validation.point(3);
    assert!(
        !found.contains("started version") && !found.contains("one still") && !found.contains("two still"),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_command_that_fails_or_stops_two_nodes_is_named() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    let stop = |command: &str| {
        let arguments = ["--points", "4", "--timer", "1s", "--stop-command", command];
        Validation::of(&urls(&nodes), &arguments)
    };
    stop("exit 7").assert_failed(4, &["the command `exit 7` ended with exit status: 7"]);
    let two = format!(
        "[ $NODE_ID = three ] && kill -9 {} {}",
        nodes[1].child.id(),
        nodes[2].child.id()
    );
    stop(&two).assert_failed(4, &["two does not answer either, though only three was to stop"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_did_not_stop_and_work_that_was_lost_are_named() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    let client = database.connect().await;
    let folder = Folder::create();
    let command = folder.asks();
    // Long enough for the timers of before to be there when one of them is lost.
    let arguments = ["--points", "4", "--timer", "8s", "--stop-command", &command];
    let validation = Validation::begin(&urls(&nodes), &arguments);
    folder.asked().await;
    let lost = lose_a_timer(&client).await;
    folder.done();
    let validation = Validation::end(validation);
    validation.assert_failed(
        4,
        &[
            "three is still live 30 s after it was to stop",
            &format!("instance {lost}: Suspended"),
        ],
    );
}

/// Deletes what would wake an instance.
async fn lose_a_timer(client: &Connection) -> String {
    client
        .wait_for_rows(
            "instance WHERE definition_id = 'mainspring-validate-timer' AND sub_status = 2",
            30,
        )
        .await;
    let lose = "DELETE FROM mainspring.timer WHERE instance_id IN (SELECT instance_id FROM mainspring.timer LIMIT 1)
                RETURNING instance_id";
    client.query_one(lose, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_balancer_that_leads_to_a_dead_node_fails_requests() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let arguments = ["--points", "1,5", "--through", &dead, "--restart-command", "sleep 1"];
    let validation = Validation::of(&urls(&nodes), &arguments);
    validation.assert_failed(1, &["--through: GET cluster/nodes"]);
    let reasons = [
        "requests failed, the first with: workflow-definitions/mainspring-validate-load/",
        "one was not restarted",
    ];
    validation.assert_failed(5, &reasons);
}

/// A session that is no node's takes the lock of each instance for two seconds, and keeps the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_holds_locks_makes_them_slow() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    let client = database.connect().await;
    let holder = tokio::spawn(async move { hold_locks(&client).await });
    let validation = Validation::of(&urls(&nodes), &["--points", "6", "--lock-limit", "1500ms"]);
    validation.assert_failed(
        6,
        &["The limit for p95 is 1500 ms", "is held by a session that is no node's"],
    );
    holder.abort();
}

/// Takes the locks of instances that wait for a resume, by the documented rule of their keys.
async fn hold_locks(client: &Connection) {
    // That of an exclusion of nodes, which is never given back.
    let class =
        "SELECT pg_advisory_lock(('x' || substr(encode(sha256('mainspring'), 'hex'), 1, 8))::bit(32)::integer, 7)";
    client.query(class, &[]).await.unwrap();
    let take = "SELECT count(pg_try_advisory_lock(k)) FROM (
                    SELECT ('x' || substr(encode(sha256(string_agg(int8send(octet_length(p)) || convert_to(p, 'UTF8'), ''::bytea
                                ORDER BY n)), 'hex'), 1, 16))::bit(64)::bigint AS k
                    FROM mainspring.instance i, unnest(ARRAY['mainspring', 'instance', '', i.id]) WITH ORDINALITY u(p, n)
                    WHERE i.definition_id = 'mainspring-validate-resume' AND i.sub_status = 2 GROUP BY i.id) keys";
    loop {
        if client.count(take).await > 0 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            client
                .query(
                    "SELECT pg_advisory_unlock(k) FROM (
                              SELECT (classid::bigint << 32) | objid::bigint AS k FROM pg_locks
                              WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objsubid = 1) held",
                    &[],
                )
                .await
                .unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_violated_invariant_of_the_database_is_no_success() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    let client = database.connect().await;
    let url = database.url();
    // The history of the instances of a first validation is lost.
    Validation::of(&urls(&nodes), &["--points", "3"]).assert_passed(3);
    client
        .run("DELETE FROM mainspring.instance WHERE id = (SELECT min(id) FROM mainspring.instance)")
        .await;
    let validation = Validation::of(&urls(&nodes), &["--points", "3", "--database-url", &url]);
    validation.assert_passed(3);
    assert_eq!(
        (validation.code, &validation.report["passed"]),
        (Some(1), &json!(false))
    );
    assert_contains(
        &validation.report["violations"].to_string(),
        &["journal-without-instance"],
    );
}
