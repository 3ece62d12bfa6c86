//! Definitions so large that work on them takes long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainspring::activity::Catalogue;
use mainspring::definition::WorkflowDefinition;
use mainspring::internals::Interpreter;
use mainspring::runtime::{InterpreterOptions, VersionOptions};
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, start};

/// Enough that a task which compiles them is clearly longer than one that does not.
const MANY: usize = 5_000;

fn many(activities: usize) -> Value {
    let lines: Vec<Value> = (0..activities)
        .map(|n| {
            json!({"type": "Elsa.SetName", "id": format!("a{n}"),
                   "value": {"typeName": "String", "expression": {"type": "Literal", "value": format!("name {n}")}}})
        })
        .collect();
    // The last first: what begins is not what takes long.
    let root = json!({"type": "Elsa.If", "id": "root",
        "condition": {"typeName": "Boolean", "expression": {"type": "Literal", "value": false}},
        "then": {"type": "Elsa.Sequence", "id": "then", "activities": lines}});
    json!({"definitionId": "large", "root": root})
}

/// The processor time of this thread, which other processes on a busy machine do not lengthen.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

/// One thread serves all tasks here, as one of the program's would: it never works on one task for as long as compiling takes.
#[tokio::test]
async fn a_large_definition_blocks_no_task() {
    let body = many(MANY);
    let definition = WorkflowDefinition::from_value(body.clone()).unwrap();
    let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
    let began = processor_time();
    assert!(interpreter.validate(&definition).is_empty());
    let program = interpreter.compile(&definition).unwrap();
    let alone = processor_time() - began;
    drop((program, interpreter));
    let test = TestEngine::new().await;
    let longest = Arc::new(AtomicU64::new(0));
    let beat = {
        let longest = Arc::clone(&longest);
        tokio::spawn(async move {
            loop {
                let before = processor_time();
                tokio::time::sleep(Duration::from_millis(1)).await;
                let between = processor_time() - before;
                longest.fetch_max(u64::try_from(between.as_micros()).unwrap(), Ordering::Relaxed);
            }
        })
    };
    let mut held = Vec::new();
    let mut done = |step: &'static str| held.push((step, Duration::from_micros(longest.swap(0, Ordering::Relaxed))));
    test.engine.save(definition, true).await.unwrap();
    done("publish");
    assert_eq!(
        test.engine.execute(start("large")).await.unwrap().sub_status(),
        Some("Finished")
    );
    done("execute");
    let shown = test
        .engine
        .definition(&"large".into(), VersionOptions::Published)
        .await
        .unwrap();
    done("read");
    beat.abort();
    println!("compiling takes {alone:?}; longest without a beat: {held:?}");
    assert_eq!(shown["root"]["then"]["activities"].as_array().map(Vec::len), Some(MANY));
    assert!(
        held.iter().all(|(_, longest)| *longest < alone / 2),
        "{held:?} of {alone:?}"
    );
    test.assert_clean_end().await;
}
