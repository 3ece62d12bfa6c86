//! Schedules as an operator sees them over HTTP, at whichever node.

use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::{Http, TIMEOUT, TestDatabase, assert_fields, poll_until};

fn definition(id: &str, timer: &Value) -> Value {
    json!({"model": {"definitionId": id, "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        timer,
        {"type": "Elsa.Event", "id": "wait", "eventName": format!("go-{id}")}
    ]}}, "publish": true})
}

async fn schedules(http: &Http, query: &str) -> Vec<Value> {
    let mut listed = http.get(&format!("cluster/schedules{query}")).await.expect(200);
    let items = listed["items"].take();
    let items = items.as_array().unwrap().clone();
    assert_eq!(listed["totalCount"], items.len(), "{query}");
    items
}

/// The id of the one schedule of a definition.
async fn id_of(http: &Http, definition: &str) -> String {
    let found = schedules(http, &format!("?definitionId={definition}")).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_listed_paused_resumed_and_triggered_at_any_node() {
    let database = TestDatabase::create().await;
    let (one, two) = (Node::start(&database, "one"), Node::start(&database, "two"));
    let (first, second) = (one.http.as_ref().unwrap(), two.http.as_ref().unwrap());
    assert!(schedules(first, "").await.is_empty());
    let nightly = json!({"type": "Elsa.Cron", "id": "cron", "canStartWorkflow": true, "cronExpression": "0 0 3 * * *",
        "timeZone": "Europe/Berlin", "overlap": "Skip"});
    let hourly = json!({"type": "Elsa.Timer", "id": "timer", "canStartWorkflow": true, "interval": "01:00:00"});
    let ticking = json!({"type": "Elsa.Timer", "id": "tick", "canStartWorkflow": true, "interval": "00:00:01"});
    for (id, timer) in [("nightly", &nightly), ("hourly", &hourly), ("ticking", &ticking)] {
        first
            .post("workflow-definitions", &definition(id, timer))
            .await
            .expect(200);
    }

    // A fired schedule shows its lateness and the node that fired it.
    let fired = poll_until(TIMEOUT, "the schedule to fire", async || {
        let found = schedules(second, "?definitionId=ticking").await;
        (found[0]["fired"].as_u64()? > 0).then(|| found[0].clone())
    })
    .await;
    assert!(fired["lastLatenessMs"].as_f64().unwrap() >= 0.0, "{fired}");
    assert!(
        fired["lastFiredAt"].is_string() && fired["lastOccurrence"].is_string(),
        "{fired}"
    );
    assert!(
        ["one", "two"].contains(&fired["lastNodeId"].as_str().unwrap()),
        "{fired}"
    );
    let instance = format!("workflow-instances/{}", fired["lastInstanceId"].as_str().unwrap());
    let started = poll_until(TIMEOUT, "its instance to wait", async || {
        Some(second.get(&instance).await).filter(|answer| answer.status == 200)
    })
    .await;
    assert_eq!(started.body["definitionId"], "ticking");
    assert_fields!(fired, {"misfired": 0, "skipped": 0});

    // Paused at one node, it fires at none.
    let ticking = format!("cluster/schedules/{}", id_of(first, "ticking").await);
    let paused = second.post(&format!("{ticking}/pause"), &json!({})).await.expect(200);
    assert_fields!(paused, {"state": "paused", "isPaused": true});
    let again = first.post(&format!("{ticking}/pause"), &json!({})).await.expect(200);
    assert_fields!(again, {"isPaused": true, "fired": paused["fired"]});

    // What is due next comes first, what is paused last; the filters.
    let of = |items: &[Value]| {
        items
            .iter()
            .map(|item| item["definitionId"].clone())
            .collect::<Vec<_>>()
    };
    let all = schedules(second, "").await;
    assert_eq!((all.len(), &all[2]["definitionId"]), (3, &json!("ticking")));
    assert_eq!(of(&schedules(first, "?state=Paused").await), ["ticking"]);
    assert_eq!(
        of(&schedules(first, "?activityType=Elsa.Cron&state=waiting").await),
        ["nightly"]
    );
    assert!(schedules(first, "?definitionId=nothing").await.is_empty());
    for (page, count) in [(0, 2), (1, 1), (7, 0)] {
        let listed = first
            .get(&format!("cluster/schedules?page={page}&pageSize=2"))
            .await
            .expect(200);
        assert_eq!(
            (&listed["totalCount"], listed["items"].as_array().unwrap().len()),
            (&json!(3), count)
        );
    }
    let cron = first
        .get(&format!("cluster/schedules/{}", id_of(first, "nightly").await))
        .await
        .expect(200);
    assert_fields!(cron, {"activityId": "cron", "activityType": "Elsa.Cron", "timeZone": "Europe/Berlin", "state": "waiting"});
    assert_eq!(
        (&cron["schedule"]["overlap"], &cron["isPaused"], &cron["fired"]),
        (&json!("Skip"), &json!(false), &json!(0))
    );
    assert!(
        cron["nextFireAt"].is_string() && cron["lastFiredAt"].is_null() && cron["lastNodeId"].is_null(),
        "{cron}"
    );

    // Triggered, also while paused: the same key starts one.
    let trigger = format!("{ticking}/trigger");
    let key = [("Idempotency-Key", "k")];
    let mut instances = Vec::new();
    for http in [first, second] {
        let answer = http
            .send(reqwest::Method::POST, &trigger, &key, None)
            .await
            .unwrap()
            .expect(200);
        instances.push(answer["workflowInstanceId"].as_str().unwrap().to_owned());
    }
    assert_eq!(instances[0], instances[1]);
    let shown = first.get(&ticking).await.expect(200);
    assert_eq!(
        (shown["fired"].as_u64(), &shown["lastInstanceId"], &shown["isPaused"]),
        (
            paused["fired"].as_u64().map(|fired| fired + 1),
            &json!(instances[0]),
            &json!(true)
        )
    );

    // With an overlap of `Skip` no second one beside the first.
    let trigger = format!("cluster/schedules/{}/trigger", id_of(first, "nightly").await);
    first.post(&trigger, &json!({})).await.expect(200);
    let refused = second.post(&trigger, &json!({})).await;
    refused.assert_refused(409, "schedule-running");

    let resumed = first.post(&format!("{ticking}/resume"), &json!({})).await.expect(200);
    assert_eq!(resumed["isPaused"], false);
    poll_until(TIMEOUT, "the schedule to fire again", async || {
        (first.get(&ticking).await.body["fired"].as_u64()? > shown["fired"].as_u64()?).then_some(())
    })
    .await;

    // Errors name the field.
    for bad in ["?state=asleep", "?pageSize=0", "?pageSize=1001"] {
        let answer = first.get(&format!("cluster/schedules{bad}")).await;
        answer.assert_refused(400, "invalid-field");
    }
    for unknown in ["none", "%F0%9F%92%A3"] {
        let path = format!("cluster/schedules/{unknown}");
        let mut answers = vec![first.get(&path).await];
        for verb in ["pause", "resume", "trigger"] {
            answers.push(first.post(&format!("{path}/{verb}"), &json!({})).await);
        }
        for answer in answers {
            answer.assert_refused(404, "schedule-not-found");
        }
    }
    assert_eq!(first.get(&format!("{ticking}/pause")).await.status, 405);
    let older = ticking.replace("schedules", "timers");
    assert_eq!(first.get(&older).await.expect(200)["id"], shown["id"]);
    first.post(&format!("{older}/pause"), &json!({})).await.expect(200);
    first.post(&format!("{older}/resume"), &json!({})).await.expect(200);
    assert_eq!(first.get("cluster/timers?state=asleep").await.status, 400);
    first.post(&format!("{ticking}/pause"), &json!({})).await.expect(200);
    assert_invariants(&database).await;
}
