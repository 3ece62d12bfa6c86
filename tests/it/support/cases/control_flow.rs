//! Containers, branches and loops.

use serde_json::{Value, json};

use super::{
    Case, activity, branch, case, choice, event, events, flag, input, line, mode, says, script, sequence, text,
};

pub(super) fn containers() -> Vec<Case> {
    let both = activity(
        "Elsa.Parallel",
        "both",
        json!({"activities": [branch("a"), branch("b")]}),
    );
    let fork = |word: &str| {
        let fork = activity(
            "Elsa.Fork",
            "fork",
            json!({"joinMode": mode("ForkJoinMode", word), "branches": [branch("a"), branch("b")]}),
        );
        sequence("root", &[fork, line("end")])
    };
    vec![
        case(
            "sequence",
            sequence("root", &[line("first"), event("a"), line("last")]),
            events(&["a"]),
            &["first", "last"],
        ),
        case(
            "parallel",
            sequence("root", &[both, line("end")]),
            events(&["b", "a"]),
            &["b", "a", "end"],
        ),
        case("fork-all", fork("WaitAll"), events(&["b", "a"]), &["b", "a", "end"]),
        case("fork-any", fork("WaitAny"), events(&["b"]), &["b", "end"]),
    ]
}

pub(super) fn branches() -> Vec<Case> {
    let decide = |value: bool| {
        let decision = activity(
            "Elsa.If",
            "if",
            json!({"condition": flag(value), "then": branch("yes"), "else": branch("no")}),
        );
        sequence("root", &[decision, line("end")])
    };
    let switch = |word: &str, first: &str| {
        let cases = [choice("A", first, branch("a")), choice("B", first, branch("b"))];
        let switch = activity(
            "Elsa.Switch",
            "switch",
            json!({"mode": mode("SwitchMode", word), "cases": cases, "default": branch("other")}),
        );
        sequence("root", &[switch, line("end")])
    };
    vec![
        case("if-then", decide(true), events(&["yes"]), &["yes", "end"]),
        case("if-else", decide(false), events(&["no"]), &["no", "end"]),
        case(
            "switch-first",
            switch("MatchFirst", "true"),
            events(&["a"]),
            &["a", "end"],
        ),
        case(
            "switch-any",
            switch("MatchAny", "true"),
            events(&["b", "a"]),
            &["b", "a", "end"],
        ),
        case(
            "switch-default",
            switch("MatchAny", "false"),
            events(&["other"]),
            &["other", "end"],
        ),
    ]
}

pub(super) fn loops() -> Vec<Case> {
    let round = |value: &str| sequence("body", &[event("go"), says("say", value)]);
    let counted = |start: i64, end: i64, step: i64, inclusive: bool| {
        let number = |value: i64| input("Int32", "Literal", json!(value));
        activity(
            "Elsa.For",
            "loop",
            json!({"start": number(start), "end": number(end), "step": number(step), "outerBoundInclusive": flag(inclusive),
                "body": round("`${variables.CurrentValue}`")}),
        )
    };
    let items = script("Object", "['x', 'y']");
    let each = activity(
        "Elsa.ForEach",
        "loop",
        json!({"items": items, "body": round("getCurrentValue()")}),
    );
    let own = activity(
        "Elsa.Event",
        "own",
        json!({"eventName": script("String", "'go-' + variables.CurrentValue")}),
    );
    let all = sequence(
        "body",
        &[
            says("before", "variables.CurrentValue"),
            own,
            says("after", "variables.CurrentValue"),
        ],
    );
    let parallel = activity("Elsa.ParallelForEach", "loop", json!({"items": items, "body": all}));
    let counts = activity(
        "Elsa.SetVariable",
        "count",
        json!({"variable": {"id": "n", "name": "N"}, "value": script("Int32", "getN() + 1")}),
    );
    let counting = sequence("body", &[event("go"), counts, says("say", "`${getN()}`")]);
    let while_loop = activity(
        "Elsa.While",
        "loop",
        json!({"condition": script("Boolean", "getN() < 2"), "body": counting}),
    );
    let variable = json!([{"id": "n", "name": "N", "typeName": "Int32", "value": 0}]);
    let breaks = || {
        sequence(
            "body",
            &[
                event("go"),
                line("once"),
                activity("Elsa.Break", "break", json!({})),
                line("never"),
            ],
        )
    };
    let left = |looping: Value| sequence("root", &[looping, line("end")]);
    let endless = activity("Elsa.While", "loop", json!({"condition": flag(true), "body": breaks()}));
    let for_each = |type_name: &str| activity(type_name, "loop", json!({"items": items, "body": breaks()}));
    let number = |value: i64| input("Int32", "Literal", json!(value));
    let for_loop = activity(
        "Elsa.For",
        "loop",
        json!({"start": number(1), "end": number(3), "body": breaks()}),
    );
    vec![
        case("while", left(while_loop), events(&["go", "go"]), &["1", "2", "end"]).with("variables", variable),
        case(
            "for-inclusive",
            left(counted(1, 2, 1, true)),
            events(&["go", "go"]),
            &["1", "2", "end"],
        ),
        case(
            "for-exclusive",
            left(counted(1, 2, 1, false)),
            events(&["go"]),
            &["1", "end"],
        ),
        case(
            "for-downwards",
            left(counted(3, 1, -2, true)),
            events(&["go", "go"]),
            &["3", "1", "end"],
        ),
        case("for-each", left(each), events(&["go", "go"]), &["x", "y", "end"]),
        case(
            "parallel-for-each",
            left(parallel),
            events(&["go-y", "go-x"]),
            &["x", "y", "y", "x", "end"],
        ),
        case("break-while", left(endless), events(&["go"]), &["once", "end"]),
        case("break-for", left(for_loop), events(&["go"]), &["once", "end"]),
        case(
            "break-for-each",
            left(for_each("Elsa.ForEach")),
            events(&["go"]),
            &["once", "end"],
        ),
        case(
            "break-parallel-for-each",
            left(for_each("Elsa.ParallelForEach")),
            events(&["go"]),
            &["once", "end"],
        ),
    ]
}

/// Breaks out of what is inside a loop, and what else a loop may be: one of the branches waits when the other one breaks.
pub(super) fn breaks() -> Vec<Case> {
    let inside = |container: Value| {
        let body = sequence("body", &[line("round"), container, line("never")]);
        let endless = activity("Elsa.While", "loop", json!({"condition": flag(true), "body": body}));
        sequence("root", &[endless, line("end")])
    };
    let leaves = || sequence("leaves", &[event("go"), activity("Elsa.Break", "break", json!({}))]);
    let fork = |word: &str| {
        activity(
            "Elsa.Fork",
            "fork",
            json!({"joinMode": mode("ForkJoinMode", word), "branches": [leaves(), branch("other")]}),
        )
    };
    let switch = activity(
        "Elsa.Switch",
        "switch",
        json!({"mode": mode("SwitchMode", "MatchAny"),
            "cases": [choice("A", "true", leaves()), choice("B", "true", branch("other"))]}),
    );
    let both = activity(
        "Elsa.Parallel",
        "both",
        json!({"activities": [leaves(), branch("other")]}),
    );
    let guarded = activity(
        "Mainspring.Try",
        "attempt",
        json!({"try": leaves(), "finally": branch("finally")}),
    );
    let once = activity(
        "Mainspring.DoWhile",
        "loop",
        json!({"condition": flag(true), "body": sequence("body", &[leaves(), line("never")])}),
    );
    let out = |name: &'static str, container: Value| case(name, inside(container), events(&["go"]), &["round", "end"]);
    let say = |id: &str| says(id, "getCurrentValue()");
    let own = activity(
        "Elsa.Event",
        "own",
        json!({"eventName": script("String", "'go-' + getCurrentValue()")}),
    );
    let rounds = || sequence("body", &[say("before"), own.clone(), say("after")]);
    let items = || script("Object", "['x', 'y', 'z']");
    let sets = activity(
        "Elsa.SetVariable<String>",
        "set",
        json!({"variable": {"id": "s", "name": "S", "typeName": "String"}, "value": text("set")}),
    );
    vec![
        out("break-fork-all", fork("WaitAll")),
        out("break-fork-any", fork("WaitAny")),
        out("break-switch", switch),
        out("break-parallel", both),
        case(
            "break-try-finally",
            inside(guarded),
            events(&["go", "finally"]),
            &["round", "finally", "end"],
        ),
        case(
            "break-do-while",
            sequence("root", &[once, line("end")]),
            events(&["go"]),
            &["end"],
        ),
        case(
            "parallel-for-each-degree",
            activity(
                "Elsa.ParallelForEach",
                "loop",
                json!({"items": items(), "mainspringDegreeOfParallelism": input("Int32", "Literal", json!(2)), "body": rounds()}),
            ),
            events(&["go-y", "go-z", "go-x"]),
            &["x", "y", "y", "z", "z", "x"],
        ),
        case(
            "generic-forms",
            sequence(
                "root",
                &[
                    activity("Elsa.ForEach<String>", "each", json!({"items": script("Object", "['x']"), "body": rounds()})),
                    activity("Elsa.ParallelForEach<String>", "all", json!({"items": script("Object", "['y']"),
                        "body": sequence("inner", &[activity("Elsa.Event", "inner-wait", json!({"eventName": script("String", "'go-' + getCurrentValue()")}))])})),
                    sets,
                    says("say", "getS()"),
                ],
            ),
            events(&["go-x", "go-y"]),
            &["x", "x", "set"],
        )
        .with("variables", json!([{"id": "s", "name": "S", "typeName": "String"}])),
    ]
}
