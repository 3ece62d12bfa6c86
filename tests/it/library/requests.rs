//! Calls of the engine and their answers.

use mainspring::definition::WorkflowDefinition;
use mainspring::runtime::{Idempotency, StartRequest};
use serde_json::{Map, Value, json};

use crate::support::engine::{TestEngine, event, idempotency, resume_of, start, waits_for};
use crate::support::{TIMEOUT, poll_until};

#[tokio::test(flavor = "multi_thread")]
async fn an_event_matches_present_and_later_bookmarks() {
    let test = TestEngine::new().await;
    test.publish(waits_for("waiter", "Word", false)).await;
    let waiting = test.engine.execute(start("waiter")).await.unwrap();
    assert_eq!(waiting.sub_status(), Some("Suspended"));
    let met = test.trigger("Word", json!({"n": 1})).await;
    assert_eq!((met.resumed, met.started, met.kept), (1, 0, false));
    assert_eq!(
        test.finishes(&waiting.instance_id).await["output"]["Word"],
        json!({"n": 1})
    );
    // Case matters, and no instance waits: the event is kept until one does.
    let kept = test.trigger("word", json!(0)).await;
    assert_eq!((kept.resumed, kept.started, kept.kept), (0, 0, true));
    assert!(test.trigger("Word", json!({"n": 2})).await.kept);
    let late = test.engine.execute(start("waiter")).await.unwrap();
    assert_eq!(
        test.finishes(&late.instance_id).await["output"]["Word"],
        json!({"n": 2})
    );
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_starts_what_it_triggers_once_and_so_does_one_that_came_before_the_publish() {
    let test = TestEngine::new().await;
    assert!(test.trigger("Begin", json!("early")).await.kept);
    test.publish(waits_for("triggered", "Begin", true)).await;
    let mut late = event("Begin", json!("late"));
    late.idempotency = idempotency("k");
    assert_eq!(test.engine.trigger_event(late.clone()).await.unwrap().started, 1);
    assert_eq!(test.engine.trigger_event(late).await.unwrap().started, 0);
    let words = poll_until(TIMEOUT, "both instances to finish", async || {
        let listed = test
            .engine
            .instances(&Default::default(), Default::default())
            .await
            .ok()?;
        let mut words = Vec::new();
        for item in listed.items.iter().filter(|item| item.status == "Finished") {
            words.push(test.engine.instance(&item.id).await.ok()?.workflow_state["output"]["Word"].clone());
        }
        words.sort_by_key(Value::to_string);
        (words.len() == 2).then_some(words)
    })
    .await;
    assert_eq!(words, [json!("early"), json!("late")]);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bookmark_is_resumed_once() {
    let test = TestEngine::new().await;
    test.publish(waits_for("waiter", "Never", false)).await;
    let waiting = test.engine.execute(start("waiter")).await.unwrap();
    let resume = resume_of(&waiting.instance_id);
    let both = tokio::join!(test.engine.resume(resume.clone()), test.engine.resume(resume.clone()));
    let conflicts = [both.0, both.1]
        .into_iter()
        .filter(|one| one.as_ref().is_err_and(|error| error.is_conflict()))
        .count();
    assert_eq!(conflicts, 1);
    assert_eq!(test.engine.resume(resume).await.unwrap_err().code(), "already-resumed");
    let unknown = resume_of(&"nobody".into());
    assert!(test.engine.resume(unknown).await.unwrap_err().is_not_found());
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_stays_on_its_version_and_the_next_start_runs_the_new_one() {
    let test = TestEngine::new().await;
    let version = |word: &str| {
        json!({"definitionId": "v", "outputs": [{"name": "Word", "type": "String"}],
            "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.Event", "id": "e", "eventName": {"typeName": "String", "expression": {"type": "Literal", "value": "Go"}}},
            {"type": "Elsa.SetOutput", "id": "o",
             "outputName": {"typeName": "String", "expression": {"type": "Literal", "value": "Word"}},
             "outputValue": {"typeName": "Object", "expression": {"type": "Literal", "value": word}}}]}})
    };
    test.publish(version("old")).await;
    let old = test.engine.execute(start("v")).await.unwrap();
    test.engine
        .import(WorkflowDefinition::from_value(version("draft")).unwrap())
        .await
        .unwrap();
    let still_old = test.engine.execute(start("v")).await.unwrap();
    test.publish(version("new")).await;
    let new = test.engine.execute(start("v")).await.unwrap();
    assert_eq!(test.trigger("Go", Value::Null).await.resumed, 3);
    for (run, word) in [(old, "old"), (still_old, "old"), (new, "new")] {
        assert_eq!(test.finishes(&run.instance_id).await["output"]["Word"], word);
    }
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_idempotency_key_starts_one_instance() {
    let test = TestEngine::new().await;
    test.publish(waits_for("waiter", "Never", false)).await;
    let keyed = |print: u8| StartRequest {
        idempotency: Some(Idempotency {
            key: "same".to_owned(),
            fingerprint: [print; 32],
        }),
        ..start("waiter")
    };
    let mut runs = Vec::new();
    for _ in 0..8 {
        let (engine, request) = (test.engine.clone(), keyed(1));
        runs.push(tokio::spawn(async move {
            engine.execute(request).await.unwrap().instance_id
        }));
    }
    let mut ids = std::collections::HashSet::new();
    for run in runs {
        ids.insert(run.await.unwrap());
    }
    assert_eq!(ids.len(), 1);
    assert!(test.engine.execute(keyed(2)).await.unwrap_err().is_unprocessable());
    assert_eq!(test.instance_count().await, 1);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_matched_a_consumed_bookmark_are_kept_for_their_instance() {
    let test = TestEngine::new().await;
    test.publish(waits_for("waiter", "Rush", false)).await;
    let waiting = test.engine.execute(start("waiter")).await.unwrap();
    let mut events = Vec::new();
    for n in 0..20 {
        let engine = test.engine.clone();
        events.push(tokio::spawn(async move {
            engine.trigger_event(event("Rush", json!(n))).await.unwrap()
        }));
    }
    let (mut resumed, mut kept) = (0, 0);
    for event in events {
        let met = event.await.unwrap();
        resumed += met.resumed;
        kept += i64::from(met.kept);
    }
    test.finishes(&waiting.instance_id).await;
    let client = test.database.connect().await;
    // One was the instance's, none is gone.
    client.wait_for_rows("inbox", 19).await;
    assert_eq!(resumed as i64 + kept, 20);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_of_the_wrong_type_starts_nothing() {
    let test = TestEngine::new().await;
    let typed = |kind: &str| {
        json!({"definitionId": "typed", "inputs": [{"name": "n", "type": kind}],
            "root": {"type": "Elsa.Event", "id": "e",
                     "eventName": {"typeName": "String", "expression": {"type": "Literal", "value": "Never"}}}})
    };
    test.publish(typed("Int32")).await;
    let with = |value: Value| StartRequest {
        input: Map::from_iter([("n".to_owned(), value)]),
        ..start("typed")
    };
    for request in [with(json!("five")), with(json!({"a": 1}))] {
        let refused = test.engine.execute(request).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.fields()[0].0.as_str()),
            ("invalid-input", "input.n")
        );
    }
    let nowhere = StartRequest {
        trigger_activity_id: Some("nope".into()),
        ..start("typed")
    };
    assert_eq!(
        test.engine.dispatch(nowhere).await.unwrap_err().fields()[0].0,
        "triggerActivityId"
    );
    assert_eq!(test.instance_count().await, 0);
    test.engine.execute(with(json!("5"))).await.unwrap();
    // What was remembered of the old version is no reason to refuse what fits the new one.
    test.publish(typed("String")).await;
    test.engine.execute(with(json!("five"))).await.unwrap();
    test.assert_clean_end().await;
}
