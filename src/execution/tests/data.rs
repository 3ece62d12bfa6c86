//! Variables with their types, drivers and scopes; the binding of outputs; what of the values is recorded.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::activities::{sequence, text};
use super::in_memory::{InMemoryInstance, definition, object, options, start};
use crate::activity::Catalogue;
use crate::execution::{BurstResult, Interpreter, StartValues, SubStatus};

fn script(value: &str) -> Value {
    json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": value}})
}

fn set(id: &str, variable: &str, value: &str) -> Value {
    json!({"id": id, "type": "Elsa.SetVariable", "variable": {"id": variable, "name": variable}, "value": script(value)})
}

fn line(id: &str, value: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": script(value)})
}

fn event(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.Event", "eventName": text("E")})
}

fn assert_finished(result: &BurstResult) {
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
}

#[tokio::test]
async fn a_variable_converts_what_it_is_set_to_by_its_type() {
    let list = "System.Collections.Generic.List`1[[System.Int32, System.Private.CoreLib]], System.Private.CoreLib";
    let nested = "System.Collections.Generic.List`1[[System.Collections.Generic.List`1[[System.Int32, System.Private.CoreLib]], \
                  System.Private.CoreLib]], System.Private.CoreLib";
    for (type_name, is_array, value, wanted) in [
        ("Object", false, "({a: 1})", json!({"a": 1})),
        ("String", false, "7", json!("7")),
        ("Boolean", false, "'True'", json!(true)),
        ("Byte", false, "'200'", json!(200)),
        ("SByte", false, "'-100'", json!(-100)),
        ("Int16", false, "'7'", json!(7)),
        ("UInt16", false, "'65535'", json!(65535)),
        ("Int32", false, "7.0", json!(7)),
        ("UInt32", false, "'4294967295'", json!(4_294_967_295_u32)),
        ("Int64", false, "'9007199254740993'", json!(9_007_199_254_740_993_i64)),
        ("Single", false, "'1.5'", json!(1.5)),
        ("Double", false, "'1.5'", json!(1.5)),
        ("Decimal", false, "'1.5'", json!(1.5)),
        ("TimeSpan", false, "'PT5S'", json!("00:00:05")),
        (
            "DateTime",
            false,
            "'2026-01-31T13:00:00+01:00'",
            json!("2026-01-31T12:00:00Z"),
        ),
        (
            "DateTimeOffset",
            false,
            "'2026-01-31T12:00:00+02:00'",
            json!("2026-01-31T12:00:00+02:00"),
        ),
        (
            "Guid",
            false,
            "'0b8a5a3e-0000-4000-8000-000000000000'",
            json!("0b8a5a3e-0000-4000-8000-000000000000"),
        ),
        ("System.Int32, System.Private.CoreLib", false, "'7'", json!(7)),
        (
            "Nullable`1[[System.Int32, System.Private.CoreLib]]",
            false,
            "'7'",
            json!(7),
        ),
        ("Int32", true, "['1', 2]", json!([1, 2])),
        ("Int32[]", false, "'[1, \"2\"]'", json!([1, 2])),
        ("String[]", false, "[1]", json!(["1"])),
        ("Object[]", false, "[1, 'a']", json!([1, "a"])),
        ("ObjectList", false, "[1, 'a']", json!([1, "a"])),
        ("List<Int32>", false, "['3']", json!([3])),
        ("ICollection<String>", false, "[3]", json!(["3"])),
        (list, false, "['4']", json!([4])),
        (nested, false, "[['4'], ['5', 6]]", json!([[4], [5, 6]])),
        ("ObjectDictionary", false, "({a: [1]})", json!({"a": [1]})),
        ("JsonArray", false, "[1]", json!([1])),
        ("Acme.Order, Acme", false, "({id: 3})", json!({"id": 3})),
    ] {
        let variable = json!({"id": "v", "name": "v", "typeName": type_name, "isArray": is_array});
        let root = sequence("s", &[set("set", "v", value)]);
        let mut instance = InMemoryInstance::new(&definition(json!({"root": root, "variables": [variable]})));
        let result = instance.start().await;
        assert_finished(&result);
        assert_eq!(result.state.variables()["v"], wanted, "{type_name} {value}");
    }
}

#[tokio::test]
async fn a_value_that_does_not_fit_its_variable_is_an_incident() {
    let variables = json!([{"id": "v", "name": "v", "typeName": "Int32", "value": 1}]);
    for activity in [
        set("set", "v", "'many'"),
        line("set", "setVariable('v', 'many')"),
        line("set", "variables.v = 'many'"),
    ] {
        let root = sequence("s", &[activity]);
        let mut instance = InMemoryInstance::new(&definition(json!({"root": root, "variables": variables})));
        let result = instance.start().await;
        let incident = &result.state.incidents()[0];
        let expected = "The variable v cannot be set: \"many\" is not a whole number between -2147483648 and 2147483647; \
                        its type is Int32";
        assert!(incident.message.contains(expected), "{incident:?}");
        assert_eq!(result.state.variables()["v"], json!(1));
    }
}

#[tokio::test]
async fn an_output_keeps_its_type_in_a_variable_of_another() {
    let variables = json!([{"id": "v", "name": "Text", "typeName": "String"}]);
    let run = json!({"id": "j", "type": "Elsa.RunJavaScript", "script": text("({a: {b: 1}})"),
        "result": {"typeName": "Object", "memoryReference": {"id": "v"}}});
    let as_text = json!({"id": "l", "type": "Elsa.WriteLine", "text":
        {"typeName": "String", "expression": {"type": "Variable", "value": {"id": "v", "name": "Text"}}}});
    let root = sequence("s", &[run, line("m", "String(getVariable('Text').a.b)"), as_text]);
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root, "variables": variables})));
    assert_finished(&instance.start().await);
    assert_eq!(instance.lines(), ["1", "{\"a\":{\"b\":1}}"]);
}

#[tokio::test]
async fn a_variable_in_memory_does_not_outlive_a_wait() {
    for (driver, kept) in [
        (
            "Elsa.Workflows.WorkflowInstanceStorageDriver, Elsa.Workflows.Core",
            "set",
        ),
        (
            "Elsa.Workflows.Core.Services.WorkflowStorageDriver, Elsa.Workflows.Core",
            "set",
        ),
        ("WorkflowInstance", "set"),
        ("", "set"),
        ("Elsa.Workflows.MemoryStorageDriver, Elsa.Workflows.Core", "first"),
        (
            "Elsa.Workflows.Core.Services.MemoryStorageDriver, Elsa.Workflows.Core",
            "first",
        ),
        ("Memory", "first"),
    ] {
        let variable =
            json!({"id": "v", "name": "v", "typeName": "String", "value": "first", "storageDriverTypeName": driver});
        let activities = [
            set("set", "v", "'set'"),
            line("before", "getV()"),
            event("e"),
            line("after", "getV()"),
        ];
        // In the scope of a container as in that of the workflow.
        for inside in [false, true] {
            let mut root = sequence("s", &activities);
            let mut workflow = json!({"variables": [variable]});
            if inside {
                root["variables"] = json!([variable]);
                workflow = json!({});
            }
            workflow["root"] = root;
            let mut instance = InMemoryInstance::new(&definition(workflow));
            let waiting = instance.start().await;
            let state = String::from_utf8(waiting.state.to_bytes().unwrap()).unwrap();
            assert_eq!(
                state.contains(r#""v":"set""#),
                kept == "set",
                "{driver}: the database has what is kept"
            );
            assert_finished(&instance.event("E", json!(null)).await);
            assert_eq!(instance.lines(), ["set", kept], "{driver}");
        }
    }
}

#[tokio::test]
async fn a_variable_in_memory_outlives_a_yield_and_ends_between_two_stimuli_of_one_burst() {
    let variable =
        json!({"id": "v", "name": "v", "typeName": "String", "value": "first", "storageDriverTypeName": "Memory"});
    let root = sequence(
        "s",
        &[
            event("a"),
            set("set", "v", "'set'"),
            line("before", "getV()"),
            event("b"),
            line("after", "getV()"),
        ],
    );
    let workflow = definition(json!({"root": root, "variables": [variable]}));
    let mut instance = InMemoryInstance::with(&workflow, Catalogue::standard(), |options| {
        options.activities_per_burst = 1
    });
    instance.start().await;
    instance.event("E", json!(null)).await;
    instance.event("E", json!(null)).await;
    assert_eq!(instance.lines(), ["set", "first"]);
    let mut instance = InMemoryInstance::new(&workflow);
    let first = instance.start().await;
    let stimulus = |bookmark| crate::execution::Instruction::Stimulus {
        bookmark_id: bookmark,
        hash: crate::execution::event_hash("E"),
        name: "E".to_owned(),
        payload: None,
    };
    let own = first.bookmarks_created[0].id.clone();
    let result = instance.burst(vec![stimulus(Some(own)), stimulus(None)]).await;
    assert_finished(&result);
    assert_eq!(instance.lines(), ["set", "first"], "as in two bursts");
}

#[tokio::test]
async fn two_ends_of_children_find_the_same_memory_in_one_burst_as_in_two() {
    let variable =
        json!({"id": "v", "name": "v", "typeName": "String", "value": "first", "storageDriverTypeName": "Memory"});
    let branch = |id: &str| {
        let waits = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}});
        let child = json!({"id": format!("{id}-child"), "type": "Elsa.DispatchWorkflow", "workflowDefinitionId": "child",
            "waitForCompletion": waits});
        let lines = [
            child,
            line(&format!("{id}-line"), "getV()"),
            set(&format!("{id}-set"), "v", "'set'"),
        ];
        sequence(id, &lines)
    };
    let root = json!({"id": "fork", "type": "Elsa.Fork", "branches": [branch("a"), branch("b")]});
    let workflow = definition(json!({"root": root, "variables": [variable]}));
    for together in [false, true] {
        let mut instance = InMemoryInstance::new(&workflow);
        let first = instance.start().await;
        let ends = first
            .bookmarks_created
            .iter()
            .map(|bookmark| crate::execution::Instruction::ChildEnded {
                bookmark_id: bookmark.id.clone(),
                result: json!({}),
            });
        let bursts: Vec<Vec<_>> = if together {
            vec![ends.collect()]
        } else {
            ends.map(|end| vec![end]).collect()
        };
        for burst in bursts {
            instance.burst(burst).await;
        }
        assert_eq!(instance.lines(), ["first", "first"], "together: {together}");
    }
}

#[tokio::test]
async fn a_variable_of_a_container_shadows_that_of_the_workflow() {
    let mut inner = sequence(
        "inner",
        &[
            line("i1", "getV()"),
            set("set", "own", "'changed'"),
            event("e"),
            line("i2", "getV()"),
        ],
    );
    inner["variables"] = json!([{"id": "own", "name": "v", "typeName": "String", "value": "inner"}]);
    let root = sequence("s", &[line("o1", "getV()"), inner, line("o2", "getV()")]);
    let variables = json!([{"id": "outer", "name": "v", "typeName": "String", "value": "outer"}]);
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root, "variables": variables})));
    instance.start().await;
    assert_finished(&instance.event("E", json!(null)).await);
    assert_eq!(instance.lines(), ["outer", "inner", "changed", "outer"]);
}

#[tokio::test]
async fn inputs_are_checked_against_their_types() {
    let inputs = json!([
        {"name": "n", "type": "Int32"}, {"name": "list", "type": "String", "isArray": true},
        {"name": "any", "type": "Object"}, {"name": "with", "type": "Int32", "defaultValue": "5"},
        {"name": "when", "type": "System.DateTime, System.Private.CoreLib"}]);
    let root = line(
        "l",
        "JSON.stringify([getInput('n'), getInput('list'), getInput('with')])",
    );
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root, "inputs": inputs})));
    let errors = |input: Value| -> Vec<String> {
        let values = StartValues {
            input: &object(input),
            variables: &Map::new(),
            trigger: None,
            trigger_node_id: None,
        };
        let errors = instance.program.start_errors(values);
        errors.into_iter().map(|(field, _)| field).collect()
    };
    assert_eq!(errors(json!({"n": 3, "list": ["a"], "any": {}, "unknown": 1})), [""; 0]);
    assert_eq!(
        errors(json!({"n": "three", "list": {"a": 1}, "when": "soon", "with": "1.5"})),
        ["input.n", "input.list", "input.with", "input.when"]
    );
    assert_finished(&instance.run(start(object(json!({"n": "3", "list": "a"})))).await);
    assert_eq!(instance.lines(), [r#"[3,["a"],5]"#]);
}

#[tokio::test]
async fn a_script_has_the_bytes_of_an_input_in_base64() {
    let inputs = json!([{"name": "File", "type": "Byte[]"}]);
    let root = line("l", "`${getInput('File').byteLength} ${getInput('File')[0]}`");
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root, "inputs": inputs})));
    assert_finished(&instance.run(start(object(json!({"File": "aGVsbG8="})))).await);
    assert_eq!(instance.lines(), ["5 104"]);
}

#[test]
fn variables_of_a_start_are_checked_against_their_types() {
    let variables = json!([
        {"id": "1", "name": "N", "typeName": "Int32"}, {"id": "2", "name": "Tags", "typeName": "String", "isArray": true},
        {"id": "3", "name": "Any", "typeName": "Object"}]);
    let instance = InMemoryInstance::new(&definition(json!({"root": line("l", "1"), "variables": variables})));
    let errors = |variables: Value| {
        instance.program.start_errors(StartValues {
            input: &Map::new(),
            variables: &object(variables),
            trigger: None,
            trigger_node_id: None,
        })
    };
    assert_eq!(errors(json!({"N": "7", "Tags": "a", "Any": [1], "Other": "x"})), []);
    assert_eq!(errors(json!({"N": null})), []);
    let [(field, message), (list, _)] = errors(json!({"N": "abc", "Tags": {"a": 1}})).try_into().unwrap();
    assert_eq!((field.as_str(), list.as_str()), ("variables.N", "variables.Tags"));
    assert!(message.contains("abc") && message.contains("Int32"), "{message}");
}

#[tokio::test]
async fn an_output_of_an_activity_is_bound_to_a_variable_or_an_output_of_the_workflow() {
    let result = |target: &str| json!({"typeName": "Boolean", "memoryReference": {"id": target}});
    let yes = json!({"typeName": "Boolean", "expression": {"type": "Literal", "value": true}});
    let decide =
        |id: &str, target: &str| json!({"id": id, "type": "Elsa.If", "condition": yes, "result": result(target)});
    let root = sequence("s", &[decide("a", "v"), decide("b", "Answer"), decide("c", "nothing")]);
    let variables = json!([{"id": "v", "name": "Flag", "typeName": "Boolean"}]);
    let outputs = json!([{"name": "Answer", "type": "String"}]);
    let mut instance = InMemoryInstance::new(&definition(
        json!({"root": root, "variables": variables, "outputs": outputs}),
    ));
    let result = instance.start().await;
    assert_finished(&result);
    assert_eq!(result.state.variables()["Flag"], json!(true));
    assert_eq!(
        result.state.output().clone(),
        object(json!({"Answer": "True"})),
        "converted to its type"
    );
}

fn strategy(name: &str) -> Value {
    json!({"evaluationMode": "Strategy", "expression": null,
        "strategyType": format!("Elsa.Workflows.LogPersistence.Strategies.{name}, Elsa.Workflows.Core")})
}

/// What is recorded of the inputs and outputs of an activity: by the journal, and by its execution.
async fn recorded(workflow: Value, activity: Value) -> [BTreeMap<String, Value>; 3] {
    let mut fields =
        object(json!({"id": "a", "type": "Elsa.RunTask", "taskName": text("secret"), "payload": script("({p: 1})")}));
    fields.extend(object(activity));
    let mut all = object(json!({"root": Value::Object(fields)}));
    all.extend(object(workflow));
    let model = definition(Value::Object(all));
    let mut instance = InMemoryInstance::new(&model);
    assert_eq!(
        Interpreter::new(Catalogue::standard(), options().0).validate(&model),
        []
    );
    let waiting = instance.start().await;
    let resume = crate::execution::Instruction::Resume {
        bookmark_id: waiting.bookmarks_created[0].id.clone(),
        input: Map::from_iter([("RunTaskInput".to_owned(), json!("done"))]),
        payload: None,
        request: None,
    };
    let ended = instance.run(resume).await;
    assert_finished(&ended);
    let entries = instance
        .journal
        .iter()
        .filter(|entry| entry.activity_id.as_str() == "a");
    let mut journal = BTreeMap::new();
    for entry in entries {
        journal.extend(entry.activity_state.clone().map(object).into_iter().flatten());
    }
    let execution = ended
        .activity_executions
        .iter()
        .find(|execution| execution.activity_id.as_str() == "a")
        .unwrap();
    let of = |value: &Value| object(value.clone()).into_iter().collect();
    [journal, of(&execution.activity_state), of(&execution.outputs)]
}

fn names(values: &BTreeMap<String, Value>) -> Vec<&str> {
    values.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn what_is_excluded_is_recorded_nowhere() {
    let (inputs, outputs) = (["Payload", "TaskName"], ["Result", "TaskId"]);
    let none: [&str; 0] = [];
    let config = |config: Value| json!({"customProperties": {"logPersistenceConfig": config}});
    let legacy = |mode: Value| json!({"customProperties": {"logPersistenceMode": mode}});
    let literal = json!({"evaluationMode": "Expression", "expression": {"type": "Literal", "value": "Exclude"}});
    for (workflow, activity, kept_inputs, kept_outputs) in [
        (json!({}), json!({}), &inputs[..], &outputs[..]),
        (
            config(json!({"default": strategy("Exclude")})),
            json!({}),
            &none[..],
            &none[..],
        ),
        (
            config(json!({"default": strategy("Configuration")})),
            json!({}),
            &inputs[..],
            &outputs[..],
        ),
        (config(json!({"default": literal})), json!({}), &none[..], &none[..]),
        (legacy(json!({"default": "Exclude"})), json!({}), &none[..], &none[..]),
        (legacy(json!({"default": 2})), json!({}), &none[..], &none[..]),
        // The activity's own default comes before that of the workflow.
        (
            config(json!({"default": strategy("Exclude")})),
            config(json!({"default": strategy("Include")})),
            &inputs[..],
            &outputs[..],
        ),
        (
            config(json!({"default": strategy("Exclude")})),
            config(json!({"default": strategy("Inherit")})),
            &none[..],
            &none[..],
        ),
        (
            config(json!({"default": strategy("Exclude")})),
            legacy(json!({"default": "Include"})),
            &inputs[..],
            &outputs[..],
        ),
        // And that of a property before both.
        (
            json!({}),
            config(json!({"inputs": {"taskName": strategy("Exclude")}})),
            &inputs[..1],
            &outputs[..],
        ),
        (
            json!({}),
            config(json!({"outputs": {"result": literal}})),
            &inputs[..],
            &outputs[1..],
        ),
        (
            json!({}),
            legacy(json!({"default": "Exclude", "inputs": {"payload": "Include"}})),
            &inputs[..1],
            &none[..],
        ),
        (
            json!({}),
            config(
                json!({"default": strategy("Exclude"), "inputs": {"payload": strategy("Include")}, "outputs": {"taskId": strategy("Inherit")}}),
            ),
            &inputs[..1],
            &none[..],
        ),
        // The newer form comes before the older one.
        (
            json!({}),
            json!({"customProperties": {"logPersistenceConfig": {"inputs": {"payload": strategy("Include")}},
                "logPersistenceMode": {"inputs": {"payload": "Exclude", "taskName": "Exclude"}}}}),
            &inputs[..1],
            &outputs[..],
        ),
    ] {
        let shown = format!("{workflow} {activity}");
        let [journal, of_inputs, of_outputs] = recorded(workflow, activity).await;
        assert_eq!(names(&of_inputs), kept_inputs, "{shown}");
        assert_eq!(names(&of_outputs), kept_outputs, "{shown}");
        let mut both = [kept_inputs, kept_outputs].concat();
        both.sort_unstable();
        assert_eq!(names(&journal), both, "{shown}");
    }
}

#[test]
fn a_log_persistence_that_cannot_be_evaluated_is_refused() {
    let dynamic = json!({"evaluationMode": "Expression", "expression": {"type": "JavaScript", "value": "'Exclude'"}});
    let root = json!({"id": "w", "type": "Elsa.WriteLine", "text": text("x"),
        "customProperties": {"logPersistenceConfig": {"inputs": {"text": dynamic}}}});
    let model = definition(json!({"root": root, "customProperties": {"logPersistenceConfig": {"default": dynamic}}}));
    let errors = Interpreter::new(Catalogue::standard(), options().0).validate(&model);
    let places: Vec<&str> = errors.iter().map(|error| error.activity_id.as_str()).collect();
    assert_eq!(places, ["", "w"], "{errors:?}");
    assert!(
        errors[1].message.contains("inputs.text") && errors[1].message.contains("JavaScript"),
        "{errors:?}"
    );
}

#[tokio::test]
async fn the_name_of_an_input_has_any_case() {
    let read = |kind: &str, text: &str| json!({"type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": kind, "value": text}}});
    let mut said = vec![
        read("JavaScript", "getInput('NAME') + getInput('other')"),
        read("Input", "nAME"),
    ];
    if cfg!(feature = "liquid") {
        said.push(read("Liquid", "{{ Input.name }}"));
    }
    if cfg!(feature = "csharp") {
        said.push(read("CSharp", "Input.Get<string>(\"NAME\")"));
    }
    let definition = definition(json!({
        "inputs": [{"name": "Name", "type": "String"}, {"name": "Count", "type": "Int32", "defaultValue": 3}],
        "root": {"type": "Elsa.Sequence", "activities": said},
    }));
    let mut instance = InMemoryInstance::new(&definition);
    let given = object(json!({"name": 5, "OTHER": "!", "COUNT": "7"}));
    let result = instance.run(start(given)).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    assert_eq!(instance.lines()[0], "5!");
    assert!(
        instance.lines()[1..].iter().all(|line| line == "5"),
        "{:?}",
        instance.lines()
    );
    // An exact name takes precedence, and a wrong value is named whatever the case.
    let errors = |input: Value| {
        let input = object(input);
        let variables = serde_json::Map::new();
        let values = StartValues {
            input: &input,
            variables: &variables,
            trigger: None,
            trigger_node_id: None,
        };
        instance.program.start_errors(values)
    };
    assert_eq!(errors(json!({"count": "x"}))[0].0, "input.Count");
    assert!(errors(json!({"count": "x", "Count": 1})).is_empty());
}
