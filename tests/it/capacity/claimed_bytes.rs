//! Claimed bytes are bounded, not only claimed rows: large work takes turns, and small work does not wait for it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::single_node::{SingleNode, literal, waits_for};
use crate::support::{LONG_TIMEOUT, TIMEOUT, long, poll_until};

/// Five large events for each instance that waits.
const PUBLISH: &str = "
    INSERT INTO mainspring.work (tenant_id, instance_id, kind, body)
    SELECT b.tenant_id, b.instance_id, 2, json_build_object('bookmarkId', b.id, 'hash', encode(b.hash, 'hex'),
           'name', b.name, 'payload', json_build_object('text', repeat('x', 900000)))
    FROM mainspring.bookmark b, generate_series(1, 5) n
    ORDER BY n, b.instance_id";

async fn until_waiting(node: &SingleNode, count: i64) {
    let client = node.database.connect().await;
    poll_until(TIMEOUT, "all to wait", async || {
        let waiting = client.query_one("SELECT count(*) FROM mainspring.bookmark", &[]);
        (waiting.await.ok()?.get::<_, i64>(0) == count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bytes_of_claimed_work_stay_within_the_budget() {
    let (instances, large_events, memory, timeouts) = if long() { (200, 15, 400, 6) } else { (60, 5, 270, 1) };
    let node = SingleNode::start(&["--workers", "64", "--claim-mib", "16"]).await;
    let events: Vec<_> = (0..large_events)
        .map(|no| json!({"id": format!("e{no}"), "type": "Elsa.Event", "eventName": literal("Large")}))
        .collect();
    node.publish(
        "large",
        json!({"type": "Elsa.Sequence", "id": "root", "activities": events}),
    )
    .await;
    let say = json!({"id": "say", "type": "Elsa.WriteLine", "text": literal("small")});
    node.publish(
        "small",
        json!({"type": "Elsa.Sequence", "id": "root", "activities": [say]}),
    )
    .await;
    for _ in 0..instances {
        node.http
            .post("workflow-definitions/large/dispatch", &json!({}))
            .await
            .expect(200);
    }
    until_waiting(&node, instances).await;
    let before = node.memory("VmHWM:");
    let (client, http) = (node.database.connect().await, node.http.clone());
    let publish = PUBLISH.replace("generate_series(1, 5)", &format!("generate_series(1, {large_events})"));
    client.batch_execute(&publish).await.unwrap();
    let small = tokio::spawn(async move {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let began = Instant::now();
            http.post("workflow-definitions/small/execute", &json!({}))
                .await
                .expect(200);
            slowest = slowest.max(began.elapsed());
        }
        slowest
    });
    let mut most = 0;
    poll_until(LONG_TIMEOUT * timeouts, "all to be consumed", async || {
        let row = client
            .query_one(
                "SELECT coalesce(sum(pg_column_size(body)) FILTER (WHERE claimed_by IS NOT NULL), 0)::bigint, count(*)
                 FROM mainspring.work",
                &[],
            )
            .await
            .ok()?;
        most = most.max(row.get::<_, i64>(0));
        (row.get::<_, i64>(1) == 0).then_some(())
    })
    .await;
    assert!(most > 900_000 && most <= 16 << 20, "{most} bytes were claimed at once");
    let finished =
        "SELECT count(*) FROM mainspring.instance WHERE definition_id = 'large' AND status = 1 AND sub_status = 3";
    assert_eq!(
        client.query_one(finished, &[]).await.unwrap().get::<_, i64>(0),
        instances,
        "each event once"
    );
    let slowest = small.await.unwrap();
    assert!(slowest < Duration::from_secs(10), "small work waited for {slowest:?}");
    let more = node.memory("VmHWM:") - before;
    println!("{most} bytes claimed at once, {more} bytes of memory, small work {slowest:?}");
    assert!(more < memory << 20, "{more} bytes more memory");
    node.assert_invariants();
}

/// A burst yields after some of them; the others follow it in memory, and none goes through the inbox.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_consumes_its_pending_large_events_without_writing_them_again() {
    const LOOPS: usize = 4;
    let node = SingleNode::start(&["--workers", "8"]).await;
    let items = json!({"typeName": "Object", "expression": {"type": "Object", "value": (0..15).collect::<Vec<_>>()}});
    let event = json!({"id": "e", "type": "Elsa.Event", "eventName": literal("Large")});
    node.publish(
        "loop",
        json!({"type": "Elsa.ForEach", "id": "root", "items": items, "body": event}),
    )
    .await;
    for no in 0..LOOPS {
        node.http
            .post(
                "workflow-definitions/loop/dispatch",
                &json!({"correlationId": format!("c{no}")}),
            )
            .await
            .expect(200);
    }
    until_waiting(&node, LOOPS as i64).await;
    let client = node.database.connect().await;
    // In one statement, so that all fifteen are for the first bookmark.
    let publish = PUBLISH.replace("generate_series(1, 5)", "generate_series(1, 15)");
    client.batch_execute(&publish).await.unwrap();
    poll_until(LONG_TIMEOUT, "all to finish", async || {
        let finished = "SELECT count(*) FROM mainspring.instance WHERE status = 1 AND sub_status = 3";
        let finished: i64 = client.query_one(finished, &[]).await.ok()?.get(0);
        (finished == LOOPS as i64).then_some(())
    })
    .await;
    let used = "SELECT is_called FROM mainspring.inbox_id_seq";
    let is_used: bool = client.query_one(used, &[]).await.unwrap().get(0);
    assert!(!is_used, "an event went through the inbox");
    let completed = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'e' AND event_name = 'Completed'";
    let completed: i64 = client.query_one(completed, &[]).await.unwrap().get(0);
    assert_eq!(completed, 15 * LOOPS as i64, "each event once");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_payload_of_a_fan_out_counts_for_each_of_its_rows() {
    const WAITING: i64 = 50;
    let node = SingleNode::start(&["--workers", "64", "--claim-mib", "16"]).await;
    node.publish("wait", waits_for("Go")).await;
    for _ in 0..WAITING {
        node.http
            .post("workflow-definitions/wait/dispatch", &json!({}))
            .await
            .expect(200);
    }
    until_waiting(&node, WAITING).await;
    let client = node.database.connect().await;
    // A fan-out that has written its only page.
    let fan_out = "
        WITH f AS (
            INSERT INTO mainspring.fan_out (tenant_id, hash, name, payload, expires_at, began_at, cut, finished_at)
            SELECT b.tenant_id, b.hash, b.name, json_build_object('text', repeat('x', 1000000)), now() + interval '1 day',
                   now(), nextval('mainspring.bookmark_number'), now()
            FROM mainspring.bookmark b LIMIT 1
            RETURNING id)
        INSERT INTO mainspring.work (tenant_id, instance_id, kind, fan_out, body)
        SELECT b.tenant_id, b.instance_id, 2, f.id, json_build_object('bookmarkId', b.id, 'hash', encode(b.hash, 'hex'),
               'name', b.name, 'fanOut', f.id)
        FROM mainspring.bookmark b, f";
    client.batch_execute(fan_out).await.unwrap();
    let mut most = 0;
    poll_until(LONG_TIMEOUT, "all to be resumed", async || {
        let rows = "SELECT count(*) FILTER (WHERE claimed_by IS NOT NULL), count(*) FROM mainspring.work";
        let row = client.query_one(rows, &[]).await.ok()?;
        most = most.max(row.get::<_, i64>(0));
        (row.get::<_, i64>(1) == 0).then_some(())
    })
    .await;
    assert!(most <= 16, "{most} rows of 1 MB were claimed at once");
    let resumed = "SELECT count(*) FROM mainspring.instance WHERE status = 1 AND sub_status = 3";
    let resumed: i64 = client.query_one(resumed, &[]).await.unwrap().get(0);
    assert_eq!(resumed, WAITING, "each instance once");
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_times_out_is_tried_again_with_half_of_it_until_it_passes() {
    let node = SingleNode::start(&[]).await;
    node.publish("wait", waits_for("Go")).await;
    for _ in 0..40 {
        node.http
            .post("workflow-definitions/wait/dispatch", &json!({}))
            .await
            .expect(200);
    }
    until_waiting(&node, 40).await;
    let client = node.database.connect().await;
    // As if a claim of more than eight rows took longer than a statement may.
    let slow = "CREATE FUNCTION mainspring.slow() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN IF (SELECT count(*) FROM changed WHERE claimed_by IS NOT NULL) > 8 THEN
            RAISE EXCEPTION 'too slow' USING ERRCODE = '57014'; END IF; RETURN NULL; END$$;
        CREATE TRIGGER slow AFTER UPDATE ON mainspring.work REFERENCING NEW TABLE AS changed
            FOR EACH STATEMENT EXECUTE FUNCTION mainspring.slow()";
    client.batch_execute(slow).await.unwrap();
    node.http.post("events/Go/trigger", &json!({})).await.expect(200);
    poll_until(LONG_TIMEOUT, "all to finish", async || {
        let finished = "SELECT count(*) FROM mainspring.instance WHERE status = 1 AND sub_status = 3";
        let finished: i64 = client.query_one(finished, &[]).await.ok()?.get(0);
        (finished == 40).then_some(())
    })
    .await;
    let halved = |line: &String| line.contains("a claim timed out");
    assert!(node.child.stderr().iter().any(halved), "{:?}", node.child.stderr());
    client
        .batch_execute("DROP FUNCTION mainspring.slow() CASCADE")
        .await
        .unwrap();
    node.assert_invariants();
}
