//! A break out of each container and loop cancels what waits in it, also deep in a branch beside it.

use serde_json::{Value, json};

use super::activities::{
    break_loop, delay, endless, event, guarded, instance_of, line, lines, parallel, says, script_of, sequence, with,
};
use super::in_memory::InMemoryInstance;
use crate::execution::SubStatus;

/// Branches side by side: two that wait, one of them deeply, and one that leaves the loop.
fn branches() -> Vec<Value> {
    let deep = json!({"id": "each", "type": "Elsa.ForEach", "items": [1, 2], "body": sequence("steps", &[event("a"), line("never a")])});
    let leaves = sequence("leaves", &[event("stop"), break_loop("break"), line("never b")]);
    vec![deep, delay("pause"), leaves]
}

fn cases() -> Value {
    let cases = branches().into_iter().enumerate().map(|(number, branch)| {
        json!({"label": format!("{number}"), "condition": {"type": "JavaScript", "value": "true"}, "activity": branch})
    });
    json!({"id": "switch", "type": "Elsa.Switch", "mode": "MatchAny", "cases": cases.collect::<Vec<_>>()})
}

fn flowchart() -> Value {
    let mut activities = vec![json!({"id": "begin", "type": "Elsa.Start"})];
    activities.extend(branches());
    let connections = ["each", "pause", "leaves"].map(|target| json!({"source": "begin", "target": target}));
    json!({"id": "flow", "type": "Elsa.Flowchart", "activities": activities, "connections": connections})
}

fn fork(mode: &str) -> Value {
    json!({"id": "fork", "type": "Elsa.Fork", "joinMode": mode, "branches": branches()})
}

/// The branches, in each container that a loop may have.
fn containers() -> Vec<Value> {
    let p = || parallel("p", &branches());
    let either = json!({"id": "if", "type": "Elsa.If", "condition": true, "then": p()});
    vec![
        p(),
        fork("WaitAll"),
        fork("WaitAny"),
        cases(),
        flowchart(),
        either,
        guarded("guard", [p(), line("caught"), Value::Null]),
        guarded("guard", [p(), Value::Null, line("last")]),
        guarded("guard", [json!({"id": "bad", "type": "Elsa.Fault"}), p(), Value::Null]),
        guarded("guard", [line("first"), Value::Null, p()]),
    ]
}

/// The loops, each around a body that waits at once.
fn loops(body: &Value) -> Vec<Value> {
    let of = |type_name: &str, further: Value| with(&json!({"id": "loop", "type": type_name, "body": body}), further);
    vec![
        endless(body.clone()),
        of("Mainspring.DoWhile", json!({"condition": true})),
        of("Elsa.For", json!({"end": 9})),
        of("Elsa.ForEach", json!({"items": [1, 2, 3]})),
        of("Elsa.ParallelForEach", json!({"items": [1]})),
        of(
            "Elsa.ParallelForEach",
            json!({"items": [1, 2, 3], "mainspringDegreeOfParallelism": 1}),
        ),
    ]
}

#[tokio::test]
async fn a_break_out_of_each_loop_and_container_cancels_what_waits() {
    for container in containers() {
        for root in loops(&container) {
            let mut instance = instance_of(&sequence("root", &[root.clone(), line("end")]));
            assert_eq!(instance.start().await.state.bookmarks().len(), 3, "{root}");
            let result = instance.event("stop", Value::Null).await;
            assert_eq!(
                result.sub_status,
                SubStatus::Finished,
                "{root}: {:?}",
                result.state.incidents()
            );
            assert_eq!(result.bookmarks_burned.len(), 3, "{root}");
            assert!(result.state.bookmarks().is_empty(), "{root}");
            let lines = instance.lines();
            assert_eq!(lines.last().unwrap(), "end", "{root}");
            assert!(!lines.iter().any(|line| line.starts_with("never")), "{root}: {lines:?}");
            let mut cancelled = instance.events("Canceled");
            cancelled.retain(|id| ["a", "pause", "steps", "each"].contains(&id.as_str()));
            cancelled.sort();
            assert_eq!(cancelled, ["a", "each", "pause", "steps"], "{root}");
        }
    }
}

#[tokio::test]
async fn do_while_runs_its_body_before_the_condition() {
    let body = says(
        "say",
        "setVariable('N', (getVariable('N') ?? 0) + 1); `${getVariable('N')}`",
    );
    let of =
        |condition: Value| json!({"id": "loop", "type": "Mainspring.DoWhile", "condition": condition, "body": body});
    assert_eq!(lines(&of(json!(false))).await, ["1"]);
    assert_eq!(lines(&of(Value::Null)).await, ["1"]);
    assert_eq!(
        lines(&of(script_of("Boolean", "getVariable('N') < 3"))).await,
        ["1", "2", "3"]
    );
    // Without a body, nothing could make the condition false.
    assert_eq!(
        lines(&json!({"id": "loop", "type": "Mainspring.DoWhile", "condition": true})).await,
        [""; 0]
    );
    let mut instance = instance_of(&json!({"id": "loop", "type": "Mainspring.DoWhile", "condition": true,
        "body": sequence("s", &[event("go"), line("went")])}));
    instance.start().await;
    for _ in 0..3 {
        assert_eq!(instance.event("go", Value::Null).await.sub_status, SubStatus::Suspended);
    }
    assert_eq!(instance.lines(), ["went"; 3]);
}

fn limited(degree: Value, items: Value) -> Value {
    let wait =
        json!({"id": "wait", "type": "Elsa.Event", "eventName": script_of("String", "`go ${variables.CurrentIndex}`")});
    let body = sequence(
        "body",
        &[
            wait,
            says("say", "`${variables.CurrentIndex} ${variables.CurrentValue}`"),
        ],
    );
    json!({"id": "each", "type": "Elsa.ParallelForEach", "items": items, "mainspringDegreeOfParallelism": degree, "body": body})
}

async fn waiting(instance: &mut InMemoryInstance, resumed: &str) -> Vec<String> {
    let result = instance.event(resumed, Value::Null).await;
    let bookmarks = result.state.bookmarks().iter();
    bookmarks
        .map(|bookmark| bookmark.payload["eventName"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_parallel_loop_begins_as_many_items_as_it_is_asked_to() {
    let items = script_of("Object", "['a', 'b', 'c', 'd']");
    let mut instance = instance_of(&sequence("root", &[limited(json!(2), items.clone()), line("end")]));
    assert_eq!(instance.start().await.bookmarks_created.len(), 2);
    assert_eq!(waiting(&mut instance, "go 1").await, ["go 0", "go 2"]);
    assert_eq!(
        waiting(&mut instance, "go 3").await,
        ["go 0", "go 2"],
        "it has not begun"
    );
    assert_eq!(waiting(&mut instance, "go 0").await, ["go 2", "go 3"]);
    assert_eq!(waiting(&mut instance, "go 3").await, ["go 2"]);
    assert_eq!(waiting(&mut instance, "go 2").await, [""; 0]);
    assert_eq!(instance.lines(), ["1 b", "0 a", "3 d", "2 c", "end"]);
    for (degree, at_once) in [(json!(null), 4), (json!(""), 4), (json!("3"), 3), (json!(9), 4)] {
        let mut instance = instance_of(&limited(degree.clone(), items.clone()));
        assert_eq!(instance.start().await.bookmarks_created.len(), at_once, "{degree}");
    }
    // The items need no wait between them.
    let many = json!({"id": "each", "type": "Elsa.ParallelForEach", "mainspringDegreeOfParallelism": 3,
        "items": script_of("Object", "Array.from({length: 2000}, (_, n) => n)"), "body": line("x")});
    assert_eq!(lines(&many).await.len(), 2000);
}

#[tokio::test]
async fn a_degree_below_one_is_refused() {
    for degree in [json!(0), json!(-1), json!("0")] {
        let found = super::activities::errors(&limited(degree.clone(), json!([1])));
        assert!(
            found.len() == 1 && found[0].contains("mainspringDegreeOfParallelism"),
            "{degree}: {found:?}"
        );
    }
    let mut instance = instance_of(&limited(script_of("Int32", "0"), json!([1])));
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Faulted);
    assert!(result.state.incidents()[0].message.contains("from 1 on"));
}
