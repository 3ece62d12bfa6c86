//! A database that restarts, crashes and stalls under load: nothing is lost, and no failure is counted.

use std::time::{Duration, Instant};

use crate::support::node::{Node, assert_invariants, incarnations, load, wait_until_finished};
use crate::support::three_nodes::ThreeNodes;
use crate::support::{Server, Stop, TestDatabase, long, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_restarts_and_crashes_under_load_loses_nothing_and_counts_no_failure() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let url = database.url();
    let settings = ["--check-in", "200ms"];
    let mut three = ThreeNodes::start_at(database, [&url, &url, &url], [""; 3], &settings).await;
    let addresses = three.nodes.iter().map(|node| node.http.clone().unwrap()).collect();
    let (count, rounds) = if long() { (4_000, 10) } else { (150, 1) };
    let load = load(addresses, count);
    for round in 0..rounds {
        for how in [Stop::Immediate, Stop::Fast] {
            // A pause between faults, not a wait.
            tokio::time::sleep(Duration::from_millis(300 + 150 * (round % 3))).await;
            let began = Instant::now();
            server.restart(how);
            three.client = three.database.connect().await;
            let restarted = began.elapsed();
            wait_until("all nodes to be back", async || {
                three
                    .client
                    .rows("node WHERE last_seen > now() - interval '500 ms'")
                    .await
                    == 3
            })
            .await;
            println!(
                "{how:?}: restarted in {restarted:?}, all nodes back after {:?}",
                began.elapsed()
            );
        }
    }
    for lane in load {
        lane.await.unwrap();
    }
    wait_until_finished(&three.client, count as i64).await;
    let blamed = "SELECT (SELECT count(*) FROM mainspring.dead_letter)
                       + (SELECT coalesce(sum(crashes), 0) FROM mainspring.work)
                       + (SELECT coalesce(sum(crashes), 0) FROM mainspring.timer)";
    assert_eq!(three.client.count(blamed).await, 0);
    for node in &mut three.nodes {
        assert!(!node.child.has_ended(), "{} has ended", node.name);
    }
    three.assert_clean_end(count as i64).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_outs_make_pauses_while_the_database_lets_no_new_connection_in() {
    let database = TestDatabase::create().await;
    let node = Node::start_with(&database, "one", &["--check-in", "200ms", "--tolerance", "60s"], "");
    let client = database.connect().await;
    // An event whose turn fails for a reason that may pass.
    client
        .run(
            "CREATE FUNCTION mainspring.later() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN RAISE EXCEPTION ''later'' USING ERRCODE = ''40001''; END';
             CREATE TRIGGER later BEFORE UPDATE ON mainspring.fan_out FOR EACH ROW EXECUTE FUNCTION mainspring.later();
             INSERT INTO mainspring.fan_out (tenant_id, hash, name, expires_at)
             VALUES ('', sha256('1'), 'Elsa.Event', now() + interval '1 hour')",
        )
        .await;
    let failed = || {
        let lines = node.child.stderr();
        lines
            .iter()
            .filter(|line| line.contains("a step of a fan-out failed"))
            .count()
    };
    wait_until("a step to fail", async || failed() > 0).await;
    // The connections of check-ins and locks continue, so that the node does.
    database.allow_connections(false).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE ANY ('{ROLLBACK%,BEGIN; SET LOCAL%,%fan_out/next%}')";
    client.count(end).await;
    let began = Instant::now();
    let unreachable =
        |line: &String| line.contains("a step of a fan-out failed") && line.contains("not currently accepting");
    wait_until("a step to fail without a connection", async || {
        node.child.stderr().iter().any(unreachable)
    })
    .await;
    // How many fail in this time is the point of it.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let steps = node.child.stderr().iter().filter(|line| unreachable(line)).count();
    assert!(steps <= 20, "{steps} steps in {:?}", began.elapsed());
    database.allow_connections(true).await;
    client.run("DROP FUNCTION mainspring.later() CASCADE").await;
    client.wait_for_rows("inbox", 1).await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_expires_when_every_process_of_the_database_stalls() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    let url = database.url();
    // With default settings.
    let three = ThreeNodes::start_at(database, [&url, &url, &url], [""; 3], &[]).await;
    let before = incarnations(&three.client).await;
    three.load(30).await;
    server.signal("STOP");
    // Longer than the tolerance, and than any probe of a session: how long it takes is the point of it.
    tokio::time::sleep(Duration::from_secs(11)).await;
    server.signal("CONT");
    // All nodes check in for longer than the tolerance.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        three
            .client
            .wait_for_rows("node WHERE last_seen > now() - interval '2 s'", 3)
            .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(incarnations(&three.client).await, before);
    three.assert_clean_end(30).await;
}
