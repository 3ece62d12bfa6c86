//! Faults become incidents, and affect nothing else.

use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition};
use crate::activity::{
    Activity, ActivityContext, Catalogue, Descriptor, Fault, InputDescriptor, OutputDescriptor, Step,
};
use crate::execution::{BurstResult, Status, SubStatus};

struct Greet;

impl Activity for Greet {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Greet")
            .input(InputDescriptor::new("Name", "String").default("world"))
            .output(OutputDescriptor::new("Result", "String"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let name: String = context.read("Name")?;
        assert_ne!(name, "panic", "panics on request");
        if name == "err" {
            "x".parse::<i32>()?;
        }
        tokio::task::yield_now().await;
        assert_eq!(context.attempt(), 1);
        let key = context.idempotency_key();
        let number = key
            .strip_prefix("instance:")
            .and_then(|number| number.parse::<u64>().ok());
        assert!(number.is_some(), "{key}");
        context.write_line(&format!("Hello {name}"));
        context.set_output("Result", name);
        Ok(Step::Done)
    }
}

async fn run_greet(name: Value) -> (InMemoryInstance, BurstResult) {
    let mut catalogue = Catalogue::standard();
    catalogue.register(Greet);
    let wait = json!({"id": "e", "type": "Elsa.Event", "eventName": "E"});
    let greet = json!({"id": "g", "type": "Greet", "name": name});
    let root = json!({"id": "f", "type": "Elsa.Flowchart", "activities": [{"id": "s", "type": "Elsa.Start"}, wait, greet],
        "connections": [{"source": "s", "target": "e"}, {"source": "s", "target": "g"}]});
    let mut instance = InMemoryInstance::with(&definition(json!({"root": root})), catalogue, |_| {});
    let result = instance.start().await;
    (instance, result)
}

#[tokio::test]
async fn a_custom_activity_runs_as_any_other() {
    let (instance, result) = run_greet(json!("Ada")).await;
    assert_eq!(
        result.sub_status,
        SubStatus::Suspended,
        "{:?}",
        result.state.incidents()
    );
    assert_eq!(instance.lines(), ["Hello Ada"]);
    let done = instance
        .journal
        .iter()
        .rfind(|entry| entry.activity_id.as_str() == "g")
        .unwrap();
    assert_eq!(done.activity_state, Some(json!({"Name": "Ada", "Result": "Ada"})));
}

#[tokio::test]
async fn errors_and_panics_become_incidents() {
    for (name, message) in [("err", "invalid digit"), ("panic", "panics on request")] {
        let (instance, result) = run_greet(json!(name)).await;
        assert_eq!(
            (result.status, result.sub_status),
            (Status::Finished, SubStatus::Faulted)
        );
        assert_eq!(result.incident_count, 1);
        assert!(
            result.state.incidents()[0].message.contains(message),
            "{:?}",
            result.state.incidents()
        );
        assert!(
            result.bookmarks_created.is_empty(),
            "the bookmark of the other branch is burned"
        );
        assert_eq!(instance.events("Faulted"), ["g"]);
        let failed = result
            .activity_executions
            .iter()
            .find(|execution| execution.status == "Faulted")
            .unwrap();
        assert_eq!(failed.exception.as_ref().unwrap()["type"], "Fault");
    }
}

async fn fault_message(root: Value) -> String {
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    assert!(result.state.to_bytes().unwrap().len() < 100_000);
    result.state.incidents()[0].message.clone()
}

fn script(script: &str) -> Value {
    json!({"id": "w", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": script}}})
}

#[tokio::test]
async fn fault_messages_name_the_cause() {
    assert!(
        fault_message(json!({"id": "x", "type": "Acme.Fly"}))
            .await
            .contains("Acme.Fly")
    );
    assert!(fault_message(script("nowhere.to.be")).await.contains("Text"));
    assert!(fault_message(script("'a\\u0000b'")).await.contains("0000"));
    assert!(fault_message(script("'x'.repeat(2 << 20)")).await.contains("large"));
    let fault = json!({"id": "f", "type": "Elsa.Fault", "message": "no stock", "code": "17"});
    assert_eq!(fault_message(fault).await, "no stock");
    let set = json!({"id": "v", "type": "Elsa.SetVariable", "variable": {"id": "gone"}, "value": 1});
    assert!(fault_message(set).await.contains("gone"));
}

#[tokio::test]
async fn other_branches_go_on_with_the_continue_strategy() {
    let root = json!({"id": "f", "type": "Elsa.Flowchart",
        "activities": [{"id": "s", "type": "Elsa.Start"}, {"id": "x", "type": "Elsa.Fault"}, {"id": "w", "type": "Elsa.WriteLine", "text": "on"}],
        "connections": [{"source": "s", "target": "x"}, {"source": "s", "target": "w"}]});
    let options = json!({"incidentStrategyType": "Elsa.Workflows.IncidentStrategies.ContinueWithIncidentsStrategy, Elsa.Workflows.Core"});
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root, "options": options})));
    let result = instance.start().await;
    assert_eq!((result.status, result.incident_count), (Status::Running, 1));
    assert_eq!(instance.lines(), ["on"]);
}
