//! The declarations for a script editor name what scripts have.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::expression::javascript::declarations::declarations;
use crate::expression::script::ScriptScope;
use crate::expression::script_options::ScriptOptions;
use crate::expression::{ScriptEngine, ScriptNames, TypeName};

/// The names that a text declares as functions.
fn declared(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("declare function "));
    lines.filter_map(|line| Some(line.split_once('(')?.0)).collect()
}

async fn evaluate(script: &str, scope: ScriptScope) -> Value {
    let engine = ScriptEngine::new(ScriptOptions::default());
    engine.session().evaluate(script, scope).await.expect(script).value
}

#[tokio::test]
async fn every_function_of_scripts_is_declared_and_no_other_one() {
    let fixed = "Object.getOwnPropertyNames(this).filter(name => {
        const { writable, configurable, value } = Object.getOwnPropertyDescriptor(this, name);
        return !writable && !configurable && typeof value === 'function';
    })";
    let offered = evaluate(&fixed.replace("this", "globalThis"), ScriptScope::default()).await;
    let offered: BTreeSet<&str> = offered.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(offered.len() > 20, "{offered:?}");
    let text = declarations(&ScriptNames::default());
    assert_eq!(declared(&text), offered);
}

#[tokio::test]
async fn the_names_of_a_workflow_can_be_called() {
    let object = |value: Value| -> Map<String, Value> { value.as_object().cloned().unwrap() };
    let names = ScriptNames {
        variables: [
            ("my counter".to_owned(), TypeName::parse("Int32", false)),
            ("a.b".to_owned(), TypeName::Text),
        ]
        .into(),
        inputs: [("Lines".to_owned(), TypeName::parse("String", true))].into(),
        outputs: [(("Http Request".to_owned(), "Result".to_owned()), TypeName::Any)].into(),
    };
    let text = declarations(&names);
    for line in [
        "  \"my counter\": number;",
        "  \"a.b\": string;",
        "declare function getMyCounter(): number;",
        "declare function setMyCounter(value: number): void;",
        "declare function getLines(): string[];",
        "declare function getResultFromHttpRequest(): any | null;",
    ] {
        assert!(text.lines().any(|declared| declared == line), "no {line} in\n{text}");
    }
    assert!(!text.contains("getA.b"));
    let scope = ScriptScope {
        variables: object(json!({"my counter": 1, "a.b": "x"})),
        inputs: object(json!({"Lines": ["l"]})),
        outputs: object(json!({"Http Request": {"Result": 5}})),
        ..ScriptScope::default()
    };
    let functions = declared(&text);
    let values = evaluate(
        "[getMyCounter(), setMyCounter(2), getLines(), getResultFromHttpRequest()]",
        scope.clone(),
    )
    .await;
    assert_eq!(values, json!([1, null, ["l"], 5]));
    for name in functions {
        assert_eq!(
            evaluate(&format!("typeof {name}"), scope.clone()).await,
            "function",
            "{name}"
        );
    }
}
