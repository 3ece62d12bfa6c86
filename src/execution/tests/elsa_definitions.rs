//! Elsa's own definitions, if the folder exists.

use std::time::Duration;

use serde_json::json;

use super::in_memory::{InMemoryInstance, options};
use crate::activity::Catalogue;
use crate::definition::WorkflowDefinition;
use crate::execution::{Interpreter, SubStatus};

/// The instance of a definition; `None` when the folder is not there.
fn load(name: &str) -> Option<InMemoryInstance> {
    let home = env!("CARGO_MANIFEST_DIR");
    let folders = ["../shared/elsa/workflows", "../../shared/elsa/workflows"];
    let bytes = folders
        .iter()
        .find_map(|folder| std::fs::read(format!("{home}/{folder}/{name}.json")).ok())?;
    let definition = WorkflowDefinition::from_json(&bytes).unwrap();
    let instance = InMemoryInstance::new(&definition);
    assert_eq!(instance.interpreter.validate(&definition), [], "{name}");
    Some(instance)
}

async fn assert_finishes(name: &str, lines: &[&str]) {
    let Some(mut instance) = load(name) else { return };
    let result = instance.start().await;
    assert_eq!(
        result.sub_status,
        SubStatus::Finished,
        "{name}: {:?}",
        result.state.incidents()
    );
    assert_eq!(instance.lines(), lines, "{name}");
}

#[tokio::test]
async fn definitions_without_a_wait_finish() {
    assert_finishes("hello-world", &["Hello World!"]).await;
    assert_finishes("implicit-loop", &["Do something", "Retry", "Do something", "Done"]).await;
    assert_finishes("join-all-1", &["Start", "Line 1", "Line 2", "End"]).await;
    assert_finishes("flowchart-1", &["WriteLine1", "WriteLine2", "WriteLine3"]).await;
    assert_finishes("child-workflow", &["Child: Executing"]).await;
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
