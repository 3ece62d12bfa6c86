//! Many deliveries of one sink: they cost rows, and delay no other.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{register, short, sink};
use crate::support::receiver::{Receiver, Reply};
use crate::support::single_node::SingleNode;
use crate::support::{Connection, long, poll_until};

/// How long a build for tests may take for the long queue.
const EMPTYING: Duration = Duration::from_secs(600);

/// As by so many bursts.
async fn queued(client: &Connection, sink: &str, count: usize) {
    let insert = format!(
        "INSERT INTO mainspring.webhook_delivery (id, sink, tenant_id, instance_id, event_type, payload, expires_at)
         SELECT gen_random_uuid(), s.number, '', 'i' || n, 'WorkflowInstance.Finished', '{{\"n\": 1}}', now() + interval '1 hour'
         FROM mainspring.webhook_sink s, generate_series(1, {count}) n WHERE s.id = '{sink}'"
    );
    client.run(&insert).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_is_down_delays_no_other_however_much_is_queued_for_it() {
    let count = if long() { 100_000 } else { 5_000 };
    let (down, healthy) = (
        Receiver::answering(|_| Reply::status(500)).await,
        Receiver::start().await,
    );
    let node = SingleNode::start(&["--check-in", "200ms"]).await;
    let ends = json!({"eventTypes": ["WorkflowInstance.Finished"]});
    register(&node.http, "down", down.url(), ends.clone()).await;
    let client = node.database.connect().await;
    queued(&client, "down", count).await;
    register(&node.http, "healthy", healthy.url(), ends).await;
    node.http.publish(&short("short")).await;
    down.wait_for(1).await;
    let memory = node.memory("VmRSS");
    let mut slowest = Duration::ZERO;
    for place in 1..=20 {
        let began = Instant::now();
        node.http.execute("short", &json!({})).await;
        healthy.wait_for(place).await;
        slowest = slowest.max(began.elapsed());
    }
    // Of a busy machine; what is queued takes minutes.
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    // The sink that is down is asked now and then, and not by all that is queued.
    assert!(down.count() < 100, "{}", down.count());
    let grown = node.memory("VmRSS").saturating_sub(memory);
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    let shown = sink(&node.http, "down").await;
    assert!(shown["pending"].as_u64().unwrap() > 1_000, "{shown}");
    // It is back: all of it arrives, each once.
    down.answer(|_| Reply::ok());
    let before = down.count();
    let patch = json!({"isPaused": false});
    let began = Instant::now();
    node.http.patch("webhook-sinks/down", &patch).await.expect(200);
    client
        .run("UPDATE mainspring.webhook_delivery SET due_at = now() WHERE state = 0")
        .await;
    poll_until(EMPTYING, "the queue to be empty", async || {
        let left = client.rows("webhook_delivery WHERE state = 0 AND sink = 1").await;
        (left == 0).then_some(())
    })
    .await;
    let passed = began.elapsed();
    eprintln!(
        "{count} deliveries in {passed:?}: {:.0}/s",
        count as f64 / passed.as_secs_f64()
    );
    assert!(down.count() - before >= count, "{} of {count}", down.count() - before);
    node.assert_invariants();
}
