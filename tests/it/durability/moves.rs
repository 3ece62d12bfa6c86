//! What a container knows of its children is committed: it continues at another node at each suspension, with the same
//! journal.

use std::time::Duration;

use mainspring::Engine;
use mainspring::runtime::FlowchartMode;
use serde_json::{Value, json};

use crate::support::engine::{event, save, start_as};
use crate::support::single_node::literal;
use crate::support::{TestDatabase, wait_until};

fn waits(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.Event", "eventName": id})
}

fn says(id: &str, merge_mode: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": literal(id), "customProperties": {"mergeMode": merge_mode}})
}

/// The events of the first list, each at a node of its own or all at one; the journal of the instance.
async fn journal(definition: &Value, events: &[&str], moves: bool) -> Vec<String> {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let node = async |number: usize| {
        // A flowchart that has begun keeps its mode, whatever the setting of the next node.
        let mode = if number == 0 {
            FlowchartMode::Token
        } else {
            FlowchartMode::Counter
        };
        let builder = Engine::builder(database.url()).node_id(format!("node-{number}"));
        let builder = builder.check_in(Duration::from_millis(100)).flowchart_mode(mode);
        builder.start().await.unwrap()
    };
    let mut engine = node(0).await;
    save(&engine, definition.clone()).await;
    engine.execute(start_as("moving", "moving")).await.unwrap();
    for (number, name) in events.iter().enumerate() {
        if moves {
            engine.shutdown().await;
            engine = node(number + 1).await;
        }
        let accepted = engine.trigger_event(event(name, Value::Null)).await.unwrap();
        assert_eq!(accepted.resumed, 1, "{name}");
        let ended = format!(
            "SELECT count(*) FROM mainspring.journal WHERE event_name = 'Completed' AND activity_id = '{name}'"
        );
        wait_until("the event to be consumed", async || client.count(&ended).await > 0).await;
    }
    let detail = engine.instance(&"moving".into()).await.unwrap();
    assert_eq!(detail.summary.sub_status, "Finished");
    engine.shutdown().await;
    assert_eq!(mainspring::check(&database.url(), "mainspring").await.unwrap(), []);
    let entries = "SELECT event_name || ' ' || activity_id FROM mainspring.journal ORDER BY sequence";
    let entries = client.query(entries, &[]).await.unwrap();
    entries.iter().map(|row| row.get(0)).collect()
}

async fn agrees(root: Value, events: &[&str], completed: &[&str]) {
    let definition = json!({"definitionId": "moving", "root": root});
    let moved = journal(&definition, events, true).await;
    assert_eq!(moved, journal(&definition, events, false).await);
    for id in completed {
        let entry = format!("Completed {id}");
        assert_eq!(
            moved.iter().filter(|other| **other == entry).count(),
            1,
            "{id}: {moved:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flowchart_with_tokens_goes_on_at_another_node() {
    let arrow = |text: &str| {
        let (source, target) = text.split_once(" to ").unwrap();
        json!({"source": {"activity": source}, "target": {"activity": target}})
    };
    let arrows = [
        "start to a",
        "start to b",
        "start to c",
        "a to merge",
        "b to merge",
        "merge to d",
        "merge to e",
        "c to race",
        "d to race",
        "e to race",
        "race to end",
    ];
    let activities = json!([
        {"id": "start", "type": "Elsa.Start"}, waits("a"), waits("b"), waits("c"), says("merge", "Merge"), waits("d"),
        waits("e"), says("race", "Race"), says("end", "Converge"),
    ]);
    let arrows: Vec<Value> = arrows.iter().map(|text| arrow(text)).collect();
    let root = json!({"id": "flow", "type": "Elsa.Flowchart", "activities": activities, "connections": arrows});
    agrees(root, &["b", "a", "e"], &["merge", "race", "end", "flow"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_machine_goes_on_at_another_node_in_each_part() {
    let part = |part: &str, state: &str| waits(&format!("{part}-{state}"));
    let state = |name: &str| json!({"name": name, "entry": part("enter", name), "exit": part("exit", name)});
    let root = json!({"id": "machine", "type": "Elsa.StateMachine", "initialState": "A", "states": [state("A"), state("B")],
        "transitions": [{"from": "A", "to": "B", "trigger": waits("go"), "action": waits("act")},
            {"from": "A", "to": "A", "trigger": waits("stay")}]});
    let events = ["enter-A", "go", "act", "exit-A", "enter-B"];
    agrees(root, &events, &["go", "act", "machine"]).await;
}
