//! The parts of a try: their order, what leaves them, and what is cancelled. Which faults are caught: `try_selection`.

use serde_json::{Value, json};

use super::activities::{
    break_loop, delay, endless, event, fails, guarded, instance_of, line, lines, parallel, says, sequence, with,
};
use super::in_memory::{InMemoryInstance, definition, start};
use crate::activity::Catalogue;
use crate::execution::{BurstResult, Instruction, SubStatus};

fn bad() -> Value {
    fails("bad", "17", "General")
}

async fn resume(instance: &mut InMemoryInstance, name: &str) -> BurstResult {
    instance.event(name, Value::Null).await
}

#[tokio::test]
async fn the_parts_follow_each_other() {
    let (none, first, catch, last) = (Value::Null, line("try"), line("catch"), line("finally"));
    let breaks = sequence("steps", &[line("try"), bad(), line("never")]);
    for (parts, expected) in [
        ([&first, &catch, &last], vec!["try", "finally", "end"]),
        ([&first, &catch, &none], vec!["try", "end"]),
        ([&first, &none, &last], vec!["try", "finally", "end"]),
        ([&breaks, &catch, &last], vec!["try", "catch", "finally", "end"]),
        ([&breaks, &catch, &none], vec!["try", "catch", "end"]),
        // What a draft may have.
        ([&first, &none, &none], vec!["try", "end"]),
        ([&none, &catch, &last], vec!["finally", "end"]),
        ([&none, &none, &none], vec!["end"]),
    ] {
        let root = sequence("root", &[guarded("guard", parts.map(Clone::clone)), line("end")]);
        assert_eq!(lines(&root).await, expected, "{root}");
    }
}

#[tokio::test]
async fn a_caught_fault_is_no_incident_and_stays_in_the_journal() {
    let inner = sequence("steps", &[line("try"), bad()]);
    let root = sequence(
        "root",
        &[guarded("guard", [inner, line("catch"), Value::Null]), line("end")],
    );
    let mut instance = instance_of(&root);
    let result = instance.start().await;
    assert_eq!((result.sub_status, result.incident_count), (SubStatus::Finished, 0));
    assert_eq!(instance.events("Faulted"), ["bad"]);
    assert_eq!(instance.events("Canceled"), ["steps"]);
    assert_eq!(instance.events("Resumed"), [""; 0]);
    assert_eq!(instance.completed(), ["try", "catch", "guard", "end", "root"]);
    let execution = |id: &str| {
        let mut all = result.activity_executions.iter();
        all.find(|execution| execution.activity_id.as_str() == id).unwrap()
    };
    assert_eq!((execution("bad").status, execution("bad").fault_count), ("Faulted", 1));
    assert!(execution("bad").completed.is_some() && execution("bad").exception.is_some());
    for (id, status) in [("steps", "Canceled"), ("guard", "Completed"), ("root", "Completed")] {
        assert_eq!(execution(id).status, status, "{id}");
    }
    // What is around the guard has had no fault.
    assert_eq!((execution("guard").fault_count, execution("root").fault_count), (0, 0));
}

#[tokio::test]
async fn the_fault_is_a_variable_and_an_output() {
    let shows = "[getFault().message, getFault().code, getFault().category, getFault().activityId, getFault().activityNodeId].join()";
    let bound = json!({"typeName": "Object", "memoryReference": {"id": "v"}});
    let parts = [
        sequence("steps", &[bad()]),
        says("catch", shows),
        says("finally", "`${getFault()}`"),
    ];
    let root = sequence(
        "root",
        &[
            with(&guarded("guard", parts), json!({"fault": bound})),
            says("end", "getKept().message"),
        ],
    );
    let model = json!({"root": root, "variables": [{"id": "v", "name": "Kept", "typeName": "Object"}]});
    let mut instance = InMemoryInstance::new(&definition(model));
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let caught = "bad,17,General,bad,Workflow1:root:guard:steps:bad";
    assert_eq!(instance.lines(), [caught, "null", "bad"]);
}

#[tokio::test]
async fn each_part_waits_and_goes_on() {
    let part = |name: &str, then: Value| {
        sequence(
            &format!("{name} steps"),
            &[event(name), line(&format!("{name} done")), then],
        )
    };
    let parts = [part("try", bad()), part("catch", line("x")), part("finally", line("y"))];
    let root = sequence("root", &[guarded("guard", parts), line("end")]);
    let mut instance = instance_of(&root);
    assert_eq!(instance.start().await.sub_status, SubStatus::Suspended);
    for name in ["try", "catch"] {
        let result = resume(&mut instance, name).await;
        assert_eq!(
            (result.sub_status, result.bookmarks_created.len()),
            (SubStatus::Suspended, 1)
        );
    }
    assert_eq!(resume(&mut instance, "finally").await.sub_status, SubStatus::Finished);
    assert_eq!(
        instance.lines(),
        ["try done", "catch done", "x", "finally done", "y", "end"]
    );
}

#[tokio::test]
async fn what_waits_in_the_part_is_cancelled_before_the_next_one() {
    let late = sequence("late", &[event("go"), bad()]);
    let branches = [
        event("a"),
        delay("b"),
        sequence("nested", &[event("c"), line("never")]),
        late,
    ];
    let after = json!({"id": "look", "type": "Elsa.Event", "eventName": "look"});
    for catch in [after.clone(), Value::Null] {
        let finally = if catch.is_null() { after.clone() } else { Value::Null };
        let root = guarded("guard", [parallel("p", &branches), catch, finally]);
        let mut instance = instance_of(&root);
        assert_eq!(instance.start().await.bookmarks_created.len(), 4);
        let result = resume(&mut instance, "go").await;
        assert_eq!(
            result.sub_status,
            SubStatus::Suspended,
            "{:?}",
            result.state.incidents()
        );
        assert_eq!((result.bookmarks_burned.len(), result.state.bookmarks().len()), (4, 1));
        assert_eq!(result.state.bookmarks()[0].activity_id.as_str(), "look");
        assert_eq!(instance.events("Canceled"), ["c", "late", "nested", "b", "a", "p"]);
    }
    // Work that has not begun is withdrawn, too.
    let root = guarded(
        "guard",
        [parallel("p", &[bad(), line("never")]), line("catch"), Value::Null],
    );
    assert_eq!(lines(&root).await, ["catch"]);
}

/// The lines, and what the only incident says.
async fn faulted(root: &Value) -> (Vec<String>, String) {
    let mut instance = instance_of(root);
    let result = instance.start().await;
    assert_eq!(
        (result.sub_status, result.incident_count),
        (SubStatus::Faulted, 1),
        "{root}"
    );
    let incident = &result.state.incidents()[0];
    (
        instance.lines(),
        format!("{} {}", incident.activity_node_id, incident.message),
    )
}

#[tokio::test]
async fn a_fault_that_is_not_caught_runs_the_last_part_and_goes_on() {
    let (none, last) = (Value::Null, line("finally"));
    let path = "Workflow1:guard:bad bad".to_owned();
    let other = json!({"catchCodes": ["18"]});
    let without = guarded("guard", [bad(), none.clone(), last.clone()]);
    assert_eq!(faulted(&without).await, (vec!["finally".to_owned()], path.clone()));
    let unmatched = with(&guarded("guard", [bad(), line("catch"), last.clone()]), other.clone());
    assert_eq!(faulted(&unmatched).await, (vec!["finally".to_owned()], path.clone()));
    let alone = with(&guarded("guard", [bad(), line("catch"), none.clone()]), other);
    assert_eq!(faulted(&alone).await, (vec![], path));
    // A part that fails itself replaces the fault.
    let in_catch = guarded("guard", [bad(), fails("worse", "18", "General"), last.clone()]);
    assert_eq!(
        faulted(&in_catch).await,
        (vec!["finally".to_owned()], "Workflow1:guard:worse worse".to_owned())
    );
    let in_finally = guarded("guard", [bad(), none, fails("worse", "18", "General")]);
    assert_eq!(
        faulted(&in_finally).await,
        (vec![], "Workflow1:guard:worse worse".to_owned())
    );
    // The same below another guard: it catches what goes on.
    for (inner, expected) in [
        (without, vec!["finally", "bad at bad"]),
        (unmatched, vec!["finally", "bad at bad"]),
        (alone, vec!["bad at bad"]),
        (in_catch, vec!["finally", "worse at worse"]),
        (in_finally, vec!["worse at worse"]),
    ] {
        let shows = says("outer", "`${getFault().message} at ${getFault().activityId}`");
        let outer = guarded(
            "around",
            [sequence("in", &[inner, line("never")]), shows, line("outer finally")],
        );
        let expected: Vec<&str> = expected.into_iter().chain(["outer finally"]).collect();
        assert_eq!(lines(&outer).await, expected);
    }
}

#[tokio::test]
async fn a_guard_that_ends_with_a_fault_says_so() {
    let root = guarded("guard", [bad(), Value::Null, event("finally")]);
    let mut instance = instance_of(&root);
    let result = instance.start().await;
    assert_eq!((result.sub_status, result.incident_count), (SubStatus::Suspended, 0));
    let result = resume(&mut instance, "finally").await;
    assert_eq!((result.sub_status, result.incident_count), (SubStatus::Faulted, 1));
    assert_eq!(instance.events("Faulted"), ["bad", "guard"]);
    let guard = result
        .activity_executions
        .iter()
        .find(|it| it.activity_id.as_str() == "guard")
        .unwrap();
    assert_eq!((guard.status, guard.fault_count), ("Faulted", 1));
    assert_eq!(guard.exception.as_ref().unwrap()["message"], "bad");
}

/// A loop around a guard with a sibling that waits. Each part is `part`, or else it only waits.
fn looped(part: &str, leave: &Value, has_finally: bool) -> Value {
    let steps = |name: &str, otherwise: Value| match name == part {
        true => sequence(name, &[event(&format!("in {name}")), leave.clone(), line("never")]),
        false => otherwise,
    };
    let first = if part == "catch" { bad() } else { line("tried") };
    let last = if has_finally {
        let waits = sequence("last", &[event("in last"), line("finally")]);
        steps("finally", waits)
    } else {
        Value::Null
    };
    let guard = guarded("guard", [steps("try", first), steps("catch", line("caught")), last]);
    let body = parallel("p", &[event("sibling"), delay("pause"), guard]);
    sequence("root", &[endless(body), line("end")])
}

#[tokio::test]
async fn a_break_runs_the_last_part_first() {
    for (part, lines) in [("try", vec!["finally", "end"]), ("catch", vec!["finally", "end"])] {
        let mut instance = instance_of(&looped(part, &break_loop("break"), true));
        assert_eq!(instance.start().await.state.bookmarks().len(), 3);
        let result = resume(&mut instance, &format!("in {part}")).await;
        assert_eq!(result.sub_status, SubStatus::Suspended, "{part}: the last part waits");
        // A branch beside it ends meanwhile: the last part goes on.
        assert_eq!(resume(&mut instance, "sibling").await.sub_status, SubStatus::Suspended);
        let result = resume(&mut instance, "in last").await;
        assert_eq!(
            result.sub_status,
            SubStatus::Finished,
            "{part}: {:?}",
            result.state.incidents()
        );
        assert_eq!((result.bookmarks_burned.len(), result.incident_count), (2, 0));
        assert_eq!(instance.lines(), lines, "{part}");
        assert_eq!(instance.events("Canceled"), ["pause"], "{part}");
    }
    for (part, has_finally) in [("try", false), ("catch", false), ("finally", true)] {
        let mut instance = instance_of(&looped(part, &break_loop("break"), has_finally));
        instance.start().await;
        let result = resume(&mut instance, &format!("in {part}")).await;
        assert_eq!(
            result.sub_status,
            SubStatus::Finished,
            "{part}: {:?}",
            result.state.incidents()
        );
        assert_eq!(instance.lines().last().unwrap(), "end", "{part}");
        assert_eq!(instance.events("Canceled"), ["pause", "sibling"], "{part}");
    }
}

#[tokio::test]
async fn a_break_in_the_last_part_does_not_lose_the_fault() {
    let guard = guarded("guard", [bad(), Value::Null, break_loop("break")]);
    let (lines, incident) = faulted(&sequence("root", &[endless(guard), line("end")])).await;
    assert_eq!(
        (lines, incident.as_str()),
        (vec![], "Workflow1:root:loop:guard:bad bad")
    );
}

#[tokio::test]
async fn what_is_held_up_ends_with_a_cancel_and_with_the_workflow() {
    let finish = json!({"id": "leave", "type": "Elsa.Finish"});
    let held = [bad(), break_loop("break"), finish.clone()];
    for first in &held {
        let guard = guarded("guard", [first.clone(), Value::Null, event("finally")]);
        let mut instance = instance_of(&endless(guard));
        assert_eq!(instance.start().await.sub_status, SubStatus::Suspended, "{first}");
        let result = instance.run(Instruction::Cancel).await;
        assert_eq!(
            (result.sub_status, result.incident_count),
            (SubStatus::Cancelled, 0),
            "{first}"
        );
        let guard = guarded(
            "guard",
            [first.clone(), Value::Null, with(&finish, json!({"id": "ends"}))],
        );
        let root = sequence("root", &[endless(guard), line("end")]);
        assert_eq!(lines(&root).await, [""; 0], "{first}");
    }
}

#[tokio::test]
async fn the_end_of_the_workflow_runs_the_last_parts_first() {
    let complete = json!({"id": "leave", "type": "Elsa.Complete", "outcomes": ["Left"]});
    let finish = json!({"id": "leave", "type": "Elsa.Finish"});
    for part in ["try", "catch"] {
        for leave in [&complete, &finish] {
            let mut instance = instance_of(&looped(part, leave, true));
            instance.start().await;
            let result = resume(&mut instance, &format!("in {part}")).await;
            assert_eq!(result.sub_status, SubStatus::Suspended, "{part}");
            // Other branches have ended: only the last part waits.
            assert_eq!(result.state.bookmarks().len(), 1, "{part}");
            let result = resume(&mut instance, "in last").await;
            assert_eq!(result.sub_status, SubStatus::Finished, "{part}");
            assert_eq!(instance.lines(), ["finally"], "{part}");
            assert!(!instance.completed().contains(&"end".to_owned()));
            let outcomes = instance.journal.last().unwrap().payload.clone();
            let expected = if *leave == complete { json!(["Left"]) } else { json!([]) };
            assert_eq!(outcomes.unwrap()["Outcomes"], expected, "{part}");
        }
    }
    for (part, has_finally) in [("try", false), ("finally", true)] {
        let mut instance = instance_of(&looped(part, &finish, has_finally));
        instance.start().await;
        let result = resume(&mut instance, &format!("in {part}")).await;
        assert_eq!(result.sub_status, SubStatus::Finished, "{part}");
        assert!(!instance.lines().contains(&"end".to_owned()), "{part}");
    }
    // From the innermost guard outwards.
    let inner = guarded("inner", [finish, Value::Null, line("inner finally")]);
    let outer = guarded(
        "outer",
        [
            sequence("s", &[inner, line("never")]),
            line("never"),
            line("outer finally"),
        ],
    );
    assert_eq!(
        lines(&sequence("root", &[outer, line("end")])).await,
        ["inner finally", "outer finally"]
    );
}

#[tokio::test]
async fn a_fault_in_the_last_part_replaces_the_end_of_the_workflow() {
    let finish = json!({"id": "leave", "type": "Elsa.Finish"});
    let guard = guarded("guard", [finish, line("never"), bad()]);
    let outer = guarded("outer", [guard, line("caught"), Value::Null]);
    assert_eq!(lines(&sequence("root", &[outer, line("end")])).await, ["caught", "end"]);
}

#[tokio::test]
async fn a_cancel_runs_no_part() {
    for part in ["try", "catch", "finally"] {
        let mut instance = instance_of(&looped(part, &break_loop("break"), true));
        instance.start().await;
        let result = instance.run(Instruction::Cancel).await;
        assert_eq!(result.sub_status, SubStatus::Cancelled, "{part}");
        assert!(result.state.bookmarks().is_empty(), "{part}");
        let before: &[&str] = if part == "finally" { &["tried"] } else { &[] };
        assert_eq!(instance.lines(), before, "{part}");
    }
    // Nor does a branch beside it that leaves the loop, or that ends first.
    let guard = guarded("guard", [event("a"), line("catch"), line("finally")]);
    let leaves = sequence("leaves", &[event("b"), break_loop("break")]);
    let any = json!({"id": "fork", "type": "Elsa.Fork", "joinMode": "WaitAny", "branches": [guard, event("b")]});
    for inner in [endless(parallel("p", &[guard.clone(), leaves])), any] {
        let mut instance = instance_of(&sequence("root", &[inner, line("end")]));
        instance.start().await;
        assert_eq!(resume(&mut instance, "b").await.sub_status, SubStatus::Finished);
        assert_eq!(instance.lines(), ["end"]);
    }
}

#[tokio::test]
async fn a_guard_outlives_a_yield_after_each_activity() {
    let parts = [
        sequence("steps", &[line("a"), bad()]),
        line("catch"),
        sequence("last", &[line("b"), line("c")]),
    ];
    let root = sequence("root", &[guarded("guard", parts), line("end")]);
    let mut whole = instance_of(&root);
    whole.start().await;
    let model = definition(json!({"root": root, "options": {"commitStrategyName": "ActivityExecuted"}}));
    let mut cut = InMemoryInstance::with(&model, Catalogue::standard(), |options| {
        options.activities_per_burst = 1
    });
    let mut result = cut.burst(vec![start(serde_json::Map::new())]).await;
    let mut bursts = 1;
    while result.yielded {
        result = cut.burst(vec![Instruction::Continue]).await;
        bursts += 1;
    }
    assert!(bursts > 8, "{bursts}");
    assert_eq!(result.sub_status, SubStatus::Finished);
    let short = |instance: &InMemoryInstance| -> Vec<_> {
        let entries = instance.journal.iter();
        entries
            .map(|entry| (entry.sequence, entry.event_name, entry.activity_execution_id.clone()))
            .collect()
    };
    assert_eq!(short(&whole), short(&cut));
    assert_eq!(cut.lines(), ["a", "catch", "b", "c", "end"]);
}

/// The value of the second event is refused while the burst has already yielded.
#[tokio::test]
async fn a_fault_after_a_yield_is_not_lost() {
    let root = parallel(
        "p",
        &[
            sequence("s", &[event("a"), line("one"), line("two")]),
            guarded("guard", [event("b"), line("catch"), Value::Null]),
        ],
    );
    let model = definition(json!({"root": root}));
    let mut instance = InMemoryInstance::with(&model, Catalogue::standard(), |options| {
        options.activities_per_burst = 1;
        options.max_value_bytes = 1000;
    });
    instance.start().await;
    let bookmarks = instance.state.as_ref().unwrap().bookmarks().to_vec();
    let stimulus = |id: &str, payload: Value| {
        let bookmark = bookmarks
            .iter()
            .find(|bookmark| bookmark.activity_id.as_str() == id)
            .unwrap();
        Instruction::Stimulus {
            bookmark_id: Some(bookmark.id.clone()),
            hash: bookmark.hash,
            name: bookmark.name.clone(),
            payload: Some(payload),
        }
    };
    let large = stimulus("b", json!("x".repeat(2000)));
    let mut result = instance.burst(vec![stimulus("a", Value::Null)]).await;
    assert!(result.yielded);
    let mut arrived = vec![large];
    while result.yielded {
        arrived.push(Instruction::Continue);
        result = instance.burst(std::mem::take(&mut arrived)).await;
    }
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let mut lines = instance.lines();
    lines.sort();
    assert_eq!(lines, ["catch", "one", "two"]);
}

#[tokio::test]
async fn bounds_of_the_engine_are_not_caught() {
    let root = endless(guarded("guard", [line("again"), line("catch"), line("finally")]));
    let mut instance = InMemoryInstance::with(&definition(json!({"root": root})), Catalogue::standard(), |options| {
        options.executions_without_wait = 50;
    });
    let result = instance.start().await;
    assert_eq!((result.sub_status, result.incident_count), (SubStatus::Faulted, 1));
    assert_eq!(result.state.incidents()[0].exception["code"], "execution-limit");
    assert!(!instance.lines().contains(&"catch".to_owned()));
    // A loop that forks in each round, below a guard.
    let forks =
        json!({"id": "each", "type": "Elsa.ParallelForEach", "items": [1, 2, 3, 4, 5, 6, 7, 8, 9], "body": event("e")});
    let root = endless(guarded("guard", [forks, line("catch"), Value::Null]));
    let mut instance = InMemoryInstance::with(&definition(json!({"root": root})), Catalogue::standard(), |options| {
        options.open_executions = 10;
    });
    let result = instance.start().await;
    assert_eq!((result.sub_status, instance.lines().len()), (SubStatus::Faulted, 0));
}
