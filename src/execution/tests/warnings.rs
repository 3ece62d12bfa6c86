//! What a publish warns of, and what it does not.

use serde_json::{Value, json};

use super::activities::line;
use super::in_memory::{InMemoryInstance, definition};
use crate::execution::SubStatus;

/// The warnings of a definition that can be published and finishes: activity and message.
async fn warnings(value: Value) -> Vec<(String, String)> {
    let definition = definition(value);
    let mut instance = InMemoryInstance::new(&definition);
    assert_eq!(instance.interpreter.validate(&definition), []);
    let warnings = instance.interpreter.warnings(&instance.program, &definition);
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let warnings = warnings.into_iter();
    warnings.map(|warning| (warning.activity_id, warning.message)).collect()
}

#[tokio::test]
async fn a_fork_without_branches_is_a_warning() {
    let fork = |branches: Value| json!({"root": {"id": "k", "type": "Elsa.Fork", "branches": branches}});
    let found = warnings(fork(json!([]))).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "k");
    assert!(
        found[0].1.contains("has no branches") && found[0].1.contains("add an activity"),
        "{found:?}"
    );
    assert_eq!(warnings(fork(json!(null))).await.len(), 1);
    assert_eq!(warnings(fork(json!([line("a")]))).await, []);
    let of_flow = |branches: Value| {
        let fork = json!({"id": "k", "type": "Elsa.FlowFork", "branches": branches});
        json!({"root": {"id": "f", "type": "Elsa.Flowchart", "activities": [fork], "connections": []}})
    };
    for empty in [
        json!([]),
        json!({"typeName": "String[]", "expression": {"type": "Object", "value": "[]"}}),
    ] {
        assert_eq!(warnings(of_flow(empty)).await[0].0, "k");
    }
    // Without the input it has the outcome Done.
    for given in [
        json!(null),
        json!(["A"]),
        json!({"typeName": "String[]", "expression": {"type": "Object", "value": "[\"A\"]"}}),
    ] {
        assert_eq!(warnings(of_flow(given)).await, []);
    }
}

#[tokio::test]
async fn an_unknown_mode_of_a_flowchart_is_a_warning() {
    let with = |mode: Value| json!({"root": line("a"), "customProperties": {"Flowchart:ExecutionMode": mode}});
    let found = warnings(with(json!("Tokens"))).await;
    assert!(
        found[0].1.contains("\"Tokens\"") && found[0].1.contains("TokenBased"),
        "{found:?}"
    );
    for known in [
        json!("TokenBased"),
        json!("counterbased"),
        json!("Default"),
        json!(1),
        json!(null),
    ] {
        assert_eq!(warnings(with(known)).await, []);
    }
    let merging = |mode: Value| {
        let mut line = line("a");
        line["customProperties"] = json!({"mergeMode": mode});
        json!({"root": {"id": "f", "type": "Elsa.Flowchart", "activities": [line], "connections": []}})
    };
    let found = warnings(merging(json!("Mergers"))).await;
    assert_eq!(found[0].0, "a");
    assert!(
        found[0].1.contains("behaves as Stream") && found[0].1.contains("Converge"),
        "{found:?}"
    );
    assert_eq!(warnings(merging(json!(2))).await.len(), 1);
    for known in [json!("Merge"), json!("none"), json!("4"), json!(null)] {
        assert_eq!(warnings(merging(known)).await, []);
    }
}

#[tokio::test]
async fn a_variable_that_hides_an_outer_one_is_a_warning() {
    let declares = |id: &str, names: &[&str], inside: Value| {
        let variables: Vec<Value> = names
            .iter()
            .map(|name| json!({"id": format!("{id}-{name}"), "name": name}))
            .collect();
        json!({"id": id, "type": "Elsa.Sequence", "variables": variables, "activities": inside})
    };
    let of = |root: Value| json!({"variables": [{"id": "v", "name": "V"}], "root": root});
    let nested = declares(
        "out",
        &["A"],
        json!([
            declares("in", &["A", "V", "B"], json!([line("a")])),
            declares("next", &["B"], json!([]))
        ]),
    );
    let mut found = warnings(of(nested)).await;
    found.sort();
    let [first, second] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((first.0.as_str(), second.0.as_str()), ("in", "in"));
    assert!(
        first.1.contains("variable A of the activity in") && first.1.contains("a variable of out"),
        "{found:?}"
    );
    assert!(
        second.1.contains("variable V") && second.1.contains("the workflow") && second.1.contains("another name"),
        "{found:?}"
    );
    // Beside each other they do not meet.
    let beside = json!({"id": "s", "type": "Elsa.Sequence", "activities": [declares("one", &["B"], json!([])), declares("two", &["B"], json!([]))]});
    assert_eq!(warnings(of(beside)).await, []);
}

/// The messages of a definition with one variable, Name, and these expressions in a sequence.
fn unknown(expressions: &[(&str, &str)]) -> Vec<String> {
    let number = |(number, (kind, text)): (usize, &(&str, &str))| {
        let text = json!({"typeName": "String", "expression": {"type": kind, "value": text}});
        json!({"id": format!("w{number}"), "type": "Elsa.WriteLine", "text": text})
    };
    let activities: Vec<Value> = expressions.iter().enumerate().map(number).collect();
    let definition = definition(json!({
        "variables": [{"id": "v", "name": "Name", "typeName": "String"}],
        "root": {"id": "s", "type": "Elsa.Sequence", "activities": activities},
    }));
    let instance = InMemoryInstance::new(&definition);
    assert_eq!(instance.interpreter.validate(&definition), []);
    let warnings = instance.interpreter.warnings(&instance.program, &definition);
    warnings.into_iter().map(|warning| warning.message).collect()
}

#[test]
fn a_name_that_nothing_defines_is_a_warning() {
    for (kind, text, place, hint) in [
        ("JavaScript", "let a = 1;\na + totl", "totl", "in line 2, column 5"),
        ("JavaScript", "getNam()", "getNam", "did you mean Name?"),
        (
            "JavaScript",
            "getResultFromNothing()",
            "getResultFromNothing",
            "it is null",
        ),
        #[cfg(feature = "liquid")]
        (
            "Liquid",
            "Hello {{ Variables.Nam | upcase }}",
            "Variables.Nam",
            "so it is nil; did you mean Name?",
        ),
        #[cfg(feature = "csharp")]
        ("CSharp", "Variables.Get<int>(\"Nam\")", "Nam", "in line 1, column 20"),
    ] {
        let found = unknown(&[(kind, text)]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains(place) && found[0].contains(hint), "{text}: {found:?}");
    }
    for text in [
        "getName() + variables.Name + getResultFromW0() + setName('a') + Math.max(1) + newGuid() + TimeSpan.Zero",
        "typeof maybe === 'undefined' ? 1 : maybe",
        "getInput('anything') + getVariable('anything') + variables.anything",
    ] {
        assert_eq!(unknown(&[("JavaScript", text)]), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_variable_that_a_script_may_set_is_no_warning() {
    for setter in [
        "setVariable('Fresh', 1)",
        "variables.Fresh = 1",
        "variables['Fre' + 'sh'] = 1",
    ] {
        assert_eq!(
            unknown(&[("JavaScript", setter), ("JavaScript", "getFresh()")]),
            Vec::<String>::new(),
            "{setter}"
        );
        #[cfg(feature = "liquid")]
        assert_eq!(
            unknown(&[("JavaScript", setter), ("Liquid", "{{ Variables.Fresh }}")]),
            Vec::<String>::new(),
            "{setter}"
        );
    }
}

#[tokio::test]
async fn variables_whose_names_differ_in_case_only_are_a_warning() {
    let of = |names: [&str; 2]| {
        let variables = names.map(|name| json!({"id": name, "name": name}));
        json!({"variables": variables, "root": line("a")})
    };
    let found = warnings(of(["Total", "total"])).await;
    assert!(found[0].1.contains("variables Total and total"), "{found:?}");
    assert_eq!(warnings(of(["Total", "Totals"])).await, []);
}

#[tokio::test]
async fn inputs_and_outputs_whose_names_differ_in_case_only_are_a_warning() {
    for (property, rule) in [("inputs", ", and a value is given"), ("outputs", "; give one")] {
        let of = |names: [&str; 2]| {
            let declared = names.map(|name| json!({"name": name, "type": "String"}));
            json!({property: declared, "root": line("a")})
        };
        let found = warnings(of(["no", "No"])).await;
        assert_eq!(found.len(), 1, "{found:?}");
        let text = format!("The {property} no and No differ in case only{rule}");
        assert!(found[0].0.is_empty() && found[0].1.starts_with(&text), "{found:?}");
        assert_eq!(warnings(of(["no", "nos"])).await, []);
    }
}

fn chart(activities: Value, connections: &[(&str, &str, &str)]) -> Value {
    let connections: Vec<Value> = connections
        .iter()
        .map(|(from, port, to)| json!({"source": {"activity": from, "port": port}, "target": {"activity": to, "port": "In"}}))
        .collect();
    json!({"root": {"id": "flow", "type": "Elsa.Flowchart", "activities": activities, "connections": connections}})
}

/// The warnings of a definition that is not run.
fn found(value: Value) -> Vec<(String, String)> {
    let definition = definition(value);
    let instance = InMemoryInstance::new(&definition);
    assert_eq!(instance.interpreter.validate(&definition), []);
    let warnings = instance
        .interpreter
        .warnings(&instance.program, &definition)
        .into_iter();
    warnings.map(|warning| (warning.activity_id, warning.message)).collect()
}

fn decision() -> Value {
    json!({"id": "d", "type": "Elsa.FlowDecision",
        "condition": {"typeName": "Boolean", "expression": {"type": "Literal", "value": true}}})
}

#[test]
fn a_connection_from_a_port_that_does_not_exist_is_a_warning() {
    let both = || json!([decision(), line("a"), line("b")]);
    let warned = found(chart(both(), &[("d", "true", "a"), ("d", "False", "b")]));
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!(warned[0].0, "d");
    assert!(
        warned[0].1.contains("the port true") && warned[0].1.contains("True, False"),
        "{warned:?}"
    );
    assert_eq!(found(chart(both(), &[("d", "True", "a"), ("d", "False", "b")])), []);
    let switch = json!({"id": "d", "type": "Elsa.FlowSwitch", "cases": [
        {"label": "Paid", "condition": {"type": "Literal", "value": true}}]});
    let ports = [("d", "Paid", "a"), ("d", "Default", "b"), ("d", "Done", "b")];
    assert_eq!(found(chart(json!([switch, line("a"), line("b")]), &ports)).len(), 1);
    let fork = json!({"id": "d", "type": "Elsa.FlowFork", "branches": {"typeName": "String[]",
        "expression": {"type": "Object", "value": "[\"x\", \"y\"]"}}});
    let ports = [("d", "x", "a"), ("d", "z", "b")];
    assert_eq!(found(chart(json!([fork, line("a"), line("b")]), &ports)).len(), 1);
    let script = json!({"id": "d", "type": "Elsa.RunJavaScript", "script": "setOutcome('Any')"});
    assert_eq!(found(chart(json!([script, line("a")]), &[("d", "Any", "a")])), []);
}

#[cfg(feature = "http")]
#[test]
fn a_connection_from_a_port_of_http_is_no_warning() {
    let from = |activity: &Value, port: &str| found(chart(json!([activity, line("a")]), &[("d", port, "a")]));
    let input = |kind: &str, value: &str| json!({"typeName": "Object", "expression": {"type": kind, "value": value}});
    for type_name in ["Elsa.FlowSendHttpRequest", "Elsa.DownloadHttpFile"] {
        let expecting = |codes: Value| json!({"id": "d", "type": type_name, "url": "https://a.example", "expectedStatusCodes": codes});
        let listed = expecting(input("Object", "[201, \"404\"]"));
        for port in [
            "201",
            "404",
            "Unmatched status code",
            "Failed to connect",
            "Timeout",
            "Done",
        ] {
            assert_eq!(from(&listed, port), [], "{type_name}");
        }
        let warned = from(&listed, "200");
        assert_eq!(warned.len(), 1, "{warned:?}");
        let ports = "its ports are 201, 404, Unmatched status code, Failed to connect, Timeout, Done";
        assert!(warned[0].1.contains(ports), "{warned:?}");
        assert_eq!(from(&expecting(Value::Null), "200"), []);
        assert_eq!(from(&expecting(Value::Null), "404").len(), 1);
        assert_eq!(from(&expecting(input("JavaScript", "[200]")), "404"), []);
    }
    let endpoint = |exposed: Value| json!({"id": "d", "type": "Elsa.HttpEndpoint", "path": "a", "exposeFileTooLargeOutcome": exposed});
    for (exposed, count) in [(json!(true), 0), (json!(false), 1), (Value::Null, 1)] {
        assert_eq!(
            from(&endpoint(exposed.clone()), "File too large").len(),
            count,
            "{exposed}"
        );
        assert_eq!(from(&endpoint(exposed), "Done"), []);
    }
}

#[test]
fn a_connection_to_what_is_not_in_the_flowchart_is_dropped_with_a_warning() {
    let warned = found(chart(
        json!([line("a"), line("b")]),
        &[("a", "Done", "b"), ("b", "Done", "gone")],
    ));
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].1.contains("leads to gone"), "{warned:?}");
}

#[test]
fn a_join_that_a_decision_keeps_from_being_complete_is_a_warning() {
    let join = |mode: &str| {
        json!({"id": "j", "type": "Elsa.FlowJoin",
        "mode": {"typeName": "FlowJoinMode", "expression": {"type": "Literal", "value": mode}}})
    };
    let of = |mode: &str, first: &Value| {
        let ports = [
            ("d", "True", "a"),
            ("d", "False", "b"),
            ("a", "Done", "j"),
            ("b", "Done", "j"),
            ("j", "Done", "c"),
        ];
        found(chart(
            json!([first, line("a"), line("b"), join(mode), line("c")]),
            &ports,
        ))
    };
    let warned = of("WaitAll", &decision());
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!(warned[0].0, "j");
    assert!(
        warned[0]
            .1
            .contains("each outcome of d (Elsa.FlowDecision) leaves one of them out"),
        "{warned:?}"
    );
    assert_eq!(of("WaitAllActive", &decision()), []);
    assert_eq!(of("WaitAny", &decision()), []);
    let fork = json!({"id": "d", "type": "Elsa.FlowFork", "branches": ["True", "False"]});
    assert_eq!(of("WaitAll", &fork), []);
    // The branch that both outcomes lead to.
    let ports = [
        ("d", "True", "a"),
        ("d", "False", "a"),
        ("d", "True", "b"),
        ("d", "False", "b"),
        ("a", "Done", "j"),
        ("b", "Done", "j"),
    ];
    assert_eq!(
        found(chart(
            json!([decision(), line("a"), line("b"), join("WaitAll")]),
            &ports
        )),
        []
    );
}

#[test]
fn a_trigger_without_a_connection_is_a_warning() {
    let trigger = json!({"id": "t", "type": "Elsa.Event", "canStartWorkflow": true,
        "eventName": {"typeName": "String", "expression": {"type": "Literal", "value": "Go"}}});
    let warned = found(chart(json!([trigger, line("a"), line("b")]), &[("a", "Done", "b")]));
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(
        warned[0].0 == "t" && warned[0].1.contains("no connection leads from it"),
        "{warned:?}"
    );
    assert_eq!(found(chart(json!([trigger, line("a")]), &[("t", "Done", "a")])), []);
    assert_eq!(found(chart(json!([trigger]), &[])), []);
}

#[test]
fn a_cron_expression_that_quartz_reads_otherwise_is_a_warning() {
    let cron = |text: &str| {
        found(
            json!({"root": {"id": "c", "type": "Elsa.Cron", "canStartWorkflow": true,
            "cronExpression": {"typeName": "String", "expression": {"type": "Literal", "value": text}}}}),
        )
    };
    let warned = cron("0 0 12 ? * 2");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!(warned[0].1.matches("Tuesday").count(), 3, "{warned:?}");
    for differs in ["0 12 ? * *", "0 0 12 * * 1-5", "0 0 12 * * MON,2", "0 0 12 * * 2#1"] {
        assert_eq!(cron(differs).len(), 1, "{differs}");
    }
    for same in [
        "0 0 12 * * MON-FRI",
        "0 12 1 1 *",
        "0 12 * * 1-5",
        "0 0 12 * * MON#2",
        "@daily",
        "0 0/5 * * * *",
    ] {
        assert_eq!(cron(same), [], "{same}");
    }
}

#[tokio::test]
async fn what_has_no_effect_is_a_warning() {
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [
        {"id": "switch", "type": "Elsa.Switch", "cases": []},
        {"id": "set", "type": "Elsa.SetVariable", "variable": null},
        {"id": "w", "type": "Elsa.WriteLine", "text": "x", "customProperties": {"runAsynchronously": true}},
        {"id": "if", "type": "Elsa.If", "condition": false,
         "then": {"id": "delay", "type": "Elsa.Delay", "timeSpan": "00:00:01", "canStartWorkflow": true}}]});
    let warned = warnings(json!({ "root": root })).await;
    let ids: Vec<&str> = warned.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["switch", "set", "w", "delay"], "{warned:?}");
}
