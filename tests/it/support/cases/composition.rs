//! Workflows made of workflows: children, and workflows as activities.
//!
//! What a child does is no line of its parent; the parent writes what it was given.

use serde_json::{Value, json};

use super::{Case, activity, branch, case, event, events, flag, input, line, says, script, sequence, text};

/// A child that waits for the event of its parent, and has an output.
fn child() -> Value {
    json!({"definitionId": "child", "inputs": [{"name": "Fails", "type": "Boolean"}],
    "outputs": [{"name": "Word", "type": "String"}],
    "root": sequence("root", &[
        activity("Elsa.If", "if", json!({"condition": script("Boolean", "getInput('Fails') === true"),
            "then": activity("Elsa.Fault", "boom", json!({"message": text("It broke")}))})),
        activity("Elsa.SetOutput", "out", json!({"outputName": text("Word"), "outputValue": text("hi")})),
    ])})
}

/// Each parent waits before and behind its child, so that it changes its node between them.
pub(super) fn children() -> Vec<Case> {
    let result = json!({"typeName": "Object", "memoryReference": {"id": "r"}});
    let of = |type_name: &str, fields: Value| {
        let mut started = activity(
            type_name,
            "child",
            json!({"workflowDefinitionId": text("child"), "result": result}),
        );
        started
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let said = says(
            "said",
            "`${getR()?.subStatus ?? 'nothing'} ${getR()?.output?.Word ?? ''}`",
        );
        sequence("root", &[event("go"), started, said, branch("end")])
    };
    let variable = || json!([{"id": "r", "name": "R", "typeName": "Object"}]);
    let one = |name: &'static str, type_name: &str, fields: Value, said: &'static str| {
        case(name, of(type_name, fields), events(&["go", "end"]), &[said, "end"])
            .with("variables", variable())
            .using(child())
    };
    let fails = || input("ObjectDictionary", "Object", json!({"Fails": true}));
    let waits = || flag(true);
    let at_port = |id: &str| sequence(&format!("at-{id}"), &[event(id), says(id, "getWorkflowSubStatus()")]);
    let items = |list: &str| script("Object", list);
    let bulk = |name: &'static str, fields: Value, steps: &[&'static str], lines: &[&'static str]| {
        let mut started = activity(
            "Elsa.BulkDispatchWorkflows",
            "child",
            json!({"workflowDefinitionId": text("child")}),
        );
        started
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        let root = sequence("root", &[event("go"), started, branch("end")]);
        case(name, root, events(steps), lines).using(child())
    };
    vec![
        one("dispatch", "Elsa.DispatchWorkflow", json!({}), "nothing "),
        one(
            "dispatch-wait",
            "Elsa.DispatchWorkflow",
            json!({"waitForCompletion": waits()}),
            "Finished hi",
        ),
        one(
            "dispatch-wait-faulted",
            "Elsa.DispatchWorkflow",
            json!({"waitForCompletion": waits(), "input": fails()}),
            "Faulted ",
        ),
        one("execute", "Elsa.ExecuteWorkflow", json!({}), "Finished hi"),
        one(
            "execute-wait",
            "Elsa.ExecuteWorkflow",
            json!({"waitForCompletion": waits()}),
            "Finished hi",
        ),
        bulk(
            "bulk-completed",
            json!({"items": items("[{}]"), "childCompleted": at_port("completed"), "childFaulted": at_port("faulted")}),
            &["go", "completed", "end"],
            &["Finished", "end"],
        ),
        bulk(
            "bulk-faulted",
            json!({"items": items("[{Fails: true}]"), "childCompleted": at_port("completed"), "childFaulted": at_port("faulted")}),
            &["go", "faulted", "end"],
            &["Faulted", "end"],
        ),
        bulk(
            "bulk-without-waiting",
            json!({"items": items("[1, 2]"), "waitForCompletion": flag(false)}),
            &["go", "end"],
            &["end"],
        ),
    ]
}

/// A workflow as an activity, used twice, that waits, has a variable of its own and gives an output and an outcome.
pub(super) fn nested() -> Vec<Case> {
    let part = json!({"definitionId": "Part", "name": "Part", "options": {"usableAsActivity": true},
    "inputs": [{"name": "Word", "type": "String"}], "outputs": [{"name": "Said", "type": "String"}],
    "outcomes": ["Done", "Short"],
    "variables": [{"id": "w", "name": "W", "typeName": "String"}],
    "root": sequence("s", &[
        activity("Elsa.SetVariable", "set", json!({"variable": {"id": "w", "name": "W"}, "value": script("String", "getInput('Word') + '!'")})),
        activity("Elsa.Event", "wait", json!({"eventName": script("String", "'go-' + getInput('Word')")})),
        activity("Elsa.SetOutput", "out", json!({"outputName": text("Said"), "outputValue": script("String", "getW()")})),
        activity("Elsa.Complete", "complete", json!({"outcomes": input("Object", "Literal", json!(["Short"]))})),
        line("never"),
    ])});
    let using = |word: &str| {
        let mut used = activity(
            "Part",
            &format!("use-{word}"),
            json!({"version": 1, "workflowDefinitionId": "Part", "word": text(word),
                "said": {"typeName": "String", "memoryReference": {"id": format!("v{word}")}}}),
        );
        used["workflowDefinitionVersionId"] = "of-another-server".into();
        used
    };
    let variables =
        json!([{"id": "va", "name": "VA", "typeName": "String"}, {"id": "vb", "name": "VB", "typeName": "String"}]);
    let says_both = says("said", "`${getVA()} ${getVB()}`");
    let both = activity("Elsa.Parallel", "both", json!({"activities": [using("a"), using("b")]}));
    let chart = super::flowchart(
        &[using("a"), line("done"), line("short"), using("b")],
        &[
            super::arrow("use-a", "Done", "done"),
            super::arrow("use-a", "Short", "short"),
            super::arrow("short", "Done", "use-b"),
        ],
    );
    let of = |name: &'static str, root: Value, steps: &[&'static str], lines: &[&'static str]| {
        case(name, root, events(steps), lines)
            .with("variables", variables.clone())
            .using(part.clone())
    };
    vec![
        of(
            "nested-twice",
            sequence("root", &[both, says_both.clone()]),
            &["go-b", "go-a"],
            &["a! b!"],
        ),
        of(
            "nested-outcomes",
            sequence("root", &[chart, says_both]),
            &["go-a", "go-b"],
            &["short", "a! b!"],
        ),
    ]
}
