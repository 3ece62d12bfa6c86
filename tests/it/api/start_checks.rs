//! A start is checked for the version that it runs, on every node, from the answer of its publish on.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{assert_invariants, start_three};
use crate::support::single_node::{literal, waits_for};
use crate::support::{Answer, Http, TestDatabase};

/// With an input `n` and a variable `N` of these types, and an activity of this id.
fn typed(id: &str, of_input: &str, of_variable: &str, activity: &str) -> Value {
    json!({"definitionId": id, "inputs": [{"name": "n", "type": of_input}],
        "variables": [{"id": "v", "name": "N", "typeName": of_variable}],
        "root": {"id": "s", "type": "Elsa.Sequence", "activities": [
            {"id": activity, "type": "Elsa.WriteLine", "text": literal("x")}]}})
}

async fn send(http: &Http, id: &str, route: &str, start: &Value, key: Option<&str>) -> Answer {
    let path = format!("workflow-definitions/{id}/{route}");
    let headers: Vec<(&str, &str)> = key.map(|key| ("Idempotency-Key", key)).into_iter().collect();
    http.send(Method::POST, &path, &headers, Some(start)).await.unwrap()
}

fn assert_misfit(answer: &Answer, field: &str, parts: [&str; 2]) {
    answer.assert_refused(400, "invalid-input");
    let problem = answer.body["errors"][field].to_string();
    for part in parts {
        assert!(problem.contains(part), "{field}: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrowed_input_is_refused_on_every_node_from_the_publish_on() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    let http: Vec<&Http> = nodes.iter().map(|node| node.http.as_ref().unwrap()).collect();
    let abc = json!({"input": {"n": "abc"}});
    for round in 0..6 {
        let id = format!("d{round}");
        http[round % 3].publish(&typed(&id, "String", "String", "old")).await;
        // Each node knows the first version now.
        for (number, http) in http.iter().enumerate() {
            let key = format!("{id}-{number}");
            send(http, &id, "execute", &abc, Some(&key)).await.expect(200);
            let wide = json!({"variables": {"N": "abc"}, "triggerActivityId": "old"});
            send(http, &id, "dispatch", &wide, None).await.expect(200);
        }
        http[(round + 1) % 3]
            .publish(&typed(&id, "Int32", "Int32", "new"))
            .await;
        for (number, http) in http.iter().enumerate() {
            // Each is the first request of its kind to this node since the publish.
            let first = (round + number) % 4;
            for step in 0..4 {
                match (first + step) % 4 {
                    0 => {
                        let key = format!("new-{id}-{number}");
                        for (route, key) in [("execute", None), ("dispatch", Some(key.as_str()))] {
                            let answer = send(http, &id, route, &abc, key).await;
                            assert_misfit(&answer, "input.n", ["abc", "Int32"]);
                        }
                        let mut body = abc.clone();
                        body["definitionId"] = json!(id);
                        let answer = http.post("workflow-instances", &body).await;
                        assert_misfit(&answer, "input.n", ["abc", "Int32"]);
                        let mut body = abc.clone();
                        body["instanceId"] = json!(format!("own-{id}-{number}"));
                        let answer = send(http, &id, "dispatch", &body, None).await;
                        assert_misfit(&answer, "input.n", ["abc", "Int32"]);
                    }
                    1 => {
                        let answer = send(http, &id, "execute", &json!({"variables": {"N": "abc"}}), None).await;
                        assert_misfit(&answer, "variables.N", ["abc", "Int32"]);
                    }
                    2 => {
                        let answer = send(http, &id, "dispatch", &json!({"triggerActivityId": "old"}), None).await;
                        assert_misfit(&answer, "triggerActivityId", ["old", "no activity"]);
                    }
                    _ => {
                        let fits = json!({"input": {"n": "7"}, "variables": {"N": "8"}, "triggerActivityId": "new"});
                        let ran = send(http, &id, "execute", &fits, None).await.expect(200);
                        assert_eq!(ran["workflowState"]["definitionVersion"], 2);
                        assert_eq!(ran["workflowState"]["input"]["n"], 7);
                        assert_eq!(ran["workflowState"]["properties"]["Variables"]["N"], 8);
                    }
                }
            }
            // The earlier start is the answer to its retry, on any node, although it would be refused now.
            let key = format!("{id}-{}", (number + 1) % 3);
            let again = send(http, &id, "execute", &abc, Some(&key)).await.expect(200);
            assert_eq!(again["workflowState"]["definitionVersion"], 1);
        }
    }
    let client = database.connect().await;
    let query = "SELECT count(*) FROM mainspring.instance WHERE incident_count > 0 OR id LIKE 'own-%'";
    assert_eq!(client.count(query).await, 0, "a start that was refused has run");
    // Six rounds on three nodes: two starts of the first version, one of the second.
    client.wait_for_rows("instance", 6 * 3 * 3).await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activation_strategy_holds_on_every_node_from_the_publish_on() {
    let database = TestDatabase::create().await;
    let nodes = start_three(&database, &[]);
    let http: Vec<&Http> = nodes.iter().map(|node| node.http.as_ref().unwrap()).collect();
    let model = json!({"definitionId": "one", "root": waits_for("Never")});
    http[0].publish(&model).await;
    for http in &http {
        send(http, "one", "dispatch", &json!({}), None).await.expect(200);
    }
    let mut single = model.clone();
    single["options"] = json!({"activationStrategyType":
        "Elsa.Workflows.Runtime.ActivationValidators.SingletonStrategy, Elsa.Workflows.Runtime"});
    http[1].publish(&single).await;
    for http in &http {
        send(http, "one", "dispatch", &json!({}), None)
            .await
            .assert_refused(409, "cannot-start");
    }
    http[2].publish(&model).await;
    for http in &http {
        send(http, "one", "dispatch", &json!({}), None).await.expect(200);
    }
    assert_invariants(&database).await;
}
