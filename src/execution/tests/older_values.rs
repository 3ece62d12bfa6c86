//! Instances that wait with values which the conversion of today would have refused or written in another way.

use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition};
use crate::execution::SubStatus;
use crate::execution::state::InstanceState;

/// Variables as versions before the common conversion have stored them: the name, the type, and the value.
fn stored() -> [(&'static str, &'static str, Value); 7] {
    [
        ("Count", "Int32", json!("abc")),
        ("When", "DateTime", json!("2026-01-31T12:00:00.000Z")),
        ("Zoned", "DateTimeOffset", json!("2026-01-31T10:00:00Z")),
        ("Text", "String", json!({"an": "object"})),
        ("Order", "ExpandoObject", json!("{\"a\":1}")),
        ("Raw", "Byte[]", json!("no base64!")),
        ("Total", "Decimal", json!(12.5)),
    ]
}

/// An instance that waits with these values, and then evaluates a script.
async fn waiting(script: &str) -> InMemoryInstance {
    let variables = stored().map(|(name, kind, _)| json!({"id": name, "name": name, "typeName": kind}));
    let definition = definition(json!({
        "variables": variables,
        "root": {"id": "s", "type": "Elsa.Sequence", "activities": [
            {"id": "wait", "type": "Elsa.Event", "eventName": "go"},
            {"id": "run", "type": "Elsa.RunJavaScript", "script": script},
        ]},
    }));
    let mut instance = InMemoryInstance::new(&definition);
    assert_eq!(instance.start().await.sub_status, SubStatus::Suspended);
    let mut state = serde_json::to_value(instance.state.take().unwrap()).unwrap();
    for (name, _, value) in stored() {
        variable(&mut state, name, value);
    }
    instance.state = Some(InstanceState::from_bytes(&serde_json::to_vec(&state).unwrap()).unwrap());
    instance
}

fn variable(state: &mut Value, name: &str, value: Value) {
    let contexts = state["contexts"].as_object_mut().unwrap();
    let workflow = contexts.values_mut().find(|context| context["nodeId"] == "Workflow1");
    workflow.unwrap()["variables"][name] = value;
}

#[tokio::test]
async fn values_that_nothing_sets_stay_as_they_are() {
    let mut instance =
        waiting("[getCount(), getWhen(), getZoned(), getText(), getOrder(), getRaw(), getTotal()]; 1").await;
    let result = instance.event("go", Value::Null).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    for (name, _, value) in stored() {
        assert_eq!(result.state.variables()[name], value, "{name}");
    }
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_an_incident_only_where_it_is_set() {
    for (script, is_finished) in [
        ("setCount(getCount())", false),
        ("setCount(7)", true),
        ("variables.Zoned = getZoned()", true),
        ("setRaw(getRaw())", false),
    ] {
        let mut instance = waiting(script).await;
        let result = instance.event("go", Value::Null).await;
        let expected = if is_finished {
            SubStatus::Finished
        } else {
            SubStatus::Faulted
        };
        assert_eq!(result.sub_status, expected, "{script}: {:?}", result.state.incidents());
    }
}
