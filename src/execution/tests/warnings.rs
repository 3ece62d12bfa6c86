//! What a publish warns of, and what it does not.

use serde_json::{Value, json};

use super::activities::line;
use super::in_memory::{InMemoryInstance, definition};
use crate::execution::SubStatus;

/// The warnings of a definition that can be published and finishes: activity and message.
async fn warnings(value: Value) -> Vec<(String, String)> {
    let definition = definition(value);
    let mut instance = InMemoryInstance::new(&definition);
    assert_eq!(instance.interpreter.validate(&definition), []);
    let warnings = instance.interpreter.warnings(&instance.program, &definition);
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let warnings = warnings.into_iter();
    warnings.map(|warning| (warning.activity_id, warning.message)).collect()
}

#[tokio::test]
async fn a_fork_without_branches_is_a_warning() {
    let fork = |branches: Value| json!({"root": {"id": "k", "type": "Elsa.Fork", "branches": branches}});
    let found = warnings(fork(json!([]))).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "k");
    assert!(
        found[0].1.contains("has no branches") && found[0].1.contains("add an activity"),
        "{found:?}"
    );
    assert_eq!(warnings(fork(json!(null))).await.len(), 1);
    assert_eq!(warnings(fork(json!([line("a")]))).await, []);
    let of_flow = |branches: Value| {
        let fork = json!({"id": "k", "type": "Elsa.FlowFork", "branches": branches});
        json!({"root": {"id": "f", "type": "Elsa.Flowchart", "activities": [fork], "connections": []}})
    };
    for empty in [
        json!([]),
        json!({"typeName": "String[]", "expression": {"type": "Object", "value": "[]"}}),
    ] {
        assert_eq!(warnings(of_flow(empty)).await[0].0, "k");
    }
    // Without the input it has the outcome Done.
    for given in [
        json!(null),
        json!(["A"]),
        json!({"typeName": "String[]", "expression": {"type": "Object", "value": "[\"A\"]"}}),
    ] {
        assert_eq!(warnings(of_flow(given)).await, []);
    }
}

#[tokio::test]
async fn an_unknown_mode_of_a_flowchart_is_a_warning() {
    let with = |mode: Value| json!({"root": line("a"), "customProperties": {"Flowchart:ExecutionMode": mode}});
    let found = warnings(with(json!("Tokens"))).await;
    assert!(
        found[0].1.contains("\"Tokens\"") && found[0].1.contains("TokenBased"),
        "{found:?}"
    );
    for known in [
        json!("TokenBased"),
        json!("counterbased"),
        json!("Default"),
        json!(1),
        json!(null),
    ] {
        assert_eq!(warnings(with(known)).await, []);
    }
    let merging = |mode: Value| {
        let mut line = line("a");
        line["customProperties"] = json!({"mergeMode": mode});
        json!({"root": {"id": "f", "type": "Elsa.Flowchart", "activities": [line], "connections": []}})
    };
    let found = warnings(merging(json!("Mergers"))).await;
    assert_eq!(found[0].0, "a");
    assert!(
        found[0].1.contains("behaves as Stream") && found[0].1.contains("Converge"),
        "{found:?}"
    );
    assert_eq!(warnings(merging(json!(2))).await.len(), 1);
    for known in [json!("Merge"), json!("none"), json!("4"), json!(null)] {
        assert_eq!(warnings(merging(known)).await, []);
    }
}

#[tokio::test]
async fn a_variable_that_hides_an_outer_one_is_a_warning() {
    let declares = |id: &str, names: &[&str], inside: Value| {
        let variables: Vec<Value> = names
            .iter()
            .map(|name| json!({"id": format!("{id}-{name}"), "name": name}))
            .collect();
        json!({"id": id, "type": "Elsa.Sequence", "variables": variables, "activities": inside})
    };
    let of = |root: Value| json!({"variables": [{"id": "v", "name": "V"}], "root": root});
    let nested = declares(
        "out",
        &["A"],
        json!([
            declares("in", &["A", "V", "B"], json!([line("a")])),
            declares("next", &["B"], json!([]))
        ]),
    );
    let mut found = warnings(of(nested)).await;
    found.sort();
    let [first, second] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((first.0.as_str(), second.0.as_str()), ("in", "in"));
    assert!(
        first.1.contains("variable A of the activity in") && first.1.contains("a variable of out"),
        "{found:?}"
    );
    assert!(
        second.1.contains("variable V") && second.1.contains("the workflow") && second.1.contains("another name"),
        "{found:?}"
    );
    // Beside each other they do not meet.
    let beside = json!({"id": "s", "type": "Elsa.Sequence", "activities": [declares("one", &["B"], json!([])), declares("two", &["B"], json!([]))]});
    assert_eq!(warnings(of(beside)).await, []);
}
