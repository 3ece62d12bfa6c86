//! Switches, counting loops and children side by side: each outcome, each mode, waits in every branch, breaks.

use serde_json::{Map, Value, json};

use super::activities::{endless, event, line, says, script_of, sequence};
use super::in_memory::{InMemoryInstance, definition};
use crate::activity::Catalogue;
use crate::execution::{BurstResult, SubStatus};

/// A case as Studio writes it.
fn case(label: &str, condition: Value, activity: Value) -> Value {
    json!({"label": label, "condition": condition, "activity": activity})
}

fn holds(is_true: bool) -> Value {
    json!({"type": "JavaScript", "value": is_true.to_string()})
}

fn instance_of(root: Value) -> InMemoryInstance {
    InMemoryInstance::new(&definition(json!({"root": root})))
}

async fn run(root: Value) -> (InMemoryInstance, BurstResult) {
    let mut instance = instance_of(root);
    let result = instance.start().await;
    (instance, result)
}

/// The lines of a workflow that finishes in its first burst.
async fn lines(root: Value) -> Vec<String> {
    let (instance, result) = run(root).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    instance.lines()
}

/// The message of the incident of a workflow that faults.
async fn fault(root: Value) -> String {
    let (_, result) = run(root).await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    let incident = &result.state.incidents()[0];
    format!("{}: {}", incident.activity_id, incident.message)
}

async fn resume(instance: &mut InMemoryInstance, name: &str) -> SubStatus {
    instance.event(name, Value::Null).await.sub_status
}

fn switch(mode: &str, cases: &[Value]) -> Value {
    let mode = json!({"typeName": "SwitchMode", "expression": {"type": "Literal", "value": mode}});
    json!({"id": "switch", "type": "Elsa.Switch", "mode": mode, "cases": cases, "default": line("default")})
}

#[tokio::test]
async fn a_switch_runs_the_first_case_that_matches() {
    let late = json!({"type": "JavaScript", "value": "throw new Error('not evaluated')"});
    let cases = [
        case("A", holds(false), line("a")),
        case("B", holds(true), line("b")),
        case("C", late, line("c")),
    ];
    assert_eq!(lines(switch("MatchFirst", &cases)).await, ["b"]);
    // A literal, a case without a condition, and without an activity.
    let literal = [
        json!({"label": "A", "activity": line("a")}),
        case("B", json!({"type": "Literal", "value": "true"}), Value::Null),
    ];
    assert_eq!(lines(switch("MatchFirst", &literal)).await, [""; 0]);
    let (instance, _) = run(switch("MatchFirst", &cases)).await;
    let ended = instance
        .journal
        .iter()
        .find(|entry| entry.event_name == "Completed" && entry.activity_id.as_str() == "switch");
    let inputs = ended.unwrap().activity_state.clone().unwrap();
    assert_eq!(
        inputs,
        json!({"Mode": "MatchFirst", "Cases[0].Condition": false, "Cases[1].Condition": true})
    );
}

#[tokio::test]
async fn a_switch_without_a_match_runs_its_default() {
    let cases = [case("A", holds(false), line("a"))];
    assert_eq!(lines(switch("MatchAny", &cases)).await, ["default"]);
    let mut without = switch("MatchFirst", &cases);
    without.as_object_mut().unwrap().remove("default");
    assert_eq!(lines(without).await, [""; 0]);
    // A draft may have no cases.
    assert_eq!(lines(switch("MatchFirst", &[])).await, ["default"]);
}

#[tokio::test]
async fn a_switch_waits_for_each_case_that_matches() {
    let cases = [
        case("A", holds(true), event("a")),
        case("B", holds(false), line("b")),
        case("C", holds(true), sequence("steps", &[event("c"), line("after c")])),
    ];
    let mut instance = instance_of(sequence("root", &[switch("MatchAny", &cases), line("end")]));
    assert_eq!(instance.start().await.bookmarks_created.len(), 2);
    assert_eq!(resume(&mut instance, "c").await, SubStatus::Suspended);
    assert_eq!(resume(&mut instance, "a").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["after c", "end"]);
}

#[tokio::test]
async fn the_condition_of_a_case_that_fails_is_named() {
    let cases = [
        case("A", holds(false), line("a")),
        case(
            "B",
            json!({"type": "JavaScript", "value": "throw new Error('no stock')"}),
            line("b"),
        ),
    ];
    let message = fault(switch("MatchFirst", &cases)).await;
    assert!(
        message.starts_with("switch: ") && message.contains("Cases[1].Condition") && message.contains("no stock"),
        "{message}"
    );
    let mode = script_of("SwitchMode", "'Some'");
    let message = fault(json!({"id": "switch", "type": "Elsa.Switch", "mode": mode, "cases": []})).await;
    assert!(
        message.contains("Mode") && message.contains("use MatchFirst or MatchAny"),
        "{message}"
    );
}

fn flow_switch(mode: &str, conditions: [bool; 2]) -> Value {
    let [one, two] = conditions;
    let cases = [
        json!({"label": "One", "condition": holds(one)}),
        json!({"label": "Two", "condition": holds(two)}),
    ];
    let switch = json!({"id": "switch", "type": "Elsa.FlowSwitch", "mode": mode, "cases": cases});
    let wire = |port: &str, target: &str| json!({"source": {"activity": "switch", "port": port}, "target": {"activity": target, "port": "In"}});
    json!({"id": "flow", "type": "Elsa.Flowchart",
        "activities": [switch, line("one"), line("two"), line("default")],
        "connections": [wire("One", "one"), wire("Two", "two"), wire("Default", "default")]})
}

#[tokio::test]
async fn a_flow_switch_takes_the_paths_of_its_cases() {
    for (mode, conditions, expected) in [
        ("MatchFirst", [true, true], vec!["one"]),
        ("MatchFirst", [false, true], vec!["two"]),
        ("MatchFirst", [false, false], vec!["default"]),
        ("MatchAny", [true, true], vec!["one", "two"]),
        ("matchany", [false, true], vec!["two"]),
        ("MatchAny", [false, false], vec!["default"]),
    ] {
        assert_eq!(
            lines(flow_switch(mode, conditions)).await,
            expected,
            "{mode} {conditions:?}"
        );
    }
}

fn counting(fields: Value, body: Value) -> Value {
    let mut root = json!({"id": "for", "type": "Elsa.For", "body": body});
    let given = fields.as_object().unwrap().clone();
    root.as_object_mut().unwrap().extend(given);
    root
}

#[tokio::test]
async fn a_for_counts_from_start_to_end() {
    let number = || says("n", "`${variables.CurrentValue}`");
    for (fields, expected) in [
        (json!({"start": 1, "end": 3}), vec!["1", "2", "3"]),
        (
            json!({"start": 1, "end": 3, "outerBoundInclusive": false}),
            vec!["1", "2"],
        ),
        (json!({"start": 3, "end": 1, "step": -1}), vec!["3", "2", "1"]),
        (
            json!({"start": 3, "end": 1, "step": -1, "outerBoundInclusive": false}),
            vec!["3", "2"],
        ),
        (json!({"start": 1, "end": 6, "step": 2}), vec!["1", "3", "5"]),
        (json!({"start": 2, "end": 1}), vec![]),
        (
            json!({"start": script_of("Int32", "2 + 2"), "end": "5"}),
            vec!["4", "5"],
        ),
        // What a designer leaves empty is the default.
        (json!({"start": "", "end": "", "step": ""}), vec!["0"]),
        (json!({"end": i32::MAX, "step": i32::MAX}), vec!["0", "2147483647"]),
    ] {
        assert_eq!(lines(counting(fields.clone(), number())).await, expected, "{fields}");
    }
    assert_eq!(lines(json!({"id": "for", "type": "Elsa.For", "end": 3})).await, [""; 0]);
}

#[tokio::test]
async fn a_for_sets_its_output_and_waits_in_its_rounds() {
    let bound = json!({"typeName": "Object", "memoryReference": {"id": "v"}});
    let root = counting(json!({"start": 1, "end": 2, "currentValue": bound}), event("go"));
    let model = json!({"root": root, "variables": [{"id": "v", "name": "Number", "typeName": "Int32"}]});
    let mut instance = InMemoryInstance::new(&definition(model));
    assert_eq!(instance.start().await.state.variables()["Number"], 1);
    assert_eq!(instance.event("go", Value::Null).await.state.variables()["Number"], 2);
    assert_eq!(resume(&mut instance, "go").await, SubStatus::Finished);
}

#[tokio::test]
async fn a_for_without_a_direction_is_a_fault() {
    let message = fault(counting(json!({"end": 3, "step": script_of("Int32", "0")}), line("x"))).await;
    assert!(
        message.starts_with("for: ") && message.contains("Step is 0"),
        "{message}"
    );
}

#[tokio::test]
async fn parallel_children_wait_side_by_side() {
    let children = [event("a"), sequence("s", &[event("b"), line("after b")]), line("c")];
    let parallel = json!({"id": "p", "type": "Elsa.Parallel", "activities": children});
    let mut instance = instance_of(sequence("root", &[parallel, line("end")]));
    assert_eq!(instance.start().await.bookmarks_created.len(), 2);
    assert_eq!(resume(&mut instance, "b").await, SubStatus::Suspended);
    assert_eq!(resume(&mut instance, "a").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["c", "after b", "end"]);
    assert_eq!(lines(json!({"id": "p", "type": "Elsa.Parallel"})).await, [""; 0]);
}

fn fork(mode: &str, branches: &[Value]) -> Value {
    json!({"id": "fork", "type": "Elsa.Fork", "joinMode": mode, "branches": branches})
}

#[tokio::test]
async fn a_fork_waits_for_all_its_branches() {
    let branches = [event("a"), event("b"), line("c")];
    let mut instance = instance_of(sequence("root", &[fork("WaitAll", &branches), line("end")]));
    assert_eq!(instance.start().await.sub_status, SubStatus::Suspended);
    assert_eq!(resume(&mut instance, "b").await, SubStatus::Suspended);
    assert_eq!(resume(&mut instance, "a").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["c", "end"]);
}

#[tokio::test]
async fn a_fork_that_takes_the_first_cancels_what_waits() {
    let branches = [event("a"), sequence("s", &[event("b"), line("after b")])];
    let mut instance = instance_of(sequence("root", &[fork("WaitAny", &branches), line("end")]));
    instance.start().await;
    let result = instance.event("a", Value::Null).await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(result.bookmarks_burned.len(), 2);
    assert_eq!(instance.events("Canceled"), ["b", "s"]);
    assert_eq!(instance.lines(), ["end"]);
    // A branch that has not begun is withdrawn.
    assert_eq!(lines(fork("waitany", &[line("a"), line("b")])).await, ["a"]);
}

#[tokio::test]
async fn a_fork_without_branches_completes() {
    for mode in ["WaitAll", "WaitAny"] {
        assert_eq!(lines(fork(mode, &[])).await, [""; 0]);
    }
    assert_eq!(
        lines(json!({"id": "f", "type": "Elsa.Fork", "branches": null})).await,
        [""; 0]
    );
    let message = fault(fork("WaitSome", &[line("a")])).await;
    assert!(
        message.contains("joinMode") && message.contains("use WaitAll or WaitAny"),
        "{message}"
    );
}

#[tokio::test]
async fn each_item_of_a_parallel_loop_has_variables_of_its_own() {
    let name = script_of("String", "`go ${variables.CurrentIndex}`");
    let wait = json!({"id": "wait", "type": "Elsa.Event", "eventName": name});
    let body = sequence(
        "body",
        &[
            wait,
            says("say", "`${variables.CurrentIndex} ${variables.CurrentValue}`"),
        ],
    );
    let each = json!({"id": "each", "type": "Elsa.ParallelForEach", "items": script_of("Object", "['x', 'y', 'z']"), "body": body});
    let mut instance = instance_of(sequence("root", &[each, line("end")]));
    assert_eq!(instance.start().await.bookmarks_created.len(), 3);
    assert_eq!(resume(&mut instance, "go 2").await, SubStatus::Suspended);
    assert_eq!(resume(&mut instance, "go 0").await, SubStatus::Suspended);
    assert_eq!(resume(&mut instance, "go 1").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["2 z", "0 x", "1 y", "end"]);
}

#[tokio::test]
async fn a_parallel_loop_takes_any_list() {
    let each =
        |items: Value, body: Value| json!({"id": "each", "type": "Elsa.ParallelForEach", "items": items, "body": body});
    for items in [json!([]), json!(null), script_of("Object", "null")] {
        assert_eq!(lines(each(items, line("x"))).await, [""; 0]);
    }
    assert_eq!(lines(each(json!([1, 2]), Value::Null)).await, [""; 0]);
    let message = fault(each(script_of("Object", "({a: 1})"), line("x"))).await;
    assert!(message.starts_with("each: ") && message.contains("Items"), "{message}");
    assert!(message.contains("not a list"), "{message}");
    let many = script_of("Object", "Array.from({length: 5000}, (_, n) => n)");
    assert_eq!(lines(each(many, line("x"))).await.len(), 5000);
}

#[tokio::test]
async fn a_break_leaves_the_loop_and_cancels_what_waits() {
    let leave = json!({"id": "break", "type": "Elsa.Break"});
    let decided = sequence("decided", &[event("stop"), leave, line("never")]);
    let cases = [
        case("A", holds(true), event("a")),
        case("B", holds(true), decided.clone()),
    ];
    let parallel = json!({"id": "p", "type": "Elsa.Parallel", "activities": [event("a"), decided]});
    let both = [event("a"), decided.clone()];
    let name = script_of("String", "variables.CurrentValue");
    let item = json!({"id": "item", "type": "Elsa.Event", "eventName": name});
    let item = sequence(
        "body",
        &[item, json!({"id": "break", "type": "Elsa.Break"}), line("never")],
    );
    let each = json!({"id": "each", "type": "Elsa.ParallelForEach", "items": ["a", "stop"], "body": item});
    for inner in [
        endless(switch("MatchAny", &cases)),
        endless(parallel.clone()),
        endless(fork("WaitAll", &both)),
        endless(fork("WaitAny", &both)),
        counting(json!({"end": 9}), parallel),
        each,
    ] {
        let mut instance = instance_of(sequence("root", &[inner.clone(), line("end")]));
        assert_eq!(instance.start().await.bookmarks_created.len(), 2, "{inner}");
        let result = instance.event("stop", Value::Null).await;
        assert_eq!(
            result.sub_status,
            SubStatus::Finished,
            "{inner}: {:?}",
            result.state.incidents()
        );
        assert_eq!(result.bookmarks_burned.len(), 2, "{inner}");
        assert_eq!(instance.lines(), ["end"], "{inner}");
    }
}

#[tokio::test]
async fn elsas_generic_types_run_as_the_plain_ones() {
    let variable = json!({"id": "v", "name": "Total", "typeName": "Int32"});
    let set = json!({"id": "set", "type": "Elsa.SetVariable<Int32>", "version": 1, "variable": variable,
        "value": {"typeName": "Int32", "expression": {"type": "Literal", "value": "7"}}});
    let each = |id: &str, type_name: &str| {
        let items =
            json!({"typeName": "ICollection<String>", "expression": {"type": "Object", "value": "[\"a\", \"b\"]"}});
        json!({"id": id, "type": type_name, "items": items, "body": says(&format!("{id} says"), "variables.CurrentValue")})
    };
    let steps = [
        set,
        each("one", "Elsa.Workflows.Activities.ForEach<String>"),
        each("two", "Elsa.ForEach<String>"),
        each("three", "Elsa.ParallelForEach<String>"),
    ];
    let model = definition(json!({"root": sequence("root", &steps), "variables": [variable]}));
    let mut instance = InMemoryInstance::new(&model);
    assert_eq!(instance.interpreter.validate(&model), []);
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(result.state.variables()["Total"], 7);
    assert_eq!(instance.lines(), ["a", "b", "a", "b", "a", "b"]);
    // A node without them does not claim the work, though it knows the plain types.
    let known = Catalogue::standard().requirements();
    let required = instance.program.activity_types();
    assert!(required.contains(&"Elsa.SetVariable<>".to_owned()), "{required:?}");
    assert!(
        required
            .iter()
            .all(|name| name == "Elsa.Workflow" || known.contains(name)),
        "{required:?}"
    );
}

fn errors(root: Value) -> Vec<String> {
    let model = definition(json!({"root": root}));
    let found = InMemoryInstance::new(&model).interpreter.validate(&model);
    found
        .into_iter()
        .map(|error| format!("{}: {}", error.activity_id, error.message))
        .collect()
}

#[test]
fn bad_control_flow_is_refused_at_publish() {
    let with = |root: Value, change: Value| {
        let mut root: Map<String, Value> = root.as_object().unwrap().clone();
        root.extend(change.as_object().unwrap().clone());
        Value::Object(root)
    };
    let good = [case("A", holds(true), line("a"))];
    let switch = || switch("MatchFirst", &good);
    let fork = || fork("WaitAll", &[line("a")]);
    let condition = |condition: Value| with(switch(), json!({"cases": [case("A", condition, Value::Null)]}));
    for (root, expected) in [
        (
            with(switch(), json!({"cases": "A"})),
            vec!["switch: ", "cases", "must be a list"],
        ),
        (
            with(switch(), json!({"cases": ["A"]})),
            vec!["switch: ", "cases[0]", "must be an object"],
        ),
        (
            with(switch(), json!({"mode": "Some"})),
            vec!["switch: ", "mode Some", "use MatchFirst or MatchAny"],
        ),
        (condition(json!(["x"])), vec!["switch: ", "Cases[0].Condition"]),
        (
            condition(json!({"type": "Python", "value": "true"})),
            vec!["switch: ", "Cases[0].Condition", "Python"],
        ),
        (
            condition(json!({"type": "Literal", "value": "perhaps"})),
            vec!["switch: ", "Cases[0].Condition", "perhaps"],
        ),
        (
            with(
                switch(),
                json!({"cases": [case("A", holds(true), json!({"id": "x", "type": "Acme.Fly"}))]}),
            ),
            vec!["x: ", "Acme.Fly"],
        ),
        (
            with(switch(), json!({"cases": [case("A", holds(true), json!("a"))]})),
            vec!["switch.cases[0].activity", "must be an activity"],
        ),
        (
            json!({"id": "s", "type": "Elsa.FlowSwitch", "cases": [{"label": " ", "condition": holds(true)}]}),
            vec!["s: ", "cases[0]", "label"],
        ),
        (
            with(fork(), json!({"joinMode": "WaitSome"})),
            vec!["fork: ", "joinMode WaitSome", "use WaitAll or WaitAny"],
        ),
        (
            with(fork(), json!({"branches": "a"})),
            vec!["fork: ", "branches", "must be a list"],
        ),
        (
            with(fork(), json!({"branches": [{"id": "x", "type": "Acme.Fly"}]})),
            vec!["x: ", "Acme.Fly"],
        ),
        (
            counting(json!({"step": "0"}), line("a")),
            vec!["for: ", "step", "positive or a negative"],
        ),
        (
            counting(json!({"end": "many"}), line("a")),
            vec!["for: ", "End", "many"],
        ),
        (
            json!({"id": "each", "type": "Elsa.ParallelForEach", "items": {"a": 1}, "body": line("a")}),
            vec!["each: ", "Items", "not a list"],
        ),
    ] {
        let found = errors(root.clone());
        assert!(!found.is_empty(), "{root}");
        assert!(expected.iter().all(|part| found[0].contains(part)), "{root}: {found:?}");
        assert_eq!(found.len(), 1, "{found:?}");
    }
    for root in [
        switch(),
        fork(),
        flow_switch("MatchAny", [true, true]),
        with(fork(), json!({"branches": []})),
    ] {
        assert_eq!(errors(root), [""; 0]);
    }
}
