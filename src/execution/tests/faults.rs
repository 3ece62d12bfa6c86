//! What goes wrong becomes an incident, and nothing else is harmed.

use serde_json::{Value, json};

use super::driver::{Driver, definition};
use crate::activity::{Activity, ActivityContext, Catalogue, Descriptor, Fault, InputDescriptor, Step};
use crate::execution::{BurstResult, Status, SubStatus};

struct Greet;

impl Activity for Greet {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Greet")
            .input(InputDescriptor::new("Name", "String").default("world"))
            .output("Result", "String")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let name: String = context.read("Name")?;
        assert_ne!(name, "panic", "as the test wants it");
        if name == "err" {
            "x".parse::<i32>()?;
        }
        tokio::task::yield_now().await;
        assert_eq!(context.attempt(), 1);
        let key = context.idempotency_key();
        assert!(
            key.starts_with("instance:") && key.len() == "instance:".len() + 16,
            "{key}"
        );
        context.write_line(&format!("Hello {name}"));
        context.set_output("Result", name);
        Ok(Step::Done)
    }
}

async fn greet(name: Value) -> (Driver, BurstResult) {
    let mut catalogue = Catalogue::standard();
    catalogue.register(Greet);
    let wait = json!({"id": "e", "type": "Elsa.Event", "eventName": "E"});
    let greet = json!({"id": "g", "type": "Greet", "name": name});
    let root = json!({"id": "f", "type": "Elsa.Flowchart", "activities": [{"id": "s", "type": "Elsa.Start"}, wait, greet],
        "connections": [{"source": "s", "target": "e"}, {"source": "s", "target": "g"}]});
    let mut driver = Driver::with(&definition(json!({"root": root})), catalogue, |_| {});
    let outcome = driver.start().await;
    (driver, outcome)
}

#[tokio::test]
async fn a_users_activity_is_one_as_any_other() {
    let (driver, outcome) = greet(json!("Ada")).await;
    assert_eq!(
        outcome.sub_status,
        SubStatus::Suspended,
        "{:?}",
        outcome.state.incidents()
    );
    assert_eq!(driver.lines(), ["Hello Ada"]);
    let done = driver
        .journal
        .iter()
        .rfind(|entry| entry.activity_id.as_str() == "g")
        .unwrap();
    assert_eq!(done.activity_state, Some(json!({"Name": "Ada", "Result": "Ada"})));
}

#[tokio::test]
async fn errors_and_panics_become_incidents() {
    for (name, message) in [("err", "invalid digit"), ("panic", "as the test wants it")] {
        let (driver, outcome) = greet(json!(name)).await;
        assert_eq!(
            (outcome.status, outcome.sub_status),
            (Status::Finished, SubStatus::Faulted)
        );
        assert_eq!(outcome.incident_count, 1);
        assert!(
            outcome.state.incidents()[0].message.contains(message),
            "{:?}",
            outcome.state.incidents()
        );
        assert!(
            outcome.bookmarks_created.is_empty(),
            "the bookmark of the other branch is burned"
        );
        assert_eq!(driver.events("Faulted"), ["g"]);
        let failed = outcome
            .activity_executions
            .iter()
            .find(|execution| execution.status == "Faulted")
            .unwrap();
        assert_eq!(failed.exception.as_ref().unwrap()["type"], "Fault");
    }
}

async fn fails(root: Value) -> String {
    let mut driver = Driver::new(&definition(json!({"root": root})));
    let outcome = driver.start().await;
    assert_eq!(outcome.sub_status, SubStatus::Faulted);
    assert!(outcome.state.to_bytes().unwrap().len() < 100_000);
    outcome.state.incidents()[0].message.clone()
}

fn script(script: &str) -> Value {
    json!({"id": "w", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": script}}})
}

#[tokio::test]
async fn messages_say_what_is_wrong() {
    assert!(fails(json!({"id": "x", "type": "Acme.Fly"})).await.contains("Acme.Fly"));
    assert!(fails(script("nowhere.to.be")).await.contains("Text"));
    assert!(fails(script("'a\\u0000b'")).await.contains("0000"));
    assert!(fails(script("'a\\ud800b'")).await.to_lowercase().contains("surrogate"));
    assert!(fails(script("'x'.repeat(2 << 20)")).await.contains("large"));
    let fault = json!({"id": "f", "type": "Elsa.Fault", "message": "no stock", "code": "17"});
    assert_eq!(fails(fault).await, "no stock");
    let set = json!({"id": "v", "type": "Elsa.SetVariable", "variable": {"id": "gone"}, "value": 1});
    assert!(fails(set).await.contains("gone"));
}

#[tokio::test]
async fn other_branches_go_on_if_the_definition_says_so() {
    let root = json!({"id": "f", "type": "Elsa.Flowchart",
        "activities": [{"id": "s", "type": "Elsa.Start"}, {"id": "x", "type": "Elsa.Fault"}, {"id": "w", "type": "Elsa.WriteLine", "text": "on"}],
        "connections": [{"source": "s", "target": "x"}, {"source": "s", "target": "w"}]});
    let options = json!({"incidentStrategyType": "Elsa.Workflows.IncidentStrategies.ContinueWithIncidentsStrategy, Elsa.Workflows.Core"});
    let mut driver = Driver::new(&definition(json!({"root": root, "options": options})));
    let outcome = driver.start().await;
    assert_eq!((outcome.status, outcome.incident_count), (Status::Running, 1));
    assert_eq!(driver.lines(), ["on"]);
}
