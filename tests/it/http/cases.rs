//! What people reported of Elsa's endpoints, and a definition as its designer exports it.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Received, endpoint, get, request, responds, script, serving, waits_at, workflow};
use crate::support::single_node::{KEY, SingleNode};

/// An endpoint and a response in the form in which Elsa's designer exports them, with the fields that it leaves empty.
fn exported() -> Value {
    let typed = |type_name: &str, expression: Value| json!({"typeName": type_name, "expression": expression});
    let mut request = json!({
        "id": "e1", "nodeId": "Workflow1:chart:e1", "name": "Request1", "type": "Elsa.HttpEndpoint", "version": 1,
        "path": typed("String", json!({"type": "Literal", "value": "exported"})),
        "supportedMethods": typed("String[]", json!({"type": "Object", "value": "[\"GET\"]"})),
        "authorize": typed("Boolean", json!({"type": "Literal", "value": false})),
        "policy": typed("String", json!({"type": "Literal"})),
        "customProperties": {"canStartWorkflow": true, "runAsynchronously": false},
        "metadata": {"designer": {"position": {"x": -100.5, "y": 20}, "size": {"width": 170.25, "height": 50}}},
    });
    let fields = request.as_object_mut().unwrap();
    for unset in [
        "requestTimeout",
        "requestSizeLimit",
        "fileSizeLimit",
        "allowedFileExtensions",
        "blockedFileExtensions",
        "allowedMimeTypes",
        "parsedContent",
        "files",
        "routeData",
        "queryStringData",
        "headers",
        "result",
    ] {
        fields.insert(unset.to_owned(), Value::Null);
    }
    for exposed in [
        "exposeRequestTooLargeOutcome",
        "exposeFileTooLargeOutcome",
        "exposeInvalidFileExtensionOutcome",
        "exposeInvalidFileMimeTypeOutcome",
    ] {
        fields.insert(exposed.to_owned(), false.into());
    }
    let response = json!({
        "id": "r1", "nodeId": "Workflow1:chart:r1", "name": "Response1", "type": "Elsa.WriteHttpResponse", "version": 1,
        "statusCode": typed("System.Net.HttpStatusCode, System.Net.Primitives", json!({"type": "Literal", "value": "OK"})),
        "content": typed("Object", json!({"type": "Literal", "value": "Hello from a designer"})),
        "contentType": null,
        "responseHeaders": typed("Elsa.Http.Models.HttpHeaders, Elsa.Http", json!({"type": "Literal", "value": "{}"})),
        "customProperties": {"canStartWorkflow": false, "runAsynchronously": false}, "metadata": {},
    });
    let connection = json!({"source": {"activity": "e1", "port": "Done"}, "target": {"activity": "r1", "port": "In"}});
    json!({"definitionId": "exported", "name": "Exported", "version": 2, "toolVersion": "3.2.0.0", "options": {"autoUpdateConsumingWorkflows": false},
        "customProperties": {"Elsa:WorkflowContextProviderTypes": []}, "root": {
            "id": "chart", "nodeId": "Workflow1:chart", "type": "Elsa.Flowchart", "version": 1, "metadata": {},
            "customProperties": {"source": "FlowchartJsonConverter.cs:45", "notFoundConnections": [], "canStartWorkflow": false},
            "activities": [request, response], "connections": [connection]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_of_elsas_designer_answers() {
    let node = serving(&[], &[exported()]).await;
    let received = get(&node.http, "exported").await;
    assert_eq!(received.header("content-type"), "text/plain");
    assert_eq!(received.expect(200), "Hello from a designer");
    assert_eq!(get(&node.http, "EXPORTED/").await.expect(200), "Hello from a designer");
    assert_eq!(
        request(&node.http, Method::POST, "exported")
            .send()
            .await
            .unwrap()
            .status()
            .as_u16(),
        405
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_waits_for_a_child_is_held_as_asked() {
    let child = json!({"definitionId": "child", "outputs": [{"name": "Said", "type": "String"}], "root": {
        "id": "root", "type": "Elsa.Sequence", "activities": [
            {"id": "nap", "type": "Elsa.Delay", "timeSpan": "00:00:00.2"},
            {"id": "say", "type": "Elsa.SetOutput", "outputName": {"typeName": "String", "expression": {"type": "Literal", "value": "Said"}}, "outputValue": script("'by the child'")},
    ]}});
    let parent = |id: &str, more: Value| {
        let dispatch = json!({"id": "dispatch", "type": "Elsa.DispatchWorkflow",
            "workflowDefinitionId": script("'child'"), "waitForCompletion": script("true")});
        let said = responds("out", "getOutputFrom('dispatch').Said", json!({}));
        workflow(id, &[endpoint("in", id, &["GET"], more), dispatch, said])
    };
    let held = parent("held", json!({"waitForResponse": "00:00:30"}));
    let node = serving(&[], &[child, held, parent("plain", json!({}))]).await;
    assert_eq!(get(&node.http, "held").await.expect(200), "by the child");
    let waits = get(&node.http, "plain").await;
    let id = waits.header("x-elsa-workflow-instance-id").to_owned();
    assert_eq!(waits.expect(202), json!({"workflowInstanceId": id}));
    // Its response comes when no request takes it any more.
    node.http.instance_becomes(&id, "Faulted").await;
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_in_the_middle_is_guarded_as_a_trigger_is() {
    let node = SingleNode::with_key(&[]).await;
    let guarded = waits_at("mid", json!("approve"), &["POST"], json!({"authorize": true}));
    let definition = workflow("approval", &[guarded, responds("out", "'approved'", json!({}))]);
    node.http.publish(&definition).await;
    node.http.dispatch("approval", &json!({"instanceId": "a"})).await;
    node.http.instance_becomes("a", "Suspended").await;
    let refused = Received::of(request(&node.http, Method::POST, "approve")).await;
    assert_eq!((refused.status, refused.text.as_str()), (401, ""));
    node.http.instance_becomes("a", "Suspended").await;
    let key = format!("ApiKey {KEY}");
    let approved = request(&node.http, Method::POST, "approve").header("Authorization", key);
    assert_eq!(Received::of(approved).await.expect(200), "approved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_is_500_under_every_incident_strategy() {
    let strategies = ["FaultStrategy", "ContinueWithIncidentsStrategy"];
    let definitions = strategies.map(|strategy| {
        let fault = json!({"id": "fails", "type": "Elsa.Fault", "message": "no"});
        let mut definition = workflow(strategy, &[endpoint("in", strategy, &["GET"], json!({})), fault]);
        definition["options"] = json!({"incidentStrategyType": strategy});
        definition
    });
    let node = serving(&[], &definitions).await;
    for strategy in strategies {
        get(&node.http, strategy).await.assert_refused(500, "workflow-faulted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_designer_shows_the_url_of_an_endpoint() {
    for (settings, shown) in [
        (vec![], "/workflows/"),
        (
            vec![
                "--http-base-path",
                "/flows/v1",
                "--public-url",
                "https://web.example/base",
            ],
            "https://web.example/base/flows/v1/",
        ),
    ] {
        let node = SingleNode::start(&settings).await;
        let list = node.http.get("descriptors/activities").await.expect(200);
        let mut all = list["items"].as_array().unwrap().iter();
        let found = all.find(|one| one["typeName"] == "Elsa.HttpEndpoint").unwrap();
        let mut inputs = found["inputs"].as_array().unwrap().iter();
        let path = inputs.find(|input| input["name"] == "Path").unwrap();
        let adornment = &path["uiSpecifications"]["singleline"];
        assert_eq!(
            adornment,
            &json!({"adornmentText": shown, "enableCopyAdornment": true}),
            "{path}"
        );
    }
}
