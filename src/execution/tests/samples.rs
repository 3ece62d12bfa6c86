//! Our own samples, with the outcome that they are written for.

use serde_json::{Map, json};

use super::driver::{Driver, object, start};
use crate::execution::{Instruction, Status, SubStatus};

#[tokio::test]
async fn hello_world_prints_its_line() {
    let mut driver = Driver::sample("hello-world");
    let outcome = driver.start().await;
    assert_eq!(
        (outcome.status, outcome.sub_status),
        (Status::Finished, SubStatus::Finished)
    );
    assert_eq!(driver.lines(), ["Hello from Mainspring!"]);
    let entry = driver
        .journal
        .iter()
        .find(|entry| entry.activity_id.as_str() == "Hello")
        .unwrap();
    assert_eq!(entry.activity_state, Some(json!({"Text": "Hello from Mainspring!"})));
    assert_eq!(entry.node_id, "Workflow1:Flow:Hello");
    let sequences: Vec<i64> = driver.journal.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, (0..6).collect::<Vec<_>>());
    let execution = outcome.activity_executions.last().unwrap();
    assert_eq!(
        (execution.status, &execution.activity_state),
        ("Completed", &json!({"Text": "Hello from Mainspring!"}))
    );
}

#[tokio::test]
async fn countdown_loops_by_connection() {
    let mut driver = Driver::sample("countdown");
    let outcome = driver.start().await;
    assert_eq!(
        outcome.sub_status,
        SubStatus::Finished,
        "{:?}",
        outcome.state.incidents()
    );
    assert_eq!(driver.lines(), ["Round 1", "Round 2", "Round 3", "Lift-off"]);
    assert_eq!(outcome.state.variables()["Round"], 3);
}

#[tokio::test]
async fn fork_join_waits_for_both() {
    let mut driver = Driver::sample("fork-join");
    assert_eq!(driver.start().await.sub_status, SubStatus::Finished);
    assert_eq!(driver.lines(), ["left", "right", "together"]);
}

#[tokio::test]
async fn delay_waits() {
    let mut driver = Driver::sample("delay");
    let outcome = driver.start().await;
    assert_eq!(
        (outcome.status, outcome.sub_status),
        (Status::Running, SubStatus::Suspended)
    );
    let [bookmark] = outcome.bookmarks_created.as_slice() else {
        panic!()
    };
    assert!(!bookmark.publishable);
    assert_eq!(bookmark.delay, Some(std::time::Duration::from_secs(2)));
    assert_eq!(driver.lines(), ["before"]);
    driver.sleep().await;
    assert_eq!(driver.lines(), ["before", "after"]);
    assert_eq!(driver.state.unwrap().sub_status(), SubStatus::Finished);
}

#[tokio::test]
async fn event_resumes() {
    let mut driver = Driver::sample("event");
    let outcome = driver.start().await;
    assert_eq!(outcome.sub_status, SubStatus::Suspended);
    assert!(outcome.bookmarks_created[0].publishable);
    let created = outcome.bookmarks_created[0].id.clone();
    let outcome = driver.event("greeting", json!({"name": "nobody"})).await;
    assert_eq!(outcome.unmatched, [0], "names are compared exactly");
    let outcome = driver.event("Greeting", json!({"name": "Ada"})).await;
    assert_eq!(outcome.sub_status, SubStatus::Finished);
    assert_eq!(outcome.bookmarks_burned, [created]);
    assert_eq!(driver.lines(), ["Hello Ada"]);
    assert_eq!(driver.events("Suspended"), ["Wait"]);
    assert_eq!(driver.events("Resumed"), ["Wait"]);
}

#[tokio::test]
async fn event_starts() {
    let mut driver = Driver::sample("event");
    let triggers = driver.interpreter.triggers(&driver.program).await.unwrap().triggers;
    assert_eq!(triggers.len(), 1);
    assert_eq!(triggers[0].hash, crate::execution::event_hash("Greeting"));
    let outcome = driver
        .run(Instruction::Start {
            correlation_id: None,
            name: None,
            input: Map::new(),
            variables: Map::new(),
            trigger_activity_id: Some(triggers[0].activity_id.clone()),
            payload: Some(json!({"name": "Bob"})),
        })
        .await;
    assert_eq!(outcome.sub_status, SubStatus::Finished);
    assert_eq!(driver.lines(), ["Hello Bob"]);
}

#[tokio::test]
async fn shopping_list_loops_and_branches() {
    let mut driver = Driver::sample("shopping-list");
    let outcome = driver.start().await;
    assert_eq!(
        outcome.sub_status,
        SubStatus::Finished,
        "{:?}",
        outcome.state.incidents()
    );
    assert_eq!(
        driver.lines(),
        ["bread costs 3", "advice is free", "butter costs 2.5", "Total 5.5"]
    );
    assert_eq!(outcome.state.output()["Total"], 5.5);

    let mut driver = Driver::sample("shopping-list");
    let items = json!({"Items": [{"name": "car", "price": 9000}, {"name": "never seen", "price": 1}]});
    driver.run(start(object(items))).await;
    assert_eq!(driver.lines(), ["car costs 9000", "Total 9000"]);
}

#[tokio::test]
async fn order_approval_takes_each_path() {
    for (amount, approved, lines, shipped) in [
        (5, None, vec!["Order A1 is shipped"], true),
        (
            5000,
            Some(true),
            vec!["Order A1 waits for a review", "Order A1 is shipped"],
            true,
        ),
        (
            5000,
            Some(false),
            vec!["Order A1 waits for a review", "Order A1 is refused"],
            false,
        ),
    ] {
        let mut driver = Driver::sample("order-approval");
        let mut outcome = driver
            .run(start(object(json!({"OrderId": "A1", "Amount": amount}))))
            .await;
        assert_eq!(outcome.correlation_id.as_deref(), Some("A1"));
        assert_eq!(outcome.name.as_deref(), Some("Order A1"));
        if let Some(approved) = approved {
            outcome = driver.event("OrderReviewed", json!({"approved": approved})).await;
        }
        assert_eq!(outcome.incident_count, 0, "{:?}", outcome.state.incidents());
        driver.sleep().await;
        assert_eq!(driver.lines(), lines);
        assert_eq!(driver.state.unwrap().output()["Shipped"], shipped);
    }
}

#[test]
fn all_samples_may_be_published() {
    let folder = format!("{}/samples", env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let definition = crate::definition::WorkflowDefinition::from_json(&bytes).unwrap();
        let driver = Driver::new(&definition);
        assert_eq!(
            driver.interpreter.validate(&definition),
            [],
            "{}",
            definition.definition_id
        );
        seen += 1;
    }
    assert!(seen >= 7);
}

#[tokio::test]
async fn workflow_state_reads_as_elsas() {
    let mut driver = Driver::sample("event");
    let outcome = driver.start().await;
    let at = chrono::DateTime::UNIX_EPOCH;
    let meta = crate::execution::InstanceTimestamps {
        created_at: at,
        updated_at: at,
        finished_at: None,
    };
    let state = outcome.state.workflow_state(meta);
    assert_eq!(
        (&state["status"], &state["subStatus"]),
        (&json!("Running"), &json!("Suspended"))
    );
    assert_eq!(state["definitionVersionId"], "event-1");
    assert_eq!(state["bookmarks"][0]["name"], "Elsa.Event");
    assert_eq!(state["bookmarks"][0]["payload"], json!({"eventName": "Greeting"}));
    assert_eq!(
        state["activityExecutionContexts"][0]["scheduledActivityNodeId"],
        "Workflow1:Flow:Wait"
    );
    assert_eq!(state["executionLogSequence"], outcome.journal.len());
}
