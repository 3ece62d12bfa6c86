//! The errors that keep a definition from being published.

use serde_json::{Value, json};

use super::activities::text;
use super::in_memory::{InMemoryInstance, definition, options};
use crate::activity::{
    Activity, ActivityContext, Catalogue, Descriptor, Fault, InputDescriptor, OutputDescriptor, Step,
};
use crate::execution::Interpreter;

fn validation_errors(value: Value) -> Vec<(String, String)> {
    errors_with(Catalogue::standard(), value)
}

fn errors_with(catalogue: Catalogue, value: Value) -> Vec<(String, String)> {
    let (options, _) = options();
    let interpreter = Interpreter::new(catalogue, options);
    let errors = interpreter.validate(&definition(value));
    errors
        .into_iter()
        .map(|error| (error.activity_id, error.message))
        .collect()
}

fn one(value: Value) -> (String, String) {
    let mut all = validation_errors(value);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn write(id: &str) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": "Literal", "value": "x"}}})
}

#[test]
fn a_missing_root_is_refused() {
    assert!(one(json!({"definitionId": "d"})).1.contains("root"));
}

#[test]
fn an_unknown_type_is_named() {
    let (activity, message) = one(json!({"root": {"id": "a", "type": "Acme.Fly"}}));
    assert_eq!(activity, "a");
    assert!(message.contains("Acme.Fly"));
}

#[test]
#[cfg(feature = "liquid")]
fn a_language_that_builds_may_be_without_is_required_of_the_nodes() {
    let (options, _) = options();
    let interpreter = Interpreter::new(Catalogue::standard(), options);
    let required = |kind: &str| {
        let text = json!({"typeName": "String", "expression": {"type": kind, "value": "1"}});
        let line = definition(json!({"root": {"id": "a", "type": "Elsa.WriteLine", "text": text}}));
        interpreter.compile(&line).unwrap().activity_types()
    };
    assert_eq!(required("JavaScript"), ["Elsa.Workflow", "Elsa.WriteLine"]);
    assert_eq!(
        required("Liquid"),
        ["Elsa.Workflow", "Elsa.WriteLine", "language:Liquid"]
    );
    assert!(
        Catalogue::standard()
            .requirements()
            .contains(&"language:Liquid".to_owned())
    );
}

#[test]
#[cfg(not(any(feature = "csharp", feature = "liquid")))]
fn a_language_that_this_build_is_without_is_named_with_its_feature() {
    for (name, feature) in [("CSharp", "csharp"), ("Liquid", "liquid")] {
        let text = json!({"typeName": "String", "expression": {"type": name, "value": "1"}});
        let (_, message) = one(json!({"root": {"id": "a", "type": "Elsa.WriteLine", "text": text}}));
        assert!(
            message.contains(&format!("with the feature {feature}, or")),
            "{message}"
        );
    }
    let (_, message) = one(json!({"root": {"id": "a", "type": "Elsa.RunCSharp"}}));
    assert!(message.contains("with the feature csharp, or"), "{message}");
    let (options, _) = options();
    let interpreter = Interpreter::new(Catalogue::standard(), options);
    let program = interpreter.compile(&definition(json!({"root": {"id": "a", "type": "Elsa.RunCSharp"}})));
    assert_eq!(program.unwrap().missing_activity_types(), ["Elsa.RunCSharp"]);
    // Nodes that have the language run what uses it.
    let text = json!({"typeName": "String", "expression": {"type": "Liquid", "value": "1"}});
    let line = definition(json!({"root": {"id": "a", "type": "Elsa.WriteLine", "text": text}}));
    let program = interpreter.compile(&line).unwrap();
    assert_eq!(program.missing_activity_types(), ["language:Liquid"]);
}

#[test]
fn activities_of_elsa_that_do_not_run_are_refused_with_a_remedy() {
    for (type_name, remedy) in [
        ("ReadLine", "Elsa.RunTask"),
        ("RunPython", "JavaScript"),
        ("Inline", "Elsa.RunTask"),
        ("HostMethodActivity", "Elsa.RunTask"),
        ("Dynamic.HostMethod.Orders.Ship", "Elsa.RunTask"),
        ("NotFoundActivity", "replace it"),
        ("BpmnProcess", "Elsa.Flowchart"),
        ("WebhookEventReceived", "Elsa.Event"),
    ] {
        let type_name = format!("Elsa.{type_name}");
        let root =
            json!({"id": "s", "type": "Elsa.Sequence", "activities": [write("w"), {"id": "a", "type": type_name}]});
        let (activity, message) = one(json!({"root": root}));
        assert_eq!(activity, "a");
        assert!(message.contains(&type_name) && message.contains(remedy), "{message}");
    }
    let (_, message) = one(json!({"root": {"id": "a", "type": "Webhooks.Shop.OrderPaid"}}));
    assert!(message.contains("Elsa.Event"), "{message}");
}

#[test]
fn two_activities_with_one_node_id_are_refused() {
    let inner = json!({"id": "a", "type": "Elsa.Sequence", "activities": [write("b")]});
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [write("a:b"), inner]});
    let (activity, message) = one(json!({"root": root}));
    assert_eq!(activity, "b");
    for part in [
        "a:b (Elsa.WriteLine) in Workflow1:s",
        ", and b (Elsa.WriteLine) in Workflow1:s:a",
        "Workflow1:s:a:b",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // A colon alone is no problem.
    let inner = json!({"id": "a", "type": "Elsa.Sequence", "activities": [write("c:d")]});
    let root = json!({"id": "s:t", "type": "Elsa.Sequence", "activities": [write("a:b"), inner]});
    assert_eq!(validation_errors(json!({"root": root})), []);
    // Nor may an activity have the place of the workflow itself, or of one inside.
    let (activity, message) =
        one(json!({"root": {"id": "s", "type": "Elsa.Sequence", "activities": [write("Workflow1")]}}));
    assert_eq!(activity, "Workflow1", "{message}");
}

#[test]
fn a_duplicate_id_is_refused() {
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [write("a"), write("a"), write("a")]});
    assert_eq!(one(json!({"root": root})).0, "a");
}

#[test]
fn what_is_ambiguous_unknown_or_endless_is_refused() {
    let sequence = |activities: Value| json!({"id": "s", "type": "Elsa.Sequence", "activities": activities});
    let variable = |id: &str| json!({"id": id, "name": "N", "typeName": "String"});
    let number = |value: i64| json!({"typeName": "Int32", "expression": {"type": "Literal", "value": value}});
    let counts = json!({"id": "f", "type": "Elsa.For", "end": number(3), "step": number(0), "body": write("a")});
    let case = json!({"label": "A", "condition": {"type": "Literal", "value": "true"}, "activity": write("a")});
    let switch = json!({"id": "switch", "type": "Elsa.Switch", "mode": text("Sometimes"), "cases": [case]});
    let machine =
        |second: Value| json!({"id": "m", "type": "Elsa.StateMachine", "states": [{"name": "A"}, {"name": second}]});
    for (definition, expected) in [
        (
            json!({"root": sequence(json!([write("a"), write("a")]))}),
            "The id a is used by more than one activity",
        ),
        (
            json!({"root": write("a"), "variables": [variable("v"), variable("w")]}),
            "The variable N is declared twice",
        ),
        (
            json!({"root": write("a"), "options": {"activationStrategyType": "Sometimes"}}),
            "The activation strategy Sometimes is unknown",
        ),
        (
            json!({"root": write("a"), "options": {"incidentStrategyType": "Sometimes"}}),
            "is Sometimes, which is unknown",
        ),
        (json!({ "root": switch }), "The mode Sometimes of the activity"),
        (json!({ "root": counts }), "the loop would never end"),
        (json!({"root": machine(json!("A"))}), "as that of states[0]"),
        (
            json!({"root": machine(json!(null))}),
            "give the state a name of its own",
        ),
    ] {
        let (_, message) = one(definition);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_literal_of_the_wrong_type_is_refused() {
    let root = json!({"id": "d", "type": "Elsa.Delay", "timeSpan": {"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "soon"}}});
    let (activity, message) = one(json!({"root": root}));
    assert_eq!(activity, "d");
    assert!(message.contains("TimeSpan") && message.contains("soon"), "{message}");
}

#[test]
fn an_unsupported_expression_type_is_refused() {
    for kind in ["C#", "Python"] {
        let root = json!({"id": "w", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": kind, "value": "1"}}});
        let (activity, message) = one(json!({"root": root}));
        assert_eq!(activity, "w");
        assert!(
            message.contains("Text") && message.contains(kind) && message.contains("JavaScript"),
            "{message}"
        );
    }
}

#[test]
fn inputs_and_outputs_of_an_activity_are_one_property_in_any_case() {
    for what in ["input", "output"] {
        let of = |names: [&str; 2], is_usable: bool| {
            let declared = names.map(|name| json!({"name": name, "type": "String"}));
            json!({"definitionId": "d", "name": "Part", "root": write("a"), format!("{what}s"): declared,
                "options": {"usableAsActivity": is_usable}})
        };
        let (_, message) = one(of(["no", "No"], true));
        assert!(
            message.starts_with(&format!(
                "The {what} No is declared twice, the other time in another case"
            )),
            "{message}"
        );
        assert_eq!(validation_errors(of(["no", "No"], false)), []);
        let (_, message) = one(of(["no", "no"], false));
        assert_eq!(message, format!("The {what} no is declared twice"));
    }
}

#[test]
fn expressions_of_declared_values_are_accepted_where_their_language_runs() {
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": []});
    for kind in ["JavaScript", "CSharp", "Liquid", "Literal"] {
        let value = json!({"type": kind, "value": "1"});
        let declared = json!({"root": root, "inputs": [{"name": "I", "type": "Object", "value": value}],
            "variables": [{"id": "v", "name": "V", "typeName": "Object", "value": value}]});
        assert_eq!(errors_with(Catalogue::standard(), declared), [], "{kind}");
    }
    let python = json!([{"id": "v", "name": "V", "value": {"type": "Python", "value": "1"}}]);
    let (_, message) = one(json!({"root": root, "variables": python}));
    assert!(
        message.contains("variable V") && message.contains("Python"),
        "{message}"
    );
}

#[test]
fn a_setting_or_a_secret_needs_a_name_and_a_function_a_place_to_run() {
    let line = |kind: &str, value: Value| json!({"id": "w", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": kind, "value": value}}});
    for (kind, name) in [("Configuration", "Smtp:Host"), ("Secret", "Smtp.Host")] {
        for value in [json!(name), json!({"name": name}), json!("{\"name\": \"x\"}")] {
            assert_eq!(
                errors_with(Catalogue::standard(), json!({"root": line(kind, value.clone())})),
                [],
                "{kind} {value}"
            );
        }
        for value in [json!(""), json!(null), json!({"id": ""}), json!("{}"), json!(1)] {
            let (activity, message) = one(json!({"root": line(kind, value.clone())}));
            assert!(
                activity == "w" && message.contains("Text") && message.contains(kind),
                "{kind} {value}: {message}"
            );
        }
    }
}

#[test]
#[cfg(feature = "liquid")]
fn a_template_that_is_no_liquid_is_refused_with_its_place() {
    for (template, part) in [
        (
            "Hello\n{% if Variables.Name %}",
            "line 2, column 1: the tag if is not closed; write {% endif %}",
        ),
        (
            "{{ Variables.Name | upper }}",
            "line 1, column 21: there is no filter upper; write upcase",
        ),
        ("{% include 'a' %}", "cannot load a file"),
    ] {
        let root = json!({"id": "w", "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": "Liquid", "value": template}}});
        let (activity, message) = one(json!({"root": root}));
        assert_eq!(activity, "w");
        assert!(message.contains("input Text") && message.contains(part), "{message}");
    }
}

#[test]
fn missing_ids_are_generated_as_in_elsa() {
    let root =
        json!({"type": "Elsa.Sequence", "activities": [write("WriteLine1"), {"type": "Elsa.WriteLine", "text": null}]});
    let instance = InMemoryInstance::new(&definition(json!({"root": root})));
    let paths: Vec<&str> = instance.program.tree().iter().map(|node| node.node_id()).collect();
    assert_eq!(
        paths,
        [
            "Workflow1",
            "Workflow1:Sequence1",
            "Workflow1:Sequence1:WriteLine1",
            "Workflow1:Sequence1:WriteLine2"
        ]
    );
}

/// A custom type in a version.
struct Greet(i32);

impl Activity for Greet {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Greet")
            .version(self.0)
            .input(InputDescriptor::new("Who", "String").required())
            .input(InputDescriptor::new("Salutation", "String").default("Hello"))
            .output(OutputDescriptor::new("Greeting", "String"))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let who: String = context.read("Who")?;
        context.write_line(&format!(
            "{} {who} from {}",
            context.read::<String>("Salutation")?,
            self.0
        ));
        Ok(Step::Done)
    }
}

fn greets(versions: &[i32]) -> Catalogue {
    let mut catalogue = Catalogue::standard();
    for version in versions {
        catalogue.register(Greet(*version));
    }
    catalogue
}

#[test]
fn a_misspelt_input_is_refused_with_a_similar_name() {
    let validation_errors = |root: Value| errors_with(greets(&[1]), json!({"root": root}));
    let all = validation_errors(json!({"id": "g", "type": "Greet", "whom": text("me")}));
    assert!(all.iter().all(|(activity, _)| activity == "g"), "{all:?}");
    let messages: Vec<&str> = all.iter().map(|(_, message)| message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "The activity g (Greet) has no input whom; did you mean who?",
            "The activity g (Greet) requires the input who, which is missing"
        ]
    );
    let all = validation_errors(json!({"id": "g", "type": "Greet", "who": text("me"), "volume": text("loud")}));
    assert_eq!(
        all[0].1,
        "The activity g (Greet) has no input volume; it has who, salutation"
    );
    // In the form of the designer, of other releases of Elsa, and by the names of the descriptor.
    for root in [
        json!({"id": "g", "nodeId": "w:g", "name": "n", "type": "Greet", "version": 1, "Who": text("me"), "greeting": null,
               "customProperties": {}, "metadata": {}, "canStartWorkflow": false, "runAsynchronously": false,
               "source": "s", "line": 7, "synthetic": false, "$note": "kept", "unused": null}),
        json!({"id": "g", "type": "Greet", "who": "me", "salutation": text("Hi"),
               "greeting": {"typeName": "String", "memoryReference": {"id": "v"}}}),
    ] {
        assert_eq!(validation_errors(root), []);
    }
}

#[test]
fn of_elsas_types_only_a_name_similar_to_a_missing_input_is_refused() {
    let (activity, message) = one(json!({"root": {"id": "w", "type": "Elsa.WriteLine", "txet": text("x")}}));
    assert_eq!(activity, "w");
    assert!(
        message.contains("txet") && message.contains("did you mean text?"),
        "{message}"
    );
    let (_, message) = one(json!({"root": {"id": "e", "type": "Elsa.Event", "evenName": text("E")}}));
    assert!(message.contains("did you mean eventName?"), "{message}");
    let of_another_release = json!({"id": "d", "type": "Elsa.Delay", "timeSpan": text("00:00:01"),
        "strategy": {"typeName": "DelayStrategy"}, "autoBlockingThreshold": {"typeName": "TimeSpan"}});
    assert_eq!(validation_errors(json!({"root": of_another_release})), []);
    let both = json!({"id": "w", "type": "Elsa.WriteLine", "text": text("x"), "tex": text("y")});
    assert_eq!(
        validation_errors(json!({"root": both})),
        [],
        "the similar input is given"
    );
}

#[tokio::test]
async fn a_required_input_that_is_null_faults_before_the_activity_is_called() {
    let nothing = json!({"typeName": "String", "expression": {"type": "JavaScript", "value": "null"}});
    let root = json!({"root": {"id": "g", "type": "Greet", "who": nothing}});
    let mut instance = InMemoryInstance::with(&definition(root), greets(&[1]), |_| {});
    let result = instance.start().await;
    let message = &result.state.incidents()[0].message;
    assert!(message.contains("Who") && message.contains("required"), "{message}");
    assert_eq!(instance.lines(), [""; 0]);
}

#[tokio::test]
async fn a_named_version_runs_or_none_does() {
    let named = |version: Value| json!({"root": {"id": "g", "type": "Greet", "version": version, "who": text("me")}});
    let (activity, message) = errors_with(greets(&[2, 3]), named(json!(1))).remove(0);
    assert_eq!(activity, "g");
    assert!(
        message.contains("in version 1") && message.contains("known is 2, 3"),
        "{message}"
    );
    for (registered, wanted, ran) in [
        (vec![1, 2], json!(1), 1),
        (vec![1, 2], json!(2), 2),
        // Without a version the first one runs or, if there is none, the newest.
        (vec![1, 2], json!(null), 1),
        (vec![1, 2], json!(0), 1),
        (vec![2, 3], json!(null), 3),
    ] {
        let mut instance = InMemoryInstance::with(&definition(named(wanted.clone())), greets(&registered), |_| {});
        assert_eq!(instance.program.missing_activity_types(), [""; 0]);
        instance.start().await;
        assert_eq!(
            instance.lines(),
            [format!("Hello me from {ran}")],
            "{registered:?} {wanted}"
        );
    }
    let instance = InMemoryInstance::with(&definition(named(json!(1))), greets(&[2]), |_| {});
    assert_eq!(instance.program.missing_activity_types(), ["Greet@1"]);
    // Versions of Elsa's types are ignored.
    let line = json!({"root": {"id": "w", "type": "Elsa.WriteLine", "version": 7, "text": text("x")}});
    assert_eq!(validation_errors(line), []);
}

#[test]
fn no_more_problems_are_named_than_an_answer_has_room_for() {
    let many = |one: fn(usize) -> Value| (0..300).map(one).collect::<Vec<Value>>();
    let sequence =
        |activities: Vec<Value>| json!({"root": {"id": "s", "type": "Elsa.Sequence", "activities": activities}});
    let long = "x".repeat(100_000);
    for (what, definition) in [
        (
            "types",
            sequence(many(|n| json!({"id": format!("a{n}"), "type": "Acme.Fly"}))),
        ),
        // Each id twice.
        ("ids", sequence(many(|n| write(&format!("a{}", n / 2))))),
        (
            "variables",
            json!({"root": write("w"), "variables": many(|n| json!({"id": format!("v{n}"), "name": format!("V{n}"),
                "typeName": "Int32", "value": "x"}))}),
        ),
        (
            "long names",
            sequence(vec![json!({"id": "a", "type": long.clone()}); 300]),
        ),
    ] {
        let errors = validation_errors(definition);
        assert_eq!(errors.len(), 100, "{what}");
        let longest = errors.iter().map(|(_, message)| message.len()).max();
        assert!(longest <= Some(2_100), "{what}: {longest:?}");
    }
}

#[test]
fn a_script_is_as_long_as_its_bound_and_no_longer() {
    for (length, is_refused) in [(64 << 10, false), ((64 << 10) + 1, true)] {
        let text = " ".repeat(length - 1) + "1";
        for (input, root) in [
            (
                "Script",
                json!({"id": "a", "type": "Elsa.RunJavaScript", "script": script("Literal", &text)}),
            ),
            (
                "Text",
                json!({"id": "a", "type": "Elsa.WriteLine", "text": script("JavaScript", &text)}),
            ),
        ] {
            let errors = validation_errors(json!({"root": root}));
            assert_eq!(errors.len(), usize::from(is_refused), "{input} {length}: {errors:?}");
            if let Some((activity, message)) = errors.first() {
                let named = message.contains(input) && message.contains("65537") && message.contains("65536");
                assert!(activity == "a" && named, "{message}");
            }
        }
    }
}

fn script(kind: &str, text: &str) -> Value {
    json!({"typeName": "String", "expression": {"type": kind, "value": text}})
}
