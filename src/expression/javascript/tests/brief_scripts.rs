//! Scripts that run on the thread of their caller have the results that the pool gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use serde_json::{Value, json};

use crate::expression::ScriptEngine;
use crate::expression::named_values::NamedValues;
use crate::expression::script::{EvaluationResult, ScriptScope};
use crate::expression::script_options::ScriptOptions;

const BRIEF: &[&str] = &[
    "`V is ${variables.count + 1}`",
    "getCount() + 1",
    "getCount() > 1 && !isNullOrEmpty(getName()) ? getName().toUpperCase() : 'none'",
    "Math.max(getCount(), 7) / 2",
    "setVariable('count', getCount() + 1)",
    "setOutcome('Yes')",
    "variables.order.lines[0].price.toFixed(2)",
    "getVariable('missing') ?? 'default'",
    "getInput('given')",
    "variables.order",
    "variables.order.missing.name",
    "getName()()",
    "getCount(",
];

/// With a filling of so many bytes, which no script reads.
fn scope(filling: usize) -> ScriptScope {
    let mut scope = ScriptScope::default();
    let variables =
        json!({"count": 2, "name": "Ann", "order": {"lines": [{"price": 1.5}]}, "filling": "x".repeat(filling)});
    if let Value::Object(variables) = variables {
        scope.variables = variables;
    }
    scope.inputs.insert("given".to_owned(), json!([1, "two"]));
    scope
}

fn engine() -> ScriptEngine {
    ScriptEngine::new(ScriptOptions {
        threads: 1,
        ..ScriptOptions::default()
    })
}

fn shown(result: &EvaluationResult) -> String {
    match result {
        Ok(evaluated) => format!("{:?} {:?} {:?}", evaluated.value, evaluated.changes, evaluated.outcomes),
        Err(error) => format!("{:?} {error}", error.kind),
    }
}

#[tokio::test]
async fn brief_scripts_have_the_results_of_the_pool() {
    let (here, pool) = (engine(), engine());
    let (here_session, pool_session) = (here.session(), pool.session());
    for round in 0..2 {
        for script in BRIEF {
            let brief = here_session.evaluate(script, scope(0)).await;
            let pooled = pool_session.evaluate(script, scope(20 << 10)).await;
            assert_eq!(shown(&brief), shown(&pooled), "{script}, round {round}");
        }
    }
}

#[tokio::test]
async fn a_brief_script_needs_no_other_thread() {
    // A busy machine may stop this thread for longer than a brief script may take, but not each time.
    let mut made = Vec::new();
    for _ in 0..5 {
        let engine = engine();
        for n in 0..20 {
            let mut scope = scope(0);
            scope.variables.insert("count".to_owned(), json!(n));
            let evaluated = engine.session().evaluate("getCount() + 1", scope).await;
            assert_eq!(evaluated.expect("a value").value, json!(n + 1));
        }
        made.push(engine.realms());
        let large = engine.session().evaluate("getCount() + 1", scope(20 << 10)).await;
        assert_eq!(large.expect("a value").value, json!(3));
        assert_eq!(engine.realms(), 1);
    }
    assert!(made.contains(&0), "a thread of the pool has made a realm each time");
}

/// Six hundred bursts that begin at once must not keep a poller from its turn until the last of them has ended.
#[tokio::test]
async fn other_tasks_have_their_turn_between_brief_scripts() {
    const SCRIPTS: usize = 20;
    let engine = engine();
    let turns = Arc::new(AtomicUsize::new(0));
    let other = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    let session = engine.session();
    for _ in 0..SCRIPTS {
        session.evaluate("getCount() + 1", scope(0)).await.expect("a value");
    }
    other.abort();
    assert!(turns.load(Relaxed) >= SCRIPTS, "{turns:?}");
}

#[tokio::test]
async fn engines_on_one_thread_have_their_own_settings() {
    let settings = |value: &str| {
        let config = [("Name".to_owned(), value.to_owned())].into();
        ScriptEngine::new(ScriptOptions {
            named: NamedValues {
                config: Arc::new(config),
                ..NamedValues::default()
            },
            ..ScriptOptions::default()
        })
    };
    let engines = [settings("first"), settings("second")];
    for _ in 0..2 {
        for (engine, expected) in engines.iter().zip(["first", "second"]) {
            let read = engine.session().evaluate("getConfig('Name')", scope(0)).await;
            assert_eq!(read.expect("a value").value, json!(expected));
        }
    }
}
