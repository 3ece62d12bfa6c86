//! Flowcharts with tokens: each merge mode, each mode of a join, both switches, waits and loops.

use serde_json::{Value, json};

use super::activities::{event, line};
use super::in_memory::{InMemoryInstance, definition, options};
use crate::activity::{Catalogue, FlowchartMode};
use crate::execution::{Interpreter, SubStatus};

fn decision(id: &str, condition: Value) -> Value {
    json!({"id": id, "type": "Elsa.FlowDecision", "condition": condition})
}

fn join(id: &str, mode: &str) -> Value {
    json!({"id": id, "type": "Elsa.FlowJoin", "mode": mode})
}

fn merging(mut activity: Value, mode: &str) -> Value {
    activity["customProperties"] = json!({"mergeMode": mode});
    activity
}

/// `a -> b`, or `a:True -> b` from a port.
fn arrow(text: &str) -> Value {
    let (source, target) = text.split_once(" -> ").unwrap();
    let (source, port) = source.split_once(':').unwrap_or((source, "Done"));
    json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}})
}

/// A flowchart that begins at its `Elsa.Start`, with the id `s`.
fn chart(activities: &[Value], arrows: &[&str]) -> Value {
    let start = json!({"id": "s", "type": "Elsa.Start"});
    let activities: Vec<&Value> = std::iter::once(&start).chain(activities).collect();
    let connections: Vec<Value> = arrows.iter().map(|text| arrow(text)).collect();
    json!({"id": "f", "type": "Elsa.Flowchart", "activities": activities, "connections": connections})
}

fn with_tokens(root: &Value) -> InMemoryInstance {
    let counter = json!({"id": "n", "name": "N", "typeName": "Int32", "value": 0});
    let definition = definition(json!({"root": root, "variables": [counter],
        "customProperties": {"Flowchart:ExecutionMode": "TokenBased"}}));
    let instance = InMemoryInstance::new(&definition);
    assert_eq!(instance.interpreter.validate(&definition), []);
    instance
}

/// The lines of a flowchart that ends in its first burst.
async fn lines(activities: &[Value], arrows: &[&str]) -> Vec<String> {
    let mut instance = with_tokens(&chart(activities, arrows));
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    instance.lines()
}

async fn resume(instance: &mut InMemoryInstance, name: &str) -> SubStatus {
    instance.event(name, Value::Null).await.sub_status
}

/// Two branches, each of which waits, and an activity behind both.
fn two_branches(end: Value) -> InMemoryInstance {
    let arrows = ["s -> a", "s -> b", "a -> end", "b -> end"];
    with_tokens(&chart(&[event("a"), event("b"), end], &arrows))
}

/// One branch that arrives, and one that a decision does not take.
const DEAD_PATH: [&str; 5] = ["s -> a", "s -> d", "d:True -> b", "a -> end", "b -> end"];

async fn with_a_dead_path(end: Value) -> Vec<String> {
    lines(&[line("a"), decision("d", json!(false)), line("b"), end], &DEAD_PATH).await
}

#[tokio::test]
async fn a_merge_waits_for_every_forward_connection() {
    let mut instance = two_branches(merging(line("end"), "Merge"));
    instance.start().await;
    assert_eq!(resume(&mut instance, "b").await, SubStatus::Suspended);
    assert_eq!(instance.lines(), [""; 0]);
    assert_eq!(resume(&mut instance, "a").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["end"]);
}

#[tokio::test]
async fn a_merge_that_can_never_be_met_completes_its_flowchart() {
    for mode in ["Merge", "Converge"] {
        assert_eq!(with_a_dead_path(merging(line("end"), mode)).await, ["a"], "{mode}");
    }
    // What follows the flowchart runs.
    let inner = chart(
        &[
            line("a"),
            decision("d", json!(false)),
            line("b"),
            merging(line("end"), "Merge"),
        ],
        &DEAD_PATH,
    );
    let root = json!({"id": "all", "type": "Elsa.Sequence", "activities": [inner, line("after")]});
    let mut instance = with_tokens(&root);
    assert_eq!(instance.start().await.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["a", "after"]);
}

#[tokio::test]
async fn a_merge_leaves_out_connections_that_lead_back_and_a_converge_does_not() {
    let again = decision("d", json!(false));
    let arrows = ["s -> a", "a -> c", "c -> d", "d:True -> c"];
    let merged = lines(&[line("a"), merging(line("c"), "Merge"), again.clone()], &arrows).await;
    assert_eq!(merged, ["a", "c"]);
    let converged = lines(&[line("a"), merging(line("c"), "Converge"), again], &arrows).await;
    assert_eq!(converged, ["a"]);
    // Every path arrives: also a converge is met.
    let mut instance = two_branches(merging(line("end"), "Converge"));
    instance.start().await;
    assert_eq!(resume(&mut instance, "a").await, SubStatus::Suspended);
    assert_eq!(resume(&mut instance, "b").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["end"]);
}

#[tokio::test]
async fn a_stream_waits_for_sources_that_are_still_to_run_and_for_no_other() {
    for end in [
        line("end"),
        merging(line("end"), "None"),
        merging(line("end"), "Stream"),
        merging(line("end"), "unknown"),
    ] {
        let mut instance = two_branches(end.clone());
        instance.start().await;
        assert_eq!(resume(&mut instance, "b").await, SubStatus::Suspended);
        assert_eq!(instance.lines(), [""; 0]);
        assert_eq!(resume(&mut instance, "a").await, SubStatus::Finished);
        assert_eq!(instance.lines(), ["end"]);
        assert_eq!(with_a_dead_path(end).await, ["a", "end"]);
    }
}

#[tokio::test]
async fn a_cascade_runs_with_the_first_token_and_cancels_nothing() {
    let mut instance = two_branches(merging(line("end"), "Cascade"));
    instance.start().await;
    assert_eq!(resume(&mut instance, "b").await, SubStatus::Suspended);
    assert_eq!(instance.lines(), ["end"]);
    assert_eq!(resume(&mut instance, "a").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["end"], "the block takes the second token");
    assert_eq!(instance.events("Canceled"), [""; 0]);
    assert_eq!(with_a_dead_path(merging(line("end"), "Cascade")).await, ["a", "end"]);
}

#[tokio::test]
async fn a_race_cancels_what_has_not_arrived() {
    for end in [
        merging(line("end"), "Race"),
        merging(line("end"), "race"),
        merging(line("end"), "5"),
    ] {
        let mut instance = two_branches(end);
        instance.start().await;
        let result = instance.event("b", Value::Null).await;
        assert_eq!(result.sub_status, SubStatus::Finished);
        assert_eq!(result.bookmarks_burned.len(), 2);
        assert_eq!(
            (instance.lines(), instance.events("Canceled")),
            (vec!["end".to_owned()], vec!["a".to_owned()])
        );
    }
    // What was scheduled begins all the same, and is cancelled when the winner completes.
    let mut instance = with_tokens(&chart(
        &[line("a"), event("b"), merging(line("end"), "Race"), line("after")],
        &["s -> a", "s -> b", "a -> end", "b -> end", "end -> after"],
    ));
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(
        (instance.lines(), instance.events("Canceled")),
        (vec!["a".into(), "end".into(), "after".into()], vec!["b".to_owned()])
    );
}

#[tokio::test]
async fn a_join_for_any_is_a_race_and_the_others_are_merges() {
    for (mode, is_race) in [("WaitAny", true), ("WaitAll", false), ("WaitAllActive", false)] {
        let arrows = ["s -> a", "s -> b", "a -> j", "b -> j", "j -> end"];
        let mut instance = with_tokens(&chart(&[event("a"), event("b"), join("j", mode), line("end")], &arrows));
        instance.start().await;
        let first = resume(&mut instance, "a").await;
        assert_eq!(first == SubStatus::Finished, is_race, "{mode}");
        assert_eq!(
            instance.events("Canceled"),
            if is_race { vec!["b"] } else { vec![] },
            "{mode}"
        );
        if !is_race {
            assert_eq!(instance.lines(), [""; 0]);
            assert_eq!(resume(&mut instance, "b").await, SubStatus::Finished);
        }
        assert_eq!(instance.lines(), ["end"], "{mode}");
        // With a path that is not taken, only the race goes on.
        let arrows = ["s -> a", "s -> d", "d:True -> b", "a -> j", "b -> j", "j -> end"];
        let all = [
            line("a"),
            decision("d", json!(false)),
            line("b"),
            join("j", mode),
            line("end"),
        ];
        let expected = if is_race { vec!["a", "end"] } else { vec!["a"] };
        assert_eq!(lines(&all, &arrows).await, expected, "{mode}");
    }
}

#[tokio::test]
async fn two_connections_from_one_source_are_one_arrival() {
    for mode in ["Stream", "Merge", "Converge", "Race"] {
        let fork = json!({"id": "k", "type": "Elsa.FlowFork", "branches": ["A", "B"]});
        let arrows = ["s -> k", "k:A -> end", "k:B -> end"];
        assert_eq!(
            lines(&[fork, merging(line("end"), mode)], &arrows).await,
            ["end"],
            "{mode}"
        );
    }
}

#[tokio::test]
async fn an_end_ends_the_flowchart_at_once() {
    let end = json!({"id": "e", "type": "Elsa.End"});
    let mut instance = with_tokens(&chart(&[event("a"), event("b"), end], &["s -> a", "s -> b", "a -> e"]));
    instance.start().await;
    let result = instance.event("a", Value::Null).await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(instance.events("Canceled"), ["b"]);
}

#[tokio::test]
async fn a_break_leaves_a_flowchart_with_tokens() {
    let stop = json!({"id": "stop", "type": "Elsa.Break"});
    let inner = chart(&[event("a"), event("b"), stop], &["s -> a", "s -> b", "a -> stop"]);
    let mut instance = with_tokens(&json!({"id": "w", "type": "Elsa.While", "condition": true, "body": inner}));
    instance.start().await;
    assert_eq!(resume(&mut instance, "a").await, SubStatus::Finished);
    assert_eq!(instance.events("Canceled"), ["b"]);
}

#[tokio::test]
async fn a_faulted_child_keeps_the_flowchart_open() {
    let fault = json!({"id": "x", "type": "Elsa.Fault", "message": "broken"});
    let root = chart(&[fault, event("a"), line("end")], &["s -> x", "s -> a", "a -> end"]);
    let definition = definition(
        json!({"root": root, "options": {"incidentStrategyType": "ContinueWithIncidentsStrategy"},
        "customProperties": {"Flowchart:ExecutionMode": "TokenBased"}}),
    );
    let mut instance = InMemoryInstance::new(&definition);
    instance.start().await;
    assert_eq!(resume(&mut instance, "a").await, SubStatus::Suspended);
    assert_eq!(instance.lines(), ["end"]);
}

/// The next round of a loop: `n` grows, and the loop ends with 3.
fn rounds() -> [Value; 2] {
    let next = json!({"typeName": "Int32", "expression": {"type": "JavaScript", "value": "getN() + 1"}});
    let count = json!({"id": "count", "type": "Elsa.SetVariable", "variable": {"id": "n", "name": "N"}, "value": next});
    let more = json!({"typeName": "Boolean", "expression": {"type": "JavaScript", "value": "getN() < 3"}});
    [count, decision("more", more)]
}

#[tokio::test]
async fn each_round_of_a_loop_merges_anew() {
    for mode in ["Stream", "Merge", "Cascade"] {
        let [count, more] = rounds();
        let arrows = [
            "s -> k",
            "k -> a",
            "k -> b",
            "a -> m",
            "b -> m",
            "m -> count",
            "count -> more",
            "more:True -> k",
        ];
        let fork = json!({"id": "k", "type": "Elsa.FlowFork", "branches": ["Done"]});
        let all = [fork, line("a"), line("b"), merging(line("m"), mode), count, more];
        assert_eq!(lines(&all, &arrows).await, ["a", "b", "m"].repeat(3), "{mode}");
    }
}

#[tokio::test]
async fn each_round_of_a_loop_is_a_race_of_its_own() {
    let [count, more] = rounds();
    let arrows = [
        "s -> k",
        "k -> a",
        "k -> b",
        "a -> a2",
        "b -> b2",
        "a2 -> m",
        "b2 -> m",
        "m -> count",
        "count -> more",
        "more:True -> k",
    ];
    let fork = json!({"id": "k", "type": "Elsa.FlowFork", "branches": ["Done"]});
    let all = [
        fork,
        event("a"),
        event("b"),
        line("a2"),
        line("b2"),
        merging(line("m"), "Race"),
        count,
        more,
    ];
    let mut instance = with_tokens(&chart(&all, &arrows));
    instance.start().await;
    let mut sizes = Vec::new();
    for winner in ["a", "b", "b"] {
        resume(&mut instance, winner).await;
        sizes.push(instance.state.as_ref().unwrap().to_bytes().unwrap().len());
    }
    assert_eq!(instance.state.as_ref().unwrap().sub_status(), SubStatus::Finished);
    assert_eq!(instance.lines(), ["a2", "m", "b2", "m", "b2", "m"]);
    assert!(
        sizes[0].abs_diff(sizes[1]) < 50,
        "the tokens of a round are gone: {sizes:?}"
    );
}

#[tokio::test]
async fn tokens_survive_a_loss_of_everything_but_the_state() {
    // Each burst has its state as bytes, and executes one activity.
    let arrows = ["s -> a", "s -> b", "a -> m", "b -> m", "m -> end"];
    let root = chart(
        &[event("a"), line("b"), merging(line("m"), "Merge"), line("end")],
        &arrows,
    );
    let definition = definition(json!({"root": root, "customProperties": {"Flowchart:ExecutionMode": "TokenBased"}}));
    let mut instance = InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
        options.activities_per_burst = 1
    });
    instance.start().await;
    assert_eq!(resume(&mut instance, "a").await, SubStatus::Finished);
    assert_eq!(instance.lines(), ["b", "m", "end"]);
}

fn mode_of(custom: &Value, server: FlowchartMode) -> InMemoryInstance {
    let root = chart(
        &[
            line("a"),
            decision("d", json!(false)),
            line("b"),
            merging(line("end"), "Merge"),
        ],
        &DEAD_PATH,
    );
    let definition = definition(json!({"root": root, "customProperties": custom}));
    InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
        options.flowchart_mode = server
    })
}

#[tokio::test]
async fn the_workflow_decides_the_mode_and_else_the_server() {
    use FlowchartMode::{Counter, Token};
    let named = |mode: Value| json!({"Flowchart:ExecutionMode": mode});
    for (custom, server, is_token) in [
        (json!({}), Counter, false),
        (json!({}), Token, true),
        (named(json!("TokenBased")), Counter, true),
        (named(json!("tokenbased")), Counter, true),
        (named(json!("CounterBased")), Token, false),
        (named(json!("Default")), Token, true),
        (named(json!("Default")), Counter, false),
        (named(json!("unknown")), Token, true),
        (named(json!(1)), Counter, true),
        (named(json!("2")), Token, false),
    ] {
        let mut instance = mode_of(&custom, server);
        instance.start().await;
        // The merge mode means something with tokens only.
        let expected = if is_token { vec!["a"] } else { vec!["a", "end"] };
        assert_eq!(instance.lines(), expected, "{custom} {server:?}");
    }
}

#[tokio::test]
async fn a_flowchart_keeps_the_mode_with_which_it_began() {
    for (began, other) in [
        (FlowchartMode::Token, FlowchartMode::Counter),
        (FlowchartMode::Counter, FlowchartMode::Token),
    ] {
        let all = [
            event("a"),
            decision("d", json!(false)),
            line("b"),
            merging(line("end"), "Merge"),
            line("last"),
        ];
        let arrows = ["s -> a", "s -> d", "d:True -> b", "a -> end", "b -> end", "a -> last"];
        let definition = definition(json!({"root": chart(&all, &arrows)}));
        let mut instance = InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
            options.flowchart_mode = began
        });
        instance.start().await;
        let (mut changed, lines) = options();
        changed.flowchart_mode = other;
        instance.interpreter = Interpreter::new(Catalogue::standard(), changed);
        assert_eq!(resume(&mut instance, "a").await, SubStatus::Finished);
        let expected = if began == FlowchartMode::Token {
            vec!["last"]
        } else {
            vec!["end", "last"]
        };
        assert_eq!(lines.all(), expected);
    }
}
