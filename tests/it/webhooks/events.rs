//! What sinks receive: which events, in which form, and signed by whom.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{SECRET, literal, register, short, signature, sink, task};
use crate::support::receiver::Receiver;
use crate::support::single_node::SingleNode;
use crate::support::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_tells_its_sinks_what_becomes_of_it() {
    let (all, tasks, others) = (
        Receiver::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    let node = SingleNode::start(&["--check-in", "200ms"]).await;
    let registered = register(&node.http, "all", all.url(), json!({"name": "All"})).await;
    assert_eq!(
        (&registered["secret"], &registered["state"]),
        (&json!(SECRET), &json!("active"))
    );
    register(
        &node.http,
        "tasks",
        tasks.url(),
        json!({"eventTypes": ["Elsa.RunTask"], "definitionIds": ["weigh"]}),
    )
    .await;
    register(
        &node.http,
        "others",
        others.url(),
        json!({"definitionIds": ["another"]}),
    )
    .await;
    node.http.publish(&task("weigh")).await;
    let start = json!({"instanceId": "w1", "correlationId": "c1"});
    node.http.dispatch("weigh", &start).await;
    let received = all.wait_for(3).await;
    let events: BTreeSet<&str> = received.iter().map(|received| received.event()).collect();
    let expected = ["Elsa.RunTask", "WorkflowInstance.Started", "WorkflowInstance.Suspended"];
    assert_eq!(events, BTreeSet::from(expected));
    for received in &received {
        let (id, timestamp) = (received.header("webhook-id"), received.header("webhook-timestamp"));
        let expected = signature(SECRET, id, timestamp, &received.raw);
        assert_eq!(received.header("webhook-signature"), expected);
        assert_eq!(received.header("content-type"), "application/json");
        let payload = &received.body["payload"];
        assert_eq!(payload["workflowInstanceId"], "w1");
        assert_eq!(payload["workflowDefinitionId"], "weigh");
        assert_eq!(payload["correlationId"], "c1");
        assert!(received.body["timestamp"].is_string());
    }
    let of_task = tasks.wait_for(1).await.remove(0);
    let payload = of_task.body["payload"].clone();
    let task_id = payload["taskId"].as_str().unwrap().to_owned();
    let elsa = json!({
        "workflowInstanceId": "w1", "workflowDefinitionId": "weigh", "tenantId": "", "workflowName": "Weighing",
        "correlationId": "c1", "taskId": task_id, "taskName": "Weigh", "taskPayload": {"parcel": 7},
    });
    assert_eq!(payload, elsa);
    // It is the id of the event, which all its sinks receive.
    assert!(received.iter().any(|other| other.id() == of_task.id()));
    let complete = format!("tasks/{task_id}/complete");
    node.http
        .post(&complete, &json!({"result": {"weight": 3}}))
        .await
        .expect(200);
    let received = all.wait_for(4).await;
    assert_eq!(received[3].event(), "WorkflowInstance.Finished");
    assert_eq!(received[3].body["payload"]["subStatus"], "Finished");
    let ids: BTreeSet<String> = received.iter().map(|received| received.id()).collect();
    assert_eq!(ids.len(), 4);
    assert_eq!((tasks.count(), others.count()), (1, 0));
    // A page of the list.
    let path = "workflow-instances/w1/webhook-deliveries";
    wait_until("all to be delivered", async || {
        let list = node.http.get(&format!("{path}?state=delivered")).await.expect(200);
        list["items"].as_array().unwrap().len() == 5
    })
    .await;
    let first = node.http.get(&format!("{path}?pageSize=3")).await.expect(200);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = node
        .http
        .get(&format!("{path}?pageSize=3&cursor={cursor}"))
        .await
        .expect(200);
    assert_eq!(first["items"].as_array().unwrap().len(), 3);
    assert_eq!(second["items"].as_array().unwrap().len(), 2);
    assert!(second.get("nextCursor").is_none());
    assert_eq!(second["items"][0]["lastStatus"], 200);
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_of_all_kinds_are_events() {
    let receiver = Receiver::start().await;
    let node = SingleNode::start(&["--check-in", "200ms"]).await;
    let types = ["Finished", "Faulted", "Cancelled"].map(|end| format!("WorkflowInstance.{end}"));
    register(&node.http, "ends", receiver.url(), json!({"eventTypes": types})).await;
    node.http.publish(&short("short")).await;
    let faults = json!({"definitionId": "faults", "root": {"id": "f", "type": "Elsa.Fault", "message": literal("no")}});
    node.http.publish(&faults).await;
    node.http.publish(&task("waits")).await;
    node.http.dispatch("short", &json!({"instanceId": "a"})).await;
    node.http.dispatch("faults", &json!({"instanceId": "b"})).await;
    node.http.dispatch("waits", &json!({"instanceId": "c"})).await;
    node.http.instance_becomes("c", "Suspended").await;
    node.http
        .post("cancel/workflow-instances/c", &json!({}))
        .await
        .expect(200);
    let received = receiver.wait_for(3).await;
    let mut ends: Vec<(String, String)> = received
        .iter()
        .map(|received| {
            let id = received.body["payload"]["workflowInstanceId"].as_str().unwrap();
            (id.to_owned(), received.event().to_owned())
        })
        .collect();
    ends.sort();
    let expected =
        [("a", 0), ("b", 1), ("c", 2)].map(|(id, place): (&str, usize)| (id.to_owned(), types[place].clone()));
    assert_eq!(ends, expected);
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_an_event() {
    let receiver = Receiver::start().await;
    let node = SingleNode::start(&["--check-in", "200ms"]).await;
    register(
        &node.http,
        "ops",
        receiver.url(),
        json!({"eventTypes": ["DeadLetter.Created"]}),
    )
    .await;
    let client = node.database.connect().await;
    // As by whatever statement makes one.
    client
        .run(
            "INSERT INTO mainspring.dead_letter (tenant_id, instance_id, kind, reason, inbox_id, hash, name, failures, crashes)
             VALUES ('', 'gone', 6, 'it expired', 7, sha256('x'), 'Elsa.Event', 0, 0)",
        )
        .await;
    let received = receiver.wait_for(1).await;
    assert_eq!(received[0].event(), "DeadLetter.Created");
    assert_eq!(received[0].body["payload"]["workflowInstanceId"], "gone");
    assert_eq!(received[0].body["payload"]["reason"], "it expired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_rotates_signs_beside_the_other_and_is_shown_once() {
    let receiver = Receiver::start().await;
    let node = SingleNode::start(&["--check-in", "200ms"]).await;
    let body = json!({"id": "crm", "url": receiver.url(), "eventTypes": ["WorkflowInstance.Finished"]});
    let made = node.http.post("webhook-sinks", &body).await.expect(201);
    let old = made["secret"].as_str().unwrap().to_owned();
    assert!(old.starts_with("whsec_") && old.len() > 40);
    node.http.publish(&short("short")).await;
    let rotated = node
        .http
        .post("webhook-sinks/crm/rotate-secret", &json!({"overlapSeconds": 600}))
        .await
        .expect(200);
    let new = rotated["secret"].as_str().unwrap().to_owned();
    node.http.execute("short", &json!({})).await;
    let both = receiver.wait_for(1).await.remove(0);
    let signed = |secret: &str, received: &crate::support::receiver::Received| {
        signature(
            secret,
            received.header("webhook-id"),
            received.header("webhook-timestamp"),
            &received.raw,
        )
    };
    let expected = format!("{} {}", signed(&new, &both), signed(&old, &both));
    assert_eq!(both.header("webhook-signature"), expected);
    node.http
        .post(
            "webhook-sinks/crm/rotate-secret",
            &json!({"secret": SECRET, "overlapSeconds": 0}),
        )
        .await
        .expect(200);
    node.http.execute("short", &json!({})).await;
    let one = receiver.wait_for(2).await.remove(1);
    assert_eq!(one.header("webhook-signature"), signed(SECRET, &one));
    let shown = [
        node.http.get("webhook-sinks").await.expect(200),
        sink(&node.http, "crm").await,
        node.http.get("webhook-sinks/crm/deliveries").await.expect(200),
    ];
    let logged = node.child.stderr().join("\n");
    for secret in [&old, &new, SECRET] {
        let bare = secret.trim_start_matches("whsec_");
        assert!(!logged.contains(bare) && shown.iter().all(|shown| !shown.to_string().contains(bare)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_sink_receives_later_what_it_missed_and_a_deleted_one_nothing() {
    let receiver = Receiver::start().await;
    let node = SingleNode::start(&["--check-in", "200ms"]).await;
    let ends = json!({"eventTypes": ["WorkflowInstance.Finished"], "isPaused": true});
    register(&node.http, "later", receiver.url(), ends.clone()).await;
    register(&node.http, "never", receiver.url(), ends).await;
    node.http.publish(&short("short")).await;
    node.http.execute("short", &json!({})).await;
    wait_until("both to wait", async || {
        let counts = [sink(&node.http, "later").await, sink(&node.http, "never").await];
        counts
            .iter()
            .all(|sink| sink["pending"] == json!(1) && sink["state"] == json!("paused"))
    })
    .await;
    let pending: Value = node
        .http
        .get("webhook-sinks/later/deliveries?state=pending")
        .await
        .expect(200);
    let id = pending["items"][0]["id"].as_str().unwrap().to_owned();
    node.http.delete("webhook-sinks/never").await.expect(204);
    node.http
        .get("webhook-sinks/never")
        .await
        .assert_refused(404, "sink-not-found");
    let patch = json!({"isPaused": false});
    node.http.patch("webhook-sinks/later", &patch).await.expect(200);
    assert_eq!(receiver.wait_for(1).await[0].id(), id);
    let client = node.database.connect().await;
    client.wait_for_rows("webhook_delivery WHERE state = 0", 1).await;
    // The purge takes what a deleted sink has left, and then the sink.
    client
        .run("UPDATE mainspring.cluster_job SET next_run_at = now() WHERE name = 'purge-expired'")
        .await;
    client.wait_for_rows("webhook_delivery WHERE state = 0", 0).await;
    assert_eq!(receiver.count(), 1);
    node.assert_invariants();
}
