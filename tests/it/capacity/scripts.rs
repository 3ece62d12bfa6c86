//! Workflows whose scripts exceed the threads for scripts.

use std::time::Duration;

use mainspring::Engine;
use mainspring::runtime::{InterpreterOptions, ScriptOptions};
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, start};
use crate::support::{TIMEOUT, TestDatabase};

fn sets(definition: &str, script: &str) -> Value {
    json!({
        "definitionId": definition,
        "outputs": [{"name": "Word", "type": "Object"}],
        "root": {"type": "Elsa.SetOutput", "id": "out",
            "outputName": {"typeName": "String", "expression": {"type": "Literal", "value": "Word"}},
            "outputValue": {"typeName": "Object", "expression": {"type": "JavaScript", "value": script}}}
    })
}

/// One slow script at a time, and room for one that waits: the bursts of the others are given back, and each instance gets
/// its own result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_whose_script_finds_no_free_slot_is_retried() {
    let database = TestDatabase::create().await;
    let script = ScriptOptions {
        threads: 1,
        slow_threads: 1,
        queue: 1,
        time_limit: Duration::from_secs(2),
        ..ScriptOptions::default()
    };
    let interpreter = InterpreterOptions {
        script,
        ..InterpreterOptions::default()
    };
    let builder = Engine::builder(database.url()).node_id("one").interpreter(interpreter);
    let test = TestEngine::start(database, builder).await;
    test.publish(sets("endless", "while (true) {}")).await;
    test.publish(sets("innocent", "6 * 7")).await;
    let mut endless = Vec::new();
    for _ in 0..4 {
        endless.push(test.engine.dispatch(start("endless")).await.unwrap());
    }
    for _ in 0..5 {
        let done = tokio::time::timeout(TIMEOUT, test.engine.execute(start("innocent"))).await;
        assert_eq!(done.unwrap().unwrap().sub_status(), Some("Finished"));
    }
    for id in &endless {
        let state = test.reaches(id, "Faulted").await.to_string();
        assert!(state.contains("the script ran longer than its limit of 2s"), "{state}");
    }
    let client = test.database.connect().await;
    assert_eq!(client.rows("dead_letter").await, 0);
    test.assert_clean_end().await;
}
