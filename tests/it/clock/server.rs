//! The server's own clock is stepped back by an hour: its former timestamps are in the future.

use serde_json::json;

use crate::support::node::{Node, assert_each_exactly_once, publish, send_event, start_walk, wait_until_finished};
use crate::support::{Clock, Connection, Server, TestDatabase, wait_until};

const COUNT: usize = 12;

const SETTINGS: [&str; 4] = ["--check-in", "200ms", "--tolerance", "3s"];

async fn registered(client: &Connection, name: &str) -> Option<i64> {
    let query = "SELECT incarnation FROM mainspring.node WHERE node_id = $1";
    client.query_opt(query, &[&name]).await.unwrap().map(|row| row.get(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_servers_clock_went_back_an_hour_all_goes_on_at_once() {
    let clock = Clock::new("+0");
    let server = Server::start_with(clock.of_program()).await;
    let database = TestDatabase::create_on(&server.url()).await;
    let node = |name, settings: &[&str]| Node::start_with(&database, name, &[&SETTINGS[..], settings].concat(), "");
    let api_node = node("api-node", &["--workers", "0"]);
    let other = node("other", &["--workers", "0"]);
    let hung = node("hung", &["--workers", "0"]);
    publish(api_node.http.as_ref().unwrap()).await;
    let http = api_node.http.clone();
    let mut next = || http.clone();
    for n in 0..COUNT {
        start_walk(n, &json!({"input": {"n": n}}), &mut next).await;
    }
    let client = database.connect().await;
    // Accepted and not begun; postponed after a failure; claimed by an expired node, and by one about to be released.
    client
        .run(
            "UPDATE mainspring.work SET available_at = now() + interval '1 minute', failures = 9 WHERE id % 4 = 0;
             UPDATE mainspring.work SET claimed_by = 999998, claim_no = 1 WHERE id % 4 = 1;
             UPDATE mainspring.work SET claimed_by = 999999, claim_no = 1 WHERE id % 4 = 2;
             INSERT INTO mainspring.removed_node (incarnation, node_id, crashed) VALUES (999999, 'gone', false)",
        )
        .await;
    hung.child.signal("STOP");
    let (one, two) = (
        registered(&client, "api-node").await,
        registered(&client, "other").await,
    );
    clock.set("-1h");
    wait_until("the server to go by its new clock", async || {
        let off = "SELECT (extract(epoch FROM clock_timestamp()) - $1::float8)::float8";
        let real = chrono::Utc::now().timestamp() as f64;
        let off: f64 = client.query_one(off, &[&real]).await.unwrap().get(0);
        off < -3000.0
    })
    .await;
    let worker = node("worker", &[]);
    for n in 0..COUNT {
        send_event(n, &mut next).await;
    }
    wait_until_finished(&client, COUNT as i64).await;
    // No live node expired, and the unresponsive one did.
    wait_until("the node that hangs to be removed", async || {
        registered(&client, "hung").await.is_none()
    })
    .await;
    assert_eq!(
        (
            registered(&client, "api-node").await,
            registered(&client, "other").await
        ),
        (one, two)
    );
    wait_until("each job to have its time by the new clock", async || {
        let ahead = client
            .rows("cluster_job WHERE next_run_at > clock_timestamp() + 2 * period")
            .await;
        ahead == 0
    })
    .await;
    assert_each_exactly_once(&database, &client, COUNT as i64).await;
    drop((api_node, other, hung, worker));
}
