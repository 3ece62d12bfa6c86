//! The pause of the cluster over HTTP and at the command line, with two nodes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::{Answer, Http, TestDatabase, assert_contains, assert_fields, command, wait_until};

const ADMIN: &str = "admin/workflow-runtime";

fn sequence(id: &str, activities: &Value) -> Value {
    json!({"definitionId": id, "root": {"type": "Elsa.Sequence", "id": "root", "activities": activities}})
}

async fn dispatched(http: &Http, definition: &str) -> String {
    let answer = http.dispatch(definition, &json!({})).await;
    answer["workflowInstanceId"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_paused(answer: &Answer) {
    answer.assert_refused(503, "runtime-paused");
    assert!(!answer.header("retry-after").is_empty());
    assert_contains(answer.body["message"].as_str().unwrap(), &["new disks"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_cluster_accepts_and_runs_nothing_and_goes_on_where_it_was() {
    let database = TestDatabase::create().await;
    let (one, mut two) = (Node::start(&database, "one"), Node::start(&database, "two"));
    let (first, second) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    let client = database.connect().await;
    let event = json!({"type": "Elsa.Event", "id": "wait", "eventName": "go"});
    let delay = json!({"type": "Elsa.Delay", "id": "rest", "timeSpan": "00:00:01"});
    let timer = json!({"type": "Elsa.Timer", "id": "tick", "canStartWorkflow": true, "interval": "00:00:01"});
    first.publish(&sequence("waits", &json!([event]))).await;
    first.publish(&sequence("naps", &json!([delay]))).await;
    first.publish(&sequence("ticks", &json!([timer, event]))).await;
    let (waits, cancelled) = (dispatched(&first, "waits").await, dispatched(&second, "waits").await);
    for id in [&waits, &cancelled] {
        first.instance_becomes(id, "Suspended").await;
    }
    let naps = dispatched(&first, "naps").await;
    first.instance_becomes(&naps, "Suspended").await;
    let running = second.get(&format!("{ADMIN}/status")).await.expect(200);
    assert_fields!(running["state"], {"reason": "None", "isAcceptingNewWork": true, "pausedAt": null});

    let refused = first.post(&format!("{ADMIN}/pause"), &json!({"reason": "a\nb"})).await;
    refused.assert_refused(400, "invalid-field");
    let paused = first
        .post(&format!("{ADMIN}/pause"), &json!({"reason": "new disks"}))
        .await
        .expect(200);
    assert_fields!(paused["state"], {"reason": "AdministrativePause", "isAcceptingNewWork": false,
        "pauseReasonText": "new disks", "pauseRequestedBy": "anonymous at node one"});
    let again = second
        .post(&format!("{ADMIN}/pause"), &json!({"reason": "other"}))
        .await
        .expect(200);
    assert_eq!(again["state"], paused["state"]);
    one.child.wait_for_log("the cluster is paused").await;

    let schedules = second.get("cluster/schedules").await.expect(200);
    let schedule = format!("cluster/schedules/{}", schedules["items"][0]["id"].as_str().unwrap());
    for (path, body) in [
        ("workflow-definitions/waits/dispatch", json!({})),
        ("workflow-definitions/waits/execute", json!({})),
        ("workflow-definitions/waits/dispatch", json!({"instanceId": "mine"})),
        ("events/go/trigger", json!({})),
        (&*format!("workflow-instances/{waits}/resume"), json!({})),
        (&*format!("{schedule}/trigger"), json!({})),
    ] {
        for http in [&first, &second] {
            assert_paused(&http.post(path, &body).await);
        }
        let key = [("idempotency-key", "k")];
        assert_paused(&second.send(Method::POST, path, &key, Some(&body)).await.unwrap());
    }
    // What continues.
    first.publish(&sequence("later", &json!([event]))).await;
    second
        .post(&format!("cancel/workflow-instances/{cancelled}"), &json!({}))
        .await
        .expect(200);
    second.instance_becomes(&cancelled, "Cancelled").await;
    first
        .delete(&format!("workflow-instances/{cancelled}"))
        .await
        .expect(204);
    for http in [&first, &second] {
        assert_eq!(http.get("/health/ready").await.status, 200);
    }
    let fired = second.get(&schedule).await.expect(200)["fired"].clone();
    wait_until("the delay to be over for a while", async || {
        client
            .rows("timer WHERE available_at < now() - interval '1 second'")
            .await
            == 1
    })
    .await;
    assert_eq!(client.rows("timer WHERE claimed_by IS NOT NULL").await, 0);
    assert_eq!(second.get(&schedule).await.expect(200)["fired"], fired);

    // It outlives a crash, and a new node is paused, too.
    two.child.kill9();
    two = Node::start(&database, "two");
    let second = two.http.clone().unwrap();
    assert_paused(&second.post("events/go/trigger", &json!({})).await);
    let (code, printed) = command(&database, &["status"]);
    assert_eq!(code, Some(1));
    assert_contains(&printed, &["paused since", "by anonymous at node one: new disks"]);
    let (code, printed) = command(&database, &["resume"]);
    assert_eq!((code, printed.starts_with("running")), (Some(0), true), "{printed}");

    second.instance_becomes(&naps, "Finished").await;
    wait_until("the schedule to fire", async || {
        second.get(&schedule).await.expect(200)["fired"].as_u64() > fired.as_u64()
    })
    .await;
    second.trigger("go", &json!({})).await;
    first.instance_becomes(&waits, "Finished").await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_stops_a_burst_before_its_next_activity_without_a_failure() {
    let database = TestDatabase::create().await;
    let (one, two) = (Node::start(&database, "one"), Node::start(&database, "two"));
    let (first, second) = (one.http.clone().unwrap(), two.http.clone().unwrap());
    let client = database.connect().await;
    let name = json!({"type": "Elsa.SetName", "id": "name", "value": {"typeName": "String",
        "expression": {"type": "Literal", "value": "at work"}}});
    let endless = json!({"type": "Elsa.While", "id": "loop",
        "condition": {"typeName": "Boolean", "expression": {"type": "Literal", "value": true}},
        "body": {"type": "Elsa.Sequence", "id": "body", "activities": [name, {"type": "Elsa.Delay", "id": "rest", "timeSpan": "00:00:00.001"}]}});
    first.publish(&sequence("loops", &json!([endless]))).await;
    let ids = [dispatched(&first, "loops").await, dispatched(&second, "loops").await];
    for id in &ids {
        wait_until("the loop to run", async || {
            client
                .rows(&format!("instance WHERE id = '{id}' AND version > 2"))
                .await
                == 1
        })
        .await;
    }

    let drained = second
        .post(
            &format!("{ADMIN}/force-drain"),
            &json!({"reason": "now", "requestedBy": "ops"}),
        )
        .await
        .expect(200);
    assert_fields!(drained["outcome"], {"overallResult": "Forced"});
    let status = first.get(&format!("{ADMIN}/status")).await.expect(200);
    assert_fields!(status, {"activeExecutionCycleCount": 0});
    assert_fields!(status["state"], {"reason": "AdministrativePause, Drain", "pauseRequestedBy": "ops"});
    assert_eq!(
        client.rows("work WHERE claimed_by IS NOT NULL OR failures > 0").await,
        0
    );
    let version = "SELECT sum(version)::bigint FROM mainspring.instance";
    let stopped = client.count(version).await;
    for id in &ids {
        let instance = first.get(&format!("workflow-instances/{id}")).await.expect(200);
        assert_fields!(instance, {"status": "Running", "incidentCount": 0});
    }
    assert_eq!(client.count(version).await, stopped);

    first.post(&format!("{ADMIN}/resume"), &json!({})).await.expect(200);
    wait_until("both loops to go on", async || {
        client.count(version).await > stopped + 4
    })
    .await;
    let (code, printed) = command(&database, &["pause", "--force-drain", "--reason", "again"]);
    assert_eq!(code, Some(0));
    assert_contains(&printed, &["draining since", ": again; 0 bursts are under way"]);
    // A cancel ends what waits.
    for id in &ids {
        second
            .post(&format!("cancel/workflow-instances/{id}"), &json!({}))
            .await
            .expect(200);
        second.instance_becomes(id, "Cancelled").await;
    }
    first.post(&format!("{ADMIN}/resume"), &json!({})).await.expect(200);
    let (code, printed) = command(&database, &["status", "--json"]);
    assert_eq!(code, Some(0));
    let status: Value = serde_json::from_str(&printed).unwrap();
    assert_fields!(status["state"], {"reason": "None", "pauseReasonText": null});
    assert_invariants(&database).await;
}

/// One burst without a wait: what it completed is committed at the drain, and the rest runs after the resume.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_commits_what_a_burst_completed_and_the_rest_runs_once_after_the_resume() {
    const LINES: usize = 24;
    let database = TestDatabase::create().await;
    let settings = ["--bench-activities", "--check-in", "200ms"];
    let nodes = [
        Node::start_with(&database, "one", &settings, ""),
        Node::start_with(&database, "two", &settings, ""),
    ];
    let http = nodes[0].http.clone().unwrap();
    let client = database.connect().await;
    let literal =
        |kind: &str, value: Value| json!({"typeName": kind, "expression": {"type": "Literal", "value": value}});
    let steps = (0..LINES).flat_map(|n| {
        [
            json!({"type": "Elsa.WriteLine", "id": format!("line-{n}"), "text": literal("String", format!("line {n:02}").into())}),
            json!({"type": "Mainspring.Work", "id": format!("work-{n}"), "milliseconds": literal("Int32", 200.into())}),
        ]
    });
    http.publish(&sequence("long", &steps.collect())).await;
    let id = dispatched(&http, "long").await;
    let lines = || {
        let mut lines: Vec<String> = nodes.iter().flat_map(|node| node.child.stdout()).collect();
        lines.retain(|line| line.starts_with("line "));
        lines.sort();
        lines
    };
    wait_until("the second line", async || lines().len() >= 2).await;
    let drained = http.post(&format!("{ADMIN}/force-drain"), &json!({})).await.expect(200);
    assert_fields!(drained["outcome"], {"overallResult": "Forced"});

    // What was said is in the journal, and the activity after it has not begun.
    let said = lines();
    assert!(said.len() < LINES, "it was not stopped: {said:?}");
    let instance = http.get(&format!("workflow-instances/{id}")).await.expect(200);
    assert_fields!(instance, {"status": "Running", "incidentCount": 0});
    let completed =
        format!("journal WHERE instance_id = '{id}' AND event_name = 'Completed' AND activity_id LIKE 'line-%'");
    assert_eq!(client.rows(&completed).await, i64::try_from(said.len()).unwrap());
    assert_eq!(
        client.rows("work WHERE claimed_by IS NOT NULL OR failures > 0").await,
        0
    );

    http.post(&format!("{ADMIN}/resume"), &json!({})).await.expect(200);
    http.instance_becomes(&id, "Finished").await;
    let all: Vec<String> = (0..LINES).map(|n| format!("line {n:02}")).collect();
    assert_eq!(lines(), all);
    assert_eq!(client.rows(&completed).await, i64::try_from(LINES).unwrap());
    assert_eq!(client.rows("dead_letter").await, 0);
    assert_invariants(&database).await;
}
