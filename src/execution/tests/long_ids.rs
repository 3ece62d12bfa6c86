//! Ids of any length: a node id repeats the ids around an activity, so what is made of them has bounds.

use serde_json::{Value, json};

use super::in_memory::{composition, definition, options};
use crate::activity::Catalogue;
use crate::execution::{Composition, Interpreter};

fn interpreter() -> Interpreter {
    Interpreter::new(Catalogue::standard(), options().0)
}

fn lines(count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| json!({"id": format!("n{n}"), "type": "Elsa.WriteLine"}))
        .collect()
}

#[test]
fn what_is_shown_grows_with_the_definition() {
    let interpreter = interpreter();
    let long = "x".repeat(1 << 20);
    let mut root = json!({"id": long, "type": "Elsa.Sequence", "activities": lines(200)});
    let before = root.to_string().len();
    interpreter.write_node_ids(&mut root);
    let after = root.to_string().len();
    assert!(after < before + (40 << 20), "{before} bytes became {after}");
    let ids = root["activities"].as_array().unwrap().iter();
    assert_eq!(
        ids.map(|line| line["id"].as_str().unwrap()).collect::<Vec<_>>().len(),
        200
    );
    interpreter.remove_node_ids(&mut root);
    assert!(root.to_string().len() <= before + 200 * "\"version\":1,".len() + 20);
}

#[test]
fn no_program_is_larger_than_its_bound() {
    let interpreter = interpreter();
    let long = "x".repeat(1 << 20);
    let root = json!({"id": long, "type": "Elsa.Sequence", "activities": lines(200)});
    let definition = definition(json!({"definitionId": "d", "root": root}));
    let error = interpreter.compile(&definition).unwrap_err();
    assert_eq!(error.code(), "definition-too-large");
    assert!(error.message().contains("node ids"), "{error}");
    assert!(error.message().len() < 2_000);
    let errors = interpreter.validate(&definition);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].message.len() < 2_000, "{}", errors[0].message);
}

#[test]
fn a_workflow_that_is_used_often_is_not_copied_without_end() {
    let interpreter = interpreter();
    // A large part that is used by many activities of a few bytes each.
    let variables: Vec<Value> = (0..2_000)
        .map(
            |n| json!({"id": format!("v{n}"), "name": format!("V{n}"), "typeName": "String", "value": "x".repeat(500)}),
        )
        .collect();
    let inputs: Vec<Value> = (0..2_000)
        .map(|n| json!({"name": format!("I{n}"), "type": "String", "defaultValue": "x".repeat(500)}))
        .collect();
    for mut part in [json!({"variables": variables}), json!({"inputs": inputs})] {
        part["id"] = json!("p1");
        part["definitionId"] = json!("part");
        part["name"] = json!("Part");
        part["options"] = json!({"usableAsActivity": true});
        part["root"] = json!({"id": "w", "type": "Elsa.WriteLine"});
        let part = definition(part);
        let uses: Vec<Value> = (0..400)
            .map(|n| json!({"id": format!("u{n}"), "type": "Part", "version": 1, "workflowDefinitionId": "part"}))
            .collect();
        let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": uses});
        let consumer = definition(json!({"definitionId": "d", "root": root}));
        let composition: Composition = composition(&interpreter, &consumer, &[part]);
        let error = interpreter.compile_composed(&consumer, &composition).unwrap_err();
        assert_eq!(error.code(), "composition-too-large", "{error}");
    }
}
