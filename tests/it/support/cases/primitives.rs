//! Activities that touch one value each, wait for a time or end the workflow.

use serde_json::{Value, json};

use super::{
    Case, Step, activity, arrow, branch, case, event, events, flag, flowchart, input, line, says, script, sequence,
    text,
};

pub(super) fn primitives() -> Vec<Case> {
    let bound = |id: &str| json!({"typeName": "Object", "memoryReference": {"id": id}});
    let variable = json!([{"id": "v", "name": "V", "typeName": "Object"}]);
    let hears = activity(
        "Elsa.Event",
        "hears",
        json!({"eventName": text("word"), "result": bound("v")}),
    );
    let task = activity(
        "Elsa.RunTask",
        "task",
        json!({"taskName": text("weigh"), "payload": script("ObjectDictionary", "({n: 1})"), "result": bound("v")}),
    );
    let publish = |local: bool, correlation: &str| {
        activity(
            "Elsa.PublishEvent",
            "publish",
            json!({"eventName": text(&format!("own-{local}-{correlation}")), "isLocalEvent": flag(local),
                "correlationId": text(correlation), "payload": text("mine")}),
        )
    };
    let hears_own = |local: bool, correlation: &str| {
        let name = format!("own-{local}-{correlation}");
        let hears = activity(
            "Elsa.Event",
            "hears",
            json!({"eventName": text(&name), "result": bound("v")}),
        );
        sequence(
            "root",
            &[event("go"), publish(local, correlation), hears, says("say", "getV()")],
        )
    };
    let set = |value: &str| {
        activity(
            "Elsa.SetVariable",
            "set",
            json!({"variable": {"id": "v", "name": "V"}, "value": script("Object", value)}),
        )
    };
    let names = sequence(
        "root",
        &[
            activity("Elsa.SetName", "name", json!({"value": text("named")})),
            activity("Elsa.Correlate", "correlate", json!({"correlationId": text("changed")})),
            event("go"),
            says("say", "`${getCorrelationId()}`"),
            activity(
                "Elsa.SetOutput",
                "out",
                json!({"outputName": text("Out"), "outputValue": text("given")}),
            ),
        ],
    );
    vec![
        case(
            "event",
            sequence("root", &[hears, says("say", "getV().word")]),
            vec![Step::Event("word", json!({"word": "hello"}))],
            &["hello"],
        )
        .with("variables", variable.clone()),
        case(
            "run-task",
            sequence("root", &[task, says("say", "`${getV()} g`")]),
            vec![Step::Task(json!(12))],
            &["12 g"],
        )
        .with("variables", variable.clone()),
        case("publish-event", hears_own(false, ""), events(&["go"]), &["mine"]).with("variables", variable.clone()),
        case("publish-local-event", hears_own(true, ""), events(&["go"]), &["mine"])
            .with("variables", variable.clone()),
        case(
            "publish-correlated-event",
            hears_own(false, "c"),
            events(&["go"]),
            &["mine"],
        )
        .with("variables", variable.clone()),
        case(
            "set-variable",
            sequence(
                "root",
                &[set("({a: [1]})"), event("go"), says("say", "JSON.stringify(getV())")],
            ),
            events(&["go"]),
            &["{\"a\":[1]}"],
        )
        .with("variables", variable),
        case("names-and-outputs", names, events(&["go"]), &["changed"])
            .with("outputs", json!([{"name": "Out", "type": "String"}]))
            .gives(json!({"Out": "given"})),
    ]
}

/// Scripts as activities: the result, the outcomes, and a wait behind them.
pub(super) fn scripts() -> Vec<Case> {
    let run = |type_name: &str, script: &str| {
        let bound = json!({"typeName": "Object", "memoryReference": {"id": "v"}});
        activity(type_name, "run", json!({"script": text(script), "result": bound}))
    };
    let chart = |type_name: &str, script: &str| {
        flowchart(
            &[
                run(type_name, script),
                line("A"),
                event("go"),
                says("say", "`${getV()}`"),
            ],
            &[
                arrow("run", "A", "A"),
                arrow("run", "B", "wait-go"),
                arrow("wait-go", "Done", "say"),
            ],
        )
    };
    // Each language reads before the wait and after it, and what the other ones have set.
    let reads = |kind: &str, first: &str, second: &str| {
        let variable = json!({"id": "v", "name": "V", "typeName": "Object"});
        let set = activity(
            "Elsa.SetVariable",
            "set",
            json!({"variable": variable, "value": input("Object", kind, json!(first))}),
        );
        let list = activity(
            "Elsa.SetVariable",
            "list",
            json!({"variable": {"id": "l", "name": "L", "typeName": "Object"},
            "value": script("Object", "[{n: 'b', p: 2}, {n: 'a', p: 1.5}]")}),
        );
        let say = activity(
            "Elsa.WriteLine",
            "say",
            json!({"text": input("String", kind, json!(second))}),
        );
        sequence("root", &[list, set, event("go"), say])
    };
    let both = json!([{"id": "v", "name": "V", "typeName": "Object"}, {"id": "l", "name": "L", "typeName": "Object"}]);
    let variable = json!([{"id": "v", "name": "V", "typeName": "Object"}]);
    vec![
        case(
            "liquid",
            reads(
                "Liquid",
                "{{ Variables.L | map: 'n' | sort | join: '+' | upcase }}",
                "{% for item in Variables.L %}{{ item.n }}={{ item.p | times: 2 }};{% endfor %} {{ Variables.V }} {{ Input.None | default: '-' }}",
            ),
            events(&["go"]),
            &["b=4;a=3.0; A+B -"],
        )
        .with("variables", both.clone()),
        case(
            "csharp",
            reads(
                "CSharp",
                "string.Join(\"+\", Variables.L.Select(x => x.n))",
                "$\"{Variables.V} {Variables.L[1].p * 2} {Variables.L.Count}\"",
            ),
            events(&["go"]),
            &["b+a 3 2"],
        )
        .with("variables", both.clone()),
        case(
            "javascript",
            reads("JavaScript", "getL().map(x => x.n).join('+')", "`${getV()} ${getL()[1].p * 2}`"),
            events(&["go"]),
            &["b+a 3"],
        )
        .with("variables", both),
        case(
            "run-javascript",
            chart("Elsa.RunJavaScript", "setOutcomes(['A', 'B']); 6 * 7"),
            events(&["go"]),
            &["A", "42"],
        )
        .with("variables", variable.clone()),
        case(
            "run-csharp",
            chart("Elsa.RunCSharp", "Outcome.Set(\"A\", \"B\"); return 6 * 7;"),
            events(&["go"]),
            &["A", "42"],
        )
        .with("variables", variable),
    ]
}

pub(super) fn times() -> Vec<Case> {
    let waits = |type_name: &str, fields: Value| {
        sequence(
            "root",
            &[line("before"), activity(type_name, "wait", fields), line("after")],
        )
    };
    let span = |value: &str| input("TimeSpan", "Literal", json!(value));
    let due = || vec![Step::Due];
    vec![
        case(
            "delay",
            waits("Elsa.Delay", json!({"timeSpan": span("01:00:00")})),
            due(),
            &["before", "after"],
        ),
        case(
            "timer",
            waits("Elsa.Timer", json!({"interval": span("01:00:00")})),
            due(),
            &["before", "after"],
        ),
        case(
            "cron",
            waits("Elsa.Cron", json!({"cronExpression": text("0 0 0 1 1 *")})),
            due(),
            &["before", "after"],
        ),
        case(
            "start-at",
            waits(
                "Elsa.StartAt",
                json!({"dateTime": input("DateTimeOffset", "Literal", json!("2126-01-01T00:00:00Z"))}),
            ),
            due(),
            &["before", "after"],
        ),
    ]
}

pub(super) fn ends() -> Vec<Case> {
    let beside = |last: Value| {
        activity(
            "Elsa.Parallel",
            "both",
            json!({"activities": [branch("never"), sequence("ends", &[event("go"), last])]}),
        )
    };
    let fault = activity(
        "Elsa.Fault",
        "fault",
        json!({"code": text("E1"), "category": text("Test"), "faultType": text("System"), "message": text("on purpose")}),
    );
    let complete = activity(
        "Elsa.Complete",
        "complete",
        json!({"outcomes": input("Object", "Literal", json!("Early"))}),
    );
    vec![
        case(
            "finish",
            beside(activity("Elsa.Finish", "finish", json!({}))),
            events(&["go"]),
            &[],
        ),
        case("complete", beside(complete), events(&["go"]), &[]),
        case("fault", beside(fault), events(&["go"]), &[]).ends("Faulted"),
    ]
}
