//! Names: how messages name an activity and a variable, and what is too long for an instance is refused at publish.

use serde_json::{Value, json};

use super::activities::{literal, script_of, text};
use super::in_memory::{InMemoryInstance, definition, options};
use crate::activity::Catalogue;
use crate::definition::ValidationError;
use crate::execution::{Interpreter, SubStatus};

const HIDDEN: &str = "5f1c2a7be09d4";

fn publish_errors(model: &Value) -> Vec<ValidationError> {
    let interpreter = Interpreter::new(Catalogue::standard(), options().0);
    interpreter.validate(&definition(model.clone()))
}

/// The errors and warnings, by their keys.
fn found(model: &Value) -> Vec<(String, String)> {
    let interpreter = Interpreter::new(Catalogue::standard(), options().0);
    let model = definition(model.clone());
    let program = interpreter.compile(&model).unwrap();
    let errors = interpreter.validate(&model);
    let warnings = interpreter.warnings(&program, &model);
    let all = errors.into_iter().chain(warnings);
    all.map(|found| (found.key(), found.message)).collect()
}

async fn faults(model: &Value) -> Vec<String> {
    let mut instance = InMemoryInstance::new(&definition(model.clone()));
    let result = instance.start().await;
    let incidents = result.state.incidents().iter();
    incidents.map(|incident| incident.message.clone()).collect()
}

#[test]
fn a_message_has_the_name_of_an_activity_and_its_key_the_id() {
    let mut activities = vec![
        json!({"type": "Elsa.For", "end": literal("Int32", "many")}),
        json!({"type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": "Python", "value": "1"}}}),
        json!({"type": "Elsa.WriteLine", "text": script_of("String", "1 +")}),
        json!({"type": "Elsa.WriteLine", "text": {"expression": 5}}),
        json!({"type": "Acme.Fly"}),
        json!({"type": "Acme.Fly", "workflowDefinitionId": "gone"}),
        json!({"type": "Elsa.For", "step": literal("Int32", 0)}),
        json!({"type": "Elsa.Switch", "cases": 5}),
        json!({"type": "Elsa.FlowSwitch", "cases": [{"label": 5}]}),
        json!({"type": "Elsa.Fork", "joinMode": "Never", "branches": []}),
        json!({"type": "Elsa.StateMachine", "states": [{"name": 5}], "transitions": [{"from": "a", "to": "b"}]}),
        json!({"type": "Elsa.SetVariable", "customProperties": {"activityTimeout": "soon", "incidentStrategyType": "Mine"}}),
        json!({"type": "Mainspring.Try"}),
        json!({"type": "Elsa.Sequence", "variables": [{"id": "N", "name": "N"}], "connections": 5}),
        json!({"type": "Elsa.Flowchart", "activities": [{"id": "x", "type": "Elsa.WriteLine"}],
            "connections": [{"source": {"activity": "x"}, "target": {"activity": "y"}}]}),
        json!({"type": "Elsa.PublishEvent", "eventName": text("a\nb")}),
    ];
    for (number, activity) in activities.iter_mut().enumerate() {
        activity["id"] = json!(format!("{HIDDEN}{number}"));
        activity["name"] = json!("Activity");
        activity["metadata"] = json!({"displayText": format!("Step {number}.")});
    }
    let count = activities.len();
    let model = json!({"root": {"id": "root", "type": "Elsa.Sequence", "activities": activities,
        "variables": [{"id": "M", "name": "N"}]}});
    let found = found(&model);
    for number in 0..count {
        let id = format!("{HIDDEN}{number}");
        let of_it = |key: &String| key == &id || key.starts_with(&format!("{id}."));
        let mut messages = found.iter().filter(|(key, _)| of_it(key)).peekable();
        assert!(messages.peek().is_some(), "nothing about {number}: {found:#?}");
        for (_, message) in messages {
            assert!(message.contains(&format!("\"Step {number}.\"")), "{message}");
        }
    }
    let hidden = found.iter().find(|(_, message)| message.contains(HIDDEN));
    assert_eq!(hidden, None);
}

#[tokio::test]
async fn an_incident_has_the_name_of_its_activity() {
    let model = json!({"root": {"id": HIDDEN, "type": "Elsa.Switch", "name": "Which", "cases": 5}});
    let found = faults(&model).await;
    assert_eq!(
        found,
        [
            "The property cases of the activity \"Which\" (Elsa.Switch) is not a list; give it a list of {label, condition}"
        ]
    );
}

#[test]
fn the_error_of_a_declaration_has_its_key() {
    let number = |id: &str, name: &str| json!({"id": id, "name": name, "typeName": "Int32", "value": "x"});
    let inner = json!({"id": "s", "type": "Elsa.Sequence", "variables": [number("a", "Inner"), 5]});
    let model = json!({"root": inner,
        "variables": [number("a", "Total"), {"id": "b", "name": "Twice"}, {"id": "c", "name": "Twice"}, {"id": "d"}],
        "inputs": [{"name": "In"}, {"name": "In"}, {}], "outputs": [{"name": "Out"}, {"name": "Out"}]});
    let errors = publish_errors(&model);
    let keys: Vec<String> = errors.iter().map(ValidationError::key).collect();
    assert_eq!(
        keys,
        [
            "variables.Twice",
            "variables[3]",
            "inputs.In",
            "inputs[2]",
            "outputs.Out",
            "s.variables[1]",
            "variables.Total",
            "s.variables.Inner",
        ]
    );
    assert!(errors[6].message.contains("The value of the variable Total is invalid"));
}

/// An activity whose literal input is such a text, and the input.
fn named(value: &str) -> Vec<(Value, &'static str)> {
    let keys = || json!({"typeName": "ObjectDictionary", "expression": {"type": "Object", "value": {value: 1}}});
    let items = json!({"typeName": "Object", "expression": {"type": "Object", "value": "[1]"}});
    let child = text("child");
    vec![
        (
            json!({"type": "Elsa.PublishEvent", "eventName": text(value)}),
            "EventName",
        ),
        (
            json!({"type": "Elsa.PublishEvent", "eventName": text("e"), "correlationId": text(value)}),
            "CorrelationId",
        ),
        (
            json!({"type": "Elsa.Correlate", "correlationId": text(value)}),
            "CorrelationId",
        ),
        (json!({"type": "Elsa.SetName", "value": text(value)}), "Value"),
        (
            json!({"type": "Elsa.DispatchWorkflow", "workflowDefinitionId": child, "correlationId": text(value)}),
            "CorrelationId",
        ),
        (
            json!({"type": "Elsa.DispatchWorkflow", "workflowDefinitionId": child, "input": keys()}),
            "Input",
        ),
        (
            json!({"type": "Elsa.BulkDispatchWorkflows", "workflowDefinitionId": child, "items": items,
                "correlationIdFunction": text(value)}),
            "CorrelationIdFunction",
        ),
        (
            json!({"type": "Elsa.BulkDispatchWorkflows", "workflowDefinitionId": child, "items": items, "input": keys()}),
            "Input",
        ),
    ]
}

#[tokio::test]
async fn a_name_that_faults_an_instance_is_refused_at_publish() {
    let (longest, long) = ("n".repeat(1024), "n".repeat(1025));
    for (accepted, refused) in std::iter::zip(named(&longest), named(&long)) {
        let model = |mut activity: Value| {
            activity["id"] = json!(HIDDEN);
            activity["name"] = json!("Mine");
            json!({"root": activity})
        };
        let (fine, input) = (model(accepted.0), accepted.1);
        assert_eq!(publish_errors(&fine), [], "{fine}");
        assert_eq!(faults(&fine).await, [""; 0], "{fine}");
        let bad = model(refused.0);
        let found = faults(&bad).await;
        assert!(
            found
                .iter()
                .any(|fault| fault.contains("has 1025 bytes, and at most 1024")),
            "{bad}: {found:?}"
        );
        let errors = publish_errors(&bad);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].key(), HIDDEN);
        let message = &errors[0].message;
        assert!(
            message.starts_with(&format!("The input {input} of the activity \"Mine\" (Elsa."))
                && message.contains("has 1025 bytes, and at most 1024 are allowed")
                && message.len() < 300,
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_declared_name_that_faults_a_start_is_refused_at_publish() {
    let model = |name: &str| {
        let line = json!({"id": "w", "type": "Elsa.WriteLine"});
        json!({"root": line, "inputs": [{"name": name, "type": "String", "defaultValue": "x"}]})
    };
    let (fine, bad) = (model(&"n".repeat(1024)), model(&"n".repeat(1025)));
    assert_eq!(publish_errors(&fine), []);
    assert_eq!(faults(&fine).await, [""; 0]);
    assert_eq!(faults(&bad).await.len(), 1);
    let errors = publish_errors(&bad);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].key().starts_with("inputs.nnn") && errors[0].message.contains("1025 bytes"));
    let variables = json!({"root": {"id": "w", "type": "Elsa.WriteLine"},
        "variables": [{"id": "v", "name": "v".repeat(1025), "typeName": "String"}]});
    let errors = publish_errors(&variables);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].key().starts_with("variables.vvv") && errors[0].message.contains("1025 bytes"));
}

#[tokio::test]
async fn a_name_that_nothing_can_have_is_refused_at_publish() {
    let secret = json!({"typeName": "String", "expression": {"type": "Secret", "value": "../key"}});
    for (activity, wanted) in [
        (
            json!({"type": "Elsa.Event", "canStartWorkflow": true, "eventName": text("a\nb")}),
            "control characters",
        ),
        (
            json!({"type": "Elsa.ExecuteWorkflow", "workflowDefinitionId": text(&"d".repeat(256))}),
            "has 256 bytes, and the id of a workflow has at most 255",
        ),
        (
            json!({"type": "Elsa.WriteLine", "text": secret}),
            "cannot name a secret",
        ),
    ] {
        let mut activity = activity;
        activity["id"] = json!("a");
        let errors = publish_errors(&json!({"root": activity}));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].message.contains(wanted), "{errors:?}");
    }
    // What is computed is only known to an instance.
    let computed =
        json!({"root": {"id": "a", "type": "Elsa.SetName", "value": script_of("String", "'n'.repeat(1025)")}});
    assert_eq!(publish_errors(&computed), []);
    let mut instance = InMemoryInstance::new(&definition(computed));
    assert_eq!(instance.start().await.sub_status, SubStatus::Faulted);
}
