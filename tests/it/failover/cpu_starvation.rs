//! A node that gets hardly any processor time does not expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::support::TestDatabase;
use crate::support::node::{incarnations, send_event, start_walk, wait_until_finished};
use crate::support::three_nodes::ThreeNodes;

/// How long the node is stopped at a time: less than a tenth of its tolerance.
const STILL: Duration = Duration::from_millis(450);

/// How long it runs in between.
const RUNS: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_tenth_of_a_processor_does_not_expire_and_goes_on() {
    let database = TestDatabase::create().await;
    let url = database.url();
    // With default settings.
    let three = ThreeNodes::start_at(database, [&url, &url, &url], [""; 3], &[]).await;
    let before = incarnations(&three.client).await;
    let enough = Arc::new(AtomicBool::new(false));
    let starving = {
        let enough = Arc::clone(&enough);
        let target = three.nodes[0].child.id();
        std::thread::spawn(move || {
            let signal = |name: &str| {
                let line = format!("kill -s {name} {target}");
                assert!(
                    std::process::Command::new("sh")
                        .args(["-c", &line])
                        .status()
                        .unwrap()
                        .success()
                );
            };
            let mut rounds = 0;
            // For twice its tolerance at least.
            while rounds < 20 || !enough.load(Ordering::Relaxed) {
                signal("STOP");
                std::thread::sleep(STILL);
                signal("CONT");
                std::thread::sleep(RUNS);
                rounds += 1;
            }
            rounds
        })
    };
    for n in 0..30 {
        // Two of three through the starved node.
        let http = three.nodes[if n % 3 == 0 { 1 } else { 0 }].http.clone();
        let mut next = || http.clone();
        let start = json!({"input": {"n": n}});
        start_walk(n, &start, &mut next).await;
        let second = three.nodes[1].http.clone();
        send_event(n, &mut || second.clone()).await;
    }
    wait_until_finished(&three.client, 30).await;
    enough.store(true, Ordering::Relaxed);
    let rounds = tokio::task::spawn_blocking(move || starving.join().unwrap())
        .await
        .unwrap();
    println!("all finished within {rounds} rounds of {:?}", STILL + RUNS);
    assert_eq!(incarnations(&three.client).await, before);
    three.assert_clean_end(30).await;
}
