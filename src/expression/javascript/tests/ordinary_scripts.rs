//! What people write gives what it gave in a QuickJS without bounds.

use serde_json::{Map, Value, json};

use crate::expression::ScriptEngine;
use crate::expression::script::{Evaluated, ScriptError, ScriptScope};
use crate::expression::script_options::ScriptOptions;

/// One script a line, and its result in the next.
const SCRIPTS: &str = include_str!("ordinary_scripts.js");

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

fn scope() -> ScriptScope {
    ScriptScope {
        variables: object(json!({
            "order": {
                "id": 7, "customer": {"name": "Ada"},
                "lines": [{"name": "pen", "price": 2, "count": 1}, {"name": "ink", "price": 3.5, "count": 2}],
            },
        })),
        outputs: object(json!({"a1": {"Result": {"Status": "ok"}}, "Http Request": {"Result": {"x": [1]}}})),
        ..ScriptScope::default()
    }
}

/// What an evaluation gives, in the form of the table.
fn shown(result: &Result<Evaluated, ScriptError>) -> Value {
    let mut shown = Map::new();
    let mut add = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    match result {
        Err(error) => _ = add("error", json!(error.message)),
        Ok(result) => {
            add("value", result.value.clone());
            let set: Map<_, _> = result.changes.variables.iter().cloned().collect();
            if !set.is_empty() {
                add("variables", Value::Object(set));
            }
            if let Some(id) = &result.changes.correlation_id {
                add("correlationId", json!(id));
            }
            if let Some(name) = &result.changes.name {
                add("name", json!(name));
            }
            if let Some(outcomes) = &result.outcomes {
                add("outcomes", json!(outcomes));
            }
        }
    }
    Value::Object(shown)
}

#[tokio::test]
async fn two_hundred_ordinary_scripts_give_what_they_always_gave() {
    let engine = ScriptEngine::new(ScriptOptions {
        threads: 1,
        ..ScriptOptions::default()
    });
    let session = engine.session();
    let (mut count, mut differences) = (0, Vec::new());
    let lines: Vec<&str> = SCRIPTS.lines().collect();
    // Twice: the second time they run in a realm that all of them have used, and are compiled.
    for pair in lines.chunks(2).chain(lines.chunks(2)) {
        let [script, expected] = pair else {
            panic!("a script without a result")
        };
        count += 1;
        let expected: Value = serde_json::from_str(expected.strip_prefix("//= ").expect("a result")).expect("JSON");
        let found = shown(&session.evaluate(script, scope()).await);
        if found != expected {
            differences.push(format!("{script}\n  expected: {expected}\n  found:    {found}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(count >= 2 * 200, "{count}");
    // Of those that run out of nothing none leaves a realm that cannot be used again.
    let made = engine.realms();
    assert!(made < 20, "{made} realms for {count} scripts");
}
