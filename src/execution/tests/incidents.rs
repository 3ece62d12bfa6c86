//! The incident strategies: of a workflow, of an activity, and of what it contains.

use serde_json::{Value, json};

use super::activities::{event, fails, guarded, line, parallel, sequence, with};
use super::in_memory::{InMemoryInstance, definition};
use crate::execution::SubStatus;

const CONTINUE: &str = "Elsa.Workflows.IncidentStrategies.ContinueWithIncidentsStrategy, Elsa.Workflows.Core";
const FAULT: &str = "FaultStrategy";

fn strategy(name: &str) -> Value {
    json!({"customProperties": {"incidentStrategyType": name}})
}

/// The end of a workflow with a branch that faults, and another one.
async fn run(workflow: Option<&str>, root: &Value) -> (SubStatus, Vec<String>) {
    let model = definition(json!({"root": root, "options": {"incidentStrategyType": workflow}}));
    let mut instance = InMemoryInstance::new(&model);
    assert_eq!(instance.interpreter.validate(&model), []);
    let result = instance.start().await;
    assert_eq!(result.incident_count, 1, "{root}");
    assert_eq!(result.state.incidents()[0].activity_id.as_str(), "bad");
    (result.sub_status, instance.lines())
}

#[tokio::test]
async fn the_innermost_strategy_decides() {
    let bad = fails("bad", "1", "General");
    let own = |name: &str| with(&bad, strategy(name));
    let within = |name: &str, bad: &Value| with(&sequence("s", std::slice::from_ref(bad)), strategy(name));
    let last = guarded(
        "guard",
        [own("ContinueWithIncidentsStrategy"), Value::Null, line("finally")],
    );
    for (workflow, branch, goes_on) in [
        (None, bad.clone(), false),
        (Some(FAULT), bad.clone(), false),
        (Some(CONTINUE), bad.clone(), true),
        (None, own(CONTINUE), true),
        (Some(CONTINUE), own(FAULT), false),
        (None, within(CONTINUE, &bad), true),
        (Some(CONTINUE), within(FAULT, &bad), false),
        (None, within(FAULT, &own(CONTINUE)), true),
        (None, within(CONTINUE, &own(FAULT)), false),
        // The strategy of the activity holds, also when the fault goes on from a guard.
        (None, last, true),
    ] {
        let other = sequence("other", &[line("first"), line("on")]);
        let root = parallel("p", &[branch.clone(), other]);
        let (sub_status, mut lines) = run(workflow, &root).await;
        lines.retain(|line| line == "on");
        let expected = if goes_on {
            SubStatus::Suspended
        } else {
            SubStatus::Faulted
        };
        assert_eq!(sub_status, expected, "{workflow:?} {branch}");
        assert_eq!(
            lines,
            if goes_on { vec!["on"] } else { vec![] },
            "{workflow:?} {branch}"
        );
    }
}

#[tokio::test]
async fn a_caught_fault_asks_no_strategy() {
    for workflow in [FAULT, CONTINUE] {
        let guard = guarded("guard", [fails("bad", "1", "General"), event("go"), Value::Null]);
        let model = definition(
            json!({"root": parallel("p", &[guard, line("on")]), "options": {"incidentStrategyType": workflow}}),
        );
        let mut instance = InMemoryInstance::new(&model);
        let result = instance.start().await;
        assert_eq!(
            (result.sub_status, result.incident_count),
            (SubStatus::Suspended, 0),
            "{workflow}"
        );
        assert_eq!(
            instance.event("go", Value::Null).await.sub_status,
            SubStatus::Finished,
            "{workflow}"
        );
        assert_eq!(instance.lines(), ["on"], "{workflow}");
    }
}

#[test]
fn an_unknown_strategy_is_refused_at_publish() {
    let root = with(&line("a"), strategy("Acme.RetryStrategy"));
    let model = definition(json!({"root": root, "options": {"incidentStrategyType": "Acme.PagerStrategy"}}));
    let errors = InMemoryInstance::new(&model).interpreter.validate(&model);
    let shown: Vec<String> = errors
        .iter()
        .map(|error| format!("{}: {}", error.activity_id, error.message))
        .collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(
        shown[0].starts_with(": ") && shown[0].contains("Acme.PagerStrategy") && shown[0].contains("use FaultStrategy"),
        "{shown:?}"
    );
    assert!(
        shown[1].starts_with("a: ") && shown[1].contains("Acme.RetryStrategy"),
        "{shown:?}"
    );
}
