//! Requests of clients: which of them an answer is for, and how those end that nothing answers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use super::activities::{event, fails, parallel, sequence, text};
use super::in_memory::{InMemoryInstance, definition, start};
use crate::activity::{
    Activity, ActivityContext, Answer, AnswerBody, AnswerStatus, Catalogue, Descriptor, Fault, InputDescriptor, Step,
};
use crate::execution::{BurstResult, Instruction, InstructionOrigin, RequestEnd, RunRequest, event_hash};
use crate::id::{Incarnation, RequestId};

/// Answers with its text; writes why where it cannot.
struct Answers;

impl Activity for Answers {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Answers").input(InputDescriptor::new("Text", "String"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let text = context.text("Text").unwrap_or_default();
        match context.answer_status() {
            AnswerStatus::Open => context.answer(Answer {
                status: 200,
                headers: Vec::new(),
                body: AnswerBody::Bytes(text.into_bytes()),
            }),
            status => context.write_line(&format!("{text}: {status:?}")),
        }
        Ok(Step::Done)
    }
}

fn instance(activities: &[Value]) -> InMemoryInstance {
    instance_of(json!({"root": sequence("root", activities)}))
}

fn instance_of(model: Value) -> InMemoryInstance {
    let mut catalogue = Catalogue::standard();
    catalogue.register(Answers);
    InMemoryInstance::with(&definition(model), catalogue, |_| {})
}

fn answer(of: &str) -> Value {
    json!({"id": format!("answer-{of}"), "type": "Answers", "text": text(of)})
}

fn fault() -> Value {
    fails("fault", "c", "C")
}

fn request(number: u128, held_until: Option<DateTime<Utc>>) -> RunRequest {
    RunRequest {
        id: RequestId(uuid::Uuid::from_u128(number)),
        holder: Incarnation::default(),
        is_kept: false,
        held_until,
        recurs: false,
    }
}

fn row(row: &str) -> InstructionOrigin {
    InstructionOrigin {
        row: row.to_owned(),
        ..InstructionOrigin::default()
    }
}

fn starts(of: RunRequest) -> (Instruction, InstructionOrigin) {
    let mut start = start(Map::new());
    if let Instruction::Start { request, .. } = &mut start {
        *request = Some(of);
    }
    (start, row("1"))
}

fn signals(name: &str) -> (Instruction, InstructionOrigin) {
    let signal = Instruction::Stimulus {
        bookmark_id: None,
        hash: event_hash(name),
        name: name.to_owned(),
        payload: None,
    };
    (signal, row(name))
}

/// The number of each ended request with its answer or the name of its end.
fn ends(result: &BurstResult) -> Vec<(u128, String)> {
    let ended = result.ended_requests.iter();
    ended
        .map(|ended| {
            let end = match &ended.end {
                RequestEnd::Answered(answer) => match &answer.body {
                    AnswerBody::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
                    AnswerBody::File(_) => unreachable!(),
                },
                other => format!("{other:?}"),
            };
            (ended.request.id.0.as_u128(), end)
        })
        .collect()
}

fn resume(instance: &InMemoryInstance, place: usize, of: RunRequest, from: &str) -> (Instruction, InstructionOrigin) {
    let bookmark = &instance.state.as_ref().unwrap().bookmarks()[place];
    let resume = Instruction::Resume {
        bookmark_id: bookmark.id.clone(),
        input: Map::new(),
        payload: Some(json!({"from": from})),
        request: Some(of),
    };
    (resume, row(from))
}

#[tokio::test]
async fn a_request_ends_with_its_answer_or_with_what_the_instance_comes_to() {
    for (activities, wanted) in [
        (vec![answer("a")], "a"),
        (vec![answer("a"), answer("b")], "a"),
        (vec![answer("a"), fault()], "a"),
        (vec![fault()], "Faulted"),
        (vec![], "Finished"),
        (vec![event("e")], "Waiting"),
        (vec![answer("a"), event("e")], "a"),
    ] {
        let mut instance = instance(&activities);
        let result = instance.burst_of(vec![starts(request(1, None))]).await;
        assert_eq!(ends(&result), [(1, wanted.to_owned())], "{activities:?}");
        assert!(!serde_json::to_string(&result.state).unwrap().contains("requests"));
        if activities.len() == 2 && activities[1] == answer("b") {
            assert_eq!(instance.lines(), ["b: Answered"]);
        }
    }
    // With an incident strategy that lets the instance go on.
    let continues = json!({"root": sequence("root", &[fault(), answer("a")]),
        "options": {"incidentStrategyType": "Elsa.Workflows.IncidentStrategies.ContinueWithIncidentsStrategy, Elsa.Workflows.Core"}});
    let result = instance_of(continues).burst_of(vec![starts(request(1, None))]).await;
    assert_eq!(ends(&result), [(1, "Faulted".to_owned())]);
}

#[tokio::test]
async fn an_answer_without_a_request_meets_none() {
    let mut instance = instance(&[answer("a"), event("e"), answer("b")]);
    assert!(ends(&instance.burst_of(vec![(start(Map::new()), row("1"))]).await).is_empty());
    assert!(ends(&instance.burst_of(vec![signals("e")]).await).is_empty());
    assert_eq!(instance.lines(), ["a: NoRequest", "b: NoRequest"]);
}

#[tokio::test]
async fn a_request_survives_a_yield() {
    let activities = [
        json!({"id": "s", "type": "Elsa.WriteLine", "text": "x"}),
        answer("a"),
        answer("b"),
    ];
    let model = json!({"root": sequence("root", &activities), "options": {"commitStrategyName": "ActivityExecuted"}});
    let mut instance = instance_of(model);
    let mut all = Vec::new();
    let mut result = instance.burst_of(vec![starts(request(1, None))]).await;
    assert!(result.yielded && ends(&result).is_empty());
    while result.yielded {
        result = instance.burst_of(vec![(Instruction::Continue, row("1"))]).await;
        all.extend(ends(&result));
    }
    assert_eq!(all, [(1, "a".to_owned())]);
    assert_eq!(instance.lines().last().unwrap(), "b: Answered");
    assert!(!serde_json::to_string(&result.state).unwrap().contains("requests"));
}

#[tokio::test]
async fn a_held_request_is_answered_by_a_later_burst_of_another_instruction() {
    let soon = DateTime::UNIX_EPOCH + Duration::from_secs(60);
    let mut instance = instance(&[event("e"), answer("a"), event("f"), answer("b")]);
    let result = instance.burst_of(vec![starts(request(1, Some(soon)))]).await;
    assert!(ends(&result).is_empty());
    let result = instance.burst_of(vec![signals("e")]).await;
    assert_eq!(ends(&result), [(1, "a".to_owned())]);
    let result = instance.burst_of(vec![signals("f")]).await;
    assert!(ends(&result).is_empty());
    assert_eq!(instance.lines(), ["b: NoRequest"]);
}

#[tokio::test]
async fn a_held_request_ends_with_the_instance_a_fault_a_cancel_or_its_time() {
    let soon = DateTime::UNIX_EPOCH + Duration::from_secs(60);
    for (last, signal, wanted) in [
        (vec![], signals("e"), "Finished"),
        (vec![fault()], signals("e"), "Faulted"),
        (vec![], (Instruction::Cancel, row("c")), "Faulted"),
    ] {
        let mut instance = instance(&[vec![event("e")], last].concat());
        instance.burst_of(vec![starts(request(1, Some(soon)))]).await;
        let result = instance.burst_of(vec![signal]).await;
        assert_eq!(ends(&result), [(1, wanted.to_owned())]);
    }
    let mut instance = instance(&[event("e"), answer("a"), event("f")]);
    instance.burst_of(vec![starts(request(1, Some(soon)))]).await;
    instance.slept = Duration::from_secs(61);
    let result = instance.burst_of(vec![signals("e")]).await;
    assert_eq!(ends(&result), [(1, "Waiting".to_owned())]);
    assert_eq!(instance.lines(), ["a: NoRequest"]);
}

#[tokio::test]
async fn each_of_two_requests_gets_its_own_answer() {
    let soon = DateTime::UNIX_EPOCH + Duration::from_secs(60);
    let branch = |name: &str| sequence(&format!("branch-{name}"), &[event(name), answer(name)]);
    let fork = parallel("fork", &[branch("a"), branch("b")]);
    let mut instance = instance(&[fork, answer("end")]);
    // The first one is held, and not answered by what the others set off.
    let result = instance.burst_of(vec![starts(request(1, Some(soon)))]).await;
    assert!(ends(&result).is_empty());
    let both = vec![
        resume(&instance, 0, request(2, None), "2"),
        resume(&instance, 1, request(3, None), "3"),
    ];
    let result = instance.burst_of(both).await;
    let ends = ends(&result);
    assert_eq!(ends[..2], [(2, "a".to_owned()), (3, "b".to_owned())]);
    // The end belongs to the last of them, which has its answer; the held one ends with the instance.
    assert_eq!(instance.lines(), ["end: Answered"]);
    assert_eq!(ends[2], (1, "Finished".to_owned()));
}

#[tokio::test]
async fn a_resume_that_matches_nothing_keeps_its_request_apart() {
    let mut instance = instance(&[event("e"), answer("a"), event("f")]);
    instance.burst_of(vec![(start(Map::new()), row("1"))]).await;
    let (first, second) = (
        resume(&instance, 0, request(1, None), "2"),
        resume(&instance, 0, request(2, None), "3"),
    );
    let result = instance.burst_of(vec![first, second]).await;
    assert_eq!(ends(&result), [(1, "a".to_owned())]);
    assert_eq!(result.unmatched.len(), 1);
    assert_eq!(result.unmatched[0].0, 1);
}
