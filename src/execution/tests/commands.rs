//! The commands of a call take place together, or none of them does.

use std::time::Duration;

use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition};
use crate::activity::{
    Activity, ActivityContext, BookmarkRequest, Catalogue, ChildRequest, ChildWait, Descriptor, EventPublication,
    Fault, InputDescriptor, OutputDescriptor, Step,
};
use crate::execution::SubStatus;

/// Gives one command of each kind, then what its input says.
struct Commands;

impl Activity for Commands {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Commands")
            .input(InputDescriptor::new("Then", "String"))
            .output(OutputDescriptor::new("Result", "String"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let large = Value::String("x".repeat(2000));
        let event = |name: &str, payload: Option<Value>| EventPublication {
            name: name.to_owned(),
            correlation_id: None,
            is_local: false,
            payload,
        };
        let child = |number: u64, input: &Value| ChildRequest {
            definition_id: "child".to_owned(),
            correlation_id: None,
            input: serde_json::Map::from_iter([("in".to_owned(), input.clone())]),
            wait: ChildWait::None,
            number,
        };
        context.set_output("Result", "changed");
        context.set_variable("v", "changed");
        context.set_workflow_output("Out", "changed");
        context.set_correlation_id(Some("changed".to_owned()));
        context.set_instance_name(Some("changed".to_owned()));
        context.bookmark(BookmarkRequest::new("waits"));
        context.publish_event(event("Happened", None));
        context.start_child(child(0, &Value::Null));
        match context.text("Then").unwrap_or_default().as_str() {
            "output" => context.set_output("Result", large),
            "variable" => context.set_variable("v", large),
            "unknown variable" => context.set_variable("w", 1),
            "workflow output" => context.set_workflow_output("Out", large),
            "correlation id" => context.set_correlation_id(Some("x".repeat(2000))),
            "name" => context.set_instance_name(Some("x".repeat(2000))),
            "bookmark" => context.bookmark(BookmarkRequest::new(large)),
            "endless delay" => context.bookmark(BookmarkRequest::delay(Duration::MAX, "waits")),
            "late" => context.bookmark(BookmarkRequest::at(chrono::DateTime::<chrono::Utc>::MAX_UTC, "waits")),
            "event" => context.publish_event(event("control\u{7}", None)),
            "payload" => context.publish_event(event("Happened", Some(large))),
            "child" => drop(context.start_child(child(1, &large))),
            _ => {}
        }
        Ok(Step::Wait)
    }
}

#[tokio::test]
async fn one_command_that_cannot_be_carried_out_leaves_nothing_of_the_others() {
    let all = [
        "output",
        "variable",
        "unknown variable",
        "workflow output",
        "correlation id",
        "name",
        "bookmark",
        "endless delay",
        "late",
        "event",
        "payload",
        "child",
    ];
    for then in all.into_iter().chain(["nothing"]) {
        let mut catalogue = Catalogue::standard();
        catalogue.register(Commands);
        let gives = json!({"id": "c", "type": "Commands", "then": then,
            "result": {"typeName": "String", "memoryReference": {"id": "bound"}}});
        let model = definition(json!({"outputs": [{"name": "Out", "type": "String"}],
            "variables": [{"id": "v", "name": "V", "typeName": "Object", "value": "before"},
                          {"id": "bound", "name": "Bound", "typeName": "Object", "value": "before"}],
            "root": {"id": "s", "type": "Elsa.Sequence", "activities": [gives]}}));
        let mut instance = InMemoryInstance::with(&model, catalogue, |options| options.max_value_bytes = 1000);
        let result = instance.start().await;
        let is_carried_out = then == "nothing";
        let expected = if is_carried_out {
            SubStatus::Suspended
        } else {
            SubStatus::Faulted
        };
        assert_eq!(result.sub_status, expected, "{then}: {:?}", result.state.incidents());
        let (variables, output) = (result.state.variables(), result.state.output());
        let value = if is_carried_out { "changed" } else { "before" };
        assert_eq!(
            (&variables["V"], &variables["Bound"]),
            (&json!(value), &json!(value)),
            "{then}"
        );
        assert_eq!(output.contains_key("Out"), is_carried_out, "{then}");
        let changed = is_carried_out.then_some("changed");
        assert_eq!(
            (result.state.correlation_id(), result.state.name()),
            (changed, changed),
            "{then}"
        );
        let made = usize::from(is_carried_out);
        let counts = (
            result.bookmarks_created.len(),
            result.events.len(),
            result.children.len(),
        );
        assert_eq!(counts, (made, made, made), "{then}");
    }
}

/// It could not end without waiting: the memory of the node is not filled before that is known.
#[tokio::test]
async fn an_instance_schedules_no_more_than_it_can_run_without_waiting() {
    let list =
        |length: usize| json!({"typeName": "Object", "expression": {"type": "Literal", "value": vec![1; length]}});
    let line = json!({"id": "l", "type": "Elsa.WriteLine", "text": "l"});
    let inner = json!({"id": "inner", "type": "Elsa.ParallelForEach", "items": list(500), "body": line});
    let outer = json!({"id": "outer", "type": "Elsa.ParallelForEach", "items": list(300), "body": inner});
    let mut instance = InMemoryInstance::with(&definition(json!({"root": outer})), Catalogue::standard(), |options| {
        options.executions_without_wait = 10_000;
    });
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    let incident = &result.state.incidents()[0];
    assert_eq!(incident.exception["code"], "execution-limit");
    assert!(
        incident.message.contains("scheduled") && incident.message.contains("inner"),
        "{incident:?}"
    );
    assert!(result.executed < 30, "{}", result.executed);
    assert_eq!(instance.lines(), [""; 0]);
}
