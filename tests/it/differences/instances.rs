//! What an instance keeps, what it may take, and what its journal says.

use serde_json::{Value, json};

use super::Difference;
use super::run::{ID, entries, executed, executed_of, id_of, journal, resumed};
use crate::support::cases::{activity, event, input, line, script, sequence, text};
use crate::support::single_node::SingleNode;
use crate::support::{Http, assert_contains};

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "What survives a wait",
        elsa: "not variables and inputs without a storage driver, outputs of activities, the last result, and undeclared \
               variables of scripts",
        here: "all of it",
        why: "a workflow gives the same whether or not it has waited, and on which node it goes on",
        other: "`storageDriverTypeName` `Memory` of a variable: it has its initial value again after each wait",
        test: "it::differences::instances::all_that_was_set_survives_a_wait",
    },
    Difference {
        what: "`getOutputFrom(activity, output)`",
        elsa: "finds activities of the nearest container only, and the first value of the burst",
        here: "finds every activity of the definition, and the newest value",
        why: "the value that was just set is the one that is meant, from wherever it is read",
        other: "bind the output to a variable of the container, and read that",
        test: "it::differences::instances::outputs_are_found_everywhere_with_their_newest_value",
    },
    Difference {
        what: "Activities that an instance executes without waiting",
        elsa: "no limit",
        here: "at most `executions-without-wait` (100,000), else the incident `execution-limit`",
        why: "an endless loop ends, and holds no worker for ever",
        other: "raise the setting, which the message names",
        test: "it::differences::instances::an_instance_executes_so_much_without_waiting",
    },
    Difference {
        what: "Activities of an instance that execute or wait at once",
        elsa: "no limit",
        here: "at most `open-executions` (10,000), else the incident `execution-limit`",
        why: "each is in the state, which every burst reads and writes",
        other: "raise the setting, which the message names, or set `mainspringDegreeOfParallelism`",
        test: "it::differences::instances::an_instance_has_so_many_open_activities",
    },
    Difference {
        what: "The size of one variable, input, output or payload",
        elsa: "no limit",
        here: "at most `value-kib` (1 MiB) of JSON: else an incident, or 413 `value-too-large`",
        why: "each is in the state, which every burst reads and writes",
        other: "raise the setting, which the message names",
        test: "it::differences::instances::a_value_has_so_many_bytes",
    },
    Difference {
        what: "The time of one call of an activity",
        elsa: "no limit",
        here: "at most `activity-timeout` (10 min), or what its type or its `customProperties.activityTimeout` says, else the \
               incident `activity-timeout`",
        why: "a call that never returns holds its instance for ever",
        other: "raise the setting, which the message names",
        test: "execution::tests::activity_timeout::a_call_that_does_not_return_is_dropped_and_faults",
    },
    Difference {
        what: "How many items a loop or a bulk dispatch has at once, and what a workflow uses",
        elsa: "no limits",
        here: "`Elsa.ParallelForEach` 10,000 at once, `Elsa.BulkDispatchWorkflows` 50,000 children (`too-many-items`); 32 levels \
               of children that are executed (`nesting-limit`); 32 levels, 20,000 activities and 128 MiB of workflows as activities \
               (`composition-too-large`)",
        why: "a wrong list or a workflow that uses itself does not take the database",
        other: "`mainspringDegreeOfParallelism`; several dispatches; `Elsa.DispatchWorkflow` without waiting",
        test: "execution::tests::composition::wrong_inputs_are_incidents_that_name_them",
    },
    Difference {
        what: "The journal of a cancelled instance, and of one that `Elsa.Finish` ends",
        elsa: "one entry for the workflow; what waited stays `Running` in the activity executions",
        here: "an entry for each activity that it ends: `Canceled` of what waited, `Completed` of what a Finish is in",
        why: "the canvas shows nothing as running in an instance that has ended",
        other: "filter the entries of activities out: `filter.activityIds` `[\"Workflow1\"]`",
        test: "it::differences::instances::each_activity_that_ends_with_its_instance_has_an_entry",
    },
    Difference {
        what: "The payload of the entry `Completed` of the journal",
        elsa: "none",
        here: "`{Outcomes}`",
        why: "it says which way the workflow took",
        other: "leave it unread",
        test: "it::differences::instances::an_entry_of_a_completion_has_its_outcomes",
    },
    Difference {
        what: "The payload of the entry `Faulted` of the journal",
        elsa: "`{Exception, Message, Source, …}`",
        here: "`{type, message, code, category, faultType}`",
        why: "there is no exception of .NET with a stack; programs use `code`",
        other: "read `message` for `Message`, and `type` for `Exception`",
        test: "it::differences::instances::an_entry_of_a_fault_has_its_code",
    },
    Difference {
        what: "The entry of an activity that is executed again while it waits",
        elsa: "`Resumed`",
        here: "`Started`: an execution of its own",
        why: "each execution has one start and one end, so counts agree",
        other: "count `Started`",
        test: "it::differences::instances::a_further_execution_of_a_waiting_activity_is_started",
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn all_that_was_set_survives_a_wait() {
    let node = SingleNode::start(&[]).await;
    let set = |id: &str, name: &str| {
        activity(
            "Elsa.SetVariable",
            id,
            json!({"variable": {"id": name, "name": name}, "value": script("Int32", "2")}),
        )
    };
    let runs = activity(
        "Elsa.RunJavaScript",
        "run",
        json!({"script": text("setVariable('Loose', 4); return 5")}),
    );
    // A wait that gives no result of its own.
    let delay = activity(
        "Elsa.Delay",
        "delay",
        json!({"timeSpan": input("TimeSpan", "Literal", json!("01:00:00"))}),
    );
    let all = "[getKept(), getInMemory(), getVariable('Loose'), getOutputFrom('run', 'Result'), getLastResult(), \
               getInput('Word')].join()";
    let says = activity(
        "Elsa.SetOutput",
        "out",
        json!({"outputName": text("All"), "outputValue": script("String", all)}),
    );
    let variable = |name: &str| json!({"id": name, "name": name, "typeName": "Int32", "value": 1});
    let mut in_memory = variable("InMemory");
    in_memory["storageDriverTypeName"] = json!("Memory");
    let root = sequence(
        "root",
        &[set("set", "Kept"), set("also", "InMemory"), runs, delay, says],
    );
    let model = json!({"definitionId": ID, "root": root, "variables": [variable("Kept"), in_memory],
        "inputs": [{"name": "Word", "type": "String"}], "outputs": [{"name": "All", "type": "String"}]});
    node.http.publish(&model).await;
    let state = node.http.execute(ID, &json!({"input": {"Word": "hi"}})).await["workflowState"].clone();
    assert_eq!(state["subStatus"], "Suspended");
    let ended = resumed(&node.http, &state).await;
    assert_eq!(ended["output"]["All"], "2,1,4,5,5,hi", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_found_everywhere_with_their_newest_value() {
    let run = |id: &str, code: &str| activity("Elsa.RunJavaScript", id, json!({"script": text(code)}));
    let number = |value: i64| input("Int32", "Literal", json!(value));
    let rounds = activity(
        "Elsa.For",
        "for",
        json!({"start": number(1), "end": number(3), "outerBoundInclusive": input("Boolean", "Literal", json!(true)),
            "body": sequence("round", &[run("each", "return variables.CurrentValue")])}),
    );
    let both = "getOutputFrom('outer', 'Result') + getOutputFrom('each', 'Result')";
    let reads = sequence("inner", &[run("sum", &format!("return {both}"))]);
    let root = sequence(
        "root",
        &[
            run("outer", "return 10"),
            rounds,
            reads,
            run("all", "setVariable('Sum', getOutputFrom('sum', 'Result'))"),
        ],
    );
    let node = SingleNode::start(&[]).await;
    let variable = json!({"id": "s", "name": "Sum", "typeName": "Int32"});
    node.http
        .publish(&json!({"definitionId": ID, "root": root, "variables": [variable]}))
        .await;
    let state = executed(&node.http).await;
    assert_eq!(state["properties"]["Variables"]["Sum"], 13, "{state}");
}

/// The message of the only incident of an instance that executes a workflow on a node with a setting.
async fn incident(setting: [&str; 2], root: Value) -> String {
    let node = SingleNode::start(&setting).await;
    node.publish(ID, root).await;
    let state = executed(&node.http).await;
    assert_eq!(state["subStatus"], "Faulted");
    state["incidents"][0]["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_executes_so_much_without_waiting() {
    let always = input("Boolean", "Literal", json!(true));
    let endless = activity(
        "Elsa.While",
        "loop",
        json!({"condition": always, "body": line("again")}),
    );
    let message = incident(["--executions-without-wait", "50"], endless).await;
    assert_contains(&message, &["50", "executions-without-wait"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_has_so_many_open_activities() {
    let all = activity(
        "Elsa.ParallelForEach",
        "all",
        json!({"items": script("Object", "[1, 2, 3, 4, 5, 6]"), "body": event("Go")}),
    );
    let message = incident(["--open-executions", "5"], all).await;
    assert_contains(&message, &["5", "open-executions"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_has_so_many_bytes() {
    let node = SingleNode::start(&["--value-kib", "2"]).await;
    let code = "setVariable('Large', 'x'.repeat(3000))";
    node.publish(ID, activity("Elsa.RunJavaScript", "run", json!({"script": text(code)})))
        .await;
    let state = executed(&node.http).await;
    let message = state["incidents"][0]["message"].as_str().unwrap();
    assert_contains(message, &["The variable Large", "2048", "value-kib"]);
    let large = json!({"input": {"Large": "x".repeat(3000)}});
    let refused = node
        .http
        .post(&format!("workflow-definitions/{ID}/execute"), &large)
        .await;
    refused.assert_refused(413, "value-too-large");
    assert_contains(refused.body["message"].as_str().unwrap(), &["2048", "value-kib"]);
}

/// Cancels an instance.
async fn cancelled(http: &Http, id: &str) {
    http.post(&format!("cancel/workflow-instances/{id}"), &json!({})).await;
    http.instance_becomes(id, "Cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_activity_that_ends_with_its_instance_has_an_entry() {
    let (node, state) = executed_of(sequence("root", &[event("Go")])).await;
    cancelled(&node.http, id_of(&state)).await;
    let ended = entries(&node.http, id_of(&state), &["Canceled"]).await;
    assert!(ended.contains(&"wait-Go: Canceled".to_owned()), "{ended:?}");

    let finish = activity("Elsa.Finish", "finish", json!({}));
    let both = activity("Elsa.Parallel", "both", json!({"activities": [event("Go"), finish]}));
    let (node, state) = executed_of(both).await;
    assert_eq!(state["subStatus"], "Finished");
    let mut all = entries(&node.http, id_of(&state), &["Canceled", "Completed"]).await;
    all.sort();
    let expected = [
        "Workflow1: Completed",
        "both: Completed",
        "finish: Completed",
        "wait-Go: Canceled",
    ];
    assert_eq!(all, expected);
}

/// The payload of the entry of an activity.
async fn payload(http: &Http, state: &Value, activity: &str, name: &str) -> Value {
    let all = journal(http, id_of(state)).await;
    let mut found = all
        .iter()
        .filter(|entry| entry["activityId"] == activity && entry["eventName"] == name);
    let entry = found
        .next()
        .unwrap_or_else(|| panic!("no {name} of {activity}: {all:?}"));
    entry["payload"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_a_completion_has_its_outcomes() {
    let (node, state) = executed_of(line("a")).await;
    let payload = payload(&node.http, &state, "a", "Completed").await;
    assert_eq!(payload["Outcomes"], json!(["Done"]), "{payload}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_a_fault_has_its_code() {
    let fault = json!({"message": text("It broke"), "code": text("E7"), "category": text("Shop"), "faultType": text("Business")});
    let (node, state) = executed_of(activity("Elsa.Fault", "boom", fault)).await;
    let payload = payload(&node.http, &state, "boom", "Faulted").await;
    assert_eq!(payload["message"], "It broke", "{payload}");
    assert_eq!(
        (&payload["code"], &payload["category"]),
        (&json!("E7"), &json!("Shop")),
        "{payload}"
    );
    assert_eq!(payload["faultType"], "Business", "{payload}");
    assert!(
        payload["type"].is_string() && payload["Exception"].is_null(),
        "{payload}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_further_execution_of_a_waiting_activity_is_started() {
    let all = activity(
        "Elsa.ParallelForEach",
        "all",
        json!({"items": script("Object", "[1, 2]"), "body": event("Go")}),
    );
    let (node, state) = executed_of(all).await;
    let seen = entries(&node.http, id_of(&state), &["Started", "Resumed"]).await;
    let of_event: Vec<&String> = seen.iter().filter(|entry| entry.starts_with("wait-Go")).collect();
    assert_eq!(of_event, ["wait-Go: Started", "wait-Go: Started"]);
}
