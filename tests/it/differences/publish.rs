//! What a publish accepts, warns of, and refuses.

use serde_json::json;

use super::Difference;
use super::run::ID;
use crate::support::assert_contains;
use crate::support::cases::{activity, arrow, flowchart, input, line, sequence, text};
use crate::support::single_node::SingleNode;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "A Switch without cases, a SetVariable without a variable, a Delay with `canStartWorkflow`, a connection to a missing \
               activity, and variables, inputs or outputs whose names differ in case only",
        elsa: "published without a word; the connection is dropped",
        here: "published, with a warning for each",
        why: "it runs as in Elsa, and its author hardly intends it",
        other: "ignore the warnings",
        test: "it::differences::publish::what_does_nothing_is_published_with_warnings",
    },
    Difference {
        what: "A connection from a port that does not exist, a join that a decision keeps from being complete, a trigger that leads \
               nowhere, a variable that hides another, and an unknown `mergeMode`",
        elsa: "published without a word",
        here: "published, with a warning for each",
        why: "as above",
        other: "ignore the warnings",
        test: "execution::tests::warnings::a_connection_from_a_port_that_does_not_exist_is_a_warning",
    },
    Difference {
        what: "A trigger whose inputs cannot be evaluated",
        elsa: "published; the log has a warning, and the trigger never starts anything",
        here: "refused (400 `invalid-trigger`, `invalid-schedule`)",
        why: "a workflow that is never started gives no error",
        other: "set `canStartWorkflow` to `false`",
        test: "it::differences::publish::a_trigger_that_cannot_be_evaluated_is_refused",
    },
    Difference {
        what: "An activity of a type that the server does not know",
        elsa: "published; it faults when it is executed",
        here: "refused, by its name",
        why: "an instance does not stop in its middle because of what was known before it began",
        other: "save a draft: it keeps the activity",
        test: "execution::tests::validation::an_unknown_type_is_named",
    },
    Difference {
        what: "Activities for BPMN, the console's input and Python, and methods of the host",
        elsa: "run, with their modules",
        here: "refused, with what to use instead",
        why: "they need what a node does not have: a terminal, or code of .NET",
        other: "what the message says: `Elsa.RunTask` for a program that does the step, `Elsa.Event` for what comes from outside",
        test: "execution::tests::validation::activities_of_elsa_that_do_not_run_are_refused_with_a_remedy",
    },
    Difference {
        what: "An id of two activities, a name of two variables, an unknown strategy or mode, an `Elsa.For` with the step 0, and a \
               state without a name of its own",
        elsa: "published; the first of two is found, what is unknown has its default or faults, and the loop never ends",
        here: "refused",
        why: "it cannot do what it says",
        other: "another id or name, a known strategy or mode, or another step",
        test: "execution::tests::validation::what_is_ambiguous_unknown_or_endless_is_refused",
    },
    Difference {
        what: "A property of an activity with a name that resembles one of its inputs (`txet`)",
        elsa: "ignored",
        here: "refused, if the activity lacks that input",
        why: "it is misspelt, and its input would have its default",
        other: "another name, or the input beside it",
        test: "execution::tests::validation::of_elsas_types_only_a_name_similar_to_a_missing_input_is_refused",
    },
    Difference {
        what: "A literal that does not fit the type of its input",
        elsa: "published; the input has the default of its type, or faults",
        here: "refused",
        why: "it can never fit",
        other: "an expression, which is converted when it is evaluated",
        test: "execution::tests::validation::a_literal_of_the_wrong_type_is_refused",
    },
    Difference {
        what: "Scripts of JavaScript, C# and Liquid that cannot be parsed",
        elsa: "published; they fault when they are evaluated",
        here: "refused, with line and column",
        why: "as above",
        other: "save a draft",
        test: "expression::javascript::tests::syntax::a_script_that_cannot_be_parsed_is_refused_with_its_place",
    },
    Difference {
        what: "A script that reads a name that nothing defines",
        elsa: "published without a word",
        here: "published, with a warning that has line and column",
        why: "it is misspelt more often than not",
        other: "`typeof name` in the script, or ignore the warning",
        test: "execution::tests::warnings::a_name_that_nothing_defines_is_a_warning",
    },
    Difference {
        what: "A save or import that equals the published latest version",
        elsa: "a new version",
        here: "no new version: the published one is the answer (`alreadyPublished`)",
        why: "a deployment that imports the same files again changes nothing",
        other: "change anything, as a custom property",
        test: "it::library::engine::an_equal_definition_makes_no_new_version",
    },
    Difference {
        what: "An expression as log persistence mode (`logPersistenceConfig`)",
        elsa: "evaluated",
        here: "refused: only literals",
        why: "what is recorded of a workflow is known before it runs",
        other: "a literal for each property",
        test: "execution::tests::data::what_is_excluded_is_recorded_nowhere",
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn what_does_nothing_is_published_with_warnings() {
    let node = SingleNode::start(&[]).await;
    let switch = activity("Elsa.Switch", "switch", json!({"cases": []}));
    let set = activity("Elsa.SetVariable", "set", json!({"value": text("x")}));
    let delay = activity(
        "Elsa.Delay",
        "delay",
        json!({"timeSpan": input("TimeSpan", "Literal", json!("00:00:00.001")), "canStartWorkflow": true}),
    );
    let never = activity(
        "Elsa.If",
        "if",
        json!({"condition": input("Boolean", "Literal", json!(false)), "then": delay}),
    );
    let root = flowchart(
        &[switch, set, sequence("end", &[never, line("last")])],
        &[
            arrow("switch", "Done", "set"),
            arrow("set", "Done", "end"),
            arrow("end", "Done", "gone"),
        ],
    );
    let variable = |id: &str, name: &str| json!({"id": id, "name": name, "typeName": "String"});
    let model = json!({"definitionId": ID, "root": root, "variables": [variable("v", "Word"), variable("w", "word")],
        "inputs": [{"name": "no", "type": "String"}, {"name": "No", "type": "String"}]});
    let body = json!({"model": model, "publish": true});
    let answer = node.http.post("workflow-definitions", &body).await.expect(200);
    let warnings = answer["validationErrors"].to_string();
    assert_contains(
        &warnings,
        &[
            "variables Word and word differ in case only",
            "inputs no and No differ in case only",
            "has no cases",
            "names no variable",
            "a delay only waits and starts nothing",
            "so it is dropped",
        ],
    );
    let state = super::run::executed(&node.http).await;
    assert_eq!(state["subStatus"], "Finished", "{state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_cannot_be_evaluated_is_refused() {
    let node = SingleNode::start(&[]).await;
    let name = json!({"typeName": "String", "expression": {"type": "JavaScript", "value": "missing.member"}});
    let mut trigger = activity(
        "Elsa.Event",
        "event",
        json!({"eventName": name, "canStartWorkflow": true}),
    );
    let model = json!({"definitionId": ID, "root": trigger});
    let body = json!({"model": model, "publish": true});
    let refused = node.http.post("workflow-definitions", &body).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_contains(&refused.body.to_string(), &["event", "missing"]);
    trigger["canStartWorkflow"] = json!(false);
    node.publish(ID, trigger).await;
}
