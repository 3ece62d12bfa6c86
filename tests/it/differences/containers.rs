//! Which activities of a workflow run, and which do not.

use serde_json::{Value, json};

use super::Difference;
use super::run::{entries, executed_of, id_of, lines};
use crate::support::cases::{activity, arrow, choice, event, flowchart, input, line, mode, script, sequence, text};
use crate::support::single_node::SingleNode;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "How flowcharts run if nothing says it",
        elsa: "by counts in the library; Elsa's image runs them with tokens. Only the property `Flowchart:ExecutionMode` of an \
               instance changes it",
        here: "by counts; `flowchart-mode` changes it for all workflows, and `customProperties[\"Flowchart:ExecutionMode\"]` of \
               a definition for one",
        why: "the library's default is what most definitions were drawn for, and the mode of a workflow belongs to its definition",
        other: "`flowchart-mode = \"token\"` if the definitions come from Elsa's image",
        test: "execution::tests::flowchart_tokens::the_workflow_decides_the_mode_and_else_the_server",
    },
    Difference {
        what: "`start` of a flowchart",
        elsa: "never read: the chart begins at its trigger, at an `Elsa.Start`, or at the first activity without an inbound connection",
        here: "begins there",
        why: "the property says it",
        other: "leave `start` out",
        test: "it::differences::containers::a_flowchart_begins_at_its_start",
    },
    Difference {
        what: "`Elsa.FlowJoin` with `WaitAny` behind a branch that is a container, by counts",
        elsa: "an exception (not reachable)",
        here: "cancels the other branches and goes on",
        why: "that is what the join is for",
        other: "–",
        test: "it::differences::containers::a_join_for_any_takes_branches_that_are_containers",
    },
    Difference {
        what: "A fault beside branches that are scheduled and not begun",
        elsa: "they still run, although the instance has faulted",
        here: "they do not run",
        why: "nothing runs in an instance that has ended, so its effects stop at the fault",
        other: "`ContinueWithIncidentsStrategy` (`options.incidentStrategyType`): then the other branches run",
        test: "it::differences::containers::a_fault_stops_what_is_scheduled",
    },
    Difference {
        what: "A container that completes beside children that are scheduled and not begun (`Elsa.Fork` with `WaitAny`)",
        elsa: "they still run",
        here: "they do not run",
        why: "the first branch decides, and nothing runs in a container that has ended",
        other: "`joinMode` `WaitAll`",
        test: "it::differences::containers::a_container_that_completes_drops_what_is_scheduled",
    },
    Difference {
        what: "`Elsa.Break` in an `Elsa.ParallelForEach`",
        elsa: "leaves the loop around it",
        here: "leaves the `ParallelForEach`: its other items are cancelled, and the workflow goes on behind it",
        why: "it is a loop, and its body is where the Break stands",
        other: "a Break behind the `ParallelForEach`, in the loop around it",
        test: "it::differences::containers::a_break_leaves_a_parallel_loop",
    },
    Difference {
        what: "What is between an `Elsa.Break` and its loop: a Flowchart, Parallel or Switch",
        elsa: "goes on with its other activities and with what stands behind it",
        here: "ends with the round",
        why: "a Break that does not leave what it stands in runs what its author wanted to skip",
        other: "put what is to run all the same before the Break",
        test: "it::differences::containers::a_break_ends_all_between_it_and_its_loop",
    },
    Difference {
        what: "`Elsa.Switch` and `Elsa.FlowSwitch` with `MatchFirst`",
        elsa: "all conditions are evaluated",
        here: "evaluation stops at the first match",
        why: "a later condition may rely on earlier ones being false, and costs time",
        other: "set variables in an activity before the switch, not in its conditions",
        test: "execution::tests::control_flow::a_switch_runs_the_first_case_that_matches",
    },
    Difference {
        what: "`runAsynchronously` in the `customProperties` of an activity",
        elsa: "the activity runs in the background, and its instance is suspended meanwhile",
        here: "no effect, with a warning of the publish: the workflow goes on when the activity has ended",
        why: "a burst takes no thread while an activity waits, and what runs outside of it would be lost in a crash",
        other: "`Elsa.DispatchWorkflow` for what is not to be waited for",
        test: "it::differences::containers::what_is_to_run_in_the_background_is_waited_for",
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn a_flowchart_begins_at_its_start() {
    let mut chart = flowchart(&[line("first"), line("second")], &[]);
    chart["start"] = json!("second");
    let (node, state) = executed_of(chart).await;
    assert_eq!(lines(&node.http, id_of(&state)).await, ["second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_for_any_takes_branches_that_are_containers() {
    let fork = activity(
        "Elsa.FlowFork",
        "fork",
        json!({"branches": input("String[]", "Literal", json!(["A", "B"]))}),
    );
    let join = activity(
        "Elsa.FlowJoin",
        "join",
        json!({"mode": mode("FlowJoinMode", "WaitAny")}),
    );
    let waits = sequence("waits", &[event("Never"), line("late")]);
    let runs = sequence("runs", &[line("soon")]);
    let mut chart = flowchart(
        &[fork, waits, runs, join, line("end")],
        &[
            arrow("fork", "A", "waits"),
            arrow("fork", "B", "runs"),
            arrow("waits", "Done", "join"),
            arrow("runs", "Done", "join"),
            arrow("join", "Done", "end"),
        ],
    );
    chart["start"] = json!("fork");
    let (node, state) = executed_of(chart).await;
    assert_eq!(state["subStatus"], "Finished");
    assert_eq!(lines(&node.http, id_of(&state)).await, ["soon", "end"]);
}

fn boom() -> Value {
    activity("Elsa.Fault", "boom", json!({"message": text("It broke")}))
}

fn both(activities: &[Value]) -> Value {
    activity("Elsa.Parallel", "both", json!({ "activities": activities }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_stops_what_is_scheduled() {
    let node = SingleNode::start(&[]).await;
    let strategy = json!({"incidentStrategyType": "ContinueWithIncidentsStrategy"});
    for (options, expected) in [(json!({}), vec![]), (strategy, vec!["beside"])] {
        let root = both(&[boom(), line("beside")]);
        let model = json!({"definitionId": super::run::ID, "root": root, "options": options});
        node.http.publish(&model).await;
        let state = super::run::executed(&node.http).await;
        assert_eq!(lines(&node.http, id_of(&state)).await, expected, "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_completes_drops_what_is_scheduled() {
    let fork = activity(
        "Elsa.Fork",
        "fork",
        json!({"joinMode": mode("ForkJoinMode", "WaitAny"), "branches": [line("a"), line("b")]}),
    );
    let (node, state) = executed_of(sequence("root", &[fork, line("end")])).await;
    assert_eq!(lines(&node.http, id_of(&state)).await, ["a", "end"]);
}

/// Two rounds of a body.
fn rounds(body: &Value) -> Value {
    let number = |value: i64| input("Int32", "Literal", json!(value));
    activity(
        "Elsa.For",
        "for",
        json!({"start": number(1), "end": number(2), "body": body}),
    )
}

fn leave() -> Value {
    activity("Elsa.Break", "break", json!({}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_break_leaves_a_parallel_loop() {
    let all = activity(
        "Elsa.ParallelForEach",
        "all",
        json!({"items": script("Object", "['x', 'y']"), "body": sequence("item", &[leave(), line("never")])}),
    );
    let (node, state) = executed_of(rounds(&sequence("round", &[all, line("behind")]))).await;
    // Elsa's Break leaves the outer loop, so nothing is written.
    assert_eq!(lines(&node.http, id_of(&state)).await, ["behind", "behind"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_break_ends_all_between_it_and_its_loop() {
    let chart = flowchart(&[leave(), line("next")], &[arrow("break", "Done", "next")]);
    let switch = activity(
        "Elsa.Switch",
        "switch",
        json!({"cases": [choice("A", "true", leave())]}),
    );
    for inner in [both(&[leave(), line("beside")]), chart, switch] {
        let body = sequence("round", &[inner, line("behind")]);
        let (node, state) = executed_of(sequence("root", &[rounds(&body), line("end")])).await;
        assert_eq!(lines(&node.http, id_of(&state)).await, ["end"], "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_to_run_in_the_background_is_waited_for() {
    let node = SingleNode::start(&[]).await;
    let mut first = line("first");
    first["customProperties"] = json!({"runAsynchronously": true});
    let model = json!({"definitionId": super::run::ID, "root": sequence("root", &[first, line("second")])});
    let body = json!({"model": model, "publish": true});
    let answer = node.http.post("workflow-definitions", &body).await.expect(200);
    let warnings = answer["validationErrors"].to_string();
    assert!(warnings.contains("runAsynchronously"), "{answer}");
    let state = super::run::executed(&node.http).await;
    assert_eq!(state["subStatus"], "Finished");
    let ended = entries(&node.http, id_of(&state), &["Started", "Completed"]).await;
    let ended: Vec<&String> = ended
        .iter()
        .filter(|entry| !entry.starts_with('W') && !entry.starts_with("root"))
        .collect();
    assert_eq!(
        ended,
        [
            "first: Started",
            "first: Completed",
            "second: Started",
            "second: Completed"
        ]
    );
}
