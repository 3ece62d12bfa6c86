//! Nodes sleep until the next row is due, whichever node wrote it. No check-in comes while a test runs.

use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants, wait_until_finished};
use crate::support::{Connection, Http, TIMEOUT, TestDatabase, poll_until, wait_until};

const NEVER: [&str; 4] = ["--check-in", "10m", "--tolerance", "1h"];

/// How long an instance sleeps.
const DELAY: &str = "3 seconds";

async fn publish(http: &Http, activities: Value) {
    let definition =
        json!({"definitionId": "due", "root": {"type": "Elsa.Sequence", "id": "root", "activities": activities}});
    http.publish(&definition).await;
}

/// Ten seconds after its start a node polls once more: after that it knows of no due row.
async fn has_settled(client: &Connection) {
    let sql = "SELECT clock_timestamp() > max(last_seen) + interval '11 seconds' FROM mainspring.node";
    poll_until(TIMEOUT, "the nodes to have finished their first polls", async || {
        let settled: bool = client.query_one(sql, &[]).await.ok()?.get(0);
        settled.then_some(())
    })
    .await;
}

/// Instances that one node puts to sleep, and that have their delay over a little after each other.
async fn put_to_sleep(http: &Http, count: usize) {
    publish(
        http,
        json!([
            {"type": "Elsa.Delay", "id": "sleep", "timeSpan": "00:00:03"},
            {"type": "Elsa.WriteLine", "id": "after", "text": "ran"}
        ]),
    )
    .await;
    for _ in 0..count {
        let answer = http.post("workflow-definitions/due/execute", &json!({})).await;
        assert_eq!(answer.expect(200)["workflowState"]["subStatus"], "Suspended");
    }
}

/// All have run on, and soon after their delay was over.
async fn are_in_time(database: &TestDatabase, client: &Connection, count: i64) {
    wait_until_finished(client, count).await;
    let sql = format!(
        "SELECT count(*), max(extract(epoch FROM a.happened_at - s.happened_at - interval '{DELAY}'))::float8
         FROM mainspring.journal s JOIN mainspring.journal a USING (tenant_id, instance_id)
         WHERE s.activity_id = 'sleep' AND s.event_name = 'Started' AND a.activity_id = 'after' AND a.event_name = 'Started'"
    );
    let row = client.query_one(&sql, &[]).await.unwrap();
    let (ran, latest): (i64, f64) = (row.get(0), row.get(1));
    assert_eq!(ran, count);
    assert!((0.0..TIMEOUT.as_secs_f64()).contains(&latest), "{latest} s late");
    assert_invariants(database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays_of_a_crashed_node_end_in_time_on_another_node() {
    let database = TestDatabase::create().await;
    let mut setter = Node::start_with(&database, "setter", &NEVER, "");
    let _sleeper = Node::start_with(&database, "sleeper", &NEVER, "");
    let client = database.connect().await;
    has_settled(&client).await;
    put_to_sleep(setter.http.as_ref().unwrap(), 3).await;
    setter.child.kill9();
    are_in_time(&database, &client, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_due_delay_that_its_node_does_not_claim_notifies_another_node() {
    let database = TestDatabase::create().await;
    // It does not poll: it runs only what it accepts itself.
    let setter = Node::start_with(&database, "setter", &NEVER, "claim.poll=error");
    let _sleeper = Node::start_with(&database, "sleeper", &NEVER, "");
    let client = database.connect().await;
    has_settled(&client).await;
    put_to_sleep(setter.http.as_ref().unwrap(), 2).await;
    are_in_time(&database, &client, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_published_on_one_node_notifies_the_node_that_fires() {
    let database = TestDatabase::create().await;
    let api_node = Node::start_with(&database, "api-node", &[&NEVER[..], &["--roles", "api"]].concat(), "");
    let _scheduler = Node::start_with(&database, "scheduler", &NEVER, "");
    let http = api_node.http.as_ref().unwrap();
    let client = database.connect().await;
    let fired = async || {
        let sql = "SELECT coalesce(sum(fired), 0)::bigint FROM mainspring.schedule";
        client.count(sql).await
    };
    publish(
        http,
        json!([{"type": "Elsa.Timer", "id": "timer", "canStartWorkflow": true, "interval": "00:00:01"}]),
    )
    .await;
    wait_until("the schedule to fire", async || fired().await >= 2).await;

    let listed = http.get("cluster/schedules").await.expect(200);
    let schedule = format!("cluster/schedules/{}", listed["items"][0]["id"].as_str().unwrap());
    let paused = http.post(&format!("{schedule}/pause"), &json!({})).await.expect(200);
    // The wake timer of the scheduler has fired: from here on it knows of no due row.
    let sql = "SELECT clock_timestamp() > max(next_fire) + interval '2 seconds' FROM mainspring.schedule";
    poll_until(TIMEOUT, "the paused schedule to be overdue", async || {
        let over: bool = client.query_one(sql, &[]).await.ok()?.get(0);
        over.then_some(())
    })
    .await;
    let before = fired().await;
    assert!(before >= paused["fired"].as_i64().unwrap());
    http.post(&format!("{schedule}/resume"), &json!({})).await.expect(200);
    wait_until("the schedule to fire again", async || fired().await >= before + 2).await;
    http.post(&format!("{schedule}/pause"), &json!({})).await.expect(200);
    assert_invariants(&database).await;
}
