//! Workflows as activities.

use serde_json::{Map, Value, json};

use super::activities::{event, fails, guarded, line as prints, parallel, sequence};
use super::in_memory::{InMemoryInstance, composition, definition, object, start};
use crate::activity::{Catalogue, FlowchartMode};
use crate::definition::WorkflowDefinition;
use crate::execution::{Instruction, Interpreter, InterpreterOptions, SubStatus};
use crate::id::DefinitionId;

fn script(text: &str) -> Value {
    json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": text}})
}

fn line(id: &str, text: &str) -> Value {
    json!({"type": "Elsa.WriteLine", "id": id, "text": script(text)})
}

/// A definition that can be used as an activity.
pub(super) fn usable(id: &str, mut fields: Value) -> WorkflowDefinition {
    fields["id"] = format!("{id}-v1").into();
    fields["definitionId"] = id.into();
    fields["name"] = id.into();
    fields["options"] = json!({"usableAsActivity": true});
    definition(fields)
}

pub(super) fn using(id: &str, of: &str) -> Value {
    json!({"type": of, "id": id, "workflowDefinitionId": of, "version": 1})
}

fn nesting(root: Value, used: &[WorkflowDefinition]) -> InMemoryInstance {
    let consumer = definition(json!({"definitionId": "consumer", "root": root,
        "variables": [{"id": "x", "name": "X", "typeName": "String", "value": "outer"},
            // An id that is the name of an input of a workflow as an activity.
            {"id": "Who", "name": "Greeting", "typeName": "String", "value": "hello"}]}));
    InMemoryInstance::nesting(&consumer, used, Catalogue::standard())
}

async fn assert_finishes(instance: &mut InMemoryInstance, lines: &[&str]) {
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines(), lines);
}

#[tokio::test]
async fn inputs_outputs_and_outcomes_are_mapped() {
    let child = usable(
        "Greet",
        json!({"inputs": [{"name": "Who", "type": "String"}, {"name": "Times", "type": "Int32", "defaultValue": 2},
            {"name": "Name", "type": "String"}],
        "outputs": [{"name": "Text", "type": "String"}], "outcomes": ["Polite", "Rude"],
        "root": sequence("s", &[
            json!({"type": "Elsa.SetOutput", "id": "o", "outputName": "Text",
                "outputValue": script("`${getInput('Who')} x ${getTimes() + 1} ${getInput('Name')}`")}),
            json!({"type": "Elsa.Complete", "id": "c", "outcomes": "Polite"}),
            line("never", "'never'"),
        ])}),
    );
    let connect = |source: &str, port: &str, target: &str| {
        json!({"source": {"activity": source, "port": port},
        "target": {"activity": target, "port": "In"}})
    };
    let mut used = using("greet", "Greet");
    used["who"] = script("variables.X");
    used["_Name"] = json!({"expression": {"type": "Literal", "value": "n"}});
    used["text"] = json!({"typeName": "String", "memoryReference": {"id": "x"}});
    let root = json!({"type": "Elsa.Flowchart", "id": "f",
        "activities": [used, line("polite", "`${variables.X}, ${getTextFromgreet()}`"), line("rude", "'rude'")],
        "connections": [connect("greet", "Polite", "polite"), connect("greet", "Rude", "rude")]});
    let mut instance = nesting(root, &[child]);
    let value = "outer x 3 n, outer x 3 n";
    assert_finishes(&mut instance, &[value]).await;
    let done = instance
        .journal
        .iter()
        .find(|entry| entry.event_name == "Completed" && entry.node_id == "Workflow1:f:greet");
    assert_eq!(done.unwrap().payload, Some(json!({"Outcomes": ["Polite"]})));
    assert_eq!(done.unwrap().activity_type, "Greet");
}

#[tokio::test]
async fn names_resolve_inside_the_definition_that_they_are_written_in() {
    let child = usable(
        "Child",
        json!({"variables": [{"id": "y", "name": "Y", "typeName": "String", "value": "inner"}],
        "root": sequence("s", &[
            line("one", "`${typeof variables.X} ${variables.Y} ${getInput('Secret')}`"),
            json!({"type": "Elsa.SetVariable", "id": "set", "variable": {"name": "Y"}, "value": script("variables.Y + '!'")}),
            line("two", "setVariable('New', 1); return `${variables.Y} ${variables.New} ${getResultFromset()}`"),
        ])}),
    );
    let root = sequence(
        "s",
        &[
            using("a", "Child"),
            using("b", "Child"),
            line(
                "one",
                "`${variables.X} ${typeof variables.Y} ${typeof variables.New} ${getInput('Secret')}`",
            ),
        ],
    );
    let mut instance = nesting(root, &[child]);
    let result = instance.run(start(object(json!({"Secret": "s"})))).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    // A workflow as an activity sees the variables of its consumer, and the inputs of the instance.
    let of_child = ["string inner s", "inner! 1 undefined"];
    let expected = [&of_child[..], &of_child[..], &["outer undefined undefined s"]].concat();
    let found: Vec<String> = instance
        .lines()
        .iter()
        .map(|line| line.replace("null", "undefined"))
        .collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_workflow_as_an_activity_sees_what_its_consumer_sees() {
    let sets = json!({"type": "Elsa.SetVariable", "id": "set", "variable": {"name": "X"}, "value": script("variables.X + '!'")});
    let shown = json!({"type": "Elsa.WriteLine", "id": "shown",
        "text": {"typeName": "String", "expression": {"type": "Variable", "value": "X"}}});
    let inner = usable(
        "Inner",
        json!({"inputs": [{"name": "Deep", "type": "String"}],
        "variables": [{"id": "t", "name": "Total", "typeName": "Int32", "value": 1}],
        "root": sequence("s", &[
            line("one", "`${getX()} ${variables.Who} ${getInput('Who')} ${getInput('Deep')} ${getDeep()} ${getInput('Far')}`"),
            sets,
            shown,
            // Liquid and C# see the same.
            json!({"type": "Elsa.WriteLine", "id": "liquid",
                "text": {"typeName": "String", "expression": {"type": "Liquid", "value": "{{ Variables.X }} {{ Input.Far }} {{ Variables.Who }}"}}}),
            json!({"type": "Elsa.WriteLine", "id": "csharp",
                "text": {"typeName": "String", "expression": {"type": "CSharp", "value": "Variables.Get(\"X\") + \" \" + Input.Get(\"Far\") + \" \" + Variables.Who + \" \" + Variables.Deep"}}}),
            // A variable of its own goes before an input of the instance.
            line("total", "setTotal(5); return `${getTotal()} ${getInput('Total')}`"),
        ])}),
    );
    let mut uses_inner = using("inner", "Inner");
    // The name of an input of the instance in another case.
    uses_inner["deep"] = script("`${getInput('Who')}-deep`");
    let outer = usable(
        "Outer",
        json!({"inputs": [{"name": "Who", "type": "String"}],
        "outputs": [{"name": "Greeting", "type": "String"}, {"name": "Set", "type": "String"}],
        "root": sequence("s", &[
            line("renames", "setVariable('Who', 'b'); return getVariable('Who')"),
            line("renamed", "getInput('Who')"),
            uses_inner,
            // An output is a variable, too, and covers the one of the consumer that has its name.
            line("output", "setVariable('Greeting', 'bye'); setVariable('Set', 'no'); return `${getVariable('Greeting')}`"),
            json!({"type": "Elsa.SetOutput", "id": "o", "outputName": "Set", "outputValue": script("'yes'")}),
        ])}),
    );
    let mut uses_outer = using("outer", "Outer");
    uses_outer["who"] = "a".into();
    let after = "`${variables.X} ${variables.Greeting} ${getInput('Who')} ${typeof variables.Who} ${getGreetingFromouter()} ${getSetFromouter()}`";
    let root = sequence("s", &[uses_outer, line("after", after)]);
    let mut instance = nesting(root, &[inner, outer]);
    let result = instance
        .run(start(object(
            json!({"Far": "f", "Total": 7, "deep": "of the instance"}),
        )))
        .await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let found: Vec<String> = instance
        .lines()
        .iter()
        .map(|line| line.replace("null", "undefined"))
        .collect();
    assert_eq!(
        found,
        [
            "b",
            "b",
            "outer b b b-deep b-deep f",
            "outer!",
            "outer! f b",
            "outer! f b b-deep",
            "5 7",
            "bye",
            "outer! hello undefined undefined bye yes"
        ]
    );
}

#[tokio::test]
async fn a_workflow_at_the_port_of_a_bulk_dispatch_has_the_result_of_the_child() {
    let handle = usable(
        "Handle",
        json!({"inputs": [{"name": "Own", "type": "String"}],
        "root": line("line", "`${getInput('WorkflowOutput').n} ${getInput('WorkflowSubStatus')} ${getInput('Own')}`")}),
    );
    let mut uses = using("handle", "Handle");
    uses["own"] = script("'own ' + getInput('WorkflowOutput').n");
    let root = json!({"type": "Elsa.BulkDispatchWorkflows", "id": "bulk", "workflowDefinitionId": "child",
        "items": script("[1]"), "childCompleted": uses});
    let mut instance = nesting(root, &[handle]);
    let result = instance.start().await;
    let bookmark_id = result.children[0].bookmark_id.clone().unwrap();
    let result = json!({"workflowInstanceId": "c", "status": "Finished", "subStatus": "Finished", "output": {"n": 3}});
    let result = instance.run(Instruction::ChildEnded { bookmark_id, result }).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines(), ["3 Finished own 3"]);
}

#[tokio::test]
async fn an_output_that_nothing_sets_has_no_value_of_the_loop_around() {
    let named = usable(
        "Named",
        json!({"outputs": [{"name": "CurrentValue", "type": "Int32"}], "root": line("in", "`${getCurrentValue()}`")}),
    );
    let each = json!({"type": "Elsa.ForEach", "id": "each", "items": script("[7]"), "body": using("u", "Named")});
    let root = sequence("s", &[each, line("after", "`${getCurrentValueFromu() ?? 'nothing'}`")]);
    let mut instance = nesting(root, &[named]);
    assert_finishes(&mut instance, &["7", "nothing"]).await;
}

#[tokio::test]
async fn nine_copies_wait_and_go_on_each_by_its_own_path() {
    let child = usable(
        "Step",
        json!({"inputs": [{"name": "N", "type": "Int32"}],
        "root": sequence("s", &[
            json!({"type": "Elsa.Event", "id": "wait", "eventName": script("`go-${getInput('N')}`")}),
            line("line", "`${getInput('N')} ${getResultFromwait()} ${getInput('Extra')}`"),
        ])}),
    );
    let mut uses: Vec<Value> = (1..=9).map(|n| using(&format!("u{n}"), "Step")).collect();
    for (n, used) in uses.iter_mut().enumerate() {
        used["n"] = (n + 1).into();
    }
    let root = json!({"type": "Elsa.Fork", "id": "f", "joinMode": "WaitAll", "branches": uses});
    let mut instance = nesting(root, &[child]);
    let started = instance.start().await;
    assert_eq!(
        started.sub_status,
        SubStatus::Suspended,
        "{:?}",
        started.state.incidents()
    );
    let mut paths: Vec<String> = started.bookmarks_created.iter().map(|it| it.node_id.clone()).collect();
    paths.sort();
    let expected: Vec<String> = (1..=9).map(|n| format!("Workflow1:f:u{n}:Workflow1:s:wait")).collect();
    assert_eq!(paths, expected);
    for n in (2..=9).rev() {
        let result = instance.event(&format!("go-{n}"), json!(format!("e{n}"))).await;
        assert_eq!(
            result.sub_status,
            SubStatus::Suspended,
            "{n}: {:?}",
            result.state.incidents()
        );
    }
    // The last one by its bookmark, with an input that the nested workflow sees.
    let bookmark_id = instance.state.as_ref().unwrap().bookmarks()[0].id.clone();
    let input = object(json!({"Extra": 7}));
    let result = instance
        .run(Instruction::Resume {
            bookmark_id,
            input,
            payload: None,
            request: None,
        })
        .await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let lines = instance.lines();
    assert_eq!(lines.len(), 9);
    assert!(
        lines[0].starts_with("9 e9") && lines[8].ends_with(" 7") && lines[8].starts_with("1 "),
        "{lines:?}"
    );
    let ended = instance
        .journal
        .iter()
        .filter(|it| it.event_name == "Completed" && it.activity_id.as_str() == "line");
    let ended: std::collections::BTreeSet<&str> = ended.map(|entry| entry.node_id.as_str()).collect();
    assert_eq!(ended.len(), 9);
}

#[tokio::test]
async fn finish_ends_the_instance_and_a_fault_names_the_path() {
    let finish = usable("Ends", json!({"root": {"type": "Elsa.Finish", "id": "e"}}));
    let mut instance = nesting(sequence("s", &[using("a", "Ends"), line("b", "'after'")]), &[finish]);
    assert_finishes(&mut instance, &[]).await;

    let faulty = usable(
        "Faulty",
        json!({"inputs": [{"name": "N", "type": "Int32"}], "root": {"type": "Elsa.Finish", "id": "e"}}),
    );
    let mut wrong = using("a", "Faulty");
    wrong["n"] = script("'no number'");
    let mut instance = nesting(sequence("s", &[wrong]), &[faulty]);
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    let incident = &result.state.incidents()[0];
    assert_eq!(incident.activity_node_id, "Workflow1:s:a");
    assert!(
        incident.message.contains("The input N is invalid"),
        "{}",
        incident.message
    );
}

#[tokio::test]
async fn a_break_inside_leaves_the_loop_of_the_consumer_as_in_elsa() {
    let child = usable(
        "Breaks",
        json!({"root": sequence("s", &[
        line("l", "'once'"), json!({"type": "Elsa.Break", "id": "b"}), line("never", "'never'")])}),
    );
    let each = json!({"type": "Elsa.ForEach", "id": "each", "body": using("a", "Breaks"),
        "items": {"typeName": "Object[]", "expression": {"type": "Object", "value": "[1,2,3]"}}});
    let mut instance = nesting(sequence("s", &[each, line("b", "'after'")]), &[child]);
    assert_finishes(&mut instance, &["once", "after"]).await;
}

#[tokio::test]
async fn a_complete_inside_waits_for_the_finally_that_it_leaves() {
    let complete = json!({"type": "Elsa.Complete", "id": "c", "outcomes": "Early"});
    let last = sequence("last", &[event("tidy"), prints("finally")]);
    let attempt = guarded(
        "guard",
        [
            sequence("try", &[event("go"), complete, prints("never")]),
            Value::Null,
            last,
        ],
    );
    let beside = sequence("beside", &[event("other"), prints("never")]);
    let child = usable(
        "Child",
        json!({"outcomes": ["Early"],
        "root": sequence("s", &[parallel("p", &[attempt, beside]), prints("never")])}),
    );
    // What waits in the consumer goes on.
    let root = parallel(
        "p",
        &[sequence("one", &[using("a", "Child"), prints("after")]), event("outer")],
    );
    let mut instance = nesting(root, &[child]);
    let names = |instance: &InMemoryInstance| {
        let bookmarks = instance.state.as_ref().unwrap().bookmarks();
        let mut ids: Vec<String> = bookmarks.iter().map(|it| it.activity_id.as_str().to_owned()).collect();
        ids.sort();
        ids
    };
    instance.start().await;
    assert_eq!(names(&instance), ["go", "other", "outer"]);
    instance.event("go", Value::Null).await;
    assert_eq!(names(&instance), ["outer", "tidy"]);
    assert!(instance.lines().is_empty());
    instance.event("tidy", Value::Null).await;
    assert_eq!(
        (instance.lines(), names(&instance)),
        (vec!["finally".to_owned(), "after".to_owned()], vec!["outer".to_owned()])
    );
    let ended = instance
        .journal
        .iter()
        .find(|entry| entry.event_name == "Completed" && entry.node_id == "Workflow1:p:one:a")
        .unwrap();
    assert_eq!(ended.payload, Some(json!({"Outcomes": ["Early"]})));
    let result = instance.event("outer", Value::Null).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
}

#[tokio::test]
async fn a_finish_inside_waits_for_the_finally_of_the_consumer() {
    let child = usable("Ends", json!({"root": {"type": "Elsa.Finish", "id": "e"}}));
    let attempt = guarded("guard", [using("a", "Ends"), Value::Null, prints("finally")]);
    let mut instance = nesting(sequence("s", &[attempt, prints("never")]), &[child]);
    assert_finishes(&mut instance, &["finally"]).await;
}

#[tokio::test]
async fn a_try_of_the_consumer_catches_what_only_a_nested_workflow_raises() {
    let child = usable("Fails", json!({"root": fails("bad", "17", "Shipping")}));
    let mut attempt = guarded("guard", [using("a", "Fails"), prints("caught"), Value::Null]);
    attempt["catchCategories"] = json!(["Shipping"]);
    let consumer = definition(json!({"definitionId": "consumer", "root": attempt}));
    let used = [child];
    let mut instance = InMemoryInstance::nesting(&consumer, &used, Catalogue::standard());
    let parts = composition(&instance.interpreter, &consumer, &used);
    assert_eq!(instance.interpreter.validate_composed(&consumer, &parts), []);
    assert_finishes(&mut instance, &["caught"]).await;
    assert!(instance.state.as_ref().unwrap().incidents().is_empty());
}

#[tokio::test]
async fn an_output_is_bound_to_the_output_of_its_own_definition() {
    let mut sets = event("go");
    sets["result"] = json!({"typeName": "Object", "memoryReference": {"id": "Number"}});
    let child = usable(
        "Child",
        json!({"outputs": [{"name": "Number", "type": "Int32"}], "root": sequence("s", &[sets])}),
    );
    let mut used = using("a", "Child");
    used["number"] = json!({"typeName": "Int32", "memoryReference": {"id": "Number"}});
    // The consumer has an output of that name, which the activity inside does not mean.
    let consumer = definition(json!({"definitionId": "consumer",
        "outputs": [{"name": "Number", "type": "String"}], "root": sequence("s", &[used])}));
    let mut instance = InMemoryInstance::nesting(&consumer, &[child], Catalogue::standard());
    instance.start().await;
    let result = instance.event("go", json!("7")).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(result.state.output(), &object(json!({"Number": "7"})));
    let ended = instance
        .journal
        .iter()
        .find(|entry| entry.event_name == "Completed" && entry.node_id == "Workflow1:s:a")
        .unwrap();
    assert_eq!(ended.activity_state.as_ref().unwrap()["Number"], json!(7));
}

#[test]
fn warnings_and_modes_are_those_of_a_definition_itself() {
    let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
    let root = || {
        let chart = json!({"type": "Elsa.Flowchart", "id": "f", "activities": [prints("a")]});
        sequence(
            "s",
            &[chart, json!({"type": "Elsa.Fork", "id": "empty", "branches": []})],
        )
    };
    let mode = |name: &str| json!({"Flowchart:ExecutionMode": name});
    let (counter, token) = (Some(FlowchartMode::Counter), Some(FlowchartMode::Token));
    for (own, inner, expected) in [
        (json!({}), mode("TokenBased"), (None, token)),
        (mode("TokenBased"), json!({}), (token, None)),
        (mode("TokenBased"), mode("CounterBased"), (token, counter)),
    ] {
        let used = [usable("Child", json!({"customProperties": inner, "root": root()}))];
        let mut consumer = root();
        consumer["activities"].as_array_mut().unwrap().push(using("u", "Child"));
        let consumer = definition(json!({"definitionId": "consumer", "customProperties": own, "root": consumer}));
        let parts = composition(&interpreter, &consumer, &used);
        let program = interpreter.compile_composed(&consumer, &parts).unwrap();
        let mode_of = |path: &str| program.flowchart_mode(program.tree().find(path).unwrap());
        let found = (mode_of("Workflow1:s:f"), mode_of("Workflow1:s:u:Workflow1:s:f"));
        assert_eq!(found, expected);
        let warnings = interpreter.warnings(&program, &consumer);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
    }
}

#[tokio::test]
async fn triggers_inside_start_no_consumer() {
    let child = usable(
        "Evented",
        json!({"root": sequence("s", &[
            json!({"type": "Elsa.Event", "id": "e", "eventName": "go", "customProperties": {"canStartWorkflow": true}})])}),
    );
    let root = sequence(
        "s",
        &[
            json!({"type": "Elsa.Event", "id": "e", "eventName": "begin", "customProperties": {"canStartWorkflow": true}}),
            using("a", "Evented"),
        ],
    );
    let mut instance = nesting(root, &[child]);
    let triggers = instance.interpreter.triggers(&instance.program).await.unwrap().triggers;
    assert_eq!(triggers.len(), 1);
    assert_eq!(triggers[0].payload, json!({"eventName": "begin"}));
    // The activity of the same id inside is not the trigger.
    let begun = instance
        .run(Instruction::Start {
            correlation_id: None,
            name: None,
            input: Map::new(),
            variables: Map::new(),
            trigger_activity_id: Some(triggers[0].activity_id.clone()),
            payload: Some(json!(1)),
            parent: None,
            request: None,
        })
        .await;
    assert_eq!(begun.sub_status, SubStatus::Suspended);
    assert_eq!(begun.bookmarks_created[0].node_id, "Workflow1:s:a:Workflow1:s:e");
    assert_eq!(instance.event("go", json!(2)).await.sub_status, SubStatus::Finished);
}

#[test]
fn what_is_missing_or_too_large_is_named() {
    let interpreter = Interpreter::new(Catalogue::standard(), InterpreterOptions::default());
    let consumer = definition(json!({"definitionId": "consumer", "root": sequence("s", &[using("a", "Gone")])}));
    let problems = interpreter.validate(&consumer);
    assert_eq!((problems.len(), problems[0].activity_id.as_str()), (1, "a"));
    for part in ["workflowDefinitionId is Gone", "publish", "usableAsActivity"] {
        assert!(problems[0].message.contains(part), "{}", problems[0].message);
    }

    // Nine times nine times … more than any node could hold.
    let levels = (0..12).map(|level| {
        let inner = (0..9)
            .map(|n| using(&format!("u{n}"), &format!("L{}", level + 1)))
            .collect::<Vec<_>>();
        usable(&format!("L{level}"), json!({"root": sequence("s", &inner)}))
    });
    let levels: Vec<WorkflowDefinition> = levels.collect();
    let consumer = definition(json!({"definitionId": "consumer", "root": using("a", "L0")}));
    let parts = composition(&interpreter, &consumer, &levels);
    let error = interpreter.compile_composed(&consumer, &parts).unwrap_err();
    assert_eq!(error.code(), "composition-too-large");
    let ids = |ids: &[&str]| ids.iter().map(|id| DefinitionId::new(*id)).collect::<Vec<_>>();
    assert_eq!(
        parts.path_from(&parts.references, &"L2".into()),
        Some(ids(&["L0", "L1", "L2"]))
    );
    assert_eq!(parts.path_from(&parts.references, &"consumer".into()), None);
    // A thousand levels.
    let deep = (0..1000).map(|level| {
        let inner = [using("u", &format!("L{}", level + 1))];
        usable(&format!("L{level}"), json!({"root": sequence("s", &inner)}))
    });
    let deep: Vec<WorkflowDefinition> = deep.collect();
    let parts = composition(&interpreter, &consumer, &deep);
    let error = interpreter.compile_composed(&consumer, &parts).unwrap_err();
    assert!(error.message().contains("32 levels"), "{}", error.message());
}
