//! Flowcharts: their nodes, their loops and their joins.

use serde_json::json;

use super::{Case, activity, arrow, branch, case, event, events, flag, flowchart, input, line, mode, says, script};

pub(super) fn flowcharts() -> Vec<Case> {
    let decision = |value: bool| {
        let decision = activity("Elsa.FlowDecision", "decision", json!({"condition": flag(value)}));
        flowchart(
            &[
                activity("Elsa.Start", "start", json!({})),
                event("go"),
                decision,
                line("yes"),
                line("no"),
                activity("Elsa.End", "end", json!({})),
            ],
            &[
                arrow("start", "Done", "wait-go"),
                arrow("wait-go", "Done", "decision"),
                arrow("decision", "True", "yes"),
                arrow("decision", "False", "no"),
                arrow("yes", "Done", "end"),
                arrow("no", "Done", "end"),
            ],
        )
    };
    let switch = |word: &str, condition: &str| {
        let condition = json!({"type": "JavaScript", "value": condition});
        let cases = json!([{"label": "A", "condition": condition}, {"label": "B", "condition": condition}]);
        let switch = activity(
            "Elsa.FlowSwitch",
            "switch",
            json!({"mode": mode("SwitchMode", word), "cases": cases}),
        );
        flowchart(
            &[switch, branch("a"), branch("b"), branch("other")],
            &[
                arrow("switch", "A", "branch-a"),
                arrow("switch", "B", "branch-b"),
                arrow("switch", "Default", "branch-other"),
            ],
        )
    };
    let node = activity("Elsa.FlowNode", "node", json!({"body": branch("go")}));
    let counts = activity(
        "Elsa.SetVariable",
        "count",
        json!({"variable": {"id": "n", "name": "N"}, "value": script("Int32", "getN() + 1")}),
    );
    let again = activity(
        "Elsa.FlowDecision",
        "again",
        json!({"condition": script("Boolean", "getN() < 2")}),
    );
    let back = flowchart(
        &[event("go"), counts, says("say", "`${getN()}`"), again, line("end")],
        &[
            arrow("wait-go", "Done", "count"),
            arrow("count", "Done", "say"),
            arrow("say", "Done", "again"),
            arrow("again", "True", "wait-go"),
            arrow("again", "False", "end"),
        ],
    );
    let variable = json!([{"id": "n", "name": "N", "typeName": "Int32", "value": 0}]);
    vec![
        case("flow-decision-true", decision(true), events(&["go"]), &["yes"]),
        case("flow-decision-false", decision(false), events(&["go"]), &["no"]),
        case(
            "flow-switch-first",
            switch("MatchFirst", "true"),
            events(&["a"]),
            &["a"],
        ),
        case(
            "flow-switch-any",
            switch("MatchAny", "true"),
            events(&["b", "a"]),
            &["b", "a"],
        ),
        case(
            "flow-switch-default",
            switch("MatchFirst", "false"),
            events(&["other"]),
            &["other"],
        ),
        case(
            "flow-node",
            flowchart(&[node, line("end")], &[arrow("node", "Done", "end")]),
            events(&["go"]),
            &["go", "end"],
        ),
        case("flow-back", back, events(&["go", "go"]), &["1", "2", "end"]).with("variables", variable),
    ]
}

pub(super) fn joins() -> Vec<Case> {
    let join = |word: &str| {
        let fork = activity(
            "Elsa.FlowFork",
            "fork",
            json!({"branches": input("String[]", "Literal", json!(["A", "B"]))}),
        );
        let join = activity("Elsa.FlowJoin", "join", json!({"mode": mode("FlowJoinMode", word)}));
        flowchart(
            &[fork, branch("a"), branch("b"), join, line("end")],
            &[
                arrow("fork", "A", "branch-a"),
                arrow("fork", "B", "branch-b"),
                arrow("branch-a", "Done", "join"),
                arrow("branch-b", "Done", "join"),
                arrow("join", "Done", "end"),
            ],
        )
    };
    vec![
        case("join-all", join("WaitAll"), events(&["b", "a"]), &["b", "a", "end"]),
        case(
            "join-all-active",
            join("WaitAllActive"),
            events(&["b", "a"]),
            &["b", "a", "end"],
        ),
        case("join-any", join("WaitAny"), events(&["b"]), &["b", "end"]),
    ]
}

/// Two branches that meet at an activity, by its merge mode.
pub(super) fn tokens() -> Vec<Case> {
    let chart = |merge: &str| {
        let mut join = line("join");
        join["customProperties"] = json!({"mergeMode": merge});
        let nodes = [
            activity("Elsa.Start", "start", json!({})),
            branch("a"),
            branch("b"),
            join,
        ];
        let arrows = [
            arrow("start", "Done", "branch-a"),
            arrow("start", "Done", "branch-b"),
            arrow("branch-a", "Done", "join"),
            arrow("branch-b", "Done", "join"),
        ];
        flowchart(&nodes, &arrows)
    };
    let by = |name: &'static str, merge: &str, steps: &[&'static str], lines: &[&'static str]| {
        let properties = json!({"Flowchart:ExecutionMode": "TokenBased"});
        case(name, chart(merge), events(steps), lines).with("customProperties", properties)
    };
    let back = |name: &'static str, merge: &str, steps: &[&'static str], lines: &[&'static str]| {
        let mut join = branch("join");
        join["customProperties"] = json!({"mergeMode": merge});
        let again = activity("Elsa.FlowDecision", "again", json!({"condition": flag(false)}));
        let arrows = [
            arrow("branch-go", "Done", "branch-join"),
            arrow("branch-join", "Done", "again"),
            arrow("again", "True", "branch-join"),
        ];
        let root = flowchart(&[branch("go"), join, again], &arrows);
        case(name, root, events(steps), lines)
            .with("customProperties", json!({"Flowchart:ExecutionMode": "TokenBased"}))
    };
    vec![
        by("tokens-stream", "Stream", &["b", "a"], &["b", "a", "join"]),
        by("tokens-merge", "Merge", &["b", "a"], &["b", "a", "join"]),
        by("tokens-converge", "Converge", &["b", "a"], &["b", "a", "join"]),
        by("tokens-race", "Race", &["b"], &["b", "join"]),
        by("tokens-none", "None", &["b", "a"], &["b", "a", "join"]),
        // The first token runs it, the second one is taken away.
        by("tokens-cascade", "Cascade", &["b", "a"], &["b", "join", "a"]),
        back("tokens-merge-back", "Merge", &["go", "join"], &["go", "join"]),
        // It waits for the connection that leads back, too, which nothing takes before it has run.
        back("tokens-converge-back", "Converge", &["go"], &["go"]),
    ]
}
