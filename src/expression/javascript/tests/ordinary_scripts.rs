//! What people write behaves in a shared realm as in one of its own, which is not frozen.

use serde_json::{Map, Value, json};

use crate::expression::ScriptEngine;
use crate::expression::javascript::script::{ScriptError, ScriptOptions, ScriptResult, ScriptScope};

/// One script a line.
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

fn shown(result: &Result<ScriptResult, ScriptError>) -> String {
    match result {
        Ok(result) => format!(
            "{} {:?} {:?} {:?} {:?}",
            result.value, result.variables_set, result.correlation_id_set, result.name_set, result.outcomes
        ),
        Err(error) => format!("{:?} {}", error.kind, error.message),
    }
}

#[tokio::test]
async fn two_hundred_ordinary_scripts_do_the_same_as_in_a_realm_of_their_own() {
    let engine = |threads| {
        ScriptEngine::new(ScriptOptions {
            threads,
            prepared: 0,
            ..ScriptOptions::default()
        })
    };
    let (shared, own) = (engine(1), engine(1));
    let session = shared.session();
    let (mut count, mut differences) = (0, Vec::new());
    // Twice: the second time they run in a realm that all of them have used, and are compiled.
    for script in SCRIPTS.lines().chain(SCRIPTS.lines()) {
        count += 1;
        let found = session.evaluate(script, scope()).await;
        // A word that makes a script run in a realm of its own.
        let alone = own
            .session()
            .evaluate(&format!("{script}\n// __proto__"), scope())
            .await;
        let (found, alone) = (shown(&found), shown(&alone));
        if found != alone {
            differences.push(format!("{script}\n  shared: {found}\n  alone:  {alone}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(count >= 2 * 200, "{count}");
    // Those that fail as they would if the realm were not frozen, and one that leaves a registry's callback: few.
    let made = shared.realms().1;
    assert!(made < 20, "{made} realms for {count} scripts");
}
