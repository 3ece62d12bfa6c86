//! Consumers: updated with what they use, listed and exported, and what a publish misses or refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{latest, line, named, save, script, sequence, usable, using};
use crate::support::node::{assert_invariants, start_three};
use crate::support::single_node::{SingleNode, literal};
use crate::support::{Connection, Http, LONG_TIMEOUT, TIMEOUT, TestDatabase, long, poll_until};

/// A definition that uses others in a sequence, one after another.
fn consumer(id: &str, uses: &[&str]) -> Value {
    let uses = uses.iter().enumerate();
    let uses = uses.map(|(at, definition)| using(&format!("use{at}"), definition));
    json!({"definitionId": id, "name": id, "root": sequence(uses.collect())})
}

/// Whether an archive has a file of this definition.
fn has_file(archive: &[u8], slug: &str) -> bool {
    let name = format!("workflow-definition-{slug}-");
    archive.windows(name.len()).any(|part| part == name.as_bytes())
}

#[tokio::test]
async fn an_export_has_the_consumers_of_all_levels() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    save(http, &usable("Low", sequence(vec![line("l", "'low'")])), true).await;
    save(http, &usable("Middle", sequence(vec![using("a", "Low")])), true).await;
    save(http, &consumer("Top", &["Middle"]), true).await;
    save(http, &consumer("Draft", &["Low"]), false).await;
    save(
        http,
        &json!({"definitionId": "Other", "name": "Other", "root": line("l", "'other'")}),
        true,
    )
    .await;
    let low = latest(http, "Low").await["id"].as_str().unwrap().to_owned();
    let middle = latest(http, "Middle").await["id"].as_str().unwrap().to_owned();
    let all = ["low", "middle", "top", "draft", "other"];
    let files = async |path: &str, body: Option<&Value>| {
        let (status, _, archive) = http.download(path, body).await;
        assert_eq!((status, &archive[..2]), (200, &b"PK"[..]), "{path}");
        all.map(|slug| has_file(&archive, slug))
    };
    let single = "workflow-definitions/Low/export?includeConsumingWorkflows=true";
    assert_eq!(files(single, None).await, [true, true, true, true, false]);
    let bulk = "bulk-actions/export/workflow-definitions";
    let with = json!({"ids": [middle], "includeConsumingWorkflows": true});
    assert_eq!(files(bulk, Some(&with)).await, [false, true, true, false, false]);
    let by_query = format!("{bulk}?ids={low}&ids={middle}&includeConsumingWorkflows=true");
    assert_eq!(files(&by_query, None).await, [true, true, true, true, false]);
    let without = json!({"ids": [low]});
    assert_eq!(files(bulk, Some(&without)).await, [true, false, false, false, false]);
}

#[tokio::test]
async fn references_are_updated_on_request_and_only_where_the_options_ask_for_it() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let update = async |id: &str| {
        let path = format!("workflow-definitions/{id}/update-references");
        http.post(&path, &json!({})).await
    };
    let p = usable("P", sequence(vec![line("p", "'p'")]));
    save(http, &p, false).await;
    save(http, &consumer("Q", &["P"]), false).await;
    // Without a published version nothing is updated.
    assert_eq!(update("P").await.expect(200), json!({"affectedWorkflows": []}));
    update("Gone").await.assert_refused(404, "definition-not-found");
    save(http, &p, true).await;
    // It was published with its version, and names another server's.
    save(http, &consumer("R", &["P"]), true).await;
    let version = latest(http, "P").await["id"].clone();
    assert_ne!(named(&latest(http, "R").await, 0), version);
    let updated = update("P").await.expect(200);
    assert_eq!(
        updated["affectedWorkflows"],
        json!(["R"]),
        "the publish of P has updated Q"
    );
    let (q, r) = (latest(http, "Q").await, latest(http, "R").await);
    assert_eq!(
        (named(&q, 0), named(&r, 0)),
        (version.as_str().unwrap(), version.as_str().unwrap())
    );
    assert_eq!((&q["version"], &r["version"]), (&json!(1), &json!(2)));
    assert_eq!(update("P").await.expect(200), json!({"affectedWorkflows": []}));
    let mut alone = usable("Alone", sequence(vec![]));
    alone["options"]["autoUpdateConsumingWorkflows"] = false.into();
    save(http, &alone, true).await;
    save(http, &consumer("S", &["Alone"]), true).await;
    assert_eq!(update("Alone").await.expect(200), json!({"affectedWorkflows": []}));
    assert_eq!(latest(http, "S").await["version"], 1);
    node.assert_invariants();
}

#[tokio::test]
async fn more_than_200_consumers_are_not_updated_by_one_publish() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let mut p = usable("P", sequence(vec![line("p", "'one'")]));
    save(http, &p, true).await;
    let mut form = Vec::new();
    for n in 0..201 {
        let content = consumer(&format!("C{n}"), &["P"]);
        let head = format!("--b\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{n}.json\"\r\n\r\n");
        form.extend(format!("{head}{content}\r\n").into_bytes());
    }
    form.extend(b"--b--\r\n");
    let multipart = ("content-type", "multipart/form-data; boundary=b");
    http.upload("workflow-definitions/import-files", &[multipart], form)
        .await
        .expect(200);
    let listed = http.get("workflow-definitions/P/consumers").await.expect(200);
    assert_eq!(listed["consumingWorkflowDefinitionIds"].as_array().unwrap().len(), 201);
    p["root"] = sequence(vec![line("p", "'two'")]);
    let publish = json!({"model": p, "publish": true});
    let refused = http.post("workflow-definitions", &publish).await;
    refused.assert_refused(409, "too-many-consumers");
    assert!(
        refused.body["message"]
            .as_str()
            .unwrap()
            .contains("turn autoUpdateConsumingWorkflows off")
    );
    let path = "workflow-definitions/P/update-references";
    http.post(path, &json!({}))
        .await
        .assert_refused(409, "too-many-consumers");
    assert_eq!(latest(http, "P").await["version"], 1);
    // With one less it updates all of them, and without the option none.
    http.delete("workflow-definitions/C200").await.expect(204);
    assert_eq!(save(http, &p, true).await["consumingWorkflowCount"], 200);
    node.assert_invariants();
}

#[tokio::test]
async fn a_consumer_that_names_its_type_only_is_updated_too() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let p = |word: &str| usable("P", sequence(vec![line("p", &format!("'{word}'"))]));
    save(http, &p("one"), true).await;
    // As a file of another server, where the definition has another id.
    let mut foreign = consumer("Q", &["P"]);
    foreign["root"]["activities"][0]["workflowDefinitionId"] = "0123456789abcdef".into();
    save(http, &foreign, true).await;
    let published = save(http, &p("two"), true).await;
    assert_eq!(published["consumingWorkflowCount"], 1);
    let q = latest(http, "Q").await;
    assert_eq!((&q["version"], &q["isPublished"]), (&json!(2), &json!(true)));
    assert_eq!(named(&q, 0), latest(http, "P").await["id"]);
    assert_eq!(q["root"]["activities"][0]["workflowDefinitionId"], "P");
    http.execute("Q", &json!({})).await;
    poll_until(TIMEOUT, "the line of the new version", async || {
        node.child.stdout().iter().any(|said| said == "two").then_some(())
    })
    .await;
    node.assert_invariants();
}

/// Sessions of nodes that wait for a lock.
async fn until_waiting(client: &Connection, sessions: i64) {
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
                       AND application_name LIKE 'mainspring%'
                       AND (query ILIKE '%definition_reference%' OR query ILIKE '%pg_advisory_xact_lock%')";
    poll_until(TIMEOUT, "publishes to wait", async || {
        (client.count(waiting).await >= sessions).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_consumer_that_is_published_meanwhile_is_not_missed() {
    let node = SingleNode::with_key(&[]).await;
    let http = &node.http;
    let p = |word: &str| usable("P", sequence(vec![line("p", &format!("'{word}'"))]));
    save(http, &p("one"), true).await;
    let (client, blocker) = (node.database.connect().await, node.database.connect().await);
    // The publish of the consumer stops before it writes what it uses, and holds the lock of compositions.
    blocker
        .run("BEGIN; LOCK TABLE mainspring.definition_reference IN EXCLUSIVE MODE")
        .await;
    let publish = |model: Value| {
        let http = http.clone();
        tokio::spawn(async move { save(&http, &model, true).await })
    };
    let first = publish(consumer("Q", &["P"]));
    until_waiting(&client, 1).await;
    // It sees no consumer before it waits for the other one.
    let second = publish(p("two"));
    until_waiting(&client, 2).await;
    blocker.run("COMMIT").await;
    first.await.unwrap();
    assert_eq!(second.await.unwrap()["consumingWorkflowCount"], 1);
    let q = latest(http, "Q").await;
    assert_eq!(
        (&q["version"], named(&q, 0)),
        (&json!(2), latest(http, "P").await["id"].as_str().unwrap())
    );
    node.assert_invariants();
}

/// A definition that waits for `go-<its name>`, and returns what the others return, which must be of one set of versions.
fn level(id: &str, uses: &[&str]) -> Value {
    let mut activities = Vec::new();
    let mut variables = Vec::new();
    for (at, inner) in uses.iter().enumerate() {
        let mut used = using(&format!("use{at}"), inner);
        used["n"] = json!({"typeName": "Int32", "memoryReference": {"id": format!("v{at}")}});
        used["where"] = json!({"typeName": "String", "expression": {"type": "Literal", "value": format!("{id}{at}")}});
        activities.push(used);
        variables.push(json!({"id": format!("v{at}"), "name": format!("V{at}"), "typeName": "Int32"}));
    }
    if uses.len() > 1 {
        activities.push(
            json!({"type": "Elsa.If", "id": "if", "condition": script("variables.V0 !== variables.V1"),
            "then": {"type": "Elsa.Fault", "id": "torn", "message": literal("two sets of versions in one instance")}}),
        );
    }
    activities
        .push(json!({"type": "Elsa.SetOutput", "id": "o", "outputName": "N", "outputValue": script("variables.V0")}));
    let mut definition = usable(id, sequence(activities));
    definition["variables"] = variables.into();
    definition["inputs"] = json!([{"name": "Where", "type": "String"}]);
    definition["outputs"] = json!([{"name": "N", "type": "Int32"}]);
    definition
}

/// Waits for an event that depends on where it is used, and returns the number of its version.
fn innermost(n: u32) -> Value {
    let wait = json!({"type": "Elsa.Event", "id": "wait", "eventName": script("'go-' + getInput('Where')")});
    let out = json!({"type": "Elsa.SetOutput", "id": "o", "outputName": "N", "outputValue": n});
    let mut definition = usable("P", sequence(vec![wait, out]));
    definition["inputs"] = json!([{"name": "Where", "type": "String"}]);
    definition["outputs"] = json!([{"name": "N", "type": "Int32"}]);
    definition
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_instance_runs_one_whole_set_of_versions_while_they_are_updated() {
    let (least, updates) = if long() { (2_000, 10) } else { (200, 3) };
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    // Bursts of a debug build take tens of milliseconds of a processor: hundreds at once would keep the lock session of their
    // node from being polled for seconds.
    let nodes = start_three(&database, &["--workers", "16"]);
    let of = |n: usize| nodes[n % 3].http.clone().unwrap();
    save(&of(0), &innermost(1), true).await;
    // Each level uses the one below and the innermost one, so that a set is torn where the two differ.
    for (id, uses) in [("Q", &["P"][..]), ("R", &["Q", "P"]), ("S", &["R", "P"])] {
        save(&of(1), &level(id, uses), true).await;
    }
    let stops = Arc::new(AtomicBool::new(false));
    let starts = tokio::spawn({
        let (nodes, stops): (Vec<Http>, _) = ((0..3).map(of).collect(), Arc::clone(&stops));
        async move {
            // 200 a second, whether or not the earlier ones have been answered.
            let mut pace = tokio::time::interval(Duration::from_millis(5));
            let mut started = JoinSet::new();
            let mut count = 0;
            while count < least || !stops.load(Relaxed) {
                // On a busy machine, the updates take long, and each instance takes its time below.
                if count == 3 * least {
                    pace = tokio::time::interval(Duration::from_millis(100));
                }
                pace.tick().await;
                let node = nodes[count % 3].clone();
                started.spawn(async move { node.dispatch("S", &json!({"instanceId": format!("i{count}")})).await });
                count += 1;
            }
            while let Some(answered) = started.join_next().await {
                answered.unwrap();
            }
            count
        }
    });
    let mut last = 1;
    for place in 0..updates {
        last += 1;
        let published = save(&of(place), &innermost(last), true).await;
        assert_eq!(published["consumingWorkflowCount"], 3);
    }
    stops.store(true, Relaxed);
    let count = i64::try_from(starts.await.unwrap()).unwrap();
    // All wait in the innermost definition, two levels of copies below their own; a further update crosses them.
    for (place, event) in ["Q0", "R1", "S1"].into_iter().enumerate() {
        let waiting = format!("SELECT count(*) FROM mainspring.bookmark WHERE payload::text LIKE '%go-{event}%'");
        poll_until(LONG_TIMEOUT, event, async || {
            (client.count(&waiting).await == count).then_some(())
        })
        .await;
        last += 1;
        save(&of(place), &innermost(last), true).await;
        of(place + 1).trigger(&format!("go-{event}"), &json!({})).await;
    }
    let finished = "SELECT count(*) FROM mainspring.instance WHERE sub_status = 3";
    poll_until(LONG_TIMEOUT, "all to finish", async || {
        (client.count(finished).await == count).then_some(())
    })
    .await;
    // Version n of S runs P as it was published with it, whatever was published while it waited.
    let mut seen: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for i in 0..usize::try_from(count).unwrap() {
        let instance = of(i).get(&format!("workflow-instances/i{i}")).await.expect(200);
        let version = instance["version"].as_i64().unwrap();
        let n = instance["workflowState"]["output"]["N"].as_i64().unwrap();
        seen.entry(version).or_default().insert(n);
    }
    for (version, published) in &seen {
        assert_eq!(published, &BTreeSet::from([*version]), "{seen:?}");
    }
    assert!(seen.len() > 1, "the starts met updates: {seen:?}");
    assert!(seen.keys().all(|version| *version <= i64::from(last) - 3), "{seen:?}");
    assert_invariants(&database).await;
}
