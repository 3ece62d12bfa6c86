//! State machines, tries and loops with their condition at the end.

use serde_json::{Value, json};

use super::{Case, activity, branch, case, event, events, input, line, says, script, sequence, text};

pub(super) fn state_machines() -> Vec<Case> {
    let state = |name: &str| json!({"name": name, "entry": branch(&format!("{name}-entry")), "exit": line(&format!("{name}-exit"))});
    let machine = activity(
        "Elsa.StateMachine",
        "machine",
        json!({"initialState": "new", "states": [state("new"), {"name": "paid", "entry": line("paid-entry")}, {"name": "lost"}],
            "transitions": [
                {"from": "new", "to": "paid", "trigger": event("pay"), "action": branch("action")},
                {"from": "new", "to": "lost", "trigger": event("lose")}]}),
    );
    vec![case(
        "state-machine",
        sequence("root", &[machine, line("end")]),
        events(&["new-entry", "pay", "action"]),
        &["new-entry", "action", "new-exit", "paid-entry", "end"],
    )]
}

pub(super) fn tries() -> Vec<Case> {
    let fault = |id: &str| {
        activity(
            "Elsa.Fault",
            id,
            json!({"code": text("E1"), "message": text("It broke")}),
        )
    };
    let attempt = |part: Value| {
        let attempt = activity(
            "Mainspring.Try",
            "attempt",
            json!({"try": part, "catch": branch("catch"), "finally": branch("finally")}),
        );
        sequence("root", &[attempt, line("end")])
    };
    let by = |filter: &str, values: &[&str]| {
        let mut attempt = activity(
            "Mainspring.Try",
            "attempt",
            json!({"try": sequence("tries", &[branch("try"), fault("boom")]), "catch": branch("catch")}),
        );
        attempt[filter] = input("String[]", "Literal", json!(values));
        sequence("root", &[attempt, line("end")])
    };
    let throws = sequence("tries", &[branch("try"), fault("boom"), line("never")]);
    vec![
        case(
            "try-catch-finally",
            attempt(throws),
            events(&["try", "catch", "finally"]),
            &["try", "catch", "finally", "end"],
        ),
        case(
            "catch-code",
            by("catchCodes", &["E0", "e1"]),
            events(&["try", "catch"]),
            &["try", "catch", "end"],
        ),
        case(
            "catch-category",
            by("catchCategories", &["General"]),
            events(&["try", "catch"]),
            &["try", "catch", "end"],
        ),
        case(
            "catch-other-code",
            by("catchCodes", &["E2"]),
            events(&["try"]),
            &["try"],
        )
        .ends("Faulted"),
        case(
            "catch-other-category",
            by("catchCategories", &["Script"]),
            events(&["try"]),
            &["try"],
        )
        .ends("Faulted"),
        case(
            "try-without-fault",
            attempt(branch("try")),
            events(&["try", "finally"]),
            &["try", "finally", "end"],
        ),
    ]
}

pub(super) fn do_while() -> Vec<Case> {
    let counts = activity(
        "Elsa.SetVariable",
        "count",
        json!({"variable": {"id": "n", "name": "N"}, "value": script("Int32", "getN() + 1")}),
    );
    let body = sequence("body", &[event("go"), counts, says("say", "`${getN()}`")]);
    let looping = activity(
        "Mainspring.DoWhile",
        "loop",
        json!({"body": body, "condition": script("Boolean", "getN() < 2")}),
    );
    let variable = json!([{"id": "n", "name": "N", "typeName": "Int32", "value": 0}]);
    let looping = sequence("root", &[looping, line("end")]);
    vec![case("do-while", looping, events(&["go", "go"]), &["1", "2", "end"]).with("variables", variable)]
}
