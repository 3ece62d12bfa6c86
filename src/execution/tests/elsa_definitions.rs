//! Elsa's own definitions, if the folder exists.

use std::time::Duration;

use serde_json::json;

use super::in_memory::{InMemoryInstance, composition, options};
use crate::activity::{Catalogue, FlowchartMode};
use crate::definition::WorkflowDefinition;
use crate::execution::{Instruction, Interpreter, SubStatus};

/// The instance of a definition; `None` when the folder is not there. A file that it lacks is an error.
fn load(name: &str) -> Option<InMemoryInstance> {
    load_with(name, FlowchartMode::Counter)
}

fn load_with(name: &str, mode: FlowchartMode) -> Option<InMemoryInstance> {
    let definition = read(name)?;
    let instance = InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
        options.flowchart_mode = mode
    });
    assert_eq!(instance.interpreter.validate(&definition), [], "{name}");
    Some(instance)
}

fn read(name: &str) -> Option<WorkflowDefinition> {
    let home = env!("CARGO_MANIFEST_DIR");
    let folders = ["../shared/elsa/workflows", "../../shared/elsa/workflows"].map(|folder| format!("{home}/{folder}"));
    let folder = std::env::var("MAINSPRING_ELSA_WORKFLOWS").ok();
    let folder = folder.or_else(|| folders.into_iter().find(|folder| std::path::Path::new(folder).is_dir()))?;
    let bytes = std::fs::read(format!("{folder}/{name}.json")).unwrap_or_else(|error| panic!("{name}: {error}"));
    Some(WorkflowDefinition::from_json(&bytes).unwrap())
}

/// An instance of one definition that uses another one as an activity.
fn load_nesting(name: &str, used: &str, catalogue: Catalogue) -> Option<InMemoryInstance> {
    let (definition, used) = (read(name)?, [read(used)?]);
    let instance = InMemoryInstance::nesting(&definition, &used, catalogue);
    let composition = composition(&instance.interpreter, &definition, &used);
    let problems = instance.interpreter.validate_composed(&definition, &composition);
    assert_eq!(problems, [], "{name}");
    Some(instance)
}

#[tokio::test]
async fn a_consumer_gets_the_output_of_its_provider() {
    let Some(mut instance) = load_nesting("consumer", "provider", Catalogue::standard()) else {
        return;
    };
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let variables = result.state.workflow_variables(&instance.program);
    assert_eq!(variables[0].value, json!("Hello World!"));
}

#[tokio::test]
async fn a_parent_goes_on_by_the_outcome_of_its_child() {
    let Some(mut instance) = load_nesting("parent-child-parent", "parent-child-child", Catalogue::standard()) else {
        return;
    };
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let lines = instance.lines();
    assert_eq!(lines.first().unwrap(), "Start");
    assert_eq!(lines.last().unwrap(), "Success");
    assert!(
        lines.contains(&"test".to_owned()) && !lines.contains(&"Failure".to_owned()),
        "{lines:?}"
    );
}

async fn assert_finishes(name: &str, lines: &[&str]) {
    if let Some(instance) = load(name) {
        finishes(instance, name, lines).await;
    }
}

async fn finishes(mut instance: InMemoryInstance, name: &str, lines: &[&str]) -> InMemoryInstance {
    let result = instance.start().await;
    assert_eq!(
        result.sub_status,
        SubStatus::Finished,
        "{name}: {:?}",
        result.state.incidents()
    );
    assert_eq!(instance.lines(), lines, "{name}");
    instance
}

#[tokio::test]
async fn definitions_without_a_wait_finish() {
    assert_finishes("hello-world", &["Hello World!"]).await;
    assert_finishes("implicit-loop", &["Do something", "Retry", "Do something", "Done"]).await;
    assert_finishes("join-all-1", &["Start", "Line 1", "Line 2", "End"]).await;
    assert_finishes("flowchart-1", &["WriteLine1", "WriteLine2", "WriteLine3"]).await;
    assert_finishes("child-workflow", &["Child: Executing"]).await;
}

/// The parent waits for its child, which runs as an instance of its own.
#[tokio::test]
async fn a_parent_waits_for_its_child() {
    let (Some(mut parent), Some(mut child)) = (load("parent-with-wait"), load("child-workflow")) else {
        return;
    };
    let mut result = parent.start().await;
    assert_eq!(parent.lines(), ["Parent: Before child"]);
    let started = result.children.remove(0);
    assert_eq!(started.definition_id.as_str(), "child-workflow");
    let end = child.start().await;
    assert_eq!(child.lines(), ["Child: Executing"]);
    let result = parent
        .run(Instruction::ChildEnded {
            bookmark_id: started.bookmark_id.unwrap(),
            result: json!({"workflowInstanceId": started.id, "subStatus": end.sub_status}),
        })
        .await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(parent.lines(), ["Parent: Before child", "Parent: After child"]);
}

#[tokio::test]
async fn definitions_for_tokens_finish_with_tokens() {
    let load = |name: &str| load_with(name, FlowchartMode::Token);
    if let Some(instance) = load("fork-decision-join-none") {
        finishes(instance, "fork-decision-join-none", &["A", "C"]).await;
    }
    if let Some(instance) = load("decision-merge-join-none") {
        let instance = finishes(instance, "decision-merge-join-none", &[]).await;
        assert_eq!(
            instance.completed().len(),
            4,
            "the start, the decision, the end and their flowchart"
        );
    }
    if let Some(instance) = load("parallel-join") {
        // Behind the join, a line without a text for each of its three items.
        let instance = finishes(instance, "parallel-join", &["", "", ""]).await;
        let ended = instance.completed();
        assert_eq!(ended.iter().filter(|id| *id == "70fc1183cd5800f2").count(), 1);
    }
}

#[tokio::test]
async fn flowchart_3_waits_for_its_delays() {
    let Some(mut instance) = load("flowchart-3-delay") else {
        return;
    };
    assert_eq!(instance.start().await.sub_status, SubStatus::Suspended);
    instance.sleep().await;
    assert_eq!(instance.state.as_ref().unwrap().sub_status(), SubStatus::Finished);
    assert_eq!(instance.slept, Duration::from_secs(15));
    let mut lines = instance.lines();
    lines.sort();
    assert_eq!(lines, (1..=9).map(|n| format!("WriteLine{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn flowchart_5_waits_for_its_event() {
    let Some(mut instance) = load("flowchart-5-event") else {
        return;
    };
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Suspended);
    assert_eq!(instance.lines(), ["Intermediary", ""]);
    assert_eq!(
        instance.event("Event4", json!(null)).await.sub_status,
        SubStatus::Finished
    );
}

/// Definitions with unsupported activities are refused for those, and none for the name of an input: other
/// releases of Elsa have further inputs.
#[test]
fn no_input_is_refused_as_misspelt() {
    let home = env!("CARGO_MANIFEST_DIR");
    let mut read = 0;
    for folder in ["samples", "../shared/elsa/workflows", "../../shared/elsa/workflows"] {
        for entry in std::fs::read_dir(format!("{home}/{folder}")).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let definition = WorkflowDefinition::from_json(&std::fs::read(&path).unwrap()).unwrap();
            let (options, _) = options();
            for error in Interpreter::new(Catalogue::standard(), options).validate(&definition) {
                let is_about_a_name =
                    error.message.contains("has no input") || error.message.contains("requires the input");
                assert!(!is_about_a_name, "{}: {}", path.display(), error.message);
            }
            read += 1;
        }
    }
    assert!(read > 0, "no definition was found");
}
