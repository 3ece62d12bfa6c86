//! Definitions as Elsa's designer uses them: lists, versions, drafts that run, retracts and deletes.

use serde_json::{Value, json};

use crate::support::Http;
use crate::support::single_node::{SingleNode, literal, waits_for};

fn flow(text: &str) -> Value {
    let line = json!({"id": "Line", "type": "Elsa.WriteLine", "text": literal(text), "nodeId": "stale"});
    let inner = json!({"id": "Inner", "type": "Elsa.Sequence", "activities": [line, {"type": "Elsa.WriteLine", "text": literal("b")}]});
    json!({"id": "Flow", "type": "Elsa.Flowchart", "activities": [inner], "connections": []})
}

async fn save(http: &Http, id: &str, name: &str, root: Value, publish: bool) -> Value {
    let model =
        json!({"definitionId": id, "name": name, "root": root, "options": null, "variables": null, "links": null});
    let saved = http
        .post("workflow-definitions", &json!({"model": model, "publish": publish}))
        .await
        .expect(200);
    saved["workflowDefinition"].clone()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap()).collect()
}

fn rels(links: &Value) -> Vec<&str> {
    links
        .as_array()
        .unwrap()
        .iter()
        .map(|link| link["rel"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_designer_lists_edits_and_reads_definitions() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let first = save(http, "a", "beta", flow("1"), true).await;
    let line = &first["root"]["activities"][0]["activities"];
    assert_eq!(first["root"]["nodeId"], "Workflow1:Flow");
    assert_eq!(line[0]["nodeId"], "Workflow1:Flow:Inner:Line");
    assert_eq!(line[1]["nodeId"], "Workflow1:Flow:Inner:WriteLine1");
    for never_null in [
        "options",
        "variables",
        "inputs",
        "outputs",
        "outcomes",
        "customProperties",
    ] {
        assert!(!first[never_null].is_null(), "{never_null}");
    }
    // What comes back unchanged makes no draft, whatever its node ids.
    let again = http
        .post("workflow-definitions", &json!({"model": first, "publish": false}))
        .await
        .expect(200);
    assert_eq!(
        (&again["alreadyPublished"], &again["workflowDefinition"]["id"]),
        (&json!(true), &first["id"])
    );

    let draft = save(http, "a", "beta", flow("2"), false).await;
    assert_eq!(draft["version"], 2);
    save(http, "b", "Alpha", flow("1"), true).await;
    save(http, "c", "gamma", flow("1"), false).await;
    let list = async |query: &str| http.get(&format!("workflow-definitions?{query}")).await.expect(200);
    let latest =
        list("versionOptions=Latest&Page=0&PageSize=10&SearchTerm=&IsSystem=False&OrderDirection=Ascending").await;
    assert_eq!(names(&latest), ["Alpha", "beta", "gamma"]);
    assert!(rels(&latest["links"]).contains(&"bulk-publish"));
    assert!(rels(&latest["items"][0]["links"]).contains(&"publish"));
    assert!(latest["items"][0]["root"].is_null());
    for (query, expected) in [
        (
            "versionOptions=Latest&OrderBy=Name&OrderDirection=Descending",
            vec!["gamma", "beta", "Alpha"],
        ),
        (
            "versionOptions=Latest&OrderBy=Created&OrderDirection=Descending",
            vec!["gamma", "Alpha", "beta"],
        ),
        ("versionOptions=Published", vec!["Alpha", "beta"]),
        ("versionOptions=Published&DefinitionIds=a&DefinitionIds=c", vec!["beta"]),
        ("versionOptions=LatestOrPublished&DefinitionIds=a", vec!["beta", "beta"]),
        ("versionOptions=LatestAndPublished", vec!["Alpha"]),
        ("versionOptions=Draft", vec!["beta", "gamma"]),
        ("versionOptions=2", vec!["beta"]),
        ("versionOptions=AllVersions&SearchTerm=BET", vec!["beta", "beta"]),
        ("versionOptions=Latest&SearchTerm=%25", vec![]),
        ("versionOptions=Latest&IsSystem=True", vec![]),
        ("versionOptions=Latest&Page=1&PageSize=2", vec!["gamma"]),
    ] {
        assert_eq!(names(&list(query).await), expected, "{query}");
    }
    let history =
        list("versionOptions=AllVersions&Page=0&PageSize=10&DefinitionIds=a&OrderBy=Version&OrderDirection=Descending")
            .await;
    let versions: Vec<&Value> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["version"])
        .collect();
    assert_eq!(versions, [2, 1]);
    let (one, two) = (first["id"].as_str().unwrap(), draft["id"].as_str().unwrap());
    assert_eq!(
        list(&format!("versionOptions=&Ids={one}&ids={two}")).await["totalCount"],
        2
    );
    let many = http
        .get(&format!("workflow-definitions/many-by-id?ids={two}&ids=none"))
        .await
        .expect(200);
    assert_eq!(
        (&many["count"], &many["items"][0]["root"]["nodeId"]),
        (&json!(1), &json!("Workflow1:Flow"))
    );
    assert_eq!(
        http.get("workflow-definitions/query/count").await.expect(200)["count"],
        3
    );
    for (query, unique) in [
        ("name=beta", false),
        ("name=%20beta%09", false),
        ("name=beta&definitionId=a", true),
        ("name=delta", true),
    ] {
        let answer = http
            .get(&format!("workflow-definitions/validation/is-name-unique?{query}"))
            .await;
        assert_eq!(answer.expect(200)["isUnique"], unique, "{query}");
    }
    let rootless = json!({"model": {"name": "Rootless"}, "publish": false});
    let path = "workflow-definitions/rootless";
    let rootless = http.put(path, &rootless).await.expect(200);
    let rootless = rootless["workflowDefinition"]["id"].as_str().unwrap();
    let answer = http.get(&format!("workflow-definitions/subgraph/{rootless}")).await;
    answer.assert_refused(404, "definition-not-found");
    let subgraph = format!("workflow-definitions/subgraph/{one}?parentNodeId=Workflow1:Flow:Inner");
    assert_eq!(http.get(&subgraph).await.expect(200)["activity"]["id"], "Inner");
    let segments = format!("workflow-definitions/subgraph/segments/{one}?childNodeId=");
    let path = http
        .get(&format!("{segments}Workflow1:Flow:Inner:Line"))
        .await
        .expect(200);
    assert_eq!(path["pathSegments"][0]["activityNodeId"], "Workflow1:Flow:Inner");
    assert_eq!(path["container"]["nodeId"], "Workflow1:Flow:Inner");
    // Around what is in the root flowchart, and around itself, the container is the workflow.
    for (child, id) in [
        ("Workflow1:Flow:Inner", "Inner"),
        ("Workflow1:Flow", "Flow"),
        ("Workflow1", "Workflow1"),
    ] {
        let path = http.get(&format!("{segments}{child}")).await.expect(200);
        let container = &path["container"];
        assert_eq!(
            (
                &path["childNode"]["nodeId"],
                &path["childNode"]["activity"]["id"],
                &path["pathSegments"]
            ),
            (&json!(child), &json!(id), &json!([]))
        );
        assert_eq!(
            (
                &container["nodeId"],
                &container["activity"]["type"],
                &container["activity"]["root"]["nodeId"]
            ),
            (&json!("Workflow1"), &json!("Elsa.Workflow"), &json!("Workflow1:Flow")),
            "{child}"
        );
        assert_eq!(container["activity"]["identity"]["id"], json!(one));
    }
    let whole = format!("workflow-definitions/subgraph/{one}?parentNodeId=Workflow1");
    assert_eq!(http.get(&whole).await.expect(200)["activity"]["root"]["id"], "Flow");
    http.get(&format!("{segments}Workflow1:None"))
        .await
        .assert_refused(400, "node-not-found");
    let consumers = http.get("workflow-definitions/a/consumers").await.expect(200);
    assert_eq!(consumers["consumingWorkflowDefinitionIds"], json!([]));

    // A revert is a new draft, and the draft before it stays.
    let reverted = http
        .post("workflow-definitions/a/revert/1", &json!(null))
        .await
        .expect(201);
    assert_eq!(
        (&reverted["version"], &reverted["isLatest"], &reverted["isPublished"]),
        (&json!(3), &json!(true), &json!(false))
    );
    let read = http
        .get(&format!(
            "workflow-definitions/by-id/{}",
            reverted["id"].as_str().unwrap()
        ))
        .await
        .expect(200);
    assert_eq!(read["root"], first["root"]);
    http.delete(&format!(
        "workflow-definition-versions/{}",
        reverted["id"].as_str().unwrap()
    ))
    .await
    .expect(204);
    let newest = http
        .get("workflow-definitions/by-definition-id/a?versionOptions=Latest")
        .await
        .expect(200);
    assert_eq!((&newest["version"], &newest["isLatest"]), (&json!(2), &json!(true)));
    for (method, path) in [
        ("POST", "workflow-definitions/none/retract"),
        ("POST", "workflow-definitions/none/revert/1"),
        ("POST", "workflow-definitions/a/revert/9"),
        ("DELETE", "workflow-definitions/none"),
        ("DELETE", "workflow-definition-versions/none"),
    ] {
        let answer = match method {
            "POST" => http.post(path, &json!({})).await,
            _ => http.delete(path).await,
        };
        answer.assert_refused(404, "definition-not-found");
    }
    node.assert_invariants();
}

#[tokio::test]
async fn a_draft_runs_and_what_is_deleted_keeps_its_instances() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let draft = save(
        http,
        "d",
        "draft",
        json!({"id": "Flow", "type": "Elsa.Sequence", "activities": [waits_for("go")]}),
        false,
    )
    .await;
    http.post("workflow-definitions/d/execute", &json!({}))
        .await
        .assert_refused(404, "definition-not-found");
    let run = json!({"correlationId": null, "triggerActivityId": null, "versionOptions": "Latest", "input": null});
    let executed = http.post("workflow-definitions/d/execute", &run).await;
    let instance = executed.header("x-elsa-workflow-instance-id").to_owned();
    assert_eq!(
        executed.expect(200)["workflowState"]["definitionVersionId"],
        draft["id"]
    );
    // The next save replaces the draft, and the instance keeps what it runs on.
    let changed = save(http, "d", "draft", flow("changed"), false).await;
    assert_ne!(changed["id"], draft["id"]);
    assert_eq!(changed["version"], draft["version"]);
    let kept = format!("workflow-definitions/by-id/{}", draft["id"].as_str().unwrap());
    let shown = http.get(&kept).await.expect(200);
    assert_eq!(
        (&shown["isLatest"], &shown["root"]["activities"][0]["id"]),
        (&json!(false), &json!("e"))
    );
    http.trigger("go", &json!({})).await;
    http.instance_becomes(&instance, "Finished").await;
    let invalid = save(http, "e", "invalid", json!({"id": "x", "type": "Mine.Missing"}), false).await;
    assert_eq!(invalid["root"]["nodeId"], "Workflow1:x");
    http.post("workflow-definitions/e/execute", &run)
        .await
        .assert_refused(400, "invalid-definition");
    http.dispatch("d", &json!({"versionOptions": "1"})).await;

    // A retract ends what starts it.
    let trigger = json!({"id": "t", "type": "Elsa.Event", "eventName": literal("start"), "canStartWorkflow": true});
    save(
        http,
        "t",
        "trigger",
        json!({"id": "Flow", "type": "Elsa.Sequence", "activities": [trigger, waits_for("end")]}),
        true,
    )
    .await;
    http.post("workflow-definitions/e/retract", &json!({}))
        .await
        .assert_refused(400, "not-published");
    let started = http.execute("t", &json!({"triggerActivityId": "t"})).await;
    let waiting = started["workflowState"]["id"].as_str().unwrap().to_owned();
    let retracted = http
        .post("workflow-definitions/t/retract", &json!({}))
        .await
        .expect(200);
    assert_eq!(
        (&retracted["isPublished"], &retracted["root"]["nodeId"]),
        (&json!(false), &json!("Workflow1:Flow"))
    );
    let refused = http.post("workflow-definitions/t/execute", &json!({})).await;
    refused.assert_refused(404, "definition-not-found");
    let bulk = async |action: &str, body: Value| http.post(&format!("bulk-actions/{action}"), &body).await.expect(200);
    let ids = json!({"definitionIds": ["t", "e", "none", "t"]});
    let published = bulk("publish/workflow-definitions/by-definition-ids", ids.clone()).await;
    assert_eq!(
        (&published["published"], &published["failed"], &published["notFound"]),
        (&json!(["t"]), &json!(["e"]), &json!(["none"]))
    );
    assert!(published["warnings"]["e"][0].is_string());
    let done = bulk("retract/workflow-definitions/by-definition-ids", ids).await;
    assert_eq!(
        (&done["retracted"], &done["alreadyRetracted"], &done["notFound"]),
        (&json!(["t"]), &json!(["e"]), &json!(["none"]))
    );

    // Its running instance outlives the definition, with its version; a version without instances is gone at once.
    let version = retracted["id"].as_str().unwrap();
    let deleted = bulk(
        "delete/workflow-definitions/by-definition-id",
        json!({"definitionIds": ["t", "none"]}),
    )
    .await;
    assert_eq!(deleted["deleted"], 1);
    let gone = bulk(
        "delete/workflow-definitions/by-id",
        json!({"ids": [invalid["id"], "none"]}),
    )
    .await;
    assert_eq!(gone["deleted"], 1);
    http.get(&format!(
        "workflow-definitions/by-id/{}",
        invalid["id"].as_str().unwrap()
    ))
    .await
    .assert_refused(404, "definition-not-found");
    http.get("workflow-definitions/t")
        .await
        .assert_refused(404, "definition-not-found");
    let listed = http
        .get(&format!("workflow-definitions?versionOptions=&Ids={version}"))
        .await
        .expect(200);
    assert_eq!(names(&listed), ["trigger"]);
    assert_eq!(
        http.get("workflow-definitions?versionOptions=AllVersions&DefinitionIds=t")
            .await
            .expect(200)["totalCount"],
        0
    );
    http.get(&format!("workflow-definitions/by-id/{version}"))
        .await
        .expect(200);
    let start = json!({"versionOptions": "Latest"});
    http.post("workflow-definitions/t/execute", &start)
        .await
        .assert_refused(404, "definition-not-found");
    http.trigger("end", &json!({})).await;
    http.instance_becomes(&waiting, "Finished").await;
    http.delete("workflow-definitions/d").await.expect(204);
    node.assert_invariants();
}

/// A flowchart in which a merge misses one of its paths, behind a fork that has none.
fn merging() -> Value {
    let activities = json!([
        {"id": "start", "type": "Elsa.Start"},
        {"id": "line", "type": "Elsa.WriteLine", "text": literal("line")},
        {"id": "choice", "type": "Elsa.FlowDecision", "condition": false},
        {"id": "fork", "type": "Elsa.Fork", "branches": []},
        {"id": "merge", "type": "Elsa.WriteLine", "text": literal("merge"), "customProperties": {"mergeMode": "Merge"}},
    ]);
    let arrow = |source: &str, port: &str, target: &str| json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}});
    let connections = json!([
        arrow("start", "Done", "line"),
        arrow("start", "Done", "choice"),
        arrow("choice", "True", "fork"),
        arrow("line", "Done", "merge"),
        arrow("fork", "Done", "merge"),
    ]);
    json!({"id": "Flow", "type": "Elsa.Flowchart", "activities": activities, "connections": connections})
}

#[tokio::test]
async fn a_publish_warns_and_flowcharts_run_as_the_server_is_set() {
    let node = SingleNode::with_key(&["--flowchart-mode", "token"]).await;
    let http = &node.http;
    let saved = save(http, "tokens", "Tokens", merging(), false).await;
    let publish = async || {
        let path = "workflow-definitions/tokens/publish";
        http.post(path, &json!({})).await.expect(200)
    };
    let published = publish().await;
    let warning = published["validationErrors"][0].as_str().unwrap();
    assert!(
        warning.contains("The fork fork (Elsa.Fork) has no branches"),
        "{warning}"
    );
    assert_eq!(published["workflowDefinition"]["isPublished"], true);
    assert_eq!(publish().await["validationErrors"], json!([]), "nothing was published");

    let model = json!({"definitionId": "counts", "root": merging(),
        "customProperties": {"Flowchart:ExecutionMode": "CounterBased"}});
    let saved_counts = http
        .post("workflow-definitions", &json!({"model": model, "publish": true}))
        .await
        .expect(200);
    assert_eq!(saved_counts["validationErrors"].as_array().unwrap().len(), 1);
    save(http, "again", "Again", merging(), false).await;
    let ids = json!({"definitionIds": ["again"]});
    let done = http
        .post("bulk-actions/publish/workflow-definitions/by-definition-ids", &ids)
        .await
        .expect(200);
    assert_eq!((&done["published"], &done["failed"]), (&json!(["again"]), &json!([])));
    assert_eq!(done["warnings"]["again"], json!([warning]));

    let completed = async |id: &str| {
        let run = http
            .post(&format!("workflow-definitions/{id}/execute"), &json!({}))
            .await
            .expect(200);
        let state = &run["workflowState"];
        assert_eq!(state["subStatus"], "Finished", "{state}");
        let id = state["id"].as_str().unwrap();
        let journal = http.get(&format!("workflow-instances/{id}/journal")).await.expect(200);
        let ended = |entry: &&Value| entry["eventName"] == "Completed" && entry["activityId"] == "merge";
        journal["items"].as_array().unwrap().iter().filter(ended).count()
    };
    assert_eq!(completed("tokens").await, 0, "{saved}");
    assert_eq!(completed("counts").await, 1);
}
