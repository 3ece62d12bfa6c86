//! Random workflows in memory: one burst per activity gives the same journal as bursts that end with a wait.

use std::collections::BTreeSet;

use serde_json::Value;

use super::in_memory::{InMemoryInstance, definition, start};
use super::random_workflow::random_workflow;
use crate::activity::Catalogue;
use crate::definition::WorkflowDefinition;
use crate::execution::{BurstResult, Instruction, Status};

/// Types that a random workflow does not have: what waits for a time or a program, whose order a test does not decide; what
/// starts other instances or has to do with clients and servers; and the workflow itself.
const WITHOUT: [&str; 16] = [
    "Elsa.Workflow",
    "Elsa.Delay",
    "Elsa.StartAt",
    "Elsa.Timer",
    "Elsa.Cron",
    "Elsa.RunTask",
    "Elsa.DispatchWorkflow",
    "Elsa.BulkDispatchWorkflows",
    "Elsa.ExecuteWorkflow",
    "Elsa.HttpEndpoint",
    "Elsa.WriteHttpResponse",
    "Elsa.WriteFileHttpResponse",
    "Elsa.SendHttpRequest",
    "Elsa.FlowSendHttpRequest",
    "Elsa.DownloadHttpFile",
    "Elsa.SendEmail",
];

/// A type without its type argument.
fn plain(name: &str) -> &str {
    name.split('<').next().unwrap_or(name)
}

/// The types of the activities in a definition.
fn types_in(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let name = fields.get("type").and_then(Value::as_str);
            found.extend(name.map(|name| plain(name).to_owned()));
            fields.values().for_each(|field| types_in(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| types_in(item, found)),
        _ => {}
    }
}

/// The state, when nothing is left to do but to wait.
fn assert_consistent(result: &BurstResult, seed: u64) {
    let state = serde_json::to_value(&result.state).unwrap();
    let contexts = state["contexts"].as_object().unwrap();
    let is_open = |number: &str| {
        contexts
            .get(number)
            .is_some_and(|context| context["status"] == "Running")
    };
    for bookmark in result.state.bookmarks() {
        let number = bookmark.activity_execution_id.as_str().rsplit(':').next().unwrap();
        assert!(
            is_open(number),
            "seed {seed}: {bookmark:?} belongs to nothing that runs"
        );
        let mut around = Some(number.to_owned());
        while let Some(number) = around {
            assert!(
                is_open(&number),
                "seed {seed}: a bookmark below {number}, which has ended"
            );
            around = contexts[&number]["parent"].as_u64().map(|parent| parent.to_string());
        }
    }
    assert!(state.get("queue").is_none(), "seed {seed}: work is left");
    if result.status == Status::Finished {
        assert!(result.state.bookmarks().is_empty(), "seed {seed}");
    }
}

/// Resumes one bookmark after the other, each time another one, until none is left.
async fn drive(model: &WorkflowDefinition, seed: u64, activities_per_burst: usize) -> (InMemoryInstance, BurstResult) {
    let mut instance = InMemoryInstance::with(model, Catalogue::standard(), |options| {
        options.activities_per_burst = activities_per_burst;
    });
    let mut result = instance.run(start(serde_json::Map::new())).await;
    for step in 0..200_usize {
        assert_consistent(&result, seed);
        let bookmarks = result.state.bookmarks();
        let Some(bookmark) = bookmarks.get((step * 7) % bookmarks.len().max(1)) else {
            return (instance, result);
        };
        let instruction = Instruction::Stimulus {
            bookmark_id: Some(bookmark.id.clone()),
            hash: bookmark.hash,
            name: bookmark.name.clone(),
            payload: Some(Value::Null),
        };
        result = instance.run(instruction).await;
    }
    panic!("seed {seed}: it does not end");
}

#[tokio::test]
async fn random_workflows_do_the_same_however_bursts_are_cut() {
    let mut seen = BTreeSet::new();
    let mut ended = BTreeSet::new();
    let mut generated = BTreeSet::new();
    // Each of these in each way.
    let kinds = [
        "Mainspring.Try",
        "Mainspring.DoWhile",
        "Elsa.ParallelForEach",
        "Elsa.Switch",
        "Elsa.Flowchart",
        "Elsa.StateMachine",
    ];
    let ways = kinds
        .iter()
        .flat_map(|kind| ["Completed", "Canceled"].map(|event| format!("{kind} {event}")));
    let wanted: BTreeSet<String> = ways.chain(["Mainspring.Try Faulted".to_owned()]).collect();
    for seed in 0..600 {
        // As many seeds as it takes to see all of them.
        if seed >= 120 && wanted.is_subset(&seen) {
            break;
        }
        types_in(&random_workflow(seed), &mut generated);
        let model = definition(random_workflow(seed));
        let (whole, result) = drive(&model, seed, 1000).await;
        assert_eq!(whole.interpreter.validate(&model), [], "seed {seed}");
        let (cut, cut_result) = drive(&model, seed, 1).await;
        let entries = |instance: &InMemoryInstance| -> Vec<_> {
            let journal = instance.journal.iter();
            journal
                .map(|entry| {
                    (
                        entry.event_name,
                        entry.node_id.clone(),
                        entry.activity_execution_id.clone(),
                        entry.payload.clone(),
                    )
                })
                .collect()
        };
        assert_eq!(entries(&whole), entries(&cut), "seed {seed}");
        assert_eq!(whole.lines(), cut.lines(), "seed {seed}");
        assert_eq!(result.sub_status, cut_result.sub_status, "seed {seed}");
        seen.extend(
            whole
                .journal
                .iter()
                .map(|entry| format!("{} {}", plain(&entry.activity_type), entry.event_name)),
        );
        ended.insert(result.sub_status.as_str());
    }
    let catalogue = Catalogue::standard();
    let all = catalogue.descriptors();
    let missing: Vec<&str> = all
        .iter()
        .map(|descriptor| &*descriptor.type_name)
        .filter(|name| !generated.contains(*name) && !WITHOUT.contains(name))
        .collect();
    assert_eq!(missing, [""; 0], "no random workflow has these");
    let missing: Vec<&String> = wanted.iter().filter(|kind| !seen.contains(*kind)).collect();
    assert!(missing.is_empty(), "no workflow has {missing:?}");
    assert!(
        ended.contains("Finished") && ended.contains("Faulted") && ended.contains("Suspended"),
        "{ended:?}"
    );
}
