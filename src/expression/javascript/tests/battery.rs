//! `battery.json`: scripts that people write in workflows, with what Jint and Elsa give for them.
//!
//! `expected` is a value of JSON, or `{"$fault": text}` for an error with that text. `refused` is the error of a script that uses
//! what scripts are not given; `differs` has the value that is given here instead, and the reason.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::expression::coerce;
use crate::expression::declared_kinds::{DeclaredKind, DeclaredKinds};
use crate::expression::script::{ScriptScope, WorkflowFacts};
use crate::expression::script_options::ScriptOptions;
use crate::expression::session::ScriptEngine;
use crate::expression::type_name::TypeName;

const BATTERY: &str = include_str!("battery.json");

type Kinds = Vec<(String, (DeclaredKind, bool))>;

/// The declared values of an entry, and the kinds of those that are more than text.
fn declared(entry: &Value, key: &str) -> (Map<String, Value>, Kinds) {
    let mut kinds = Vec::new();
    let mut values = Map::new();
    for (name, one) in entry[key].as_object().into_iter().flatten() {
        let type_name = one["type"].as_str().unwrap();
        let read = coerce(one["value"].clone(), &TypeName::parse(type_name, false));
        values.insert(name.clone(), read.unwrap());
        kinds.extend(DeclaredKind::of(type_name, false).map(|kind| (name.clone(), kind)));
    }
    (values, kinds)
}

fn scope(entry: &Value) -> ScriptScope {
    let (variables, of_variables) = declared(entry, "variables");
    let (inputs, of_inputs) = declared(entry, "inputs");
    let outputs = entry["outputs"].as_object().cloned().unwrap_or_default();
    let last = outputs.values().next().map(|values| values["Result"].clone());
    ScriptScope {
        variables,
        inputs,
        kinds: DeclaredKinds::new(of_variables, of_inputs),
        activities: Arc::new(HashSet::from(["emit".to_owned()])),
        outputs,
        last_result: last,
        workflow: WorkflowFacts {
            definition_id: "definition-1".to_owned(),
            definition_version_id: "version-1".to_owned(),
            definition_version: 1,
            correlation_id: entry["correlationId"].as_str().map(str::to_owned),
            ..WorkflowFacts::default()
        },
        ..ScriptScope::default()
    }
}

fn is_same(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(found), Value::Object(expected)) => {
            let same = |(name, value)| expected.get(name).is_some_and(|expected| is_same(value, expected));
            found.len() == expected.len() && found.iter().all(same)
        }
        (found, expected) => found == expected,
    }
}

#[tokio::test]
async fn every_script_of_the_battery_gives_what_elsa_gives() {
    let battery: Vec<Value> = serde_json::from_str(BATTERY).unwrap();
    assert!(battery.len() >= 226, "{} scripts", battery.len());
    let engine = ScriptEngine::new(ScriptOptions::default());
    let session = engine.session();
    let mut wrong = Vec::new();
    for entry in &battery {
        let script = entry["code"].as_str().unwrap();
        let found = session.evaluate(script, scope(entry)).await;
        let fault = entry["refused"].as_str().or(entry["expected"]["$fault"].as_str());
        let differs = entry.get("differs").map(|differs| &differs["value"]);
        let expected = differs.unwrap_or(&entry["expected"]);
        let is_right = match (&found, fault.filter(|_| differs.is_none())) {
            (Err(error), Some(text)) => error.message.contains(text),
            (Ok(result), None) => is_same(&result.value, expected),
            _ => false,
        };
        if !is_right {
            let found = found
                .map(|result| result.value.to_string())
                .map_err(|error| error.message);
            wrong.push(format!("{script}\n  expected {expected}, found {found:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        battery.len(),
        wrong.join("\n")
    );
}
