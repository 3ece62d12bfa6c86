//! Retries of what has faulted: the same execution and key, a greater attempt, and the end that it would have had.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use super::activities::{event, guarded, line, literal, parallel, sequence};
use super::in_memory::{InMemoryInstance, definition, start};
use super::nested::{usable, using};
use crate::activity::{
    Activity, ActivityContext, BookmarkRequest, Catalogue, Descriptor, Fault, InputDescriptor, ResumeLinkOptions,
    Resumption, Step,
};
use crate::execution::{
    ActivityRetry, BurstResult, InstanceState, Instruction, InstructionOrigin, InterpreterOptions, SubStatus,
};
use crate::id::ActivityId;

const CONTINUE: &str = "ContinueWithIncidentsStrategy";

/// Writes its attempt and key, and faults until the attempt that it is given.
struct Flaky;

impl Activity for Flaky {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Flaky").input(InputDescriptor::new("Until", "Int32"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let until = context.input("Until").as_u64().unwrap_or(2);
        context.write_line(&format!("{} {}", context.attempt(), context.idempotency_key()));
        if u64::from(context.attempt()) < until {
            return Err(Fault::new("not yet"));
        }
        Ok(Step::Done)
    }
}

fn flaky(id: &str, until: Value) -> Value {
    json!({"id": id, "type": "Flaky", "until": until})
}

fn instance_of(root: &Value, strategy: &str) -> InMemoryInstance {
    let model = definition(json!({"root": root, "options": {"incidentStrategyType": strategy},
        "variables": [{"id": "v", "name": "Until", "typeName": "Int32", "value": 2}]}));
    let mut catalogue = Catalogue::standard();
    catalogue.register(Flaky);
    InMemoryInstance::with(&model, catalogue, |_: &mut InterpreterOptions| {})
}

async fn begin(instance: &mut InMemoryInstance) -> BurstResult {
    let origin = InstructionOrigin {
        row: "1".to_owned(),
        ..InstructionOrigin::default()
    };
    instance.burst_of(vec![(start(Map::new()), origin)]).await
}

/// Retries, with the state serialized as for the database, and runs what it has scheduled.
async fn retry(instance: &mut InMemoryInstance, activities: &[&str]) -> (Vec<ActivityRetry>, Option<BurstResult>) {
    let state = InstanceState::from_bytes(&instance.state.as_ref().unwrap().to_bytes().unwrap()).unwrap();
    let activities: Vec<ActivityId> = activities.iter().map(|id| ActivityId::new(*id)).collect();
    let origin = InstructionOrigin {
        row: "retry 1".to_owned(),
        ..InstructionOrigin::default()
    };
    let now = chrono::DateTime::UNIX_EPOCH;
    let (retries, result) = instance
        .interpreter
        .retry(&instance.program, state, &activities, &origin, now);
    let Some(result) = result else {
        return (retries, None);
    };
    assert!(result.yielded && result.executed == 0);
    instance.journal.extend(result.journal.iter().cloned());
    instance.state = Some(result.state);
    (retries, Some(instance.run(Instruction::Continue).await))
}

fn refusals(retries: &[ActivityRetry]) -> Vec<&str> {
    let refused = retries.iter().filter_map(|retry| retry.attempt.as_ref().err());
    refused.map(String::as_str).collect()
}

/// Makes a link to its bookmark, and waits, unless it is the first attempt; faults when it goes on.
struct Mails(Arc<Mutex<Vec<String>>>);

impl Activity for Mails {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Mails").input(InputDescriptor::new("Reject", "String"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let reject = context.input("Reject").as_str().unwrap_or_default().to_owned();
        let approve = context.resume_url(ResumeLinkOptions::default())?;
        self.0.lock().unwrap().extend([reject, approve]);
        if context.attempt() < 2 {
            return Err(Fault::new("the mail server has closed the connection"));
        }
        context.bookmark(BookmarkRequest::new(json!({})));
        Ok(Step::Wait)
    }

    async fn resumed(&self, _: &mut ActivityContext<'_>, _: Resumption) -> Result<Step, Fault> {
        Err(Fault::new("not now"))
    }
}

#[tokio::test]
async fn a_retry_makes_the_links_of_the_try_that_has_not_waited_and_no_link_leads_elsewhere() {
    let sent = Arc::<Mutex<Vec<String>>>::default();
    let targets = Arc::<Mutex<BTreeMap<String, String>>>::default();
    let root = json!({"id": "m", "type": "Mails",
        "reject": {"typeName": "String", "expression": {"type": "JavaScript", "value": "createEventTriggerUrl('Reject')"}}});
    let mut catalogue = Catalogue::standard();
    catalogue.register(Mails(Arc::clone(&sent)));
    let seen = Arc::clone(&targets);
    let mut instance = InMemoryInstance::with(&definition(json!({ "root": root })), catalogue, |options| {
        options.script.links.sign_with(move |id, leads_to| {
            let target = format!("{leads_to:?}");
            let before = seen.lock().unwrap().insert(id.to_string(), target.clone());
            assert!(before.is_none_or(|before| before == target), "{id} leads elsewhere");
            Some((id.to_string(), 1))
        });
    });
    let urls = || std::mem::take(&mut *sent.lock().unwrap());
    let faulted = begin(&mut instance).await;
    assert_eq!(faulted.sub_status, SubStatus::Faulted);
    let first = urls();
    assert_ne!(first[0], first[1]);
    let (_, waiting) = retry(&mut instance, &[]).await;
    let waiting = waiting.unwrap();
    assert_eq!(waiting.sub_status, SubStatus::Suspended);
    assert_eq!(urls(), first, "what was mailed works");
    let made: Vec<String> = waiting.links.iter().map(|(link, _)| link.id.to_string()).collect();
    assert_eq!(made, first);
    // What has waited has used its links.
    let origin = InstructionOrigin {
        row: "2".to_owned(),
        ..InstructionOrigin::default()
    };
    let resume = Instruction::Resume {
        bookmark_id: waiting.bookmarks_created[0].id.clone(),
        input: Map::new(),
        payload: None,
        request: None,
    };
    instance.burst_of(vec![(resume, origin)]).await;
    let state = InstanceState::from_bytes(&instance.state.as_ref().unwrap().to_bytes().unwrap()).unwrap();
    let origin = InstructionOrigin {
        row: "retry 2".to_owned(),
        ..InstructionOrigin::default()
    };
    let now = chrono::DateTime::UNIX_EPOCH;
    let (_, again) = instance.interpreter.retry(&instance.program, state, &[], &origin, now);
    instance.state = Some(again.unwrap().state);
    instance.run(Instruction::Continue).await;
    let later = urls();
    assert!(later.iter().all(|url| !first.contains(url)), "{later:?} {first:?}");
    assert_eq!(targets.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_retried_workflow_as_an_activity_begins_with_its_inputs_and_without_outputs() {
    let script = "setVariable('N', getInput('N') * 2); setRound(getRound() + 1); \
        if (getRound() == 1) setVariable('Out', 'no number'); return `${getVariable('N')}`";
    let print = json!({"type": "Elsa.WriteLine", "id": "print",
        "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": script}}});
    let broken = usable(
        "Broken",
        json!({"inputs": [{"name": "N", "type": "Int32"}], "outputs": [{"name": "Out", "type": "Int32"}], "root": print}),
    );
    let mut used = using("use", "Broken");
    used["n"] = 5.into();
    used["out"] = json!({"typeName": "Int32", "memoryReference": {"id": "o"}});
    let consumer = definition(json!({"definitionId": "consumer", "root": used, "variables": [
        {"id": "o", "name": "O", "typeName": "Int32"}, {"id": "r", "name": "Round", "typeName": "Int32", "value": 0}]}));
    let mut instance = InMemoryInstance::nesting(&consumer, &[broken], Catalogue::standard());
    let first = begin(&mut instance).await;
    assert_eq!((first.sub_status, first.incident_count), (SubStatus::Faulted, 1));
    assert_eq!(first.state.incidents()[0].activity_id.as_str(), "use");
    let (_, again) = retry(&mut instance, &[]).await;
    let again = again.unwrap();
    assert_eq!(again.sub_status, SubStatus::Finished, "{:?}", again.state.incidents());
    assert_eq!(instance.lines(), ["10", "10"]);
}

#[tokio::test]
async fn what_contains_a_retried_activity_goes_on_as_if_it_had_not_faulted() {
    let chart = json!({"id": "flow", "type": "Elsa.Flowchart",
        "activities": [sequence("inner", &[flaky("bad", literal("Int32", 3)), line("after")]), line("end")],
        "connections": [{"source": {"activity": "inner", "port": "Done"}, "target": {"activity": "end", "port": "In"}}]});
    for strategy in [CONTINUE, "FaultStrategy"] {
        let mut instance = instance_of(&sequence("outer", &[chart.clone(), line("last")]), strategy);
        let first = begin(&mut instance).await;
        let is_over = strategy != CONTINUE;
        let expected = if is_over {
            SubStatus::Faulted
        } else {
            SubStatus::Suspended
        };
        assert_eq!((first.sub_status, first.incident_count), (expected, 1), "{strategy}");
        let (retries, again) = retry(&mut instance, &[]).await;
        assert_eq!(retries[0].attempt, Ok(2));
        let again = again.unwrap();
        assert_eq!((again.sub_status, again.incident_count), (expected, 1), "{strategy}");
        let (retries, ended) = retry(&mut instance, &["bad"]).await;
        assert_eq!(retries[0].attempt, Ok(3));
        let ended = ended.unwrap();
        assert_eq!(
            (ended.sub_status, ended.incident_count),
            (SubStatus::Finished, 0),
            "{strategy}"
        );
        let lines = instance.lines();
        let key = lines[0].strip_prefix("1 ").unwrap();
        assert_eq!(
            lines,
            [
                &format!("1 {key}"),
                &format!("2 {key}"),
                &format!("3 {key}"),
                "after",
                "end",
                "last"
            ],
            "{strategy}"
        );
        assert_eq!(instance.events("Retried"), ["bad", "bad"]);
        let of_bad = instance
            .journal
            .iter()
            .filter(|entry| entry.activity_id.as_str() == "bad");
        let executions: std::collections::HashSet<_> = of_bad.map(|entry| &entry.activity_execution_id).collect();
        assert_eq!(executions.len(), 1);
        assert!(
            ended
                .activity_executions
                .iter()
                .all(|execution| execution.fault_count == 0)
        );
        assert_eq!(ended.state.incidents(), []);
    }
}

#[tokio::test]
async fn other_branches_go_on_where_the_fault_has_stopped_them() {
    let waits = sequence("waits", &[event("go"), line("gone")]);
    let bad = sequence("s", &[line("first"), flaky("bad", Value::Null)]);
    let queued = sequence("queued", &[line("q1"), line("q2")]);
    let mut instance = instance_of(&parallel("p", &[waits, bad, queued]), "FaultStrategy");
    let first = begin(&mut instance).await;
    assert_eq!(first.sub_status, SubStatus::Faulted);
    assert_eq!(first.state.bookmarks().len(), 0);
    let (_, again) = retry(&mut instance, &[]).await;
    let again = again.unwrap();
    assert_eq!(again.sub_status, SubStatus::Suspended);
    assert_eq!(again.state.bookmarks().len(), 1);
    let ended = instance.event("go", Value::Null).await;
    assert_eq!(ended.sub_status, SubStatus::Finished);
    let lines = instance.lines();
    assert_eq!(
        lines.iter().filter(|line| *line == "q2" || *line == "gone").count(),
        2,
        "{lines:?}"
    );
}

#[tokio::test]
async fn the_inputs_are_evaluated_anew() {
    let until = literal("Int32", 0);
    let until =
        json!({"typeName": until["typeName"], "expression": {"type": "JavaScript", "value": "variables.Until"}});
    let ups = json!({"id": "up", "type": "Elsa.SetVariable", "variable": {"id": "v"},
        "value": {"typeName": "Int32", "expression": {"type": "JavaScript", "value": "9"}}});
    let root = parallel("p", &[flaky("bad", until), sequence("s", &[event("go"), ups])]);
    let mut instance = instance_of(&root, CONTINUE);
    begin(&mut instance).await;
    instance.event("go", Value::Null).await;
    let (_, again) = retry(&mut instance, &["bad"]).await;
    assert_eq!(again.unwrap().incident_count, 1);
}

#[tokio::test]
async fn what_has_not_faulted_is_told_so_and_changes_nothing() {
    let mut instance = instance_of(&sequence("s", &[flaky("bad", Value::Null), line("a")]), "FaultStrategy");
    begin(&mut instance).await;
    let (retries, result) = retry(&mut instance, &["a", "unknown"]).await;
    assert!(result.is_none());
    assert_eq!(
        refusals(&retries),
        ["The activity a has not faulted", "The activity unknown has not faulted"]
    );
    // The others are retried.
    let (retries, result) = retry(&mut instance, &["a", "bad"]).await;
    assert_eq!(refusals(&retries).len(), 1);
    assert_eq!(result.unwrap().sub_status, SubStatus::Finished);
    let (retries, result) = retry(&mut instance, &[]).await;
    assert!(retries.is_empty() && result.is_none());
}

#[tokio::test]
async fn an_activity_whose_container_has_ended_is_not_executed_again() {
    let fork = json!({"id": "fork", "type": "Elsa.Fork", "joinMode": literal("String", "WaitAny"),
        "branches": [flaky("bad", Value::Null), line("other")]});
    let root = sequence("s", &[fork, event("go")]);
    let mut instance = instance_of(&root, CONTINUE);
    let first = begin(&mut instance).await;
    assert_eq!((first.sub_status, first.incident_count), (SubStatus::Suspended, 1));
    let (retries, result) = retry(&mut instance, &[]).await;
    assert!(result.is_none(), "{retries:?}");
    assert!(
        refusals(&retries)[0].contains("what contains it has ended"),
        "{retries:?}"
    );
    assert_eq!(instance.state.as_ref().unwrap().incidents().len(), 1);
}

#[tokio::test]
async fn a_fault_that_a_guard_has_held_up_is_retried_with_the_guard() {
    let guard = guarded("guard", [flaky("bad", Value::Null), Value::Null, line("finally")]);
    let mut instance = instance_of(&sequence("s", &[guard, line("behind")]), "FaultStrategy");
    let first = begin(&mut instance).await;
    assert_eq!((first.sub_status, first.incident_count), (SubStatus::Faulted, 1));
    let incident = &first.state.incidents()[0];
    assert_eq!(incident.activity_id.as_str(), "bad");
    let (retries, again) = retry(&mut instance, &["bad"]).await;
    assert_eq!(retries[0].attempt, Ok(2), "{retries:?}");
    // What is inside begins as a new execution, and faults again.
    let again = again.unwrap();
    assert_eq!((again.sub_status, again.incident_count), (SubStatus::Faulted, 1));
    assert_eq!(instance.events("Retried"), ["guard"]);
    assert_eq!(instance.lines().iter().filter(|line| *line == "finally").count(), 2);
}

#[tokio::test]
async fn an_imported_instance_is_not_retried() {
    let root = parallel("p", &[event("go"), flaky("bad", Value::Null)]);
    let mut instance = instance_of(&root, "FaultStrategy");
    begin(&mut instance).await;
    let program = std::sync::Arc::clone(&instance.program);
    instance.state.as_mut().unwrap().adopt(&program).unwrap();
    let (retries, result) = retry(&mut instance, &[]).await;
    assert!(
        result.is_none() && refusals(&retries)[0].contains("was imported"),
        "{retries:?}"
    );
    assert_eq!(instance.state.as_ref().unwrap().incidents().len(), 1);
}

#[tokio::test]
async fn a_bulk_dispatch_that_has_started_children_is_not_executed_again() {
    let items: Vec<Value> = (0..1_500).map(Value::from).collect();
    let fails_late = json!({"typeName": "String", "expression": {"type": "JavaScript",
        "value": "if (getItem() === 1400) throw new Error('late'); String(getItem())"}});
    let bulk = json!({"id": "bulk", "type": "Elsa.BulkDispatchWorkflows", "workflowDefinitionId": literal("String", "child"),
        "items": items, "correlationIdFunction": fails_late});
    let mut instance = instance_of(&sequence("s", &[bulk]), "FaultStrategy");
    let first = begin(&mut instance).await;
    assert_eq!(
        (first.sub_status, first.children.len()),
        (SubStatus::Suspended, 1_000),
        "{:?}",
        first.state.incidents()
    );
    let late = instance.sleep().await;
    assert_eq!(late.sub_status, SubStatus::Faulted);
    let (retries, result) = retry(&mut instance, &[]).await;
    assert!(
        result.is_none() && refusals(&retries)[0].contains("has started children"),
        "{retries:?}"
    );
}
