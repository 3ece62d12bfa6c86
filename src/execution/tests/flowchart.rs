//! Random flowcharts, with counts and with tokens: without a loop no activity runs twice (except where a merge mode lets
//! each token through), and every run ends or waits.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition};
use crate::activity::Catalogue;
use crate::definition::WorkflowDefinition;
use crate::execution::{BurstResult, Status, SubStatus};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Line,
    Decision(bool),
    Fork(bool),
    Join(&'static str),
    Event,
    Box,
    Switch(bool, bool),
    Race,
    Machine,
    End,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        3 => Just(Kind::Line),
        2 => any::<bool>().prop_map(Kind::Decision),
        2 => any::<bool>().prop_map(Kind::Fork),
        3 => prop_oneof![Just("WaitAll"), Just("WaitAllActive"), Just("WaitAny")].prop_map(Kind::Join),
        2 => Just(Kind::Event),
        1 => Just(Kind::Box),
        1 => any::<(bool, bool)>().prop_map(|(one, two)| Kind::Switch(one, two)),
        1 => Just(Kind::Race),
        1 => Just(Kind::Machine),
        1 => Just(Kind::End),
    ]
}

fn activity(id: usize, kind: Kind) -> Value {
    let id = format!("n{id}");
    match kind {
        Kind::Line => json!({"id": id, "type": "Elsa.WriteLine", "text": id}),
        Kind::Decision(condition) => json!({"id": id, "type": "Elsa.FlowDecision", "condition": condition}),
        Kind::Fork(both) => {
            json!({"id": id, "type": "Elsa.FlowFork", "branches": if both { json!(["True", "False"]) } else { json!(["Done"]) }})
        }
        Kind::Join(mode) => json!({"id": id, "type": "Elsa.FlowJoin", "mode": mode}),
        Kind::Event => json!({"id": id, "type": "Elsa.Event", "eventName": id}),
        Kind::Box => {
            let inner = json!({"id": format!("{id}-event"), "type": "Elsa.Event", "eventName": id});
            json!({"id": id, "type": "Elsa.FlowNode", "body": inner})
        }
        Kind::Switch(one, two) => {
            let case =
                |label: &str, holds: bool| json!({"label": label, "condition": {"type": "Literal", "value": holds}});
            json!({"id": id, "type": "Elsa.FlowSwitch", "mode": "MatchAny", "cases": [case("True", one), case("False", two)]})
        }
        Kind::Race => {
            let event =
                |n: u8| json!({"id": format!("{id}-{n}"), "type": "Elsa.Event", "eventName": format!("{id}-{n}")});
            json!({"id": id, "type": "Elsa.Fork", "joinMode": "WaitAny", "branches": [event(1), event(2)]})
        }
        Kind::Machine => {
            let event =
                |n: u8| json!({"id": format!("{id}-{n}"), "type": "Elsa.Event", "eventName": format!("{id}-{n}")});
            let moves = |n: u8, to: &str| json!({"from": "A", "to": to, "trigger": event(n)});
            let entry = json!({"id": format!("{id}-b"), "type": "Elsa.WriteLine", "text": id});
            json!({"id": id, "type": "Elsa.StateMachine", "initialState": "A",
                "states": [{"name": "A"}, {"name": "B", "entry": entry}, {"name": "C"}],
                "transitions": [moves(1, "B"), moves(2, "C")]})
        }
        Kind::End => json!({"id": id, "type": "Elsa.End"}),
    }
}

/// The flowchart by counts or, with a merge mode for each activity in turn, by tokens.
fn flowchart(kinds: &[Kind], edges: &[(usize, usize, u8)], merges: &[&str]) -> WorkflowDefinition {
    let mode = if merges.is_empty() {
        "CounterBased"
    } else {
        "TokenBased"
    };
    let mut activities: Vec<Value> = kinds.iter().enumerate().map(|(id, kind)| activity(id, *kind)).collect();
    for (activity, merge) in activities.iter_mut().zip(merges.iter().cycle()) {
        activity["customProperties"] = json!({"mergeMode": merge});
    }
    let connections: Vec<Value> = edges
        .iter()
        .map(|(source, target, port)| {
            let port = match (kinds[*source], port % 3) {
                (Kind::Decision(_) | Kind::Fork(true) | Kind::Switch(..), 0) => "True",
                (Kind::Decision(_) | Kind::Fork(true) | Kind::Switch(..), 1) => "False",
                _ => "Done",
            };
            json!({"source": {"activity": format!("n{source}"), "port": port}, "target": {"activity": format!("n{target}"), "port": "In"}})
        })
        .collect();
    definition(
        json!({"customProperties": {"Flowchart:ExecutionMode": mode}, "root": {"id": "f", "type": "Elsa.Flowchart", "start": "n0", "activities": activities, "connections": connections}}),
    )
}

/// Starts an instance and resumes its bookmarks until it ends, in an order that depends on `choice`.
async fn run_to_end(instance: &mut InMemoryInstance, choice: usize) -> BurstResult {
    let mut result = instance.start().await;
    for round in 0..40 {
        check_ended_or_waiting(&result);
        if result.status == Status::Finished {
            break;
        }
        let bookmarks = result.state.bookmarks();
        let bookmark = &bookmarks[(choice + round) % bookmarks.len()];
        let name = bookmark.payload["eventName"].as_str().unwrap().to_owned();
        result = instance.event(&name, json!(null)).await;
    }
    result
}

/// The instance has ended, or waits at a bookmark.
fn check_ended_or_waiting(result: &BurstResult) {
    match result.sub_status {
        SubStatus::Suspended => assert!(!result.state.bookmarks().is_empty()),
        SubStatus::Finished => assert_eq!(result.incident_count, 0),
        SubStatus::Faulted => {
            let code = &result.state.incidents()[0].exception["code"];
            assert_ne!(code, "nothing-to-wait-for");
        }
        other => panic!("a burst ended {other}"),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn graph(size: usize) -> impl Strategy<Value = (Vec<Kind>, Vec<(usize, usize, u8)>)> {
    (2..size).prop_flat_map(|count| {
        let kinds = prop::collection::vec(kind(), count);
        let edges = prop::collection::vec((0..count, 0..count, any::<u8>()), 0..count * 2);
        (kinds, edges)
    })
}

/// Merge modes of the activities of a flowchart with tokens; none: it runs by counts.
fn merges() -> impl Strategy<Value = Vec<&'static str>> {
    let mode = prop_oneof![
        Just("None"),
        Just("Stream"),
        Just("Merge"),
        Just("Converge"),
        Just("Cascade"),
        Just("Race")
    ];
    prop_oneof![Just(Vec::new()), prop::collection::vec(mode, 1..8)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_a_loop_no_activity_runs_twice(
        (kinds, edges) in graph(14),
        choice in 0..7usize,
        merges in prop_oneof![Just(vec![]), prop::collection::vec(prop_oneof![Just("Merge"), Just("Converge"), Just("Race")], 1..8)],
    ) {
        let forward: Vec<_> = edges.into_iter().filter(|(a, b, _)| a != b).map(|(a, b, p)| (a.min(b), a.max(b), p)).collect();
        let mut instance = InMemoryInstance::new(&flowchart(&kinds, &forward, &merges));
        let result = runtime().block_on(run_to_end(&mut instance, choice));
        prop_assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
        let mut runs: HashMap<String, usize> = HashMap::new();
        for id in instance.events("Started") {
            *runs.entry(id).or_default() += 1;
        }
        prop_assert!(runs.values().all(|count| *count == 1), "{:?}", runs);
        // Every execution that started has ended.
        // A join that was skipped has not started; its entry has the reason.
        let skipped = instance.journal.iter().filter(|entry| entry.event_name == "Canceled" && entry.message.is_some());
        let ended = instance.events("Completed").len() + instance.events("Canceled").len() - skipped.count();
        prop_assert_eq!(runs.len(), ended);
    }

    #[test]
    fn every_run_ends_or_waits((kinds, edges) in graph(10), choice in 0..7usize, merges in merges()) {
        let mut instance = InMemoryInstance::with(&flowchart(&kinds, &edges, &merges), Catalogue::standard(), |options| {
            options.executions_without_wait = 300;
        });
        let result = runtime().block_on(run_to_end(&mut instance, choice));
        check_ended_or_waiting(&result);
    }
}

proptest! {
    // Fewer cases: each has a burst for every activity.
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_result_does_not_depend_on_where_a_burst_yields((kinds, edges) in graph(10), choice in 0..7usize, merges in merges()) {
        let definition = flowchart(&kinds, &edges, &merges);
        let run = |per_burst: usize| {
            let mut instance = InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
                options.executions_without_wait = 100;
                options.activities_per_burst = per_burst;
            });
            let result = runtime().block_on(run_to_end(&mut instance, choice));
            let journal: Vec<_> = instance
                .journal
                .iter()
                .map(|entry| (entry.sequence, entry.event_name, entry.activity_execution_id.clone()))
                .collect();
            (journal, result.state.to_bytes().unwrap())
        };
        prop_assert_eq!(run(1000), run(1));
    }
}
