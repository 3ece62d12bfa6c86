//! A start takes any version of its definition.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::Http;
use crate::support::single_node::SingleNode;

fn version(number: i64) -> Value {
    json!({"definitionId": "d", "name": "D", "root": {"type": "Elsa.SetOutput", "id": "out",
        "outputName": {"typeName": "String", "expression": {"type": "Literal", "value": "Version"}},
        "outputValue": {"typeName": "Object", "expression": {"type": "JavaScript", "value": number.to_string()}}},
        "outputs": [{"name": "Version", "type": "Int32"}]})
}

/// The version that runs; the code of the refusal where none does.
async fn started(http: &Http, route: &str, which: &Value) -> Result<i64, (u16, Value)> {
    let mut body = json!({});
    if !which.is_null() {
        body["versionOptions"] = which.clone();
    }
    let path = format!("workflow-definitions/d/{route}");
    let answer = http.send(Method::POST, &path, &[], Some(&body)).await.unwrap();
    if answer.status != 200 {
        return Err((answer.status, answer.body["code"].clone()));
    }
    let id = match answer.body["workflowInstanceId"].as_str() {
        Some(id) => id.to_owned(),
        None => answer.body["workflowState"]["id"].as_str().unwrap().to_owned(),
    };
    http.instance_becomes(&id, "Finished").await;
    let detail = http.get(&format!("workflow-instances/{id}")).await.expect(200);
    let ran = detail["workflowState"]["output"]["Version"].as_i64().unwrap();
    assert_eq!(detail["version"], json!(ran));
    Ok(ran)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_takes_the_version_that_it_names() {
    let node = SingleNode::start(&[]).await;
    node.http.publish(&version(1)).await;
    let draft = json!({"model": version(2), "publish": false});
    node.http.post("workflow-definitions", &draft).await.expect(200);
    let not_found = || Err((404, json!("definition-not-found")));
    let invalid = |code: &str| Err((400, json!(code)));
    for route in ["execute", "dispatch"] {
        for (which, wanted) in [
            (Value::Null, Ok(1)),
            (json!(""), Ok(1)),
            (json!("1"), Ok(1)),
            (json!(1), Ok(1)),
            (json!("2"), Ok(2)),
            (json!("Published"), Ok(1)),
            (json!("latest"), Ok(2)),
            (json!("Draft"), Ok(2)),
            (json!("LatestOrPublished"), Ok(1)),
            (json!("LatestAndPublished"), not_found()),
            (json!("3"), not_found()),
            (json!("newest"), invalid("invalid-field")),
            (json!(0), invalid("invalid-field")),
            (json!({"version": 1}), invalid("invalid-field")),
            (json!("AllVersions"), invalid("version-not-startable")),
        ] {
            assert_eq!(started(&node.http, route, &which).await, wanted, "{route} {which}");
        }
    }
    node.http.publish(&version(2)).await;
    for (which, wanted) in [
        (json!("LatestAndPublished"), Ok(2)),
        (json!("LatestOrPublished"), Ok(2)),
        // As in Elsa: one that is not published.
        (json!("Draft"), Ok(1)),
        (json!("1"), Ok(1)),
    ] {
        assert_eq!(started(&node.http, "execute", &which).await, wanted, "{which}");
    }
    node.assert_invariants();
}
