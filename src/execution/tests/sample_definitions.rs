//! The definitions in `samples`, and the results that they are written for.

use serde_json::{Map, json};

use super::in_memory::{InMemoryInstance, object, start};
use crate::execution::{Instruction, Status, SubStatus};

#[tokio::test]
async fn hello_world_prints_its_line() {
    let mut instance = InMemoryInstance::sample("hello-world");
    let result = instance.start().await;
    assert_eq!(
        (result.status, result.sub_status),
        (Status::Finished, SubStatus::Finished)
    );
    assert_eq!(instance.lines(), ["Hello from Mainspring!"]);
    let entry = instance
        .journal
        .iter()
        .find(|entry| entry.activity_id.as_str() == "Hello")
        .unwrap();
    assert_eq!(entry.activity_state, Some(json!({"Text": "Hello from Mainspring!"})));
    assert_eq!(entry.node_id, "Workflow1:Flow:Hello");
    let sequences: Vec<i64> = instance.journal.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, (0..6).collect::<Vec<_>>());
    let execution = result.activity_executions.last().unwrap();
    assert_eq!(
        (execution.status, &execution.activity_state),
        ("Completed", &json!({"Text": "Hello from Mainspring!"}))
    );
}

#[tokio::test]
async fn an_invoice_is_written_in_liquid() {
    let mut instance = InMemoryInstance::sample("invoice");
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let text = "3 pears: 3.75\n40 boxes: 1200.00\nTotal: 1,203.75";
    assert_eq!(result.state.variables()["Text"], text);
    assert_eq!(instance.lines().last().unwrap(), "Pears And Boxes");
}

#[tokio::test]
async fn countdown_loops_by_connection() {
    let mut instance = InMemoryInstance::sample("countdown");
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines(), ["Round 1", "Round 2", "Round 3", "Lift-off"]);
    assert_eq!(result.state.variables()["Round"], 3);
}

#[tokio::test]
async fn fork_join_waits_for_both() {
    let mut instance = InMemoryInstance::sample("fork-join");
    assert_eq!(instance.start().await.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["left", "right", "together"]);
}

#[tokio::test]
async fn parcels_are_weighed_side_by_side() {
    let mut instance = InMemoryInstance::sample("parcels");
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(
        instance.lines(),
        [
            "book goes by bike",
            "desk goes by van",
            "piano needs a crane",
            "Bell 1",
            "Bell 2"
        ]
    );
}

#[tokio::test]
async fn delay_waits() {
    let mut instance = InMemoryInstance::sample("delay");
    let result = instance.start().await;
    assert_eq!(
        (result.status, result.sub_status),
        (Status::Running, SubStatus::Suspended)
    );
    let [bookmark] = result.bookmarks_created.as_slice() else {
        panic!()
    };
    assert!(!bookmark.publishable);
    assert_eq!(bookmark.delay, Some(std::time::Duration::from_secs(2)));
    assert_eq!(instance.lines(), ["before"]);
    instance.sleep().await;
    assert_eq!(instance.lines(), ["before", "after"]);
    assert_eq!(instance.state.unwrap().sub_status(), SubStatus::Finished);
}

#[tokio::test]
async fn event_resumes() {
    let mut instance = InMemoryInstance::sample("event");
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Suspended);
    assert!(result.bookmarks_created[0].publishable);
    let created = result.bookmarks_created[0].id.clone();
    let result = instance.event("greeting", json!({"name": "nobody"})).await;
    assert_eq!(result.unmatched.len(), 1, "names are compared exactly");
    let result = instance.event("Greeting", json!({"name": "Ada"})).await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(result.bookmarks_burned, [created]);
    assert_eq!(instance.lines(), ["Hello Ada"]);
    assert_eq!(instance.events("Suspended"), ["Wait"]);
    assert_eq!(instance.events("Resumed"), ["Wait"]);
}

#[tokio::test]
async fn event_starts() {
    let mut instance = InMemoryInstance::sample("event");
    let triggers = instance.interpreter.triggers(&instance.program).await.unwrap().triggers;
    assert_eq!(triggers.len(), 1);
    assert_eq!(triggers[0].hash, crate::execution::event_hash("Greeting"));
    let result = instance
        .run(Instruction::Start {
            correlation_id: None,
            name: None,
            input: Map::new(),
            variables: Map::new(),
            trigger_activity_id: Some(triggers[0].activity_id.clone()),
            payload: Some(json!({"name": "Bob"})),
            parent: None,
            request: None,
        })
        .await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["Hello Bob"]);
}

#[tokio::test]
async fn a_ticket_moves_from_state_to_state() {
    let mut instance = InMemoryInstance::sample("ticket");
    instance.start().await;
    for event in [
        "TicketTaken",
        "TicketSolved",
        "TicketReopened",
        "TicketSolved",
        // It was reopened once.
        "TicketReopened",
    ] {
        assert_eq!(
            instance.event(event, json!(null)).await.sub_status,
            SubStatus::Suspended,
            "{event}"
        );
    }
    assert_eq!(
        instance.event("TicketAccepted", json!(null)).await.sub_status,
        SubStatus::Finished
    );
    assert_eq!(
        instance.lines(),
        [
            "A new ticket",
            "Thank you",
            "Is it solved?",
            "Thank you",
            "Is it solved?",
            "Closed"
        ]
    );
}

#[tokio::test]
async fn shopping_list_loops_and_branches() {
    let mut instance = InMemoryInstance::sample("shopping-list");
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(
        instance.lines(),
        ["bread costs 3", "advice is free", "butter costs 2.5", "Total 5.5"]
    );
    assert_eq!(result.state.output()["Total"], 5.5);

    let mut instance = InMemoryInstance::sample("shopping-list");
    let items = json!({"Items": [{"name": "car", "price": 9000}, {"name": "never seen", "price": 1}]});
    instance.run(start(object(items))).await;
    assert_eq!(instance.lines(), ["car costs 9000", "Total 9000"]);
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
        let mut instance = InMemoryInstance::sample("order-approval");
        let mut result = instance
            .run(start(object(json!({"OrderId": "A1", "Amount": amount}))))
            .await;
        assert_eq!(result.correlation_id.as_deref(), Some("A1"));
        assert_eq!(result.name.as_deref(), Some("Order A1"));
        if let Some(approved) = approved {
            result = instance.event("OrderReviewed", json!({"approved": approved})).await;
        }
        assert_eq!(result.incident_count, 0, "{:?}", result.state.incidents());
        instance.sleep().await;
        assert_eq!(instance.lines(), lines);
        assert_eq!(instance.state.unwrap().output()["Shipped"], shipped);
    }
}

#[tokio::test]
async fn retries_pays_with_a_second_attempt() {
    let mut instance = InMemoryInstance::sample("retries");
    assert_eq!(instance.start().await.sub_status, SubStatus::Suspended);
    let result = instance.sleep().await;
    assert_eq!((result.sub_status, result.incident_count), (SubStatus::Finished, 0));
    let lines = [
        "Attempt 1",
        "Declined: no answer (timeout)",
        "Attempt 1 is over",
        "Attempt 2",
        "Attempt 2 is over",
    ];
    assert_eq!(instance.lines(), lines);
    assert_eq!(instance.state.unwrap().output()["Attempts"], 2);
}

#[tokio::test]
async fn mailing_starts_a_child_for_each_address() {
    let mut instance = InMemoryInstance::sample("mailing");
    let result = instance.start().await;
    assert_eq!(
        result.sub_status,
        SubStatus::Suspended,
        "{:?}",
        result.state.incidents()
    );
    let ids: Vec<_> = result
        .children
        .iter()
        .map(|child| child.correlation_id.clone())
        .collect();
    assert_eq!(
        ids,
        [Some("ada@example.org".to_owned()), Some("bob@example.org".to_owned())]
    );
    for (child, sub_status) in result.children.iter().zip(["Finished", "Faulted"]) {
        let ended = Instruction::ChildEnded {
            bookmark_id: child.bookmark_id.clone().unwrap(),
            result: json!({"workflowInstanceId": "child", "subStatus": sub_status}),
        };
        instance.run(ended).await;
    }
    assert_eq!(instance.lines(), ["child has failed", "All are sent"]);
    assert_eq!(instance.state.unwrap().sub_status(), SubStatus::Finished);
}

#[test]
fn all_samples_can_be_published() {
    let folder = format!("{}/samples", env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let definition = crate::definition::WorkflowDefinition::from_json(&bytes).unwrap();
        let instance = InMemoryInstance::new(&definition);
        assert_eq!(
            instance.interpreter.validate(&definition),
            [],
            "{}",
            definition.definition_id
        );
        seen += 1;
    }
    assert!(seen >= 9);
}

#[tokio::test]
async fn workflow_state_has_elsas_form() {
    let mut instance = InMemoryInstance::sample("event");
    let result = instance.start().await;
    let at = chrono::DateTime::UNIX_EPOCH;
    let meta = crate::execution::InstanceTimestamps {
        created_at: at,
        updated_at: at,
        finished_at: None,
    };
    let state = result.state.workflow_state(meta);
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
    assert_eq!(state["executionLogSequence"], result.journal.len());
}

#[tokio::test]
async fn scripts_add_up_an_order() {
    let mut instance = InMemoryInstance::sample("scripts");
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines(), ["Ada owes 19 (19.00)"]);
}
