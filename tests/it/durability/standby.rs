//! A primary that crashes, and a standby that is promoted.

use serde_json::Value;

use crate::support::node::{NAMES, Node, load, publish, spawn, wait_until_finished};
use crate::support::{Child, Server, Stop, TIMEOUT, TestDatabase, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_find_the_primary_wherever_it_is() {
    let primary = Server::start_installed().await;
    let standby = primary.standby().await;
    // The standby is listed first, without `target_session_attrs`.
    let single = standby.url();
    let (first, name) = single.rsplit_once('/').unwrap();
    let url = format!("{first},127.0.0.1:{}/{name}", primary.port());
    let settings = ["--check-in", "200ms"];
    let mut nodes: Vec<Node> = NAMES
        .iter()
        .map(|name| Node::start_at(&url, name, &settings, &[]))
        .collect();
    // A node that has only the standby's address waits until it becomes the primary.
    let mut late = spawn(&single, "late", &["--database-wait", "120s"], &[]);
    late.wait_for_log("is a standby").await;
    assert!(!late.has_ended());

    publish(nodes[0].http.as_ref().unwrap()).await;
    let addresses = nodes.iter().map(|node| node.http.clone().unwrap()).collect();
    let count = 120;
    let load = load(addresses, count);
    let before = TestDatabase::create_on(&primary.url()).await;
    let client = before.connect_to_server().await;
    wait_until("work to be under way", async || client.rows("instance").await >= 20).await;
    drop((client, before));
    primary.stop(Stop::Immediate);
    standby.promote();

    let after = TestDatabase::create_on(&standby.url()).await;
    let client = after.connect_to_server().await;
    client
        .wait_for_rows("node WHERE last_seen > now() - interval '500 ms'", 4)
        .await;
    late.wait_for_line("ready ", TIMEOUT);
    for lane in load {
        lane.await.unwrap();
    }
    wait_until_finished(&client, count as i64).await;
    let ran = "SELECT count(*), count(DISTINCT instance_id) FROM mainspring.journal
               WHERE activity_id = 'third' AND event_name = 'Completed'";
    let row = client.query_one(ran, &[]).await.unwrap();
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1)),
        (count as i64, count as i64)
    );
    let mut check = Child::start(&["check", "--json", "--database-url", &url], &[]);
    let status = check.wait(TIMEOUT);
    let report: Value = serde_json::from_str(&check.stdout().join("\n")).unwrap();
    assert!(status.success(), "{report}");
    for node in &mut nodes {
        assert!(!node.child.has_ended(), "{} has ended", node.name);
    }
}
