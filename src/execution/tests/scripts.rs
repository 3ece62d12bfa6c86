//! Scripts as activities, and C# in inputs.

use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition, options};
use crate::activity::Catalogue;
use crate::execution::{Interpreter, SubStatus};

fn run_script(type_name: &str, script: &str) -> Value {
    json!({"id": "run", "type": type_name,
        "script": {"typeName": "String", "expression": {"type": "Literal", "value": script}},
        "result": {"typeName": "Object", "memoryReference": {"id": "r"}}})
}

fn says(kind: &str, text: &str) -> Value {
    json!({"id": "say", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": kind, "value": text}}})
}

fn workflow(activities: &[Value]) -> Value {
    json!({"root": {"id": "s", "type": "Elsa.Sequence", "activities": activities},
        "inputs": [{"name": "Limit", "type": "Int32"}],
        "variables": [
            {"id": "r", "name": "R", "typeName": "Object"},
            {"id": "n", "name": "N", "typeName": "Int32", "value": 7},
            {"id": "p", "name": "P", "typeName": "Decimal", "value": 1.1},
            {"id": "l", "name": "L", "typeName": "List<String>", "value": ["a", "b"]}]})
}

#[tokio::test]
async fn a_result_is_bound_and_read_by_the_other_language() {
    for (type_name, script, kind, text, line) in [
        (
            "Elsa.RunJavaScript",
            "return {a: getN() + 1}",
            "CSharp",
            "$\"{Variables.R.a:000} {Variables.N / 2} {Variables.P + 1m}\"",
            "008 3 2.1",
        ),
        (
            "Elsa.RunCSharp",
            "return new { A = Variables.N + 1, B = Variables.L.Count };",
            "JavaScript",
            "`${getR().A} ${getR().B}`",
            "8 2",
        ),
        (
            "Elsa.RunCSharp",
            "Variables.N = 9; Variables.L.Add(\"c\");",
            "JavaScript",
            "`${getN()} ${getL().length}`",
            "9 3",
        ),
        (
            "Elsa.RunCSharp",
            "var t = 0; for (var i = 0; i < 30000; i++) { t += i; } Variables.N = t; return 1;",
            "CSharp",
            "Variables.N + Variables.R",
            "449985001",
        ),
        (
            "Elsa.RunCSharp",
            "return Output.LastResult;",
            "CSharp",
            "$\"{Output.LastResult}|{Input.Limit}|{WorkflowInstanceId.Length > 0}\"",
            "|0|True",
        ),
        (
            "Elsa.RunCSharp",
            "CorrelationId = \"c-\" + Variables.N;",
            "CSharp",
            "CorrelationId",
            "c-7",
        ),
    ] {
        let mut instance = InMemoryInstance::new(&definition(workflow(&[
            run_script(type_name, script),
            says(kind, text),
        ])));
        let result = instance.start().await;
        assert_eq!(
            result.sub_status,
            SubStatus::Finished,
            "{script}: {:?}",
            result.state.incidents()
        );
        assert_eq!(instance.lines(), [line], "{script}");
    }
}

#[tokio::test]
async fn an_exception_is_an_incident_of_the_activity_and_its_input() {
    for (activities, activity, words) in [
        (
            vec![says("CSharp", "\"a\" +\n 1 / (Variables.N - 7)")],
            "say",
            vec!["input Text", "line 2, column", "DivideByZeroException"],
        ),
        (
            vec![says("CSharp", "((string)Variables.R).Length")],
            "say",
            vec!["Text", "NullReferenceException"],
        ),
        (
            vec![run_script(
                "Elsa.RunCSharp",
                "Variables.N = 1; throw new Exception(\"no\");",
            )],
            "run",
            vec!["script", "line 1, column", "no"],
        ),
        (
            vec![says("JavaScript", "let a = 1;\nthrow new Error('no')")],
            "say",
            vec!["Text", "line 2, column", "no"],
        ),
        (
            vec![run_script("Elsa.RunCSharp", "while (true) { }")],
            "run",
            vec!["script", "than"],
        ),
    ] {
        let mut instance = InMemoryInstance::new(&definition(workflow(&activities)));
        let result = instance.start().await;
        assert_eq!(result.sub_status, SubStatus::Faulted);
        let incidents = format!("{:?}", result.state.incidents());
        assert!(
            words.iter().all(|word| incidents.contains(word)) && incidents.contains(activity),
            "{incidents}"
        );
        // Nothing of it is kept.
        assert_eq!(result.state.variables()["N"], 7);
    }
}

#[test]
fn a_script_that_is_no_csharp_is_refused_at_publish() {
    let (options, _) = options();
    let interpreter = Interpreter::new(Catalogue::standard(), options);
    for (activity, words) in [
        (
            says("CSharp", "Variables.N.Foo"),
            ["say", "Text", "line 1, column", "Foo"],
        ),
        (
            says("CSharp", "Outcome.Set(\"a\")"),
            ["say", "Text", "line 1, column", "Elsa.RunCSharp"],
        ),
        (
            run_script("Elsa.RunCSharp", "\n  await x;"),
            ["run", "Script", "line 2, column 3", "Elsa.Delay"],
        ),
    ] {
        let errors = interpreter.validate(&definition(workflow(&[activity])));
        let [error] = errors.as_slice() else {
            panic!("{errors:?}")
        };
        let text = format!("{} {}", error.activity_id, error.message);
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[tokio::test]
async fn a_script_chooses_the_outcome() {
    let flow = |type_name: &str, script: &str| {
        let line = |id: &str| json!({"id": id, "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": "Literal", "value": id}}});
        let arrow = |port: &str| json!({"source": {"activity": "run", "port": port}, "target": {"activity": port, "port": "In"}});
        json!({"root": {"id": "f", "type": "Elsa.Flowchart",
            "activities": [run_script(type_name, script), line("A"), line("B"), line("Done")],
            "connections": [arrow("A"), arrow("B"), arrow("Done")]}})
    };
    for (type_name, script, lines) in [
        ("Elsa.RunCSharp", "Outcome.Set(\"B\");", vec!["B"]),
        ("Elsa.RunCSharp", "Outcome.Set(\"A\", \"B\");", vec!["A", "B"]),
        ("Elsa.RunCSharp", "return 1;", vec!["Done"]),
        ("Elsa.RunCSharp", "  ", vec!["Done"]),
        ("Elsa.RunJavaScript", "setOutcome('A')", vec!["A"]),
        ("Elsa.RunJavaScript", "setOutcomes(['A', 'B'])", vec!["A", "B"]),
        ("Elsa.RunJavaScript", "1", vec!["Done"]),
    ] {
        let mut instance = InMemoryInstance::new(&definition(flow(type_name, script)));
        let result = instance.start().await;
        assert_eq!(
            result.sub_status,
            SubStatus::Finished,
            "{script}: {:?}",
            result.state.incidents()
        );
        assert_eq!(instance.lines(), lines, "{script}");
    }
}
