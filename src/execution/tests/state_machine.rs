//! State machines: the order of the parts, races of triggers, conditions, waits in each part, breaks, cancels, faults.

use serde_json::{Value, json};

use super::activities::{event, line, sequence};
use super::in_memory::{InMemoryInstance, definition};
use crate::activity::Catalogue;
use crate::execution::{Instruction, SubStatus};

fn script(value: &str) -> Value {
    json!({"typeName": "Boolean", "expression": {"type": "JavaScript", "value": value}})
}

fn state(name: &str) -> Value {
    json!({"name": name, "entry": line(&format!("enter {name}")), "exit": line(&format!("exit {name}"))})
}

fn transition(from: &str, to: &str, trigger: Value) -> Value {
    json!({"name": null, "from": from, "to": to, "trigger": trigger, "action": line(&format!("{from} to {to}"))})
}

fn machine(states: &[Value], transitions: &[Value]) -> Value {
    let first = states.first().map(|state| state["name"].clone());
    json!({"id": "m", "type": "Elsa.StateMachine", "version": 1, "initialState": first, "currentState": null,
        "states": states, "transitions": transitions})
}

/// An instance of a state machine that can be published without a warning.
fn instance_of(root: Value) -> InMemoryInstance {
    let counter = json!({"id": "n", "name": "N", "typeName": "Int32", "value": 0});
    let definition = definition(json!({"root": root, "variables": [counter]}));
    let instance = InMemoryInstance::new(&definition);
    assert_eq!(instance.interpreter.validate(&definition), []);
    assert_eq!(instance.interpreter.warnings(&instance.program, &definition), []);
    instance
}

async fn resume(instance: &mut InMemoryInstance, name: &str) -> SubStatus {
    instance.event(name, Value::Null).await.sub_status
}

/// The events for which the instance waits.
fn waiting(instance: &InMemoryInstance) -> Vec<String> {
    let bookmarks = instance.state.as_ref().unwrap().bookmarks().iter();
    bookmarks.map(|bookmark| bookmark.activity_id.to_string()).collect()
}

#[tokio::test]
async fn a_transition_runs_its_action_then_the_exit_then_the_next_entry() {
    let states = [state("A"), state("B"), state("C")];
    let transitions = [transition("A", "B", event("go")), transition("B", "C", event("on"))];
    let mut instance = instance_of(machine(&states, &transitions));
    assert_eq!(instance.start().await.sub_status, SubStatus::Suspended);
    assert_eq!(
        (instance.lines(), waiting(&instance)),
        (vec!["enter A".to_owned()], vec!["go".to_owned()])
    );
    assert_eq!(resume(&mut instance, "on").await, SubStatus::Suspended);
    assert_eq!(resume(&mut instance, "go").await, SubStatus::Suspended);
    assert_eq!(instance.lines(), ["enter A", "A to B", "exit A", "enter B"]);
    // No transition leaves C: its exit never runs.
    assert_eq!(resume(&mut instance, "on").await, SubStatus::Finished);
    assert_eq!(instance.lines()[4..], ["B to C", "exit B", "enter C"]);
    assert_eq!(instance.completed().last().unwrap(), "m");
}

#[tokio::test]
async fn the_first_trigger_wins_and_the_bookmarks_of_the_others_go() {
    let states = [state("A"), state("B"), state("C")];
    let transitions = [
        transition("A", "B", event("b")),
        transition("A", "C", sequence("both", &[event("c"), event("c2")])),
        transition("A", "A", event("a")),
    ];
    let mut instance = instance_of(machine(&states, &transitions));
    instance.start().await;
    assert_eq!(waiting(&instance), ["b", "a", "c"], "one activity begins at a time");
    // A trigger may be several activities: it has not completed yet.
    assert_eq!(resume(&mut instance, "c").await, SubStatus::Suspended);
    assert_eq!(waiting(&instance).len(), 3);
    let result = instance.event("b", Value::Null).await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(result.bookmarks_burned.len(), 3);
    assert_eq!(instance.events("Canceled"), ["c2", "both", "a"]);
    assert_eq!(instance.lines(), ["enter A", "A to B", "exit A", "enter B"]);
}

#[tokio::test]
async fn a_trigger_that_has_not_begun_never_runs_after_the_race() {
    let states = [state("A"), state("B"), state("C")];
    let transitions = [
        transition("A", "B", line("first")),
        transition("A", "C", line("second")),
    ];
    let mut instance = instance_of(machine(&states, &transitions));
    assert_eq!(instance.start().await.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["enter A", "first", "A to B", "exit A", "enter B"]);
}

#[tokio::test]
async fn a_transition_to_its_own_state_leaves_and_enters_it() {
    let states = [state("A"), state("B")];
    let transitions = [transition("A", "A", event("again")), transition("A", "B", event("go"))];
    let mut instance = instance_of(machine(&states, &transitions));
    instance.start().await;
    let mut sizes = Vec::new();
    for _ in 0..3 {
        resume(&mut instance, "again").await;
        sizes.push(instance.state.as_ref().unwrap().to_bytes().unwrap().len());
    }
    assert_eq!(instance.lines()[..4], ["enter A", "A to A", "exit A", "enter A"]);
    assert_eq!(waiting(&instance), ["again", "go"]);
    assert!(sizes[0].abs_diff(sizes[2]) < 20, "{sizes:?}");
    assert_eq!(resume(&mut instance, "go").await, SubStatus::Finished);
}

#[tokio::test]
async fn a_condition_that_does_not_hold_arms_its_trigger_again() {
    let set = json!({"id": "set", "type": "Elsa.SetVariable", "variable": {"id": "n", "name": "N"}, "value": 1});
    let mut guarded = transition("A", "B", event("go"));
    guarded["condition"] = script("getN() > 0");
    let mut count = transition("A", "A", event("count"));
    count["action"] = set;
    let bare = |name: &str| json!({"name": name});
    let mut instance = instance_of(machine(&[bare("A"), bare("B")], &[guarded, count]));
    instance.start().await;
    for _ in 0..2 {
        assert_eq!(resume(&mut instance, "go").await, SubStatus::Suspended);
        assert_eq!(waiting(&instance), ["count", "go"], "the other trigger stays");
    }
    assert_eq!(resume(&mut instance, "count").await, SubStatus::Suspended);
    assert_eq!(resume(&mut instance, "go").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["A to B"]);
}

#[tokio::test]
async fn a_condition_is_of_any_form() {
    for (condition, taken) in [
        (json!(null), true),
        (json!(true), true),
        (json!({"type": "Literal", "value": "true"}), true),
        (
            json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": false}}),
            false,
        ),
        (json!({"typeName": "Boolean", "expression": null}), true),
    ] {
        let mut only = transition("A", "B", event("go"));
        only["condition"] = condition.clone();
        let mut instance = instance_of(machine(&[state("A"), state("B")], &[only]));
        instance.start().await;
        let expected = if taken {
            SubStatus::Finished
        } else {
            SubStatus::Suspended
        };
        assert_eq!(resume(&mut instance, "go").await, expected, "{condition}");
    }
    let mut bad = transition("A", "B", event("go"));
    bad["condition"] = script("(void 0).at.all");
    let mut instance = instance_of(machine(&[state("A"), state("B")], &[bad]));
    instance.start().await;
    let result = instance.event("go", Value::Null).await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    let incident = &result.state.incidents()[0];
    assert_eq!(incident.activity_id.as_str(), "m");
    assert!(
        incident.message.contains("Transitions[0].Condition"),
        "{}",
        incident.message
    );
}

#[tokio::test]
async fn an_instant_trigger_whose_condition_never_holds_is_stopped() {
    let mut never = transition("A", "B", line("tick"));
    never["condition"] = json!(false);
    let definition = definition(json!({"root": machine(&[state("A"), state("B")], &[never])}));
    let mut instance = InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
        options.executions_without_wait = 100
    });
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    assert_eq!(result.state.incidents()[0].exception["code"], "execution-limit");
}

/// A state machine that waits in each of its parts.
fn waits_everywhere() -> Value {
    let state = |name: &str| {
        let part = |part: &str| event(&format!("{part} {name}"));
        json!({"name": name, "entry": part("enter"), "exit": part("exit")})
    };
    let mut only = transition("A", "B", event("go"));
    only["action"] = event("act");
    machine(&[state("A"), state("B")], &[only])
}

const PARTS: [&str; 5] = ["enter A", "go", "act", "exit A", "enter B"];

#[tokio::test]
async fn it_waits_in_each_part_and_goes_on_from_its_state() {
    // Each burst has its state as bytes, and executes one activity.
    let definition = definition(json!({"root": waits_everywhere()}));
    let mut instance = InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
        options.activities_per_burst = 1
    });
    instance.start().await;
    for part in PARTS {
        assert_eq!(waiting(&instance), [part]);
        resume(&mut instance, part).await;
    }
    assert_eq!(instance.state.as_ref().unwrap().sub_status(), SubStatus::Finished);
    assert_eq!(instance.completed(), [&PARTS[..], &["m"]].concat());
}

#[tokio::test]
async fn a_cancel_in_each_part_ends_all_of_it() {
    for count in 0..PARTS.len() {
        let mut instance = instance_of(waits_everywhere());
        instance.start().await;
        for part in &PARTS[..count] {
            resume(&mut instance, part).await;
        }
        let result = instance.burst(vec![Instruction::Cancel]).await;
        assert_eq!(result.sub_status, SubStatus::Cancelled);
        assert_eq!(result.bookmarks_burned.len(), 1);
        assert_eq!(instance.events("Canceled"), [PARTS[count], "m", "Workflow1"]);
    }
}

#[tokio::test]
async fn a_break_in_each_part_leaves_the_state_machine_and_cancels_what_waits() {
    let stop = || json!({"id": "stop", "type": "Elsa.Break"});
    let after = |id: &str| sequence("then", &[event(id), stop()]);
    let with = |place: &str| {
        let mut root = waits_everywhere();
        let other = transition("A", "B", event("other"));
        root["transitions"].as_array_mut().unwrap().push(other);
        match place {
            "entry" => root["states"][0]["entry"] = after("enter A"),
            "exit" => root["states"][0]["exit"] = after("exit A"),
            "trigger" => root["transitions"][0]["trigger"] = after("go"),
            _ => root["transitions"][0]["action"] = after("act"),
        }
        sequence(
            "all",
            &[
                json!({"id": "w", "type": "Elsa.While", "condition": true, "body": root}),
                line("after"),
            ],
        )
    };
    for (place, events) in [("entry", 1), ("trigger", 2), ("action", 3), ("exit", 4)] {
        let mut instance = instance_of(with(place));
        instance.start().await;
        for part in &PARTS[..events] {
            resume(&mut instance, part).await;
        }
        let state = instance.state.as_ref().unwrap();
        assert_eq!(state.sub_status(), SubStatus::Finished, "{place}");
        assert_eq!(instance.lines(), ["after"], "{place}");
        assert_eq!(
            instance.events("Started").iter().filter(|id| *id == "enter B").count(),
            0
        );
    }
}

#[tokio::test]
async fn a_fault_of_a_trigger_leaves_the_others_and_the_winner_drops_it() {
    let fault = json!({"id": "x", "type": "Elsa.Fault", "message": "broken"});
    let transitions = [transition("A", "B", fault), transition("A", "B", event("go"))];
    let definition = definition(json!({"root": machine(&[state("A"), state("B")], &transitions),
        "options": {"incidentStrategyType": "ContinueWithIncidentsStrategy"}}));
    let mut instance = InMemoryInstance::new(&definition);
    let result = instance.start().await;
    assert_eq!((result.sub_status, result.incident_count), (SubStatus::Suspended, 1));
    assert_eq!(resume(&mut instance, "go").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["enter A", "A to B", "exit A", "enter B"]);
}

#[tokio::test]
async fn state_machines_nest_and_are_side_by_side() {
    let inner = |id: &str| {
        let bare = |name: &str| json!({"name": name});
        let mut machine = machine(
            &[bare("A"), bare("B")],
            &[json!({"from": "A", "to": "B", "trigger": event(id)})],
        );
        machine["id"] = json!(format!("inner {id}"));
        machine
    };
    let mut outer = state("A");
    outer["entry"] = json!({"id": "p", "type": "Elsa.Parallel", "activities": [inner("x"), inner("y")]});
    let mut instance = instance_of(machine(&[outer, state("B")], &[transition("A", "B", event("go"))]));
    instance.start().await;
    assert_eq!(waiting(&instance), ["x", "y"]);
    resume(&mut instance, "y").await;
    resume(&mut instance, "x").await;
    assert_eq!(resume(&mut instance, "go").await, SubStatus::Finished);
}

#[tokio::test]
async fn it_begins_at_its_current_state_and_else_at_its_initial_state() {
    let states = [state("A"), state("B")];
    let mut root = machine(&states, &[transition("A", "B", event("go"))]);
    root["currentState"] = json!("B");
    let mut instance = instance_of(root);
    assert_eq!(instance.start().await.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["enter B"]);
}

/// The errors and warnings of a state machine.
fn problems(root: Value) -> (Vec<String>, Vec<String>) {
    let definition = definition(json!({"root": root}));
    let instance = InMemoryInstance::new(&definition);
    let of_machine = |problems: Vec<crate::definition::ValidationError>| {
        let problems = problems.into_iter();
        let message = |problem: crate::definition::ValidationError| {
            assert_eq!(problem.activity_id, "m");
            problem.message
        };
        problems.map(message).collect()
    };
    let errors = of_machine(instance.interpreter.validate(&definition));
    (
        errors,
        of_machine(instance.interpreter.warnings(&instance.program, &definition)),
    )
}

#[tokio::test]
async fn a_state_machine_without_a_start_completes_and_is_a_warning() {
    for start in [json!(null), json!("  "), json!("C"), json!(7)] {
        let mut root = machine(&[state("A"), state("B")], &[transition("A", "B", event("go"))]);
        root["initialState"] = start.clone();
        let (errors, warnings) = problems(root.clone());
        assert_eq!((errors.len(), warnings.len()), (0, 1), "{start}");
        assert!(
            warnings[0].contains("has no start") && warnings[0].contains("A, B"),
            "{warnings:?}"
        );
        let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
        assert_eq!(instance.start().await.sub_status, SubStatus::Finished);
        assert_eq!(instance.lines(), [""; 0]);
    }
    let (errors, warnings) = problems(json!({"id": "m", "type": "Elsa.StateMachine"}));
    assert_eq!((errors.len(), warnings.len()), (0, 1));
    assert!(warnings[0].contains("add a state"), "{warnings:?}");
}

#[tokio::test]
async fn a_transition_without_a_trigger_is_never_taken_and_is_a_warning() {
    let only = transition("A", "B", json!(null));
    let root = machine(&[state("A"), state("B")], &[only]);
    let (errors, warnings) = problems(root.clone());
    assert_eq!((errors.len(), warnings.len()), (0, 1));
    assert!(
        warnings[0].contains("transitions[0]") && warnings[0].contains("no trigger"),
        "{warnings:?}"
    );
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
    assert_eq!(instance.start().await.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["enter A"]);
}

#[test]
fn a_bad_state_machine_is_refused_at_publish() {
    let errors = |states: &[Value], transitions: &[Value]| problems(machine(states, transitions)).0;
    let bare = |name: Value| json!({"name": name});
    for to in [json!("C"), json!(null), json!(7), json!("")] {
        let mut only = transition("A", "B", event("go"));
        only["to"] = to.clone();
        let found = errors(&[bare(json!("A")), bare(json!("B"))], &[only]);
        assert_eq!(found.len(), 1, "{to}");
        let message = &found[0];
        assert!(
            message.contains("transitions[0].to of the activity m") && message.contains("leads to no state"),
            "{message}"
        );
        assert!(message.ends_with("name one of its states: A, B"), "{message}");
    }
    let found = errors(&[bare(json!("B"))], &[transition("A", "B", event("go"))]);
    assert!(
        found[0].contains("transitions[0].from") && found[0].contains("comes from no state"),
        "{found:?}"
    );
    let found = errors(&[bare(json!("A")), bare(json!("B")), bare(json!("A"))], &[]);
    assert!(
        found[0].contains("states[2].name") && found[0].contains("as that of states[0]"),
        "{found:?}"
    );
    for name in [json!(null), json!(" "), json!(7)] {
        let found = errors(&[bare(json!("A")), bare(name)], &[]);
        assert!(found[0].contains("states[1].name"), "{found:?}");
    }
    let (found, _) = problems(
        json!({"id": "m", "type": "Elsa.StateMachine", "states": {}, "transitions": [7], "initialState": "A"}),
    );
    assert!(
        found
            .iter()
            .any(|error| error.contains("states of the activity m (Elsa.StateMachine) is {}; it must be a list")),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|error| error.contains("transitions[0] of the activity m (Elsa.StateMachine) is 7")),
        "{found:?}"
    );
    let mut of_script = transition("A", "B", event("go"));
    of_script["condition"] = json!({"typeName": "Boolean", "expression": {"type": "Python", "value": "1"}});
    let found = errors(&[bare(json!("A")), bare(json!("B"))], &[of_script]);
    assert!(
        found[0].contains("Transitions[0].Condition") && found[0].contains("Python"),
        "{found:?}"
    );
}
