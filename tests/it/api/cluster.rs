//! What an operator sees at any node, and what can be done about dead letters.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants, publish};
use crate::support::{Gate, Http, TIMEOUT, TestDatabase, assert_fields, poll_until, wait_until};

const ROUTES: [&str; 2] = ["cluster/dead-letters", "bookmark-queue/dead-letters"];

fn start(database: &TestDatabase, name: &'static str, workers: &str, failpoints: &str) -> (Node, Http) {
    let settings = ["--check-in", "200ms", "--workers", workers, "--drain-notice", "0s"];
    let node = Node::start_with(database, name, &settings, failpoints);
    let http = node.http.clone().unwrap();
    (node, http)
}

async fn dispatch(http: &Http, instance: &str) {
    let body = json!({"instanceId": instance, "input": {"n": 1}});
    http.dispatch("walk", &body).await;
}

async fn items(http: &Http, path: &str) -> Vec<Value> {
    let mut listed = http.get(path).await.expect(200);
    let items = listed["items"].take();
    let items = items.as_array().unwrap().clone();
    assert_eq!(listed["totalCount"], items.len(), "{path}");
    items
}

#[tokio::test(flavor = "multi_thread")]
async fn any_node_lists_nodes_locks_and_queued_work() {
    let database = TestDatabase::create().await;
    let gate = Gate::new();
    let (one, first) = start(&database, "one", "8", &gate.stalls("burst.before"));
    let (_two, second) = start(&database, "two", "0", "");
    let (_three, third) = start(&database, "three", "0", "");
    publish(&second).await;
    dispatch(&second, "held").await;
    gate.reached().await;
    for http in [&first, &second, &third] {
        let nodes = items(http, "cluster/nodes").await;
        let listed: Vec<_> = nodes
            .iter()
            .map(|node| {
                (
                    node["nodeId"].as_str().unwrap(),
                    node["state"].as_str().unwrap(),
                    node["running"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(listed, [("one", "live", 1), ("two", "live", 0), ("three", "live", 0)]);
        assert!(
            nodes
                .iter()
                .all(|node| node["startedAt"].is_string() && node["lastSeenAt"].is_string())
        );

        let locks = items(http, "cluster/locks").await;
        let held: Vec<_> = locks.iter().filter(|lock| lock["name"] == "instance:held").collect();
        assert_eq!(held.len(), 1, "{locks:?}");
        assert_eq!(held[0]["nodeId"], "one");
        assert_eq!(held[0]["incarnation"], nodes[0]["incarnation"]);
        assert_fields!(held[0], {"mode": "exclusive", "waiters": 0});
        assert!(held[0]["heldMs"].is_u64(), "{locks:?}");
        // One for each live node; and no lock without a name.
        let liveness = locks
            .iter()
            .filter(|lock| lock["name"].as_str().unwrap().starts_with("liveness:"));
        assert_eq!(liveness.count(), 3, "{locks:?}");
        assert_eq!(locks.len(), 4, "{locks:?}");

        // The next one in the ring waits for each, but for a moment every few seconds.
        wait_until("every neighbour to wait", async || {
            let locks = items(http, "cluster/locks").await;
            let watched = |lock: &&Value| {
                lock["waiters"] == 1 && lock["name"].as_str().is_some_and(|name| name.starts_with("liveness:"))
            };
            locks.iter().filter(watched).count() == 3
        })
        .await;

        let queue = items(http, "cluster/queue").await;
        assert_eq!(queue.len(), 1, "{queue:?}");
        assert_fields!(queue[0], {"kind": "start", "state": "claimed", "count": 1});
        assert!(queue[0]["oldestAgeMs"].is_u64());
    }
    let page = second.get("cluster/nodes?page=1&pageSize=2").await.expect(200);
    assert_eq!(
        (&page["totalCount"], &page["items"][0]["nodeId"]),
        (&json!(3), &json!("three"))
    );
    for bad in ["nodes", "queue", "locks", "dead-letters"] {
        let answer = second.get(&format!("cluster/{bad}?pageSize=0")).await;
        answer.assert_refused(400, "invalid-field");
    }

    // It drains, which other nodes see, and leaves. Its released work waits for another node.
    one.child.signal("TERM");
    wait_until("the node to drain", async || {
        items(&third, "cluster/nodes").await[0]["state"] == "draining"
    })
    .await;
    gate.open();
    wait_until("the node to leave", async || {
        items(&third, "cluster/nodes").await.len() == 2
    })
    .await;
    dispatch(&second, "next").await;
    second.trigger("nobody", &json!({})).await;
    let queue = items(&third, "cluster/queue").await;
    let listed: Vec<_> = queue
        .iter()
        .map(|item| (item["kind"].as_str().unwrap(), item["state"].as_str().unwrap()))
        .collect();
    // The delay of the first one may be over by now.
    assert!(
        listed.contains(&("start", "ready")) && listed.contains(&("event", "kept")),
        "{queue:?}"
    );
    assert!(listed.iter().any(|(kind, _)| *kind == "delay"), "{queue:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_replayed_and_deleted() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let (_quiet, quiet) = start(&database, "quiet", "0", "");
    publish(&quiet).await;
    dispatch(&quiet, "poison").await;
    // Two processes crashed with it; a third one does.
    let suspect = "UPDATE mainspring.work SET crashes = 2 WHERE instance_id = 'poison'";
    assert_eq!(client.execute(suspect, &[]).await.unwrap(), 1);
    let queue = items(&quiet, "cluster/queue").await;
    assert_fields!(queue[0], {"state": "suspect", "count": 1});
    let (_armed, _) = start(&database, "armed", "8", "burst.instance.poison=abort");
    let dead_letter = poll_until(TIMEOUT, "the row to be dead-lettered", async || {
        items(&quiet, "cluster/dead-letters").await.into_iter().next()
    })
    .await;
    assert_fields!(dead_letter, {"kind": "start", "cause": "crashed"});
    assert_fields!(dead_letter, {"workflowInstanceId": "poison", "definitionId": "walk"});
    assert_fields!(dead_letter, {"crashes": 3, "failures": 0, "attempts": 3});
    assert!(
        dead_letter["lastError"].is_null()
            && dead_letter["createdAt"].is_string()
            && dead_letter["acceptedAt"].is_string()
    );
    assert!(
        dead_letter["reason"].as_str().unwrap().contains("crashed, 3 times"),
        "{dead_letter}"
    );

    // Others fail by themselves.
    for name in ["bad0", "bad1", "bad2"] {
        dispatch(&quiet, name).await;
    }
    let spoil = "UPDATE mainspring.work SET failures = 19, body = '{\"input\": 7}' WHERE instance_id LIKE 'bad%'";
    assert_eq!(client.execute(spoil, &[]).await.unwrap(), 3);
    let (_worker, worker) = start(&database, "worker", "8", "");
    wait_until("the rows to be dead-lettered", async || {
        items(&worker, "cluster/dead-letters").await.len() == 4
    })
    .await;

    // Newest first, under both routes, by pages and by instance.
    let all = items(&quiet, ROUTES[0]).await;
    assert_eq!(all[3], dead_letter);
    assert_fields!(all[0], {"cause": "failed", "failures": 20});
    assert!(
        all[0]["lastError"].as_str().is_some_and(|error| !error.is_empty()),
        "{}",
        all[0]
    );
    for route in ROUTES {
        let listed = items(&worker, route).await;
        let ids = |items: &[Value]| items.iter().map(|item| item["id"].clone()).collect::<Vec<_>>();
        assert_eq!(ids(&listed), ids(&all));
        let page = quiet.get(&format!("{route}?page=1&pageSize=3")).await.expect(200);
        assert_eq!(
            (
                &page["totalCount"],
                &page["items"][0]["id"],
                page["items"].as_array().unwrap().len()
            ),
            (&json!(4), &dead_letter["id"], 1)
        );
        let of_one = items(&quiet, &format!("{route}?workflowInstanceId=bad1")).await;
        assert_eq!((of_one.len(), &of_one[0]["workflowInstanceId"]), (1, &json!("bad1")));
        let one = quiet
            .get(&format!("{route}/{}", dead_letter["id"].as_str().unwrap()))
            .await
            .expect(200);
        assert_fields!(one, {"id": dead_letter["id"], "workflowInstanceId": "poison"});
        for id in ["none", "-1", "0", "+1", "99999999999999999999", "%F0%9F%92%A3"] {
            let (path, replay) = (format!("{route}/{id}"), format!("{route}/{id}/replay"));
            for answer in [
                quiet.get(&path).await,
                quiet.delete(&path).await,
                quiet.post(&replay, &json!({})).await,
            ] {
                answer.assert_refused(404, "dead-letter-not-found");
            }
        }
    }
    let elsas = quiet
        .post(
            ROUTES[1],
            &json!({"page": 0, "pageSize": 1, "workflowInstanceId": "poison"}),
        )
        .await
        .expect(200);
    let elsas = &elsas["items"][0];
    assert_fields!(elsas, {"deadLetteredAt": dead_letter["createdAt"], "deliveryAttempts": 3, "canReplay": true});
    assert_fields!(elsas, {"originalCreatedAt": dead_letter["acceptedAt"], "lastErrorMessage": null});

    // Replayed by a node that runs nothing, it is run at once by one that does.
    let replay = format!("{}/{}/replay", ROUTES[0], dead_letter["id"].as_str().unwrap());
    let replayed = quiet.send(Method::POST, &replay, &[], None).await.unwrap().expect(200);
    assert_fields!(replayed, {"replayed": true, "workflowInstanceId": "poison"});
    assert_eq!(quiet.post(&replay, &json!({})).await.status, 404);
    quiet.trigger("go-1", &json!({})).await;
    quiet.instance_becomes("poison", "Finished").await;

    // One whose instance has finished is not needed.
    let twice = "UPDATE mainspring.dead_letter SET instance_id = 'poison', kind = 1 WHERE instance_id = 'bad2'";
    assert_eq!(client.execute(twice, &[]).await.unwrap(), 1);
    let (gone, kept): (Vec<_>, Vec<_>) = all[..3]
        .iter()
        .partition(|dead_letter| dead_letter["workflowInstanceId"] == "bad2");
    let replay = format!("{}/{}/replay", ROUTES[1], gone[0]["id"].as_str().unwrap());
    let unneeded = quiet.post(&replay, &json!({})).await.expect(409);
    assert_fields!(unneeded, {"replayed": false, "queueItemId": null, "reason": "NotNeeded"});
    for (route, dead_letter) in ROUTES.into_iter().zip(kept) {
        let path = format!("{route}/{}", dead_letter["id"].as_str().unwrap());
        assert_eq!(quiet.delete(&path).await.expect(204), Value::Null);
        assert_eq!(quiet.delete(&path).await.status, 404);
    }
    assert!(items(&worker, ROUTES[0]).await.is_empty());
    assert_invariants(&database).await;
}
