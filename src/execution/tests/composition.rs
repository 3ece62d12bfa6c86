//! Children: what a burst starts, and how it goes on with their ends.

use serde_json::{Map, Value, json};

use super::activities::{literal, script_of};
use super::in_memory::{InMemoryInstance, definition, start};
use crate::execution::{BurstResult, ChildStart, Instruction, Status, SubStatus};
use crate::id::BookmarkId;

/// A sequence of one activity of this type, with these properties, whose result is kept, and a line after it.
fn parent(type_name: &str, properties: Value) -> InMemoryInstance {
    let mut activity = json!({"id": "child", "type": type_name, "workflowDefinitionId": literal("String", json!("other")),
        "result": {"typeName": "Object", "memoryReference": {"id": "r"}}});
    activity
        .as_object_mut()
        .unwrap()
        .extend(properties.as_object().unwrap().clone());
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [activity,
        {"id": "after", "type": "Elsa.WriteLine", "text": "after"}]});
    InMemoryInstance::new(&definition(
        json!({"variables": [{"id": "r", "name": "R", "typeName": "Object"}], "root": root}),
    ))
}

fn ended(bookmark: Option<BookmarkId>, child: &str, sub_status: &str) -> Instruction {
    Instruction::ChildEnded {
        bookmark_id: bookmark.unwrap(),
        result: json!({"workflowInstanceId": child, "status": "Finished", "subStatus": sub_status, "output": {"n": 1}}),
    }
}

/// What starts a child.
fn begin(child: &ChildStart) -> Instruction {
    let Instruction::Start {
        name,
        variables,
        trigger_activity_id,
        payload,
        ..
    } = start(Map::new())
    else {
        unreachable!()
    };
    Instruction::Start {
        correlation_id: child.correlation_id.clone(),
        input: child.input.clone(),
        parent: Some(child.parent.clone()),
        name,
        variables,
        trigger_activity_id,
        payload,
        request: None,
    }
}

fn message(result: &BurstResult) -> &str {
    &result.state.incidents()[0].message
}

#[tokio::test]
async fn a_dispatch_that_waits_goes_on_with_the_result_of_its_child() {
    let mut instance = parent(
        "Elsa.DispatchWorkflow",
        json!({"waitForCompletion": literal("Boolean", json!(true)), "correlationId": literal("String", json!("c")),
            "input": {"typeName": "ObjectDictionary", "expression": {"type": "Object", "value": "{\"a\": 1}"}}}),
    );
    let result = instance.start().await;
    assert_eq!(
        result.sub_status,
        SubStatus::Suspended,
        "{:?}",
        result.state.incidents()
    );
    let [child] = result.children.as_slice() else {
        panic!("{:?}", result.children)
    };
    assert_eq!(child.definition_id.as_str(), "other");
    assert_eq!(child.correlation_id.as_deref(), Some("c"));
    assert_eq!(
        Value::Object(child.input.clone()),
        json!({"a": 1, "ParentInstanceId": "instance"})
    );
    let bookmark = &result.bookmarks_created[0];
    assert_eq!(child.bookmark_id.as_ref(), Some(&bookmark.id));
    assert!(!bookmark.publishable);
    assert_eq!(bookmark.payload, json!({"childInstanceId": child.id}));
    let bookmark = child.bookmark_id.clone();
    let id = child.id.to_string();
    let result = instance.run(ended(bookmark.clone(), &id, "Finished")).await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(result.state.variables()["R"]["workflowInstanceId"], id);
    assert_eq!(result.state.variables()["R"]["output"], json!({"n": 1}));
    assert_eq!(result.state.variables()["R"]["n"], 1, "an output has its own name");
    // A second one finds no bookmark.
    let result = instance.run(ended(bookmark, &id, "Finished")).await;
    assert_eq!(result.unmatched.len(), 1);
}

#[tokio::test]
async fn a_repeated_burst_names_the_same_child() {
    let mut one = parent("Elsa.DispatchWorkflow", json!({}));
    let mut other = parent("Elsa.DispatchWorkflow", json!({}));
    let (first, second) = (one.start().await, other.start().await);
    assert_eq!(first.children, second.children);
    assert_eq!(first.sub_status, SubStatus::Finished);
    assert_eq!(first.children[0].bookmark_id, None, "it is not waited for");
    assert_eq!(one.lines(), ["after"]);
}

#[tokio::test]
async fn a_child_at_rest_counts_once_and_its_end_has_its_outputs() {
    let mut instance = parent("Elsa.ExecuteWorkflow", json!({}));
    let child = instance.start().await.children.remove(0);
    assert!(child.parent.until_rest);
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [
        {"id": "d", "type": "Elsa.Delay", "timeSpan": literal("TimeSpan", json!("00:00:01"))},
        {"id": "d2", "type": "Elsa.Delay", "timeSpan": literal("TimeSpan", json!("00:00:01"))},
        {"id": "o", "type": "Elsa.SetOutput", "outputName": literal("String", json!("Word")),
         "outputValue": literal("Object", json!("hi"))}]});
    let outputs = json!([{"name": "Word", "type": "Object"}]);
    let mut other = InMemoryInstance::new(&definition(json!({"outputs": outputs, "root": root})));
    let rest = other.run(begin(&child)).await.child_end.unwrap();
    assert!(!rest.ends);
    assert_eq!(rest.result["subStatus"], "Suspended");
    let result = instance
        .run(Instruction::ChildEnded {
            bookmark_id: child.bookmark_id.clone().unwrap(),
            result: rest.result,
        })
        .await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    let bookmark = other.state.as_ref().unwrap().bookmarks()[0].clone();
    let result = other
        .run(Instruction::Resume {
            bookmark_id: bookmark.id,
            input: Map::new(),
            payload: None,
            request: None,
        })
        .await;
    assert_eq!((result.sub_status, result.child_end), (SubStatus::Suspended, None));
    let bookmark = other.state.as_ref().unwrap().bookmarks()[0].clone();
    let result = other
        .run(Instruction::Resume {
            bookmark_id: bookmark.id,
            input: Map::new(),
            payload: None,
            request: None,
        })
        .await;
    let end = result.child_end.unwrap();
    assert!(end.ends);
    assert_eq!(end.result["output"], json!({"Word": "hi"}));
}

#[tokio::test]
async fn a_cancelled_child_ends_and_a_cancelled_parent_reaches_its_children() {
    let mut instance = parent(
        "Elsa.DispatchWorkflow",
        json!({"waitForCompletion": literal("Boolean", json!(true))}),
    );
    let child = instance.start().await.children.remove(0);
    let mut other = InMemoryInstance::sample("hello-world");
    let result = other.burst(vec![begin(&child), Instruction::Cancel]).await;
    let end = result.child_end.unwrap();
    assert!(end.ends);
    assert_eq!(end.result["subStatus"], "Cancelled");
    let result = instance.run(Instruction::Cancel).await;
    assert!(result.cancels_children);
    assert_eq!(result.child_end, None);
}

#[tokio::test]
async fn an_instance_executes_no_more_than_32_levels() {
    let mut depth = None;
    for level in 0..=32 {
        let mut instance = parent("Elsa.ExecuteWorkflow", json!({}));
        let instruction = depth.as_ref().map_or_else(|| start(Map::new()), begin);
        let mut result = instance.run(instruction).await;
        if level == 32 {
            assert_eq!(result.sub_status, SubStatus::Faulted);
            assert!(message(&result).contains("32"), "{}", message(&result));
            return;
        }
        depth = Some(result.children.remove(0));
    }
}

#[tokio::test]
async fn wrong_inputs_are_incidents_that_name_them() {
    let number = literal("Object", json!(7));
    for (type_name, properties, code, name) in [
        (
            "Elsa.DispatchWorkflow",
            json!({"workflowDefinitionId": literal("String", json!(""))}),
            "definition-missing",
            "WorkflowDefinitionId",
        ),
        (
            "Elsa.BulkDispatchWorkflows",
            json!({"items": number}),
            "invalid-items",
            "Items",
        ),
        (
            "Elsa.BulkDispatchWorkflows",
            json!({"items": script_of("Object", "'abc'")}),
            "invalid-items",
            "Items",
        ),
        (
            "Elsa.BulkDispatchWorkflows",
            json!({"items": script_of("Object", "Array.from({length: 100000}, () => 1)")}),
            "too-many-items",
            "Items",
        ),
    ] {
        let result = parent(type_name, properties.clone()).start().await;
        assert_eq!(result.sub_status, SubStatus::Faulted, "{properties}");
        let incident = &result.state.incidents()[0];
        assert_eq!(incident.activity_id.as_str(), "child");
        assert_eq!(incident.exception["code"], code, "{}", incident.message);
        assert!(incident.message.contains(name), "{}", incident.message);
        assert_eq!(result.children, []);
    }
}

/// A bulk dispatch over so many numbers, with lines at its ports.
fn bulk(count: usize, properties: Value) -> InMemoryInstance {
    let line = |id: &str| json!({"id": id, "type": "Elsa.WriteLine", "text": script_of("String", &format!("'{id} ' + getChildInstanceId() + ' ' + getWorkflowSubStatus()"))});
    let items = format!("Array.from({{length: {count}}}, (_, n) => n)");
    let mut all =
        json!({"items": script_of("Object", &items), "childCompleted": line("done"), "childFaulted": line("failed")});
    all.as_object_mut()
        .unwrap()
        .extend(properties.as_object().unwrap().clone());
    parent("Elsa.BulkDispatchWorkflows", all)
}

#[tokio::test]
async fn a_bulk_dispatch_runs_its_ports_for_each_child_and_completes_with_the_last() {
    let mut instance = bulk(
        3,
        json!({"correlationIdFunction": script_of("String", "'c' + getItem()")}),
    );
    let result = instance.start().await;
    assert_eq!(
        result.sub_status,
        SubStatus::Suspended,
        "{:?}",
        result.state.incidents()
    );
    let ids: Vec<_> = result
        .children
        .iter()
        .map(|child| child.correlation_id.clone().unwrap())
        .collect();
    assert_eq!(ids, ["c0", "c1", "c2"]);
    assert_eq!(result.children[2].input["Item"], 2);
    let bookmark = result.children[0].bookmark_id.clone();
    assert!(result.children.iter().all(|child| child.bookmark_id == bookmark));
    for (child, sub_status) in [("a", "Finished"), ("b", "Faulted")] {
        let result = instance.run(ended(bookmark.clone(), child, sub_status)).await;
        assert_eq!(result.status, Status::Running);
        assert_eq!(result.bookmarks_burned, []);
    }
    let result = instance.run(ended(bookmark, "c", "Cancelled")).await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(
        instance.lines(),
        ["done a Finished", "failed b Faulted", "failed c Cancelled", "after"]
    );
}

#[tokio::test]
async fn what_a_child_has_given_is_input_at_the_port_of_a_bulk_dispatch() {
    let line = json!({"id": "done", "type": "Elsa.WriteLine", "text": script_of("String",
        "`${getInput('WorkflowOutput').n} ${getInput('WorkflowInstanceId')} ${getInput('WorkflowStatus')} ${getInput('workflowsubstatus')} ${getVariable('WorkflowOutput').n} ${getInput('ChildInstanceId')}`")});
    let port = json!({"id": "port", "type": "Elsa.Sequence", "activities": [line]});
    let mut instance = bulk(2, json!({"childCompleted": port}));
    let result = instance.start().await;
    let bookmark = result.children[0].bookmark_id.clone();
    // Each port has the result of its own child, also when both run in one burst.
    let both = ["a", "b"].map(|child| ended(bookmark.clone(), child, "Finished"));
    let result = instance.burst(both.into()).await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let found: Vec<String> = instance
        .lines()
        .iter()
        .map(|line| line.replace("undefined", "null"))
        .collect();
    assert_eq!(
        found,
        ["1 a Finished Finished 1 null", "1 b Finished Finished 1 null", "after"]
    );
    assert!(!result.state.input.contains_key("WorkflowOutput"));
}

#[tokio::test]
async fn the_fields_of_items_are_inputs_and_nothing_to_start_is_done() {
    let items = json!({"items": script_of("Object", "[{n: 1, ParentInstanceId: 'x'}, 'two']"),
        "defaultItemInputKey": literal("String", json!("Thing")),
        "waitForCompletion": literal("Boolean", json!(false)),
        "input": {"typeName": "ObjectDictionary", "expression": {"type": "Object", "value": {"n": 0, "m": 5}}}});
    let mut instance = bulk(0, items);
    let result = instance.start().await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    let inputs: Vec<Value> = result
        .children
        .iter()
        .map(|child| Value::Object(child.input.clone()))
        .collect();
    assert_eq!(inputs[0], json!({"n": 1, "m": 5, "ParentInstanceId": "x"}));
    assert_eq!(
        inputs[1],
        json!({"n": 0, "m": 5, "Thing": "two", "ParentInstanceId": "instance"})
    );
    assert!(result.children.iter().all(|child| child.bookmark_id.is_none()));
    let text = json!({"items": literal("Object", json!("[1, 2]")), "input": literal("ObjectDictionary", json!(" "))});
    assert_eq!(bulk(0, text).start().await.children.len(), 2);
    let result = bulk(0, json!({})).start().await;
    assert_eq!((result.sub_status, result.children.len()), (SubStatus::Finished, 0));
}

#[tokio::test]
async fn many_children_start_in_waves() {
    let mut instance = bulk(2500, json!({}));
    let (waves, started) = waves(&mut instance).await;
    assert_eq!(waves, [1000, 1000, 500]);
    let items: Vec<u64> = started
        .iter()
        .map(|child| child.input["Item"].as_u64().unwrap())
        .collect();
    assert_eq!(items, (0..2500).collect::<Vec<_>>());
    let ids: std::collections::HashSet<_> = started.iter().map(|child| &child.id).collect();
    assert_eq!(ids.len(), 2500);
    let bookmark = started[0].bookmark_id.clone();
    assert!(started.iter().all(|child| child.bookmark_id == bookmark));
    for page in started.chunks(100) {
        let ends = page
            .iter()
            .map(|child| ended(bookmark.clone(), child.id.as_str(), "Finished"));
        let mut result = instance.burst(ends.collect()).await;
        while result.yielded {
            result = instance.burst(vec![Instruction::Continue]).await;
        }
    }
    assert_eq!(instance.state.as_ref().unwrap().sub_status(), SubStatus::Finished);
    assert_eq!(instance.lines().len(), 2501);
}

/// Starts all waves; how many children each had, and the children.
async fn waves(instance: &mut InMemoryInstance) -> (Vec<usize>, Vec<ChildStart>) {
    let mut result = instance.start().await;
    let (mut waves, mut started) = (Vec::new(), Vec::new());
    loop {
        assert_eq!(result.state.incidents(), []);
        waves.push(result.children.len());
        started.append(&mut result.children);
        let mut bookmarks = instance.state.as_ref().unwrap().bookmarks().iter();
        let Some(next) = bookmarks.find(|bookmark| bookmark.due.is_some()) else {
            return (waves, started);
        };
        let bookmark_id = next.id.clone();
        let input = Map::new();
        result = instance
            .run(Instruction::Resume {
                bookmark_id,
                input,
                payload: None,
                request: None,
            })
            .await;
    }
}

#[tokio::test]
async fn large_inputs_make_smaller_waves_and_end_their_burst() {
    let large = json!({"input": {"typeName": "ObjectDictionary", "expression": {"type": "JavaScript",
        "value": "({text: 'x'.repeat(500000)})"}}});
    let (waves, started) = waves(&mut bulk(20, large)).await;
    assert_eq!(waves, [9, 9, 2], "4 MiB of inputs end a wave");
    let items: Vec<u64> = started.iter().map(|it| it.input["Item"].as_u64().unwrap()).collect();
    assert_eq!(items, (0..20).collect::<Vec<_>>());
    // The inputs count as bytes of the burst, which so yields before the next activity.
    let mut instance = bulk(
        9,
        json!({"waitForCompletion": literal("Boolean", json!(false)),
        "input": {"typeName": "ObjectDictionary", "expression": {"type": "JavaScript", "value": "({text: 'x'.repeat(500000)})"}}}),
    );
    let result = instance.burst(vec![start(Map::new())]).await;
    assert!(result.yielded && instance.lines().is_empty());
}

#[tokio::test]
async fn the_items_of_a_definition_are_not_kept_and_those_of_a_script_are_not_recorded() {
    let items: Vec<Value> = (0..2500).map(|n| json!({"n": n, "text": "x".repeat(600)})).collect();
    let text = serde_json::to_string(&items).unwrap();
    let given = json!({"typeName": "Object", "expression": {"type": "Object", "value": text}});
    let mut instance = bulk(0, json!({"items": given}));
    let result = instance.start().await;
    assert_eq!(result.children.len(), 1000);
    assert!(
        result.state.to_bytes().unwrap().len() < 4000,
        "only the number of the next item is kept"
    );
    let (waves, started) = waves(&mut bulk(0, json!({"items": literal("Object", json!(items))}))).await;
    assert_eq!(waves, [1000, 1000, 500]);
    let numbers: Vec<u64> = started.iter().map(|it| it.input["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..2500).collect::<Vec<_>>());

    let script = |length: usize| {
        script_of(
            "Object",
            &format!("Array.from({{length: 2500}}, (_, n) => n + 'x'.repeat({length}))"),
        )
    };
    let result = bulk(0, json!({"items": script(100)})).start().await;
    let record = format!("{:?}", result.activity_executions);
    assert!(!record.contains("xxxx") && record.contains("DispatchedInstancesCount"));
    assert!(result.state.to_bytes().unwrap().len() > 150_000);
    let result = bulk(0, json!({"items": script(1000)})).start().await;
    let incident = &result.state.incidents()[0];
    assert_eq!(incident.exception["code"], "items-too-large");
    assert!(
        incident.message.contains("The input Items") && incident.message.contains("give ids"),
        "{}",
        incident.message
    );
}

#[tokio::test]
async fn outputs_that_a_parent_cannot_keep_are_a_fault_of_their_child() {
    let mut instance = bulk(2, json!({}));
    let children = instance.start().await.children;
    let half = |id: &str| {
        json!({"id": id, "type": "Elsa.SetOutput", "outputName": literal("String", json!(id)),
        "outputValue": script_of("Object", "'x'.repeat(600000)")})
    };
    let root = json!({"id": "s", "type": "Elsa.Sequence", "activities": [half("a"), half("b")]});
    let outputs = json!([{"name": "a", "type": "Object"}, {"name": "b", "type": "Object"}]);
    let mut other = InMemoryInstance::new(&definition(json!({"outputs": outputs, "root": root})));
    let result = other.run(begin(&children[0])).await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    let end = result.child_end.unwrap().result;
    assert_eq!((&end["subStatus"], &end["output"]), (&json!("Faulted"), &json!({})));
    let reason = end["reason"].as_str().unwrap();
    assert!(
        reason.contains("The result of the child") && reason.contains("keep a reference"),
        "{reason}"
    );
    let bookmark_id = children[0].bookmark_id.clone().unwrap();
    let result = instance
        .run(Instruction::ChildEnded {
            bookmark_id,
            result: end,
        })
        .await;
    assert_eq!(result.sub_status, SubStatus::Suspended, "the other child is waited for");
    assert_eq!(instance.lines(), ["failed instance Faulted"]);
}

#[tokio::test]
async fn a_definition_that_is_retracted_between_two_waves_is_an_incident() {
    let mut instance = bulk(1500, json!({}));
    assert_eq!(instance.start().await.children.len(), 1000);
    let mut bookmarks = instance.state.as_ref().unwrap().bookmarks().iter();
    let bookmark_id = bookmarks.find(|bookmark| bookmark.due.is_some()).unwrap().id.clone();
    let input = Map::new();
    let result = instance
        .run_retracted(Instruction::Resume {
            bookmark_id,
            input,
            payload: None,
            request: None,
        })
        .await;
    assert_eq!((result.sub_status, result.children.len()), (SubStatus::Faulted, 0));
    let incident = &result.state.incidents()[0];
    assert_eq!(
        (incident.activity_id.as_str(), &incident.exception["code"]),
        ("child", &json!("definition-not-published"))
    );
    for part in ["WorkflowDefinitionId", "\"other\"", "publish that workflow"] {
        assert!(incident.message.contains(part), "{}", incident.message);
    }
}

#[tokio::test]
async fn a_child_with_a_wrong_input_faults_and_names_it() {
    let mut instance = parent(
        "Elsa.DispatchWorkflow",
        json!({"waitForCompletion": literal("Boolean", json!(true)),
            "input": {"typeName": "ObjectDictionary", "expression": {"type": "Object", "value": {"Count": "many"}}}}),
    );
    let child = instance.start().await.children.remove(0);
    let model = json!({"definitionId": "other", "inputs": [{"name": "Count", "type": "Int32"}],
        "root": {"id": "l", "type": "Elsa.WriteLine", "text": "not reached"}});
    let mut other = InMemoryInstance::new(&definition(model));
    let result = other.run(begin(&child)).await;
    assert_eq!((result.sub_status, other.lines().len()), (SubStatus::Faulted, 0));
    for part in ["The input Count", "the workflow other", "declare the input"] {
        assert!(message(&result).contains(part), "{}", message(&result));
    }
    assert_eq!(result.child_end.unwrap().result["subStatus"], "Faulted");
}

#[tokio::test]
async fn the_body_of_a_port_may_wait_after_the_last_child() {
    let wait = json!({"id": "wait", "type": "Elsa.Event", "eventName": literal("String", json!("Go"))});
    let mut instance = bulk(1, json!({"childCompleted": wait}));
    let bookmark = instance.start().await.children[0].bookmark_id.clone();
    let result = instance.run(ended(bookmark.clone(), "a", "Finished")).await;
    assert_eq!(result.status, Status::Running);
    assert_eq!(
        result.bookmarks_burned,
        [bookmark.unwrap()],
        "no child is left to wait for"
    );
    let result = instance.event("Go", json!(null)).await;
    assert_eq!(result.sub_status, SubStatus::Finished);
    assert_eq!(instance.lines(), ["after"]);
}

/// A parent whose child has given these outputs: the variable R, and what each language says of the output Greeting.
async fn after_child(type_name: &str, outputs: Value) -> (Value, Vec<String>) {
    let say = |id: &str, kind: &str, text: &str| json!({"id": id, "type": "Elsa.WriteLine", "text": {"typeName": "String", "expression": {"type": kind, "value": text}}});
    let activity = json!({"id": "a", "type": type_name, "workflowDefinitionId": literal("String", json!("other")),
        "waitForCompletion": literal("Boolean", json!(true)), "result": {"typeName": "Object", "memoryReference": {"id": "r"}}});
    let mut said = vec![say("js", "JavaScript", "getR().Greeting + getLastResult().Greeting")];
    if cfg!(feature = "liquid") {
        said.push(say("liquid", "Liquid", "{{ Variables.R.Greeting }}"));
    }
    if cfg!(feature = "csharp") {
        said.push(say("csharp", "CSharp", "Variables.R.Greeting"));
    }
    let mut activities = vec![activity];
    activities.extend(said);
    let mut instance = InMemoryInstance::new(&definition(json!({
        "variables": [{"id": "r", "name": "R", "typeName": "Object"}],
        "root": {"id": "s", "type": "Elsa.Sequence", "activities": activities},
    })));
    let child = instance.start().await.children.remove(0);
    let result =
        json!({"workflowInstanceId": child.id, "status": "Finished", "subStatus": "Finished", "output": outputs});
    let result = instance
        .run(Instruction::ChildEnded {
            bookmark_id: child.bookmark_id.unwrap(),
            result,
        })
        .await;
    assert_eq!(result.sub_status, SubStatus::Finished, "{:?}", result.state.incidents());
    (result.state.variables()["R"].clone(), instance.lines())
}

#[tokio::test]
async fn the_outputs_of_a_child_have_their_names_in_its_result() {
    for type_name in ["Elsa.DispatchWorkflow", "Elsa.ExecuteWorkflow"] {
        let (result, lines) = after_child(type_name, json!({"Greeting": "Hi", "status": "own"})).await;
        assert_eq!(lines[0], "HiHi", "{type_name}");
        assert!(lines[1..].iter().all(|line| line == "Hi"), "{type_name}: {lines:?}");
        assert_eq!(result["status"], "own", "an output takes precedence");
        assert_eq!(result["output"], json!({"Greeting": "Hi", "status": "own"}));
        let is_elsa = type_name == "Elsa.ExecuteWorkflow";
        assert_eq!(result.get("Output").is_some(), is_elsa);
        assert_eq!(result["Status"], if is_elsa { json!("Finished") } else { Value::Null });
    }
}

#[tokio::test]
async fn large_outputs_of_a_child_have_their_names_alone() {
    let text = "x".repeat(600_000);
    let (result, _) = after_child("Elsa.ExecuteWorkflow", json!({"Greeting": "Hi", "Doc": text})).await;
    assert_eq!(result["Doc"], text);
    assert_eq!((&result["SubStatus"], result.get("Output")), (&json!("Finished"), None));
}
