//! What a designer asks before it shows a workflow.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::elsa_client::client_calls;
use crate::support::single_node::SingleNode;

const TEXTS: [&str; 8] = [
    "typeName",
    "namespace",
    "name",
    "category",
    "displayName",
    "description",
    "kind",
    "uiHint",
];

/// Nothing that Elsa Studio reads without a check is null.
fn assert_complete(activity: &Value) {
    let what = activity["typeName"].as_str().unwrap().to_owned();
    let at = |of: &Value, name: &str| of.get(name).unwrap_or_else(|| panic!("{what}: no {name}")).clone();
    for name in TEXTS.iter().take(7) {
        assert!(at(activity, name).is_string(), "{what}.{name}");
    }
    for name in [
        "isContainer",
        "isBrowsable",
        "isStart",
        "isTerminal",
        "runAsynchronously",
    ] {
        assert!(at(activity, name).is_boolean(), "{what}.{name}");
    }
    for name in ["customProperties", "constructionProperties"] {
        assert!(at(activity, name).is_object(), "{what}.{name}");
    }
    for input in at(activity, "inputs").as_array().unwrap() {
        for name in [
            "name",
            "typeName",
            "displayName",
            "description",
            "uiHint",
            "category",
            "defaultSyntax",
        ] {
            assert!(at(input, name).is_string(), "{what} {input}: {name}");
        }
        for name in ["isBrowsable", "isWrapped", "isReadOnly", "isSensitive", "isSynthetic"] {
            assert!(at(input, name).is_boolean(), "{what} {input}: {name}");
        }
        assert!(
            at(input, "order").is_number() && at(input, "uiSpecifications").is_object(),
            "{what} {input}"
        );
    }
    for output in at(activity, "outputs").as_array().unwrap() {
        assert!(
            output["isBrowsable"] == true && output["order"].is_number(),
            "{what} {output}"
        );
    }
    for port in at(activity, "ports").as_array().unwrap() {
        let is_known = ["Flow", "Embedded"].iter().any(|kind| port["type"] == *kind);
        assert!(
            is_known && port["isBrowsable"] == true && port["displayName"].is_string(),
            "{what} {port}"
        );
    }
}

#[tokio::test]
async fn a_designer_learns_what_it_can_show() {
    let node = SingleNode::with_key(&["--bench-activities"]).await;
    let http = &node.http;
    let list = http.get("descriptors/activities?Refresh=True").await.expect(200);
    let items = list["items"].as_array().unwrap();
    assert_eq!(list["count"], items.len());
    let mut seen = HashSet::new();
    for item in items {
        assert_complete(item);
        assert!(
            seen.insert((item["typeName"].to_string(), item["version"].to_string())),
            "twice: {item}"
        );
    }
    let find = |name: &str| {
        let found = items.iter().find(|item| item["typeName"] == name);
        found.unwrap_or_else(|| panic!("no {name}")).clone()
    };
    for hidden in [
        "Elsa.Workflow",
        "Elsa.NotFoundActivity",
        "Elsa.Flowchart",
        "Elsa.Sequence",
        "Elsa.Parallel",
        "Elsa.Fork",
    ] {
        assert_eq!(find(hidden)["isBrowsable"], false, "{hidden}");
    }
    let ports = |name: &str, kind: &str| -> Vec<Value> {
        let ports = find(name)["ports"].as_array().unwrap().clone();
        let ports = ports.into_iter().filter(|port| port["type"] == kind);
        ports.map(|port| port["name"].clone()).collect()
    };
    assert_eq!(ports("Elsa.If", "Embedded"), ["Then", "Else"]);
    assert_eq!(ports("Elsa.FlowDecision", "Flow"), ["True", "False"]);
    assert_eq!(ports("Elsa.Switch", "Embedded"), ["Default"]);
    assert_eq!(ports("Elsa.FlowSwitch", "Flow"), ["Default"]);
    assert_eq!(ports("Mainspring.Try", "Embedded"), ["Try", "Catch", "Finally"]);
    assert_eq!(ports("Mainspring.DoWhile", "Embedded"), ["Body"]);
    for input in find("Mainspring.Try")["inputs"].as_array().unwrap() {
        assert_eq!(input["uiHint"], "multitext", "{input}");
    }
    for own in ["Mainspring.Try", "Mainspring.DoWhile"] {
        assert_eq!(find(own)["isBrowsable"], true, "{own}");
    }
    for (name, hint) in [
        ("Elsa.Switch", "switch-editor"),
        ("Elsa.FlowSwitch", "flow-switch-editor"),
    ] {
        let cases = &find(name)["inputs"][0];
        assert_eq!((&cases["name"], &cases["uiHint"]), (&json!("Cases"), &json!(hint)));
        assert_eq!(cases["isWrapped"], false, "{name}");
    }
    assert_eq!(find("Elsa.Event")["kind"], "Trigger");
    assert_eq!(find("Elsa.WriteLine")["inputs"][0]["uiHint"], "singleline");
    let variable = &find("Elsa.SetVariable")["inputs"][0];
    assert_eq!(
        (&variable["isWrapped"], &variable["uiHint"]),
        (&json!(false), &json!("variable-picker"))
    );
    let mode = &find("Elsa.FlowJoin")["inputs"][0];
    assert_eq!(mode["defaultValue"], "WaitAny");
    let choices = &mode["uiSpecifications"]["dropdown"]["selectList"]["items"];
    assert_eq!(choices[1]["value"], "WaitAllActive");
    // A type of the program is there by its own descriptor.
    assert_eq!(find("Mainspring.Work")["category"], "Demonstration");
    assert_eq!(find("Mainspring.Work")["isBrowsable"], true);

    let one = http.get("descriptors/activities/Elsa.FlowJoin").await.expect(200);
    assert_eq!(one, find("Elsa.FlowJoin"));
    let options = http
        .post(
            "descriptors/activities/Elsa.FlowJoin/options/Mode",
            &json!({"context": {"mode": null}}),
        )
        .await
        .expect(200);
    assert_eq!(options["items"], mode["uiSpecifications"]);
    // The URL of an endpoint begins as the client names the server.
    let shown = async |headers: &[(&str, &str)]| {
        let path = "descriptors/activities/Elsa.HttpEndpoint/options/Path";
        let answer = http
            .send(Method::POST, path, headers, Some(&json!({"context": {}})))
            .await;
        answer.unwrap().expect(200)["items"]["singleline"]["adornmentText"].clone()
    };
    let address = http.address();
    let url = |scheme: &str| json!(format!("{scheme}://{address}/workflows/"));
    assert_eq!(shown(&[]).await, url("http"));
    assert_eq!(shown(&[("origin", &format!("https://{address}"))]).await, url("https"));
    let none = http.get("descriptors/activities/Elsa.FlowJoin?version=7").await;
    none.assert_refused(404, "activity-type-not-found");
    let none = http
        .post("descriptors/activities/Elsa.FlowJoin/options/Text", &json!({}))
        .await;
    none.assert_refused(404, "input-not-found");

    let types = http.get("descriptors/expression-descriptors").await.expect(200);
    let offered = types["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["isBrowsable"] == true);
    let offered: Vec<&Value> = offered.map(|item| &item["type"]).collect();
    assert_eq!(
        offered,
        [
            "JavaScript",
            "Liquid",
            "CSharp",
            "Variable",
            "Input",
            "Configuration",
            "Secret"
        ]
    );
    assert_eq!(
        http.get("descriptors/variables").await.expect(200)["items"][0]["typeName"],
        "Object"
    );
    for list in [
        "descriptors/storage-drivers",
        "descriptors/workflow-activation-strategies",
        "descriptors/incident-strategies",
        "descriptors/log-persistence-strategies",
        "descriptors/commit-strategies/workflows",
        "descriptors/commit-strategies/activities",
        "features/installed",
    ] {
        let list = http.get(list).await.expect(200);
        let items = list["items"].as_array().unwrap();
        assert!(!items.is_empty() && list["count"] == items.len(), "{list}");
        let is_named = |item: &Value| item["displayName"].is_string();
        assert!(items.iter().all(is_named), "{list}");
    }
    for list in [
        "descriptors/output-converters?sourceType=String&destinationType=Object",
        "resilience/strategies?category=Default",
        "resilience/retries/none?skip=0&take=10",
        "workflow-contexts/provider-descriptors",
    ] {
        assert_eq!(http.get(list).await.expect(200)["items"], json!([]), "{list}");
    }
    let feature = http.get("features/installed/Elsa.Scheduling").await.expect(200);
    assert_eq!(feature["name"], "Scheduling");
    let none = http.get("features/installed/Elsa.Resilience").await;
    none.assert_refused(404, "feature-not-found");
    assert!(http.get("package/version").await.expect(200)["packageVersion"].is_string());
    script_editor(&node).await;
    elsas_client(&node).await;
}

/// The declarations for the script editor are those of the latest version, and true.
async fn script_editor(node: &SingleNode) {
    let line = json!({"id": "w", "type": "Elsa.WriteLine"});
    let each = json!({"id": "f", "type": "Elsa.ForEach", "name": "All Lines", "body": line});
    let model = json!({"definitionId": "scripts", "root": each, "inputs": [{"name": "Order", "type": "Object"}],
        "variables": [{"id": "v", "name": "line count", "typeName": "Int32"}]});
    node.http
        .post("workflow-definitions", &json!({"model": model, "publish": false}))
        .await
        .expect(200);
    let ask = json!({"workflowDefinitionId": "scripts", "activityTypeName": "Elsa.WriteLine", "propertyName": "Text"});
    let answer = node
        .http
        .post("scripting/javascript/type-definitions/scripts", &ask)
        .await;
    let kind = answer.header("content-type").to_owned();
    assert!(kind.starts_with("application/x-typescript"), "{kind}");
    let text = answer.expect(200).as_str().unwrap().to_owned();
    for line in [
        "declare function getLineCount(): number;",
        "declare function setLineCount(value: number): void;",
        "declare function getOrder(): any;",
        "declare function getCurrentIndex(): number;",
        "declare function getCurrentValueFromAllLines(): any | null;",
        "declare function getInput(name: string): any;",
    ] {
        assert!(text.lines().any(|declared| declared == line), "no {line} in\n{text}");
    }
    let none = node.http.post("scripting/javascript/type-definitions/none", &ask).await;
    none.assert_refused(400, "invalid-field");
}

/// A call of Elsa's client has a route if the document says so.
async fn elsas_client(node: &SingleNode) {
    for call in client_calls().iter().filter(|call| call.state != "under way") {
        let segments = call.path.split('/');
        let segments = segments.map(|segment| if segment.starts_with('{') { "none" } else { segment });
        let path = segments.collect::<Vec<_>>().join("/");
        let method = Method::from_bytes(call.method.as_bytes()).unwrap();
        let body = (method != Method::GET).then(|| json!({"ids": []}));
        let answer = node
            .http
            .send(method, path.trim_start_matches('/'), &[], body.as_ref())
            .await
            .unwrap();
        let is_served = answer.body["code"] != "no-such-route" && answer.body["code"] != "method-not-allowed";
        assert!(
            answer.status < 500 && is_served == (call.state == "served"),
            "{call:?}: {answer:?}"
        );
    }
}
