//! Timers as triggers and inside workflows, and what an operator does with schedules.

use chrono::{DateTime, Utc};
use mainspring::Engine;
use mainspring::definition::WorkflowDefinition;
use mainspring::id::InstanceId;
use mainspring::runtime::{Idempotency, InstanceFilter, Page, ScheduleFilter, ScheduleState, ScheduleSummary};
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, start};
use crate::support::{TIMEOUT, poll_until, wait_until};

fn literal(type_name: &str, value: impl Into<Value>) -> Value {
    json!({"typeName": type_name, "expression": {"type": "Literal", "value": value.into()}})
}

fn script(text: &str) -> Value {
    json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": text}})
}

/// One trigger, and what comes after it.
fn triggered(definition: &str, trigger: Value, then: Value) -> Value {
    json!({"definitionId": definition, "root": {"type": "Elsa.Sequence", "id": "root", "activities": [trigger, then]}})
}

async fn only(test: &TestEngine, definition: &str) -> ScheduleSummary {
    let filter = ScheduleFilter {
        definition_id: Some(definition.into()),
        ..ScheduleFilter::default()
    };
    let mut listed = test.engine.schedules(&filter, Page::default()).await.unwrap();
    assert_eq!(listed.total_count, 1);
    listed.items.pop().unwrap()
}

async fn instances(test: &TestEngine, definition: &str) -> Vec<InstanceId> {
    let filter = InstanceFilter {
        definition_ids: vec![definition.into()],
        ..InstanceFilter::default()
    };
    let listed = test.engine.instances(&filter, Page::default()).await.unwrap();
    listed.items.into_iter().map(|item| item.id).collect()
}

async fn until_fired(test: &TestEngine, definition: &str, count: u64) -> ScheduleSummary {
    poll_until(TIMEOUT, "a schedule to fire", async || {
        let schedule = only(test, definition).await;
        (schedule.fired >= count).then_some(schedule)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_wait_inside_a_workflow() {
    let test = TestEngine::new().await;
    // Elsa continues at once, too.
    let past = literal("DateTimeOffset", "2020-01-01T00:00:00+00:00");
    test.publish(json!({"definitionId": "past", "root": {"type": "Elsa.StartAt", "id": "at", "dateTime": past}}))
        .await;
    let done = test.engine.execute(start("past")).await.unwrap();
    assert_eq!(done.sub_status(), Some("Finished"));
    // ThreeNodes turns of a loop are three occurrences.
    test.publish(json!({
        "definitionId": "all",
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.ForEach", "id": "loop", "items": script("[1, 2, 3]"), "body":
                {"type": "Elsa.Cron", "id": "cron", "cronExpression": literal("String", "* * * * * *")}},
            {"type": "Elsa.Timer", "id": "timer", "interval": literal("TimeSpan", "00:00:01")},
            {"type": "Elsa.StartAt", "id": "at", "dateTime": script("new Date(Date.now() + 500).toISOString()")},
        ]}
    }))
    .await;
    let all = test.engine.dispatch(start("all")).await.unwrap();
    test.finishes(&all).await;
    let client = test.database.connect().await;
    let rows = client
        .query(
            "SELECT happened_at FROM mainspring.journal WHERE activity_id = 'cron' AND event_name = 'Resumed' ORDER BY 1",
            &[],
        )
        .await
        .unwrap();
    let seconds: Vec<i64> = rows
        .iter()
        .map(|row| row.get::<_, DateTime<Utc>>(0).timestamp())
        .collect();
    assert_eq!(seconds.len(), 3);
    assert!(seconds.windows(2).all(|pair| pair[0] < pair[1]), "{seconds:?}");
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_starts_instances_that_know_when_they_were_due() {
    let test = TestEngine::new().await;
    let out = json!({"type": "Elsa.SetOutput", "id": "out", "outputName": literal("String", "At"),
        "outputValue": script("getOutputFrom('tick', 'Result').occurrence")});
    let mut definition = triggered(
        "tick",
        json!({"type": "Elsa.Timer", "id": "tick", "canStartWorkflow": true, "interval": literal("TimeSpan", "00:00:01")}),
        out,
    );
    definition["outputs"] = json!([{"name": "At", "type": "Object"}]);
    // The loop sleeps by now; a publish wakes it.
    test.publish(definition).await;
    let schedule = until_fired(&test, "tick", 2).await;
    assert_eq!(schedule.last_node_id.as_ref().unwrap().as_str(), "one");
    assert!(schedule.last_lateness_ms.unwrap() < 60_000.0);
    let id = schedule.last_instance_id.clone().unwrap();
    let state = test.finishes(&id).await;
    let at: DateTime<Utc> = state["output"]["At"].as_str().unwrap().parse().unwrap();
    assert!(at <= Utc::now());
    // A delay starts nothing, as in Elsa.
    let delay = json!({"type": "Elsa.Delay", "id": "d", "canStartWorkflow": true, "timeSpan": literal("TimeSpan", "00:00:00.3")});
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": literal("String", "late")});
    test.publish(triggered("delayed", delay, line)).await;
    let all = test
        .engine
        .schedules(&ScheduleFilter::default(), Page::default())
        .await
        .unwrap();
    assert!(
        all.items
            .iter()
            .all(|schedule| schedule.definition_id.as_str() != "delayed")
    );
    // The other two are as exact; a point in time that has passed is due at once.
    let cron = json!({"type": "Elsa.Cron", "id": "t", "canStartWorkflow": true, "cronExpression": literal("String", "* * * * * *")});
    let past = literal("DateTimeOffset", "2020-01-01T00:00:00+00:00");
    let at = json!({"type": "Elsa.StartAt", "id": "t", "canStartWorkflow": true, "dateTime": past});
    for (id, trigger) in [("cron", cron), ("at", at)] {
        let output = json!({"type": "Elsa.SetOutput", "id": "out", "outputName": literal("String", "At"),
            "outputValue": script("getOutputFrom('t', 'Result').occurrence")});
        let mut definition = triggered(id, trigger, output);
        definition["outputs"] = json!([{"name": "At", "type": "Object"}]);
        test.publish(definition).await;
        let fired = until_fired(&test, id, 1).await;
        let state = test.finishes(&fired.last_instance_id.unwrap()).await;
        let at = state["output"]["At"].as_str().unwrap().to_owned();
        let once = id == "at";
        assert_eq!(
            (fired.state == ScheduleState::Ended, at == "2020-01-01T00:00:00Z"),
            (once, once),
            "{at}"
        );
        if !once {
            test.engine.pause_schedule(&fired.id).await.unwrap();
        }
    }
    // Without a trigger there is no schedule.
    test.publish(json!({"definitionId": "tick", "root": {"type": "Elsa.Sequence", "id": "root", "activities": []}}))
        .await;
    let none = test.engine.schedule(&schedule.id).await.unwrap_err();
    assert_eq!(none.code(), "schedule-not-found");
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_of_a_schedule_is_reported_at_the_publish() {
    let test = TestEngine::new().await;
    let trigger = |id: &str, kind: &str, inputs: Value| {
        let mut activity = json!({"type": kind, "id": id, "canStartWorkflow": true});
        for (name, value) in inputs.as_object().unwrap() {
            activity[name] = literal("Object", value.clone());
        }
        activity
    };
    let wrong = [
        (
            "never",
            "Elsa.Cron",
            json!({"cronExpression": "0 0 30 2 *"}),
            "cronExpression",
        ),
        (
            "zone",
            "Elsa.Cron",
            json!({"cronExpression": "0 0 * * *", "timeZone": "Europe/Atlantis"}),
            "timeZone",
        ),
        ("zero", "Elsa.Timer", json!({"interval": "00:00:00"}), "interval"),
        ("fast", "Elsa.Timer", json!({"interval": "00:00:00.5"}), "interval"),
        (
            "dates",
            "Elsa.Timer",
            json!({"interval": "00:01:00", "startAt": "2031-01-01", "endAt": "2030-01-01T00:00:00Z"}),
            "startAt",
        ),
        (
            "back",
            "Elsa.Timer",
            json!({"startAt": "2031-01-01T00:00:00Z", "endAt": "2030-01-01T00:00:00Z"}),
            "startAt",
        ),
        (
            "old",
            "Elsa.StartAt",
            json!({"dateTime": "1969-12-31T23:59:59Z"}),
            "dateTime",
        ),
        (
            "far",
            "Elsa.StartAt",
            json!({"dateTime": "9999-12-31T23:59:59-01:00"}),
            "dateTime",
        ),
        ("jitter", "Elsa.Timer", json!({"jitterSeconds": 86401}), "jitterSeconds"),
        ("policy", "Elsa.Timer", json!({"misfire": "Whatever"}), "misfire"),
    ];
    let activities: Vec<Value> = wrong
        .iter()
        .map(|(id, kind, inputs, _)| trigger(id, kind, inputs.clone()))
        .collect();
    let definition =
        json!({"definitionId": "wrong", "root": {"type": "Elsa.Sequence", "id": "root", "activities": activities}});
    let definition = WorkflowDefinition::from_value(definition).unwrap();
    let refused = test.engine.save(definition, true).await.unwrap_err();
    assert_eq!(refused.code(), "invalid-trigger");
    for (id, _, _, input) in &wrong {
        let messages = refused.fields().iter().filter(|(activity, _)| activity == id);
        let messages: Vec<&str> = messages.map(|(_, message)| message.as_str()).collect();
        assert!(
            messages.iter().any(|message| message.contains(input)),
            "{id}: {messages:?}"
        );
    }
    // Also of what only waits inside.
    let waits = json!({"definitionId": "waits", "root": {"type": "Elsa.Cron", "id": "c", "cronExpression": literal("String", "61 * * * *")}});
    let refused = test
        .engine
        .save(WorkflowDefinition::from_value(waits).unwrap(), true)
        .await
        .unwrap_err();
    assert_eq!(refused.fields()[0].0, "c");
    let all = test
        .engine
        .schedules(&ScheduleFilter::default(), Page::default())
        .await
        .unwrap();
    assert_eq!(all.total_count, 0);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_pauses_resumes_and_triggers() {
    let test = TestEngine::new().await;
    let tick = |seconds: u32| {
        let interval = literal("TimeSpan", format!("00:00:{seconds:02}"));
        let timer = json!({"type": "Elsa.Timer", "id": "t", "canStartWorkflow": true, "interval": interval});
        triggered(
            "ops",
            timer,
            json!({"type": "Elsa.WriteLine", "id": "l", "text": literal("String", "x")}),
        )
    };
    test.publish(tick(1)).await;
    let fired = until_fired(&test, "ops", 1).await;
    let paused = test.engine.pause_schedule(&fired.id).await.unwrap();
    assert_eq!(paused.state, ScheduleState::Paused);
    // Published again with another interval, it is still paused.
    test.publish(tick(2)).await;
    let client = test.database.connect().await;
    // It has been so for an hour.
    client.run("UPDATE mainspring.schedule SET version = version + 1, anchor = anchor - interval '1 hour',
             next_occurrence = next_occurrence - interval '1 hour', next_fire = next_fire - interval '1 hour', last_occurrence = NULL").await;
    let key = || Idempotency {
        key: "k".to_owned(),
        fingerprint: Default::default(),
    };
    let first = test.engine.trigger_schedule(&fired.id, Some(key())).await.unwrap();
    let again = test.engine.trigger_schedule(&fired.id, Some(key())).await.unwrap();
    assert_eq!(first, again);
    test.finishes(&first).await;
    assert_eq!(
        test.engine.trigger_schedule(&fired.id, Some(key())).await.unwrap(),
        first
    );
    let other = test.engine.trigger_schedule(&fired.id, None).await.unwrap();
    assert_ne!(first, other);
    let still = only(&test, "ops").await;
    assert_eq!((still.state, still.fired), (ScheduleState::Paused, paused.fired + 2));
    let resumed = test.engine.resume_schedule(&fired.id).await.unwrap();
    assert!(resumed.next_occurrence > resumed.last_occurrence);
    let went_on = until_fired(&test, "ops", still.fired + 1).await;
    assert_eq!((went_on.misfired, went_on.skipped), (0, 0), "what it missed is settled");
    for id in ["", "nobody"] {
        assert_eq!(
            test.engine.pause_schedule(id).await.unwrap_err().code(),
            "schedule-not-found"
        );
        assert_eq!(
            test.engine.trigger_schedule(id, None).await.unwrap_err().code(),
            "schedule-not-found"
        );
    }
    let filter = ScheduleFilter {
        state: Some(ScheduleState::Paused),
        ..ScheduleFilter::default()
    };
    assert_eq!(
        test.engine
            .schedules(&filter, Page::default())
            .await
            .unwrap()
            .total_count,
        0
    );
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_occurrence_starts_when_the_instance_ends() {
    let test = TestEngine::new().await;
    let timer = json!({"type": "Elsa.Timer", "id": "t", "canStartWorkflow": true, "interval": literal("TimeSpan", "00:00:01"),
        "overlap": literal("String", "QueueOne")});
    let wait = json!({"type": "Elsa.Event", "id": "e", "eventName": literal("String", "go")});
    test.publish(triggered("queue", timer, wait)).await;
    wait_until("an occurrence to wait", async || only(&test, "queue").await.is_queued).await;
    let waiting = only(&test, "queue").await;
    let running = instances(&test, "queue").await;
    assert_eq!((waiting.fired, running.len()), (1, 1));
    let refused = test.engine.trigger_schedule(&waiting.id, None).await.unwrap_err();
    assert_eq!(refused.code(), "schedule-running");
    test.reaches(&running[0], "Suspended").await;
    test.trigger("go", json!({})).await;
    test.finishes(&running[0]).await;
    until_fired(&test, "queue", 2).await;
    let second = poll_until(TIMEOUT, "the second instance", async || {
        let all = instances(&test, "queue").await;
        all.into_iter().find(|id| *id != running[0])
    })
    .await;
    test.reaches(&second, "Suspended").await;
    test.engine.pause_schedule(&waiting.id).await.unwrap();
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_time_zone_data_move_what_is_next_and_never_back() {
    let test = TestEngine::new().await;
    let cron = |id: &str| {
        json!({"type": "Elsa.Cron", "id": id, "canStartWorkflow": true, "cronExpression": literal("String", "0 9 * * *"),
            "timeZone": literal("String", "Europe/Berlin")})
    };
    let root = json!({"type": "Elsa.Sequence", "id": "root", "activities": [cron("a"), cron("b")]});
    test.publish(json!({"definitionId": "zone", "root": root})).await;
    test.engine.shutdown().await;
    let client = test.database.connect().await;
    // An older database had Berlin an hour off; b has fired tomorrow's occurrence by it.
    client
        .run(
            "UPDATE mainspring.schedule SET tz_version = '1999a', last_occurrence =
                 CASE WHEN activity_id = 'b' THEN next_occurrence + interval '1 minute' END;
             UPDATE mainspring.schedule SET next_occurrence = next_occurrence + interval '1 hour',
                 next_fire = next_fire + interval '1 hour'",
        )
        .await;
    let right = "SELECT activity_id FROM mainspring.schedule WHERE tz_version > '1999a' AND NOT EXISTS
                     (SELECT 1 WHERE extract(hour FROM next_fire AT TIME ZONE 'Europe/Berlin') <> 9)
                 AND (last_occurrence IS NULL OR next_occurrence > last_occurrence + interval '20 hours') ORDER BY 1";
    assert_eq!(client.query(right, &[]).await.unwrap().len(), 0);
    let engine = Engine::builder(test.database.url())
        .node_id("two")
        .start()
        .await
        .unwrap();
    wait_until("both to be computed again", async || {
        client.query(right, &[]).await.unwrap().len() == 2
    })
    .await;
    TestEngine { engine, ..test }.assert_clean_end().await;
}
