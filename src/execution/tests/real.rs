//! Elsa's own definitions, when they lie beside the repository.

use std::time::Duration;

use serde_json::json;

use super::driver::{Driver, options};
use crate::activity::Catalogue;
use crate::definition::WorkflowDefinition;
use crate::execution::{Interpreter, SubStatus};

/// The driver of a definition; `None` when the folder is not there.
fn load(name: &str) -> Option<Driver> {
    let home = env!("CARGO_MANIFEST_DIR");
    let folders = ["../shared/elsa/workflows", "../../shared/elsa/workflows"];
    let bytes = folders
        .iter()
        .find_map(|folder| std::fs::read(format!("{home}/{folder}/{name}.json")).ok())?;
    let definition = WorkflowDefinition::from_json(&bytes).unwrap();
    let driver = Driver::new(&definition);
    assert_eq!(driver.interpreter.validate(&definition), [], "{name}");
    Some(driver)
}

async fn finishes(name: &str, lines: &[&str]) {
    let Some(mut driver) = load(name) else { return };
    let outcome = driver.start().await;
    assert_eq!(
        outcome.sub_status,
        SubStatus::Finished,
        "{name}: {:?}",
        outcome.state.incidents()
    );
    assert_eq!(driver.lines(), lines, "{name}");
}

#[tokio::test]
async fn those_that_run_through() {
    finishes("hello-world", &["Hello World!"]).await;
    finishes("implicit-loop", &["Do something", "Retry", "Do something", "Done"]).await;
    finishes("join-all-1", &["Start", "Line 1", "Line 2", "End"]).await;
    finishes("flowchart-1", &["WriteLine1", "WriteLine2", "WriteLine3"]).await;
    finishes("child-workflow", &["Child: Executing"]).await;
}

#[tokio::test]
async fn the_braided_delays() {
    let Some(mut driver) = load("flowchart-3-delay") else {
        return;
    };
    assert_eq!(driver.start().await.sub_status, SubStatus::Suspended);
    driver.sleep().await;
    assert_eq!(driver.state.as_ref().unwrap().sub_status(), SubStatus::Finished);
    assert_eq!(driver.slept, Duration::from_secs(15));
    let mut lines = driver.lines();
    lines.sort();
    assert_eq!(lines, (1..=9).map(|n| format!("WriteLine{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_event_in_a_box() {
    let Some(mut driver) = load("flowchart-5-event") else {
        return;
    };
    let outcome = driver.start().await;
    assert_eq!(outcome.sub_status, SubStatus::Suspended);
    assert_eq!(driver.lines(), ["Intermediary", ""]);
    assert_eq!(
        driver.event("Event4", json!(null)).await.sub_status,
        SubStatus::Finished
    );
}

/// Those that need activities which are not there yet are refused for that, and none for the spelling of an input: other
/// releases of Elsa have inputs that are not known here.
#[test]
fn no_input_of_theirs_is_taken_for_a_misspelt_one() {
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
                    error.message.contains("has no input") || error.message.contains("needs the input");
                assert!(!is_about_a_name, "{}: {}", path.display(), error.message);
            }
            read += 1;
        }
    }
    assert!(read > 0, "no definition was found");
}
