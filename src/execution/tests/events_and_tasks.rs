//! What a burst publishes, and tasks that wait for their results.

use serde_json::{Map, Value, json};

use super::activities::{script_of, text};
use super::in_memory::{InMemoryInstance, definition, object, start};
use crate::activity::{EventPublication, TASK_RESULT_INPUT};
use crate::execution::{BurstResult, Instruction, SubStatus};

async fn run(activities: Value) -> BurstResult {
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": activities});
    InMemoryInstance::new(&definition(json!({"root": root}))).start().await
}

#[tokio::test]
async fn a_burst_publishes_its_events_in_order() {
    let result = run(json!([
        {"id": "a", "type": "Elsa.PublishEvent", "eventName": text("Paid"), "correlationId": text("c"),
         "payload": script_of("Object", "({sum: 3})")},
        {"id": "b", "type": "Elsa.PublishEvent", "eventName": text("Seen"), "correlationId": text("  "),
         "isLocalEvent": {"typeName": "Boolean", "expression": {"type": "Literal", "value": true}}}
    ]))
    .await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let event = |name: &str, correlation_id: Option<&str>, is_local: bool, payload: Option<Value>| EventPublication {
        name: name.to_owned(),
        correlation_id: correlation_id.map(str::to_owned),
        is_local,
        payload,
    };
    let wanted = [
        event("Paid", Some("c"), false, Some(json!({"sum": 3}))),
        event("Seen", None, true, None),
    ];
    assert_eq!(result.events, wanted);
}

#[tokio::test]
async fn an_event_that_cannot_be_published_faults_its_activity() {
    let long = "n".repeat(2_000);
    for (activity, message) in [
        (json!({"eventName": text("")}), "EventName"),
        (json!({}), "EventName"),
        (json!({"eventName": text("a\nb")}), "control characters"),
        (
            json!({"eventName": text("a"), "correlationId": text("c\u{7}")}),
            "control characters",
        ),
        (json!({"eventName": text(&long)}), "name of the event"),
        (
            json!({"eventName": text("a"), "payload": script_of("Object", "'x'.repeat(1100000)")}),
            "1048576",
        ),
    ] {
        let mut activity = activity;
        activity["id"] = json!("p");
        activity["type"] = json!("Elsa.PublishEvent");
        let result = run(json!([activity])).await;
        assert_eq!(result.sub_status, SubStatus::Faulted);
        assert_eq!(result.events, []);
        let found = &result.state.incidents()[0].message;
        assert!(found.contains(message), "{found}");
    }
}

#[tokio::test]
async fn a_trigger_gives_the_instance_what_elsa_names_its_inputs() {
    let trigger = |fields: Value| {
        let mut trigger = json!({"id": "t", "canStartWorkflow": true});
        trigger.as_object_mut().unwrap().extend(object(fields));
        trigger
    };
    let at = "2026-11-29T12:00:00Z";
    let occurrence = json!({"occurrence": at});
    let span = json!({"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "00:05:00"}});
    let date = json!({"typeName": "DateTimeOffset", "expression": {"type": "Literal", "value": at}});
    for (trigger, payload, wanted) in [
        (
            trigger(json!({"type": "Elsa.Event", "eventName": text("Paid")})),
            json!({"sum": 3}),
            json!({"__EventPayloadWorkflowInput": {"sum": 3}}),
        ),
        (
            trigger(json!({"type": "Elsa.Event", "eventName": text("Paid")})),
            Value::Null,
            json!({"__EventPayloadWorkflowInput": {}}),
        ),
        (
            trigger(json!({"type": "Elsa.Timer", "interval": span})),
            occurrence.clone(),
            json!({"StartAt": at, "Interval": "00:05:00"}),
        ),
        (
            trigger(json!({"type": "Elsa.Cron", "cronExpression": text("0 0 12 * * *")})),
            occurrence.clone(),
            json!({"CronExpression": "0 0 12 * * *"}),
        ),
        (
            trigger(json!({"type": "Elsa.StartAt", "dateTime": date})),
            occurrence.clone(),
            json!({"ExecuteAt": at}),
        ),
    ] {
        let line = json!({"id": "line", "type": "Elsa.WriteLine", "text": script_of("String",
            "JSON.stringify(getInput('__EventPayloadWorkflowInput') ?? getInput('ExecuteAt') ?? getInput('Interval') ?? getInput('CronExpression'))")});
        let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [trigger, line]});
        let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
        let mut begin = start(Map::new());
        if let Instruction::Start {
            trigger_activity_id,
            payload: given,
            ..
        } = &mut begin
        {
            *trigger_activity_id = Some("t".into());
            *given = Some(payload);
        }
        let result = instance.run(begin).await;
        assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
        assert_eq!(Value::Object(result.state.input.clone()), wanted);
        assert_ne!(instance.lines(), ["null"], "{wanted}");
    }
}

#[tokio::test]
async fn the_inputs_of_a_trigger_take_declared_names_and_cover_no_variable() {
    let at = "2026-11-29T12:00:00Z";
    let span = json!({"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "00:05:00"}});
    let timer = json!({"id": "t", "type": "Elsa.Timer", "canStartWorkflow": true, "interval": span});
    let line = json!({"id": "line", "type": "Elsa.WriteLine",
        "text": script_of("String", "`${getInterval()} ${getInput('Interval')} ${getInput('StartAt')}`")});
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [timer, line]});
    let timed = definition(json!({"root": root,
        "inputs": [{"name": "startAt", "type": "String", "defaultValue": "never"}],
        "variables": [{"id": "i", "name": "Interval", "typeName": "String", "value": "mine"}]}));
    let mut instance = InMemoryInstance::new(&timed);
    let mut begin = start(Map::new());
    if let Instruction::Start {
        trigger_activity_id,
        payload,
        ..
    } = &mut begin
    {
        *trigger_activity_id = Some("t".into());
        *payload = Some(json!({"occurrence": at}));
    }
    let result = instance.run(begin).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines(), [format!("mine 00:05:00 {at}")]);
    let names: Vec<&String> = result.state.input.keys().collect();
    assert_eq!(names, ["startAt", "Interval"]);
    // A start at the trigger without an occurrence keeps what the client gives.
    let mut begin = start(object(json!({"startAt": "given"})));
    if let Instruction::Start {
        trigger_activity_id, ..
    } = &mut begin
    {
        *trigger_activity_id = Some("t".into());
    }
    let mut instance = InMemoryInstance::new(&timed);
    instance.run(begin).await;
    assert_eq!(instance.lines(), ["mine 00:05:00 given"]);
}

#[tokio::test]
async fn an_event_that_resumes_gives_its_payload_as_an_input_too() {
    let wait = json!({"id": "e", "type": "Elsa.Event", "eventName": text("Paid")});
    let line = json!({"id": "line", "type": "Elsa.WriteLine", "text": script_of("String", "`${getInput('__EventPayloadWorkflowInput').sum}`")});
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [wait, line]});
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
    instance.start().await;
    let result = instance.event("Paid", json!({"sum": 3})).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines(), ["3"]);
}

fn task() -> InMemoryInstance {
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [
        {"id": "task", "type": "Elsa.RunTask", "taskName": text("Weigh"), "payload": script_of("ObjectDictionary", "({parcel: 7})"),
         "taskId": {"typeName": "String", "memoryReference": {"id": "Task"}},
         "result": {"typeName": "Object", "memoryReference": {"id": "Weight"}}},
        {"id": "line", "type": "Elsa.WriteLine", "text": script_of("String", "`${getTask()} weighs ${getWeight().grams}`")}
    ]});
    let variables = json!([{"id": "Task", "name": "Task", "typeName": "String"},
        {"id": "Weight", "name": "Weight", "typeName": "Object"}]);
    InMemoryInstance::new(&definition(json!({"root": root, "variables": variables})))
}

#[tokio::test]
async fn a_task_waits_for_its_result() {
    let mut instance = task();
    let waiting = instance.start().await;
    assert_eq!(waiting.sub_status, SubStatus::Suspended);
    let [bookmark] = waiting.bookmarks_created.as_slice() else {
        panic!("{:?}", waiting.bookmarks_created)
    };
    let id = bookmark.activity_execution_id.as_str();
    assert_eq!(bookmark.name, "Elsa.RunTask");
    let wanted = json!({"taskId": id, "taskName": "Weigh", "payload": {"parcel": 7}});
    assert_eq!(bookmark.payload, wanted);
    // A repetition of the burst asks for the same task.
    assert_eq!(task().start().await.bookmarks_created, waiting.bookmarks_created);
    let resume = Instruction::Resume {
        bookmark_id: bookmark.id.clone(),
        input: Map::from_iter([(TASK_RESULT_INPUT.to_owned(), json!({"grams": 12}))]),
        payload: None,
        request: None,
    };
    let result = instance.run(resume.clone()).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines(), [format!("{id} weighs 12")]);
    let again = instance.run(resume).await;
    assert_eq!(again.unmatched.len(), 1, "a second result meets nothing");
}

#[tokio::test]
async fn a_task_without_a_name_faults() {
    let result = run(json!([{"id": "t", "type": "Elsa.RunTask"}])).await;
    assert!(result.state.incidents()[0].message.contains("TaskName"));
}

#[tokio::test]
async fn a_resume_gives_an_activity_its_names_and_the_workflow_the_declared_ones() {
    let read = json!({"id": "said", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {
        "type": "JavaScript", "value": "`${variables.R} ${getInput('Approved')}`"}}});
    let task = json!({"id": "t", "type": "Elsa.RunTask", "taskName": {"typeName": "String", "expression": {"type": "Literal", "value": "ask"}},
        "result": {"typeName": "Object", "memoryReference": {"id": "r"}}});
    let mut instance = InMemoryInstance::new(&definition(json!({
        "inputs": [{"name": "Approved", "type": "Boolean"}, {"name": "runTaskInput", "type": "Object"}],
        "variables": [{"id": "r", "name": "R", "typeName": "Object"}],
        "root": {"id": "s", "type": "Elsa.Sequence", "activities": [task, read]},
    })));
    let waiting = instance.run(start(object(json!({"Approved": false})))).await;
    let bookmark_id = waiting.bookmarks_created[0].id.clone();
    let input = object(json!({"RunTaskInput": "done", "approved": true}));
    let result = instance
        .run(Instruction::Resume {
            bookmark_id,
            input,
            payload: None,
            request: None,
        })
        .await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines(), ["done true"]);
}
