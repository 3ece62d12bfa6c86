//! What a lost burst asks for again: the same keys and children, wherever it yields and whatever runs before it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::activities::{script_of, sequence};
use super::in_memory::{InMemoryInstance, definition, start};
use crate::activity::{
    Activity, ActivityContext, BookmarkRequest, Catalogue, Descriptor, Fault, InputDescriptor, Resumption, Step,
};
use crate::execution::{
    BurstResult, InstanceState, Instruction, InstructionOrigin, InterpreterOptions, SubStatus, event_hash,
};

/// Writes its name and its key; with `Waits` once more after an event of its own.
struct Call;

impl Activity for Call {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Call")
            .input(InputDescriptor::new("Name", "String"))
            .input(InputDescriptor::new("Waits", "String"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let name = context.text("Name").unwrap_or_default();
        let waits = context.text("Waits").unwrap_or_default();
        if waits != "silently" {
            context.write_line(&format!("{name} {}", context.idempotency_key()));
        }
        if waits.is_empty() {
            return Ok(Step::Done);
        }
        context.bookmark(BookmarkRequest {
            name: Some("Elsa.Event".to_owned()),
            ..BookmarkRequest::new(json!({ "eventName": name }))
        });
        Ok(Step::Wait)
    }

    async fn resumed(&self, context: &mut ActivityContext<'_>, _resumption: Resumption) -> Result<Step, Fault> {
        let name = context.text("Name").unwrap_or_default();
        context.write_line(&format!("{name}+ {}", context.idempotency_key()));
        Ok(Step::Done)
    }
}

/// Completes with as many activities before it as this attempt has.
struct Unsteady;

impl Activity for Unsteady {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Unsteady").outcome("Done").outcome("Again")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(Step::outcome(if context.attempt() == 1 { "Again" } else { "Done" }))
    }
}

fn row(row: &str) -> InstructionOrigin {
    InstructionOrigin {
        row: row.to_owned(),
        ..InstructionOrigin::default()
    }
}

fn event(name: &str) -> Instruction {
    Instruction::Stimulus {
        bookmark_id: None,
        hash: event_hash(name),
        name: name.to_owned(),
        payload: None,
    }
}

fn instance_of(root: Value, change: impl FnOnce(&mut InterpreterOptions)) -> InMemoryInstance {
    let variables = json!([{"id": "v", "name": "V", "typeName": "Int32", "value": 0}]);
    instance_of_definition(json!({"root": root, "variables": variables}), change)
}

fn instance_of_definition(model: Value, change: impl FnOnce(&mut InterpreterOptions)) -> InMemoryInstance {
    let mut catalogue = Catalogue::standard();
    catalogue.register(Call);
    catalogue.register(Unsteady);
    InMemoryInstance::with(&definition(model), catalogue, change)
}

impl InMemoryInstance {
    /// Runs bursts until the instance rests, as the engine does: what is held over follows the continue.
    async fn run_of(&mut self, mut instructions: Vec<(Instruction, InstructionOrigin)>) -> BurstResult {
        loop {
            let origins: Vec<InstructionOrigin> = instructions.iter().map(|(_, origin)| origin.clone()).collect();
            let result = self.burst_of(instructions).await;
            if !result.yielded {
                return result;
            }
            let held = result.held_over.iter();
            let held = held.map(|(place, instruction)| (instruction.clone(), origins[*place].clone()));
            instructions = std::iter::once((Instruction::Continue, InstructionOrigin::default()))
                .chain(held)
                .collect();
        }
    }

    async fn start_of_row(&mut self) -> BurstResult {
        self.run_of(vec![(start(Map::new()), row("1"))]).await
    }

    /// The keys by name, in the order of the names; each name is written once.
    fn keys(&self) -> BTreeMap<String, String> {
        let lines = self.lines();
        let keys: BTreeMap<String, String> = lines
            .iter()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(name, key)| (name.to_owned(), key.to_owned()))
            .collect();
        assert_eq!(keys.len(), lines.len(), "{lines:?}");
        keys
    }

    /// The names in the order of the calls.
    fn names(&self) -> Vec<String> {
        let lines = self.lines();
        lines
            .iter()
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect()
    }
}

fn call(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "Call", "name": script_of("String", name)})
}

fn waits(name: &str) -> Value {
    json!({"id": format!("wait-{name}"), "type": "Elsa.Event", "eventName": name})
}

fn each(id: &str, name: &str) -> Value {
    let body = sequence(
        &format!("{id}-body"),
        &[
            call(&format!("{id}-call"), name),
            call(&format!("{id}-next"), &format!("{name} + '!'")),
        ],
    );
    json!({"id": id, "type": "Elsa.ForEach", "body": body,
           "items": {"typeName": "Object", "expression": {"type": "Literal", "value": [1, 2, 3]}}})
}

/// Two branches, each with a loop behind an event.
fn two_loops() -> Value {
    json!({"id": "fork", "type": "Elsa.Fork", "joinMode": "WaitAll", "branches": [
        sequence("a", &[waits("A"), each("as", "'a' + getCurrentValue()")]),
        sequence("b", &[waits("B"), each("bs", "'b' + getCurrentValue()")])]})
}

fn both() -> Vec<(Instruction, InstructionOrigin)> {
    vec![(event("A"), row("2")), (event("B"), row("3"))]
}

#[tokio::test]
async fn keys_and_the_order_of_calls_are_the_same_wherever_a_burst_yields() {
    let mut whole = instance_of(two_loops(), |_| {});
    whole.start_of_row().await;
    whole.run_of(both()).await;
    let keys = whole.keys();
    assert_eq!(keys.len(), 12);
    let distinct: std::collections::BTreeSet<_> = keys.values().collect();
    assert_eq!(distinct.len(), 12, "{keys:?}");
    for activities_per_burst in 1..20 {
        let mut cut = instance_of(two_loops(), |options| {
            options.activities_per_burst = activities_per_burst
        });
        cut.start_of_row().await;
        cut.run_of(both()).await;
        assert_eq!(cut.keys(), keys, "{activities_per_burst}");
        assert_eq!(cut.names(), whole.names(), "{activities_per_burst}");
    }
}

#[tokio::test]
async fn keys_are_the_same_whatever_row_runs_before() {
    let mut together = instance_of(two_loops(), |_| {});
    together.start_of_row().await;
    together.run_of(both()).await;
    let mut other = instance_of(two_loops(), |options| options.activities_per_burst = 3);
    other.start_of_row().await;
    other.run_of(vec![(event("B"), row("3"))]).await;
    other.run_of(vec![(event("A"), row("2"))]).await;
    assert_eq!(together.keys(), other.keys());
}

/// A branch that comes to another end in the repeat, as what it calls gives another answer.
#[tokio::test]
async fn keys_of_a_branch_do_not_depend_on_the_others() {
    let root = || {
        let unsteady = json!({"id": "flow", "type": "Elsa.Flowchart", "activities": [
                {"id": "unsteady", "type": "Unsteady"}, {"id": "more", "type": "Elsa.WriteLine", "text": "more 0"}],
            "connections": [{"source": {"activity": "unsteady", "port": "Again"}, "target": {"activity": "more", "port": "In"}}]});
        let branches = json!([
            sequence("u", &[unsteady]),
            sequence("c", &[each("cs", "'c' + getCurrentValue()")])
        ]);
        json!({"id": "fork", "type": "Elsa.Fork", "joinMode": "WaitAll", "branches": branches})
    };
    let mut first = instance_of(root(), |_| {});
    first.start_of_row().await;
    let mut repeat = instance_of(root(), |_| {});
    repeat.attempt = 2;
    repeat.start_of_row().await;
    let (mut first, repeat) = (first.keys(), repeat.keys());
    assert!(first.remove("more").is_some() && !repeat.contains_key("more"));
    assert_eq!(first, repeat);
}

/// A way that takes more steps in the repeat, in the first item of a loop and before another activity of a flowchart.
#[tokio::test]
async fn keys_do_not_depend_on_the_steps_before() {
    let end = |activity: &str, port: &str| json!({"activity": activity, "port": port});
    let flow = |id: &str| {
        let activities = json!([{"id": format!("{id}-u"), "type": "Unsteady"}, call(&format!("{id}-more"), &format!("'{id}-more' + getCurrentValue()")),
            call(&format!("{id}-last"), &format!("'{id}-last' + getCurrentValue()"))]);
        let (u, more, last) = (format!("{id}-u"), format!("{id}-more"), format!("{id}-last"));
        let connections = json!([
            {"source": end(&u, "Again"), "target": end(&more, "In")}, {"source": end(&more, "Done"), "target": end(&last, "In")},
            {"source": end(&u, "Done"), "target": end(&last, "In")}]);
        json!({"id": id, "type": "Elsa.Flowchart", "activities": activities, "connections": connections})
    };
    let root = || {
        let items = json!({"typeName": "Object", "expression": {"type": "Literal", "value": [1, 2]}});
        json!({"id": "each", "type": "Elsa.ForEach", "items": items,
            "body": sequence("item", &[flow("flow"), call("c", "'c' + getCurrentValue()")])})
    };
    let mut first = instance_of(root(), |_| {});
    first.start_of_row().await;
    let mut repeat = instance_of(root(), |_| {});
    repeat.attempt = 2;
    repeat.start_of_row().await;
    let (mut first, repeat) = (first.keys(), repeat.keys());
    for item in ["flow-more1", "flow-more2"] {
        assert!(first.remove(item).is_some() && !repeat.contains_key(item), "{first:?}");
    }
    assert_eq!(first, repeat);
    assert_eq!(repeat.len(), 4);
}

/// A loop that has yielded goes on with other variables than a try of it that was lost.
#[tokio::test]
async fn what_is_left_after_a_yield_has_other_keys_in_an_altered_state() {
    let mut keys = Vec::new();
    for altered in [false, true] {
        let mut instance = instance_of(each("e", "'e' + getCurrentValue()"), |options| {
            options.activities_per_burst = 4
        });
        assert!(instance.burst_of(vec![(start(Map::new()), row("1"))]).await.yielded);
        if altered {
            let state = instance.state.as_mut().unwrap();
            let values = [("v".to_owned(), json!(7))];
            state.set_workflow_variables(&instance.program, &values).unwrap();
        }
        instance
            .run_of(vec![(Instruction::Continue, InstructionOrigin::default())])
            .await;
        keys.push(instance.keys());
    }
    assert_eq!(keys[0]["e1"], keys[1]["e1"], "before the yield");
    assert_ne!(keys[0]["e3"], keys[1]["e3"]);
}

#[tokio::test]
async fn another_row_a_replay_and_an_altered_state_have_other_keys() {
    let mut waiting = instance_of(two_loops(), |_| {});
    waiting.start_of_row().await;
    let state = waiting.state.clone();
    let mut seen = Vec::new();
    let replay = InstructionOrigin {
        row: "9".to_owned(),
        replays: Some("2".to_owned()),
        ..InstructionOrigin::default()
    };
    for (origin, altered) in [
        (row("2"), false),
        (row("4"), false),
        (replay.clone(), false),
        (row("2"), true),
        (replay, true),
    ] {
        let mut instance = instance_of(two_loops(), |_| {});
        instance.state = state.clone();
        if altered {
            let state = instance.state.as_mut().unwrap();
            state
                .set_workflow_variables(&instance.program, &[("v".to_owned(), json!(7))])
                .unwrap();
        }
        for _ in 0..2 {
            let before = instance.state.clone();
            instance.run_of(vec![(event("A"), origin.clone())]).await;
            instance.state = before;
        }
        let lines = instance.lines();
        let (first, second) = lines.split_at(6);
        assert_eq!(first, second, "a repeat");
        seen.push(first[0].clone());
    }
    let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), seen.len(), "{seen:?}");
}

#[tokio::test]
async fn a_key_that_was_asked_for_is_that_of_later_calls_too() {
    let activity = |waits: &str| json!({"id": "c", "type": "Call", "name": "N", "waits": waits});
    let mut instance = instance_of(sequence("s", &[activity("loudly")]), |_| {});
    instance.start_of_row().await;
    instance.run_of(vec![(event("N"), row("2"))]).await;
    let keys = instance.keys();
    assert!(keys["N"].starts_with("instance/"), "{keys:?}");
    assert_eq!(keys["N"], keys["N+"]);
    // Asked for only later, it comes from what has resumed the activity.
    let mut silent = instance_of(sequence("s", &[activity("silently")]), |_| {});
    silent.start_of_row().await;
    silent.run_of(vec![(event("N"), row("2"))]).await;
    assert_ne!(silent.keys()["N+"], keys["N"]);
}

#[tokio::test]
async fn what_waits_since_the_first_format_keeps_the_id_of_its_execution_as_key() {
    let silent = json!({"id": "c", "type": "Call", "name": "N", "waits": "silently"});
    let mut instance = instance_of(sequence("s", &[silent, call("d", "'M'")]), |_| {});
    instance.start_of_row().await;
    let mut state: Value = serde_json::from_slice(&instance.state.take().unwrap().to_bytes().unwrap()).unwrap();
    state["format"] = json!(1);
    instance.state = Some(InstanceState::from_bytes(state.to_string().as_bytes()).unwrap());
    instance.run_of(vec![(event("N"), row("2"))]).await;
    let keys = instance.keys();
    assert_eq!(keys["N+"], "instance:3");
    assert!(keys["M"].starts_with("instance/"), "{keys:?}");
}

/// What arrives for an instance that goes on after a yield does not wait until its loop has ended.
#[tokio::test]
async fn what_arrives_after_a_yield_runs_between_the_work_items_that_are_left() {
    let lined = |limit| {
        let mut instance = instance_of(two_loops(), |options| options.activities_per_burst = limit);
        async move {
            instance.start_of_row().await;
            instance
        }
    };
    let mut instance = lined(2).await;
    let result = instance.burst_of(vec![(event("A"), row("2"))]).await;
    assert!(result.yielded && result.held_over.is_empty());
    let result = instance
        .burst_of(vec![
            (event("B"), row("3")),
            (Instruction::Continue, InstructionOrigin::default()),
        ])
        .await;
    assert!(result.yielded && result.held_over.is_empty() && result.unmatched.is_empty());
    instance
        .run_of(vec![(Instruction::Continue, InstructionOrigin::default())])
        .await;
    let names = instance.names();
    let place = |name: &str| names.iter().position(|other| other == name).unwrap();
    assert!(place("b1") < place("a3"), "{names:?}");
    let mut whole = lined(1000).await;
    whole.run_of(both()).await;
    assert_eq!(instance.keys(), whole.keys());
}

/// Of the rows of a lost burst only the first is claimed at first: the second one still follows all that the first has set off.
#[tokio::test]
async fn the_rest_of_a_lost_burst_follows_what_its_first_row_has_left() {
    let mut whole = instance_of(two_loops(), |_| {});
    whole.start_of_row().await;
    whole.run_of(both()).await;
    let mut cut = instance_of(two_loops(), |options| options.activities_per_burst = 2);
    cut.start_of_row().await;
    let result = cut.burst_followed(vec![(event("A"), row("2"))], true).await;
    assert!(result.yielded);
    let goes_on = (Instruction::Continue, InstructionOrigin::default());
    cut.run_of(vec![(event("B"), row("3")), goes_on]).await;
    assert_eq!((cut.names(), cut.keys()), (whole.names(), whole.keys()));
}

#[tokio::test]
async fn invalid_values_of_a_start_are_a_fault_also_after_a_yield() {
    for strategy in ["", "WorkflowExecuting"] {
        let model = json!({"root": call("c", "'c'"), "options": {"commitStrategyName": strategy},
            "inputs": [{"name": "Amount", "type": "Decimal", "isRequired": true}]});
        let mut instance = instance_of_definition(model, |_| {});
        let input = Map::from_iter([("Amount".to_owned(), json!("abc"))]);
        let result = instance.run_of(vec![(start(input), row("1"))]).await;
        assert_eq!(result.sub_status, SubStatus::Faulted, "{strategy}");
        assert_eq!(instance.names(), [""; 0], "{strategy}");
        let incident = &result.state.incidents()[0];
        assert!(incident.message.contains("Amount"), "{strategy}: {incident:?}");
    }
}
