//! What Elsa Studio's viewer asks of one instance: its journal, its activity executions and their counts.

use serde_json::{Value, json};

use crate::support::single_node::{SingleNode, literal, waits_for};
use crate::support::{Http, TIMEOUT, assert_fields, poll_until};

fn write_line(id: &str, text: &Value) -> Value {
    json!({"id": id, "type": "Elsa.WriteLine", "text": text})
}

/// A flowchart with a sequence in it, which waits for the event `Go` and then writes a variable.
fn nested() -> Value {
    let script = json!({"typeName": "String", "expression": {"type": "JavaScript", "value": "'n=' + getN()"}});
    let inner = json!({"id": "Inner", "type": "Elsa.Sequence",
        "activities": [write_line("B", &literal("b")), waits_for("Go"), write_line("C", &script)]});
    json!({"id": "Flow", "type": "Elsa.Flowchart", "activities": [write_line("A", &literal("a")), inner],
        "connections": [{"source": {"activity": "A", "port": "Done"}, "target": {"activity": "Inner", "port": "In"}}]})
}

async fn publish_nested(http: &Http) {
    let variables = json!([{"id": "v1", "name": "N", "typeName": "Int32", "value": 1},
        {"id": "v2", "name": "Tags", "typeName": "String", "isArray": true, "value": ["x"]}]);
    http.publish(&json!({"definitionId": "nested", "root": nested(), "variables": variables}))
        .await;
}

fn ids(items: &Value, field: &str) -> Vec<String> {
    let items = items.as_array().unwrap().iter();
    items.map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

async fn start_nested(http: &Http) -> String {
    publish_nested(http).await;
    let run = http.execute("nested", &json!({"correlationId": "c"})).await;
    assert_eq!(run["workflowState"]["subStatus"], "Suspended");
    run["workflowState"]["id"].as_str().unwrap().to_owned()
}

async fn journal(http: &Http, id: &str, query: &str, filter: Value) -> (Vec<String>, Value) {
    let path = format!("workflow-instances/{id}/journal{query}");
    let listed = http.post(&path, &json!({ "filter": filter })).await.expect(200);
    let items = listed["items"].as_array().unwrap().iter();
    let seen = items.map(|entry| {
        format!(
            "{} {}",
            entry["activityId"].as_str().unwrap(),
            entry["eventName"].as_str().unwrap()
        )
    });
    (seen.collect(), listed["totalCount"].clone())
}

#[tokio::test]
async fn the_viewer_shows_what_an_instance_did() {
    let node = SingleNode::start(&[]).await;
    let http = &node.http;
    let id = &start_nested(http).await;

    // The journal, with each of its filters.
    let all = http
        .get(&format!("workflow-instances/{id}/journal?skip=0&take=1000"))
        .await
        .expect(200);
    let total = all["totalCount"].as_u64().unwrap();
    assert_eq!(all["items"].as_array().unwrap().len() as u64, total);
    let second = http
        .get(&format!("workflow-instances/{id}/journal?page=1&pageSize=2"))
        .await
        .expect(200);
    assert_eq!(second["items"], json!(all["items"].as_array().unwrap()[2..4]));
    // A page behind the last one has the same total.
    for query in ["page=900&pageSize=2", "skip=5000&take=10"] {
        let behind = http
            .get(&format!("workflow-instances/{id}/journal?{query}"))
            .await
            .expect(200);
        assert_eq!(
            (&behind["items"], &behind["totalCount"]),
            (&json!([]), &json!(total)),
            "{query}"
        );
    }
    let plain = json!({"activityIds": null, "activityNodeIds": null, "eventNames": null,
        "excludedActivityTypes": ["Elsa.Workflow", "Elsa.Flowchart", "Elsa.Sequence", null]});
    let (seen, count) = journal(http, id, "?skip=1&take=3", plain).await;
    assert_eq!(
        (seen, count),
        (
            vec![
                "A Completed".to_owned(),
                "B Started".to_owned(),
                "B Completed".to_owned()
            ],
            json!(6)
        )
    );
    let by_node =
        json!({"activityNodeIds": ["Workflow1:Flow:Inner:B", "Workflow1:Flow:A"], "eventNames": ["Completed"]});
    assert_eq!(journal(http, id, "", by_node).await.0, ["A Completed", "B Completed"]);
    assert_eq!(
        journal(http, id, "", json!({"activityIds": ["e"]})).await.0,
        ["e Started", "e Suspended"]
    );
    assert_eq!(
        journal(http, id, "", json!({"activityNodeIds": [null]})).await.1,
        json!(total)
    );
    let last = http
        .get(&format!("workflow-instances/{id}/journal/e"))
        .await
        .expect(200);
    assert_eq!(
        (&last["eventName"], &last["nodeId"]),
        (&json!("Started"), &json!("Workflow1:Flow:Inner:e"))
    );
    let instance = http.get(&format!("workflow-instances/{id}")).await.expect(200);
    let contexts = instance["workflowState"]["activityExecutionContexts"]
        .as_array()
        .unwrap();
    let list = format!("activity-executions/list?workflowInstanceId={id}");
    let executions = http.get(&list).await.expect(200);
    assert!(contexts.len() >= 3, "{contexts:?}");
    for context in contexts {
        let mut recorded = executions["items"].as_array().unwrap().iter();
        let execution = recorded.find(|execution| execution["id"] == context["id"]).unwrap();
        for field in ["startedAt", "completedAt", "callStackDepth"] {
            assert_eq!(context[field], execution[field], "{field} of {context}");
        }
        assert!(context["startedAt"].is_string(), "{context}");
    }
    assert_fields!(last, {"activityNodeId": "Workflow1:Flow:Inner:e", "workflowInstanceId": id,
        "workflowDefinitionId": "nested", "workflowDefinitionVersionId": instance["definitionVersionId"],
        "workflowVersion": 1, "activityId": "e"});
    http.get(&format!("workflow-instances/{id}/journal/C"))
        .await
        .assert_refused(404, "entry-not-found");
    let unknown = http
        .post(
            "workflow-instances/none/journal",
            &json!({"filter": {"eventNames": ["Faulted"]}}),
        )
        .await;
    unknown.assert_refused(404, "instance-not-found");

    // The counts on the canvas: of each node that was executed, once.
    let nodes = json!([
        "Workflow1:Flow:A",
        "Workflow1:Flow:A",
        null,
        "Workflow1:Flow:Inner",
        "Workflow1:Flow:Inner:e",
        "Workflow1:Flow:Inner:C"
    ]);
    let report = json!({"workflowInstanceId": id, "activityNodeIds": nodes});
    let stats = http.post("activity-executions/report", &report).await.expect(200)["stats"].clone();
    assert_eq!(
        ids(&stats, "activityNodeId"),
        ["Workflow1:Flow:A", "Workflow1:Flow:Inner", "Workflow1:Flow:Inner:e"]
    );
    assert_eq!(
        stats[0],
        json!({"activityId": "A", "activityNodeId": "Workflow1:Flow:A", "startedCount": 1, "completedCount": 1,
        "uncompletedCount": 0, "isBlocked": false, "isFaulted": false, "aggregateFaultCount": 0, "metadata": {}})
    );
    assert_eq!(
        (&stats[2]["isBlocked"], &stats[2]["uncompletedCount"]),
        (&json!(true), &json!(1))
    );
    http.post("activity-executions/report", &json!({"activityNodeIds": []}))
        .await
        .assert_refused(400, "missing-field");

    // Executions in short and in full.
    let of = |node: &str| format!("?WorkflowInstanceId={id}&ActivityNodeId={node}");
    let short = http
        .get(&format!(
            "activity-execution-summaries/list{}",
            of("Workflow1:Flow:Inner:e")
        ))
        .await
        .expect(200);
    assert_eq!(
        (
            &short["count"],
            &short["items"][0]["status"],
            &short["items"][0]["hasBookmarks"]
        ),
        (&json!(1), &json!("Running"), &json!(true))
    );
    let execution = short["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(execution, last["activityInstanceId"].as_str().unwrap());
    let whole = http
        .get(&format!("activity-executions/list{}", of("Workflow1")))
        .await
        .expect(200);
    assert_eq!(
        (&whole["items"][0]["activityType"], &whole["items"][0]["callStackDepth"]),
        (&json!("Elsa.Workflow"), &json!(0))
    );
    let line = http
        .get(&format!("activity-executions/list{}", of("Workflow1:Flow:Inner:B")))
        .await
        .expect(200);
    let line = &line["items"][0];
    assert_eq!(
        (&line["activityState"]["Text"], &line["payload"]["Outcomes"]),
        (&json!("b"), &json!(["Done"]))
    );
    assert_eq!(
        (
            &line["outputs"],
            &line["properties"],
            &line["metadata"],
            &line["exception"]
        ),
        (&json!({}), &json!({}), &json!({}), &Value::Null)
    );
    let found = http
        .get(&format!("activity-executions/by-id?id={execution}"))
        .await
        .expect(200);
    assert_eq!(
        found,
        http.get(&format!("activity-executions/{execution}")).await.expect(200)
    );
    assert_eq!(found["schedulingActivityId"], "B");
    for path in ["by-id?id=", "", "by-id?id=none:"] {
        for unknown in ["none", "none:1", "none:0", &format!("{id}:999")] {
            let answer = http.get(&format!("activity-executions/{path}{unknown}")).await;
            answer.assert_refused(404, "activity-execution-not-found");
        }
    }
    let count = http
        .get(&format!(
            "activity-executions/count?workflowInstanceId={id}&completed=true"
        ))
        .await
        .expect(200);
    assert_eq!(count, json!({"count": 2}));

    // What led to it: an execution is scheduled after another one's end, or by its container.
    let stack = http
        .get(&format!(
            "activity-executions/{execution}/call-stack?includeCrossWorkflowChain=True"
        ))
        .await
        .expect(200);
    assert_eq!(
        ids(&stack["items"], "activityId"),
        ["Workflow1", "Flow", "A", "Inner", "B", "e"]
    );
    assert_eq!(
        (&stack["totalCount"], &stack["items"][5]["callStackDepth"]),
        (&json!(6), &json!(5))
    );
    let part = http
        .get(&format!("activity-executions/{execution}/call-stack?skip=2&take=1"))
        .await
        .expect(200);
    assert_eq!(
        (ids(&part["items"], "activityId"), &part["totalCount"]),
        (vec!["A".to_owned()], &json!(6))
    );

    // After the next burst the execution is complete, with its start in the record of the first one.
    http.trigger("Go", &json!({})).await;
    http.instance_becomes(id, "Finished").await;
    let done = http.get(&format!("activity-executions/{execution}")).await.expect(200);
    assert_eq!(
        (&done["status"], &done["hasBookmarks"], &done["startedAt"]),
        (&json!("Completed"), &json!(false), &found["startedAt"])
    );
    assert_eq!(done["schedulingActivityId"], "B");
    let written = http
        .get(&format!("activity-executions/list{}", of("Workflow1:Flow:Inner:C")))
        .await
        .expect(200);
    assert_eq!(
        (
            &written["items"][0]["activityState"]["Text"],
            &written["items"][0]["schedulingActivityId"]
        ),
        (&json!("n=1"), &json!("e"))
    );
    node.assert_invariants();
}

/// A child three levels down: its stack begins with that of the execution which started it, as far as the instances exist.
#[tokio::test(flavor = "multi_thread")]
async fn the_call_stack_of_a_child_begins_with_that_of_its_parent() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let runs = |definition: &str, child: &str| {
        json!({"definitionId": definition, "root": {"id": format!("{definition}-list"), "type": "Elsa.Sequence", "activities": [
            {"id": format!("{definition}-runs"), "type": "Elsa.ExecuteWorkflow", "workflowDefinitionId": literal(child),
                "waitForCompletion": {"typeName": "Boolean", "expression": {"type": "Literal", "value": true}}}]}})
    };
    http.publish(&json!({"definitionId": "leaf", "root": waits_for("Go")}))
        .await;
    http.publish(&runs("middle", "leaf")).await;
    http.publish(&runs("top", "middle")).await;
    let top = http.dispatch("top", &json!({})).await["workflowInstanceId"].clone();
    let child_of = async |parent: &str| {
        let list = format!("workflow-instances?parentWorkflowInstanceIds={parent}");
        let found = poll_until(TIMEOUT, "the child", async || {
            let found = http.get(&list).await.expect(200)["items"][0].clone();
            (found["subStatus"] == "Suspended").then_some(found)
        });
        found.await["id"].as_str().unwrap().to_owned()
    };
    let middle = child_of(top.as_str().unwrap()).await;
    let leaf = child_of(&middle).await;
    let list = async |id: &str, node: &str| {
        let path = format!("activity-executions/list?workflowInstanceId={id}&activityNodeId={node}");
        http.get(&path).await.expect(200)["items"][0].clone()
    };
    let first = list(&leaf, "Workflow1").await;
    let starter = list(&middle, "Workflow1:middle-list:middle-runs").await;
    assert_eq!(
        (
            &first["schedulingWorkflowInstanceId"],
            &first["schedulingActivityExecutionId"],
            &first["schedulingActivityId"]
        ),
        (&json!(middle), &starter["id"], &json!("middle-runs"))
    );
    assert_eq!(starter["schedulingWorkflowInstanceId"], Value::Null);

    let waiting = list(&leaf, "Workflow1:e").await["id"].as_str().unwrap().to_owned();
    let stack = async |query: &str| {
        let path = format!("activity-executions/{waiting}/call-stack{query}");
        http.get(&path).await.expect(200)
    };
    let whole = stack("").await;
    let chain = [
        "Workflow1",
        "top-list",
        "top-runs",
        "Workflow1",
        "middle-list",
        "middle-runs",
        "Workflow1",
        "e",
    ];
    assert_eq!(ids(&whole["items"], "activityId"), chain);
    assert_eq!(whole, stack("?includeCrossWorkflowChain=true").await);
    assert_eq!(
        (&whole["totalCount"], &whole["items"][3]["workflowInstanceId"]),
        (&json!(8), &json!(middle))
    );
    assert_eq!(whole["items"][3]["schedulingWorkflowInstanceId"], top);
    let part = stack("?skip=2&take=3").await;
    assert_eq!(ids(&part["items"], "activityId"), chain[2..5]);
    assert_eq!(part["totalCount"], 8);
    let own = stack("?includeCrossWorkflowChain=false").await;
    assert_eq!(ids(&own["items"], "activityId"), chain[6..]);

    // The instance at the top is deleted once it has ended: the stack begins below it.
    http.trigger("Go", &json!({})).await;
    http.instance_becomes(top.as_str().unwrap(), "Finished").await;
    http.delete(&format!("workflow-instances/{}", top.as_str().unwrap()))
        .await
        .expect(204);
    let rest = stack("").await;
    assert_eq!(ids(&rest["items"], "activityId"), chain[3..]);
    assert_eq!(rest["items"][0]["schedulingWorkflowInstanceId"], top);
    node.assert_invariants();
}
