//! Workflows as activities: published, looked into, updated with their consumers, and run on three nodes.

use reqwest::Method;
use serde_json::{Value, json};

use super::{latest, line, named, save, script, sequence, usable, using};
use crate::support::node::{assert_invariants, start_three};
use crate::support::single_node::{SingleNode, literal};
use crate::support::{LONG_TIMEOUT, TIMEOUT, TestDatabase, poll_until};

#[tokio::test]
async fn a_consumer_is_published_looked_into_and_protects_what_it_uses() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let mut provider = usable(
        "Provider",
        sequence(vec![
            json!({"type": "Elsa.SetOutput", "id": "out", "outputName": "Output1", "outputValue": script("getInput1()")}),
            line("say", "'inside'"),
        ]),
    );
    provider["inputs"] = json!([{"name": "Input1", "type": "Object", "displayName": "Input 1"}]);
    provider["outputs"] = json!([{"name": "Output1", "type": "Object"}]);
    let saved = save(http, &provider, true).await["workflowDefinition"].clone();

    let types = http.get("descriptors/activities").await.expect(200);
    let found = types["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["typeName"] == "Provider");
    let found = found.expect("the descriptor of the definition");
    assert_eq!(found["customProperties"]["RootType"], "WorkflowDefinitionActivity");
    assert_eq!(found["customProperties"]["WorkflowDefinitionVersionId"], saved["id"]);
    assert_eq!(found["inputs"][0]["displayName"], "Input 1");
    assert_eq!(
        (&found["inputs"][0]["isSynthetic"], &found["isBrowsable"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        found["ports"][0],
        json!({"name": "Root", "displayName": "Root", "type": "Embedded", "isBrowsable": false})
    );
    assert_eq!(&http.get("descriptors/activities/Provider").await.expect(200), found);

    let mut used = using("p", "Provider");
    used["input1"] = literal("Hello World!");
    used["output1"] = json!({"typeName": "Object", "memoryReference": {"id": "v"}});
    let consumer = json!({"definitionId": "Consumer", "name": "Consumer", "root": sequence(vec![used, line("l", "variables.V")]),
        "variables": [{"id": "v", "name": "V", "typeName": "String", "value": ""}]});
    let published = save(http, &consumer, true).await["workflowDefinition"].clone();
    let version = published["id"].as_str().unwrap();
    let ran = http.execute("Consumer", &json!({})).await["workflowState"].clone();
    assert_eq!(
        (&ran["subStatus"], &ran["properties"]["Variables"]["V"]),
        (&json!("Finished"), &json!("Hello World!"))
    );

    // It is not inlined, and can be looked into.
    let activity = &published["root"]["activities"][0];
    assert_eq!(
        (activity.get("root"), &activity["nodeId"]),
        (None, &json!("Workflow1:s:p"))
    );
    let inside = "Workflow1:s:p:Workflow1:s:say";
    let subgraph = async |node_id: &str| {
        let path = format!("workflow-definitions/subgraph/{version}?parentNodeId={node_id}");
        http.get(&path).await.expect(200)
    };
    let of_activity = subgraph("Workflow1:s:p").await;
    assert_eq!(
        of_activity["activity"]["root"]["root"]["activities"][1]["nodeId"],
        inside
    );
    let of_line = subgraph(inside).await;
    assert_eq!(of_line["activity"]["id"], "say");
    let path = format!("workflow-definitions/subgraph/segments/{version}?childNodeId={inside}");
    let segments = http.get(&path).await.expect(200)["pathSegments"].clone();
    let ports: Vec<(&Value, &Value)> = segments
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["activityId"], &it["portName"]))
        .collect();
    let text = |text: &str| json!(text);
    assert_eq!(
        ports,
        [
            (&text("s"), &text("activities")),
            (&text("p"), &text("Root")),
            (&text("s"), &text("activities"))
        ]
    );

    let consumers = http.get("workflow-definitions/Provider/consumers").await.expect(200);
    assert_eq!(consumers, json!({"consumingWorkflowDefinitionIds": ["Consumer"]}));
    let (status, headers, archive) = http
        .download(
            "workflow-definitions/Provider/export?includeConsumingWorkflows=true",
            None,
        )
        .await;
    assert_eq!((status, &archive[..2]), (200, &b"PK"[..]));
    assert!(headers["content-disposition"].to_str().unwrap().contains(".zip"));
    let (_, headers, _) = http.download("workflow-definitions/Provider/export", None).await;
    assert!(headers["content-disposition"].to_str().unwrap().contains(".json"));

    let refused = http.delete("workflow-definitions/Provider").await;
    refused.assert_refused(409, "definition-used");
    assert!(
        refused.body["message"]
            .as_str()
            .unwrap()
            .contains("Consumer (version 1)"),
        "{}",
        refused.body
    );
    // Retracted, it continues inside the versions that use it.
    http.post("workflow-definitions/Provider/retract", &json!({}))
        .await
        .expect(200);
    let ran = http.execute("Consumer", &json!({})).await;
    assert_eq!(ran["workflowState"]["subStatus"], "Finished");
    http.delete("workflow-definitions/Consumer").await.expect(204);
    http.delete("workflow-definitions/Provider").await.expect(204);
    node.assert_invariants();
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_with_its_path() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let refused = async |model: &Value, code: &str, part: &str| {
        let body = json!({"model": model, "publish": true});
        let answer = http.post("workflow-definitions", &body).await;
        answer.assert_refused(400, code);
        assert!(answer.body.to_string().contains(part), "{}", answer.body);
    };
    let consumer = |of: &str| json!({"definitionId": "C", "name": "C", "root": sequence(vec![using("a", of)])});
    refused(&consumer("Gone"), "invalid-definition", "workflowDefinitionId is Gone").await;
    save(
        http,
        &json!({"definitionId": "Plain", "name": "Plain", "root": sequence(vec![])}),
        true,
    )
    .await;
    refused(&consumer("Plain"), "invalid-definition", "usableAsActivity").await;

    save(http, &usable("A", sequence(vec![])), true).await;
    save(http, &usable("B", sequence(vec![using("a", "A")])), true).await;
    refused(
        &usable("A", sequence(vec![using("b", "B")])),
        "composition-cycle",
        "A → B → A",
    )
    .await;
    refused(
        &usable("A", sequence(vec![using("a", "A")])),
        "composition-cycle",
        "A → A",
    )
    .await;
    assert_eq!(latest(http, "A").await["version"], 1);
    node.assert_invariants();
}

#[tokio::test]
async fn a_publish_updates_its_consumers_through_all_levels() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let p = |n: u32| usable("P", line("p", &format!("'p{n}'")));
    save(http, &p(1), true).await;
    let mut q = usable("Q", sequence(vec![using("p", "P"), line("q", "'q'")]));
    q["options"]["autoUpdateConsumingWorkflows"] = false.into();
    save(http, &q, true).await;
    let trigger = json!({"type": "Elsa.Event", "id": "e", "eventName": literal("go"), "customProperties": {"canStartWorkflow": true}});
    let r = json!({"definitionId": "R", "name": "R", "root": sequence(vec![trigger, using("q", "Q")])});
    save(http, &r, true).await;
    // A draft with an unfinished activity, of a published consumer and of none.
    let mut draft = r.clone();
    draft["definitionId"] = "D".into();
    draft["root"]["activities"][0] = using("p", "P");
    save(http, &draft, false).await;

    let published = save(http, &p(2), true).await;
    assert_eq!(published["consumingWorkflowCount"], 3);
    let (p2, q2, r2, d) = (
        latest(http, "P").await,
        latest(http, "Q").await,
        latest(http, "R").await,
        latest(http, "D").await,
    );
    for (definition, version) in [(&p2, 2), (&q2, 2), (&r2, 2)] {
        assert_eq!(
            (&definition["version"], &definition["isPublished"]),
            (&json!(version), &json!(true))
        );
    }
    assert_eq!((&d["version"], &d["isPublished"]), (&json!(1), &json!(false)));
    assert_eq!(named(&q2, 0), p2["id"]);
    assert_eq!(named(&r2, 1), q2["id"]);
    assert_eq!(
        (named(&d, 0), named(&d, 1)),
        (p2["id"].as_str().unwrap(), q2["id"].as_str().unwrap())
    );
    // Its trigger starts the new version.
    http.trigger("go", &json!({})).await;
    poll_until(TIMEOUT, "the line of the new version", async || {
        node.child.stdout().iter().any(|said| said == "p2").then_some(())
    })
    .await;
    // An equal one publishes nothing.
    let again = save(http, &p(2), true).await;
    assert_eq!(
        (&again["alreadyPublished"], &again["consumingWorkflowCount"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(latest(http, "R").await["version"], 2);
    // A bulk publish names them.
    save(http, &p(3), false).await;
    let bulk = http
        .post(
            "bulk-actions/publish/workflow-definitions/by-definition-ids",
            &json!({"definitionIds": ["P"]}),
        )
        .await
        .expect(200);
    assert_eq!(
        (&bulk["published"], &bulk["updatedConsumers"]),
        (&json!(["P"]), &json!(["D", "Q", "R"]))
    );
    // What it would break is named, and nothing is written.
    let mut broken = p(3);
    broken["inputs"] = json!([{"name": "N", "type": "Int32"}]);
    let mut uses = using("p", "P");
    uses["n"] = literal("no number");
    save(
        http,
        &json!({"definitionId": "X", "name": "X", "root": sequence(vec![uses])}),
        true,
    )
    .await;
    let answer = http
        .post("workflow-definitions", &json!({"model": broken, "publish": true}))
        .await;
    answer.assert_refused(409, "consumer-invalid");
    assert!(
        answer.body["message"].as_str().unwrap().contains("the consumer X"),
        "{}",
        answer.body
    );
    assert_eq!(latest(http, "P").await["version"], 3);
    node.assert_invariants();
}

#[tokio::test]
async fn a_started_draft_keeps_what_it_uses() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let child = |n: u32| {
        usable(
            "Child",
            sequence(vec![
                json!({"type": "Elsa.Event", "id": "e", "eventName": literal("go")}),
                line("l", &format!("'child {n}'")),
            ]),
        )
    };
    save(http, &child(1), false).await;
    save(
        http,
        &json!({"definitionId": "C", "name": "C", "root": sequence(vec![using("a", "Child")])}),
        false,
    )
    .await;
    let start = json!({"versionOptions": "Latest", "instanceId": "one"});
    http.dispatch("C", &start).await;
    http.instance_becomes("one", "Suspended").await;
    // The draft that it uses never changes: the next one is another row.
    save(http, &child(2), false).await;
    http.trigger("go", &json!({})).await;
    http.instance_becomes("one", "Finished").await;
    assert_eq!(
        node.child
            .stdout()
            .iter()
            .filter(|said| said.starts_with("child"))
            .collect::<Vec<_>>(),
        ["child 1"]
    );
    node.assert_invariants();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nine_copies_wait_and_go_on_on_three_nodes() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let nodes = start_three(&database, &[]);
    let of = |n: usize| nodes[n % 3].http.clone().unwrap();
    let mut child = usable(
        "Step",
        sequence(vec![
            json!({"type": "Elsa.Event", "id": "wait", "eventName": script("`go-${getInput('N')}`")}),
            json!({"type": "Elsa.Delay", "id": "delay", "timeSpan": literal("00:00:00.050")}),
            json!({"type": "Elsa.SetOutput", "id": "out", "outputName": "Said",
            "outputValue": script("`${getInput('N')}:${getResultFromwait().n}`")}),
        ]),
    );
    child["inputs"] = json!([{"name": "N", "type": "Int32"}]);
    child["outputs"] = json!([{"name": "Said", "type": "String"}]);
    save(&of(0), &child, true).await;
    let uses = (1..=9).map(|n| {
        let mut used = using(&format!("u{n}"), "Step");
        used["n"] = json!({"typeName": "Int32", "expression": {"type": "Literal", "value": n}});
        used["said"] = json!({"typeName": "String", "memoryReference": {"id": format!("v{n}")}});
        used
    });
    let variables: Vec<Value> = (1..=9)
        .map(|n| json!({"id": format!("v{n}"), "name": format!("V{n}"), "typeName": "String"}))
        .collect();
    let consumer = json!({"definitionId": "Nine", "name": "Nine", "variables": variables,
        "root": {"type": "Elsa.Fork", "id": "f", "joinMode": "WaitAll", "branches": uses.collect::<Vec<_>>()}});
    save(&of(1), &consumer, true).await;
    // The descriptor is there on every node.
    for n in 0..3 {
        of(n)
            .get("descriptors/activities/Nine")
            .await
            .assert_refused(404, "activity-type-not-found");
        of(n).get("descriptors/activities/Step").await.expect(200);
    }
    for i in 0..6 {
        of(i).dispatch("Nine", &json!({"instanceId": format!("i{i}")})).await;
    }
    let bookmarks = "SELECT count(*) FROM mainspring.bookmark WHERE name = 'Elsa.Event'";
    poll_until(LONG_TIMEOUT, "all to wait", async || {
        (client.count(bookmarks).await == 54).then_some(())
    })
    .await;
    for n in 1..=9 {
        of(n).trigger(&format!("go-{n}"), &json!({"input": {"n": n}})).await;
    }
    let finished = "SELECT count(*) FROM mainspring.instance WHERE sub_status = 3";
    poll_until(LONG_TIMEOUT, "all to finish", async || {
        (client.count(finished).await == 6).then_some(())
    })
    .await;
    for i in 0..6 {
        let state = of(i + 1).get(&format!("workflow-instances/i{i}")).await.expect(200)["workflowState"].clone();
        for n in 1..=9 {
            assert_eq!(
                state["properties"]["Variables"][format!("V{n}")],
                format!("{n}:{n}"),
                "i{i}"
            );
        }
    }
    // Each copy ran once, under its own path.
    let copies =
        "SELECT count(DISTINCT node_id) FROM mainspring.journal WHERE activity_id = 'out' AND event_name = 'Completed'";
    assert_eq!(client.count(copies).await, 9);
    let once = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'out' AND event_name = 'Completed'";
    assert_eq!(client.count(once).await, 54);
    // The filter by node id finds one copy.
    let one = json!({"workflowInstanceIds": ["i0"], "filter": {"activityNodeIds": ["Workflow1:f:u3:Workflow1:s:out"]}});
    let found = of(0)
        .send(Method::POST, "workflow-instances/i0/journal", &[], Some(&one))
        .await
        .unwrap();
    assert_eq!(found.expect(200)["totalCount"], 2);
    assert_invariants(&database).await;
}
