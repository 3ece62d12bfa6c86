//! Children that run in the burst of their parent.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::activities::{line, literal};
use super::in_memory::{CapturedLines, definition, options, start};
use crate::activity::{Catalogue, PublishedDefinitions};
use crate::execution::{
    Burst, BurstResult, ChildRun, ChildStart, Children, CommittedChild, InstanceState, Instruction, InstructionOrigin,
    Interpreter, InterpreterOptions, Program, Status, SubStatus, event_hash,
};
use crate::id::InstanceId;

fn event(name: &str) -> Value {
    json!({"id": name, "type": "Elsa.Event", "eventName": literal("String", json!(name))})
}

fn execute(id: &str, child: &str, waits: bool) -> Value {
    json!({"id": id, "type": "Elsa.ExecuteWorkflow", "workflowDefinitionId": literal("String", json!(child)),
        "waitForCompletion": literal("Boolean", json!(waits)), "result": {"typeName": "Object", "memoryReference": {"id": "r"}}})
}

fn workflow(activities: Value) -> Value {
    json!({"variables": [{"id": "r", "name": "R", "typeName": "Object"}], "outputs": [{"name": "Word", "type": "Object"}],
        "root": {"id": "s", "type": "Elsa.Sequence", "activities": activities}})
}

/// What the engine does for children, with a map as the database.
struct Family {
    interpreter: Interpreter,
    lines: Arc<CapturedLines>,
    programs: HashMap<String, Arc<Program>>,
    committed: Mutex<HashMap<InstanceId, InstanceState>>,
    /// How each further run ends instead.
    ends_as: Option<fn() -> ChildRun>,
    lasts: Duration,
}

impl PublishedDefinitions for Family {
    fn is_published<'a>(&'a self, id: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(std::future::ready(self.programs.contains_key(id)))
    }
}

impl Children for Family {
    fn run<'a>(&'a self, child: &'a ChildStart) -> Pin<Box<dyn Future<Output = ChildRun> + Send + 'a>> {
        Box::pin(async move {
            let before = self.committed.lock().unwrap().get(&child.id).cloned();
            if let Some(state) = before {
                let by = state.parent().and_then(|parent| parent.started_by.clone()).unwrap();
                let now = child.parent.started_by.as_ref().unwrap();
                if by.lineage != now.lineage && by.digest != now.digest {
                    return ChildRun::OfAnotherLineage;
                }
                return committed(&state, 0);
            }
            if let Some(end) = self.ends_as {
                return end();
            }
            let Some(program) = self.programs.get(child.definition_id.as_str()) else {
                return ChildRun::NotPublished;
            };
            let began = Instant::now();
            while began.elapsed() < self.lasts {
                tokio::task::yield_now().await;
            }
            let begins = Instruction::Start {
                correlation_id: child.correlation_id.clone(),
                input: child.input.clone(),
                parent: Some(child.parent.clone()),
                name: None,
                variables: Map::new(),
                trigger_activity_id: None,
                payload: None,
                request: None,
            };
            let result = self.burst(program, child.id.as_str(), None, begins, "").await;
            if result.stopped {
                return ChildRun::Stopped;
            }
            if let Some(pause) = result.deferred {
                return ChildRun::Deferred(pause);
            }
            let executed = result.executed;
            let mut committed_now = self.committed.lock().unwrap();
            committed_now.insert(child.id.clone(), result.state.clone());
            committed(&result.state, executed)
        })
    }
}

fn committed(state: &InstanceState, executed: usize) -> ChildRun {
    ChildRun::Committed(CommittedChild {
        result: state.child_result(1 << 20),
        has_ended: state.status() == Status::Finished,
        rests: state.sub_status() == SubStatus::Suspended,
        executed,
        bytes: 0,
    })
}

impl Family {
    fn new(workflows: &[(&str, Value)], change: impl FnOnce(&mut InterpreterOptions)) -> Self {
        let (mut options, lines) = options();
        change(&mut options);
        let interpreter = Interpreter::new(Catalogue::standard(), options);
        let compiled = workflows.iter().map(|(id, body)| {
            let program = interpreter.compile(&definition(body.clone())).unwrap();
            ((*id).to_owned(), Arc::new(program))
        });
        Self {
            programs: compiled.collect(),
            lines,
            interpreter,
            committed: Mutex::default(),
            ends_as: None,
            lasts: Duration::ZERO,
        }
    }

    async fn burst(
        &self,
        program: &Arc<Program>,
        id: &str,
        state: Option<InstanceState>,
        instruction: Instruction,
        row: &str,
    ) -> BurstResult {
        let origin = InstructionOrigin {
            row: row.to_owned(),
            ..InstructionOrigin::default()
        };
        self.burst_of(program, id, state, instruction, origin).await
    }

    async fn burst_of(
        &self,
        program: &Arc<Program>,
        id: &str,
        state: Option<InstanceState>,
        instruction: Instruction,
        origin: InstructionOrigin,
    ) -> BurstResult {
        let burst = Burst {
            instance_id: InstanceId::new(id),
            state,
            instructions: vec![instruction],
            attempt: 1,
            is_followed: false,
            trace: None,
            now: chrono::DateTime::UNIX_EPOCH,
            child_seed: 0,
            origins: vec![origin],
        };
        self.interpreter.run_among(program, burst, self).await
    }

    /// The first burst of the workflow `parent`.
    async fn start(&self) -> BurstResult {
        self.burst(&self.programs["parent"], "p", None, start(Map::new()), "1")
            .await
    }

    async fn go_on(&self, state: InstanceState, instruction: Instruction) -> BurstResult {
        self.burst(&self.programs["parent"], "p", Some(state), instruction, "2")
            .await
    }

    fn ids(&self) -> Vec<InstanceId> {
        self.committed.lock().unwrap().keys().cloned().collect()
    }
}

fn says_hi() -> Value {
    let out = json!({"id": "o", "type": "Elsa.SetOutput", "outputName": literal("String", json!("Word")),
        "outputValue": literal("Object", json!("hi"))});
    workflow(json!([line("child"), out]))
}

fn family(child: Value, waits: bool) -> Family {
    let parent = workflow(json!([execute("run", "child", waits), line("after")]));
    Family::new(&[("parent", parent), ("child", child)], |_| {})
}

#[tokio::test]
async fn a_child_runs_in_the_burst_and_its_result_is_that_of_the_activity() {
    for waits in [false, true] {
        let family = family(says_hi(), waits);
        let result = family.start().await;
        assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
        assert_eq!(family.lines.all(), ["child", "after"]);
        assert!(result.children.is_empty() && result.awaited.is_empty() && result.bookmarks_created.is_empty());
        let given = &result.state.variables()["R"];
        let id = family.ids().remove(0);
        assert_eq!(
            *given,
            json!({"Word": "hi",
                "WorkflowInstanceId": id, "Status": "Finished", "SubStatus": "Finished", "Output": {"Word": "hi"},
                "workflowInstanceId": id, "status": "Finished", "subStatus": "Finished", "output": {"Word": "hi"}})
        );
        let events: Vec<&str> = result
            .journal
            .iter()
            .filter(|entry| entry.activity_id.as_str() == "run")
            .map(|entry| entry.event_name)
            .collect();
        assert_eq!(events, ["Started", "Completed"]);
        let child = family.committed.lock().unwrap()[&id].clone();
        assert_eq!(child.input()["ParentInstanceId"], "p");
        assert_eq!(child.parent().unwrap().depth, 1);
    }
}

#[tokio::test]
async fn a_child_that_waits_is_waited_for_only_if_asked() {
    let waiting = || workflow(json!([event("Go"), line("child")]));
    let family_without = family(waiting(), false);
    let result = family_without.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(result.state.variables()["R"]["subStatus"], "Suspended");
    assert_eq!(family_without.lines.all(), ["after"]);
    let family = family(waiting(), true);
    let result = family.start().await;
    assert_eq!(result.sub_status, SubStatus::Suspended);
    let [awaited] = result.awaited.as_slice() else {
        panic!("{:?}", result.awaited)
    };
    assert!(!awaited.until_rest && result.children.is_empty());
    assert_eq!(awaited.bookmark_id, result.bookmarks_created[0].id);
    assert_eq!(
        result.bookmarks_created[0].payload,
        json!({"childInstanceId": awaited.id})
    );
    let ended = Instruction::ChildEnded {
        bookmark_id: awaited.bookmark_id.clone(),
        result: json!({"subStatus": "Faulted"}),
    };
    let result = family.go_on(result.state, ended).await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(
        result.state.variables()["R"],
        json!({"SubStatus": "Faulted", "subStatus": "Faulted"})
    );
}

#[tokio::test]
async fn a_child_that_yields_is_waited_for_until_it_rests() {
    let activities: Vec<Value> = (0..30).map(|n| line(&n.to_string())).collect();
    let parent = workflow(json!([execute("run", "child", false), line("after")]));
    let child = workflow(activities.into());
    let family = Family::new(&[("parent", parent), ("child", child)], |options| {
        options.activities_per_burst = 10;
    });
    let result = family.start().await;
    assert!(result.yielded || result.sub_status == SubStatus::Suspended);
    assert!(result.awaited[0].until_rest);
    assert!(!family.lines.all().contains(&"after".to_owned()));
}

#[tokio::test]
async fn a_repeated_burst_takes_the_result_and_another_row_runs_another_child() {
    let family = family(says_hi(), false);
    let first = family.start().await;
    let repeated = family.start().await;
    assert_eq!(first.state.variables(), repeated.state.variables());
    assert_eq!(family.lines.all(), ["child", "after", "after"], "the child ran once");
    family
        .burst(&family.programs["parent"], "p", None, start(Map::new()), "9")
        .await;
    assert_eq!(family.ids().len(), 2);
}

/// What the first replay has run with the same inputs is found by the second one, and passes its lineage on.
#[tokio::test]
async fn replays_find_the_children_of_other_replays_with_the_same_inputs() {
    let input = json!({"typeName": "ObjectDictionary", "expression": {"type": "JavaScript", "value": "({v: getV()})"}});
    let mut run = execute("run", "child", false);
    run["input"] = input;
    // Its owner is scheduled by the row, in the lineage of that.
    let inner = json!({"id": "inner", "type": "Elsa.Sequence", "activities": [run]});
    let mut parent = workflow(json!([event("Go"), inner, line("after")]));
    let variable = json!({"id": "v", "name": "V", "typeName": "Int32", "value": 0});
    parent["variables"].as_array_mut().unwrap().push(variable);
    let family = Family::new(&[("parent", parent), ("child", says_hi())], |_| {});
    let waiting = family.start().await.state;
    let program = &family.programs["parent"];
    let go = || Instruction::Stimulus {
        bookmark_id: None,
        hash: event_hash("Go"),
        name: "Go".to_owned(),
        payload: None,
    };
    let mut altered = waiting.clone();
    altered
        .set_workflow_variables(program, &[("v".to_owned(), json!(7))])
        .unwrap();
    let mut runs = Vec::new();
    for (state, row, replays) in [
        (&waiting, "2", None),
        (&waiting, "5", Some("2")),
        (&altered, "3", Some("2")),
        (&altered, "4", Some("2")),
    ] {
        let origin = InstructionOrigin {
            row: row.to_owned(),
            replays: replays.map(str::to_owned),
            lineage: None,
        };
        let result = family.burst_of(program, "p", Some(state.clone()), go(), origin).await;
        assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
        runs.push((family.ids().len(), result.state.alterations));
    }
    assert_eq!(runs, [(1, 0), (1, 1), (2, 2), (2, 2)]);
}

#[tokio::test]
async fn a_child_that_cannot_be_committed_ends_the_burst() {
    let mut family = family(says_hi(), false);
    family.ends_as = Some(|| ChildRun::Stopped);
    let result = family.start().await;
    assert!(result.stopped && result.deferred.is_none());
    family.ends_as = Some(|| ChildRun::Deferred(Duration::from_secs(3)));
    let result = family.start().await;
    assert_eq!((result.stopped, result.deferred), (false, Some(Duration::from_secs(3))));
    assert_eq!(family.lines.all(), Vec::<String>::new(), "nothing ran after it");
    family.ends_as = Some(|| ChildRun::Elsewhere);
    let result = family.start().await;
    assert_eq!(
        result.children[0].bookmark_id.as_ref(),
        Some(&result.bookmarks_created[0].id)
    );
    assert!(result.children[0].parent.until_rest);
    family.ends_as = Some(|| ChildRun::NotPublished);
    let result = family.start().await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    assert_eq!(
        result.state.incidents()[0].exception["code"],
        "definition-not-published"
    );
}

/// On a large stack: the engine runs deep levels in tasks of their own.
#[test]
fn an_instance_executes_no_more_than_32_levels() {
    let run = || {
        let parent = workflow(json!([execute("run", "parent", true)]));
        let family = Family::new(&[("parent", parent)], |_| {});
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let result = runtime.block_on(family.start());
        assert_eq!(result.sub_status, SubStatus::Finished);
        assert_eq!(family.ids().len(), 32);
        let committed = family.committed.lock().unwrap();
        let faulted: Vec<&InstanceState> = committed
            .values()
            .filter(|state| state.sub_status() == SubStatus::Faulted)
            .collect();
        assert_eq!(faulted.len(), 1);
        assert_eq!(faulted[0].parent().unwrap().depth, 32);
        assert_eq!(faulted[0].incidents()[0].exception["code"], "nesting-limit");
    };
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap();
    thread.join().unwrap();
}

#[tokio::test]
async fn the_time_limit_of_the_activity_does_not_count_while_its_child_runs() {
    let mut family = family(says_hi(), false);
    let limit = json!({"activityTimeout": "00:00:00.05"});
    let mut run = execute("run", "child", false);
    run["customProperties"] = limit;
    let program = family.interpreter.compile(&definition(workflow(json!([run])))).unwrap();
    family.programs.insert("parent".to_owned(), Arc::new(program));
    family.lasts = Duration::from_millis(100);
    let result = family.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
}

#[tokio::test]
async fn what_children_execute_counts_for_the_bounds_of_the_burst() {
    let body = execute("run", "child", false);
    let values = literal("Object", json!((0..50).collect::<Vec<_>>()));
    let loop_of = json!({"id": "loop", "type": "Elsa.ForEach", "items": values, "body": body});
    let child: Vec<Value> = (0..20).map(|n| line(&n.to_string())).collect();
    let family = Family::new(
        &[
            ("parent", workflow(json!([loop_of]))),
            ("child", workflow(child.into())),
        ],
        |options| options.activities_per_burst = 100,
    );
    let mut result = family.start().await;
    assert!(
        result.yielded && (100..200).contains(&result.executed),
        "{}",
        result.executed
    );
    let mut bursts = 1;
    while result.yielded {
        result = family.go_on(result.state, Instruction::Continue).await;
        bursts += 1;
    }
    assert_eq!((result.sub_status, family.ids().len()), (SubStatus::Finished, 50));
    assert!(bursts >= 10, "{bursts}");
}
