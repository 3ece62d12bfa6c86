//! One expression alone: what it sees, its errors with their places, and its limits.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::in_memory::options;
use crate::activity::Catalogue;
use crate::execution::{EvaluatedExpression, ExpressionRequest, Interpreter};
use crate::expression::{ScriptScope, WorkflowFacts};

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn interpreter() -> Interpreter {
    let (mut options, _) = options();
    options.script.time_limit = Duration::from_millis(300);
    Interpreter::new(Catalogue::standard(), options)
}

async fn evaluate(interpreter: &Interpreter, kind: &str, value: Value, to: Option<&str>) -> EvaluatedExpression {
    let request = ExpressionRequest {
        kind: kind.to_owned(),
        value,
        type_name: to.map(str::to_owned),
        scope: ScriptScope {
            variables: object(json!({"Count": 7, "List": ["a", "b"], "Order": {"id": 1}})),
            inputs: object(json!({"Name": "Ada"})),
            outputs: object(
                json!({"Http": {"Result": 200, "Body": "ok"}, "evaluated": {"Result": 1}, "root": {"Result": 2}}),
            ),
            last_result: Some(json!("last")),
            hides_secrets: false,
            workflow: WorkflowFacts {
                instance_id: "i-1".to_owned(),
                correlation_id: Some("c-1".to_owned()),
                name: Some("n".to_owned()),
                ..WorkflowFacts::default()
            },
            ..ScriptScope::default()
        },
    };
    interpreter.evaluate_expression(request).await.unwrap()
}

#[tokio::test]
async fn an_expression_sees_what_it_is_given() {
    let interpreter = interpreter();
    for (kind, value, to, expected) in [
        ("JavaScript", json!("getCount() + 1"), None, json!(8)),
        (
            "JavaScript",
            json!("getName() + getInput('Name')"),
            None,
            json!("AdaAda"),
        ),
        (
            "JavaScript",
            json!("getBodyFromHttp() + getOutputFrom('Http')"),
            None,
            json!("ok200"),
        ),
        (
            "JavaScript",
            json!("[getOutputFrom('evaluated'), getOutputFrom('root')]"),
            None,
            json!([1, 2]),
        ),
        (
            "JavaScript",
            json!("`${getLastResult()} ${getWorkflowInstanceId()} ${getCorrelationId()}`"),
            None,
            json!("last i-1 c-1"),
        ),
        (
            "JavaScript",
            json!("return variables.Order.id"),
            Some("String"),
            json!("1"),
        ),
        ("JavaScript", json!("  "), None, json!(null)),
        ("CSharp", json!("Variables.Count * 2"), None, json!(14)),
        (
            "CSharp",
            json!("Input.Name + WorkflowInstanceName"),
            None,
            json!("Adan"),
        ),
        (
            "CSharp",
            json!("Output.From<int>(\"Http\", \"Result\")"),
            None,
            json!(200),
        ),
        (
            "Liquid",
            json!("{% for x in Variables.List %}{{ x }};{% endfor %}{{ Input.name }}"),
            None,
            json!("a;b;Ada"),
        ),
        ("Liquid", json!("{{ Variables.Count }}"), Some("Int32"), json!(7)),
        ("Literal", json!("text"), None, json!("text")),
        ("Literal", json!("12"), Some("Int32"), json!(12)),
        ("Object", json!("{\"a\": [1]}"), None, json!({"a": [1]})),
        ("Object", json!({"a": 1}), None, json!({"a": 1})),
        ("Variable", json!("Count"), None, json!(7)),
        (
            "Variable",
            json!({"id": "Order", "name": "Order"}),
            None,
            json!({"id": 1}),
        ),
        ("Input", json!("Name"), None, json!("Ada")),
        (
            "Output",
            json!({"activityId": "Http", "outputName": "Body"}),
            None,
            json!("ok"),
        ),
        ("Configuration", json!("none"), None, json!(null)),
    ] {
        let done = evaluate(&interpreter, kind, value.clone(), to).await;
        assert_eq!((done.value, done.error), (expected, None), "{kind} {value}");
    }
}

#[tokio::test]
async fn what_it_sets_is_returned() {
    let interpreter = interpreter();
    let script = "setCount(8); variables.Order.id++; setCorrelationId('c-2'); setWorkflowInstanceName(null)";
    let done = evaluate(&interpreter, "JavaScript", json!(script), None).await;
    assert_eq!(
        json!(done.changes),
        json!({"variables": {"Count": 8, "Order": {"id": 2}}, "correlationId": "c-2", "workflowInstanceName": null})
    );
    let done = evaluate(&interpreter, "CSharp", json!("Variables.Count = 9; return 1;"), None).await;
    assert_eq!(json!(done), json!({"value": 1, "changes": {"variables": {"Count": 9}}}));
}

#[tokio::test]
async fn an_error_has_its_place() {
    let interpreter = interpreter();
    let mut wrong = Vec::new();
    for (kind, value, code, part, place) in [
        ("JavaScript", "1 +\n  * 2", "script-syntax", "SyntaxError", Some((2, 3))),
        (
            "JavaScript",
            "getCount() + missing",
            "script-error",
            "missing",
            Some((1, 14)),
        ),
        (
            "JavaScript",
            "const a = 1;\nif (a) {\n  a.b.c;\n}",
            "script-error",
            "TypeError",
            Some((3, 3)),
        ),
        (
            "JavaScript",
            "const x = null;\nreturn x.y",
            "script-error",
            "TypeError",
            Some((2, 8)),
        ),
        (
            "JavaScript",
            "\n\n  JSON.parse('{')",
            "script-error",
            "SyntaxError",
            Some((3, 8)),
        ),
        ("JavaScript", "throw 1", "script-error", "threw 1", None),
        (
            "CSharp",
            "1 +\n  Variables.Missing",
            "script-syntax",
            "Missing",
            Some((2, 13)),
        ),
        (
            "CSharp",
            "\n1 / (Variables.Count - 7)",
            "script-error",
            "DivideByZero",
            Some((2, 3)),
        ),
        ("Liquid", "a\n{% if x %}", "template-syntax", "not closed", Some((2, 1))),
        (
            "Liquid",
            "{{ 1 | divided_by: 0 }}",
            "template-error",
            "divided_by",
            Some((1, 8)),
        ),
        (
            "Object",
            "{\n\"a\" 1}",
            "expression-error",
            "not valid JSON",
            Some((2, 5)),
        ),
        ("Variable", "Missing", "expression-error", "no variable Missing", None),
        ("Secret", "Key", "expression-error", "secrets-dir", None),
        ("Configuration", "", "expression-error", "name", None),
    ] {
        let done = evaluate(&interpreter, kind, json!(value), None).await;
        let is_expected = done.value.is_null()
            && done.error.as_ref().is_some_and(|error| {
                error.code == code && error.message.contains(part) && error.line.zip(error.column) == place
            });
        if !is_expected {
            wrong.push(format!("{kind} {value}: {done:?}, not {code} at {place:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let done = evaluate(&interpreter, "Literal", json!("x"), Some("Int32")).await;
    assert!(done.error.unwrap().message.contains("whole number"));
}

#[tokio::test]
async fn the_limits_are_those_of_a_burst() {
    let interpreter = interpreter();
    for (kind, value, code) in [
        ("JavaScript", "for (;;) {}", "script-timeout"),
        ("JavaScript", "'x'.repeat(5000000)", "value-too-large"),
        (
            "JavaScript",
            // Few steps, so that a busy machine comes to the limit of memory first.
            "[new ArrayBuffer(6e7), new ArrayBuffer(6e7)].length",
            "script-memory",
        ),
        ("CSharp", "while (true) { }", "script-timeout"),
        (
            "CSharp",
            "var l = new List<string>(); for (var i = 0; i < 60; i++) { l.Add(new string('x', 100000)); } return l;",
            "value-too-large",
        ),
        (
            "Liquid",
            "{% for i in (1..1000000000) %}{% endfor %}",
            "template-timeout",
        ),
    ] {
        let began = Instant::now();
        let error = evaluate(&interpreter, kind, json!(value), None).await.error;
        assert_eq!(error.map(|error| error.code).as_deref(), Some(code), "{kind} {value}");
        // Far beyond the limit, on a busy machine.
        assert!(began.elapsed() < Duration::from_secs(20), "{kind} {value}");
    }
}
