//! Refreshes: what starts published definitions is computed and written again.

use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::literal;
use crate::support::{Http, TestDatabase, wait_until};

/// A workflow that an event starts, and an hourly timer.
fn model(id: &str) -> Value {
    let start = json!({"id": "start", "type": "Elsa.Event", "eventName": literal(id), "canStartWorkflow": true});
    let timer = json!({"id": "timer", "type": "Elsa.Timer", "canStartWorkflow": true, "interval": "01:00:00"});
    // An hour after its publish, and not after a refresh.
    let later = json!({"type": "DateTime", "expression": {"type": "JavaScript",
        "value": "new Date(Date.now() + 3600000).toISOString()"}});
    let once = json!({"id": "once", "type": "Elsa.StartAt", "canStartWorkflow": true, "dateTime": later});
    json!({"definitionId": id, "root": {"id": "s", "type": "Elsa.Sequence", "activities": [start, timer, once]}})
}

async fn refresh(http: &Http, body: &Value) -> Value {
    let path = "actions/workflow-definitions/refresh";
    http.post(path, body).await.expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_are_read_again_and_timers_keep_their_next_occurrence() {
    let database = TestDatabase::create().await;
    let (one, two) = (Node::start(&database, "one"), Node::start(&database, "two"));
    let (first, second) = (one.http.as_ref().unwrap(), two.http.as_ref().unwrap());
    for id in ["a", "b", "broken"] {
        first.publish(&model(id)).await;
    }
    let body = json!({"model": model("draft"), "publish": false});
    first.post("workflow-definitions", &body).await.expect(200);
    let client = database.connect().await;
    let schedules = async || {
        let query =
            "SELECT concat_ws(' ', definition_id, next_fire, anchor, version) FROM mainspring.schedule ORDER BY 1";
        let rows = client.query(query, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    let triggers = async || {
        let query = "SELECT definition_id FROM mainspring.trigger ORDER BY definition_id";
        let rows = client.query(query, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    let before = schedules().await;
    assert_eq!(before.len(), 6);
    let revision = async || -> i64 {
        let row = client.query_one("SELECT revision FROM mainspring.revision", &[]).await;
        row.unwrap().get(0)
    };

    // What another build, or an operator, has left: no trigger of one, and a definition that this build cannot compile.
    let spoil = "WITH gone AS (DELETE FROM mainspring.trigger WHERE definition_id <> 'broken')
                 UPDATE mainspring.definition
                 SET body = jsonb_set(body::jsonb, '{root,activities,0,type}', '\"Mine.Missing\"')::json
                 WHERE definition_id = 'broken'";
    assert_eq!(client.execute(spoil, &[]).await.unwrap(), 1);
    let counted = revision().await;
    let done = refresh(second, &json!({"definitionIds": ["a", "none", "draft", "a"]})).await;
    assert_eq!(
        done,
        json!({"refreshed": ["a"], "notFound": ["none", "draft"], "failed": {}})
    );
    assert_eq!(triggers().await, ["a", "broken"]);
    assert_eq!(revision().await, counted + 1, "all nodes are notified");
    // At the other node, too, its event starts it.
    first.trigger("a", &json!({})).await;
    wait_until("the event to start an instance", async || {
        let list = first.get("workflow-instances?definitionId=a").await.expect(200);
        list["totalCount"] == 1
    })
    .await;

    // All of them; what cannot be computed stays as it is, and is named.
    let done = first
        .post("actions/workflow-definitions/reload", &json!({}))
        .await
        .expect(200);
    assert_eq!(
        (&done["refreshed"], &done["notFound"]),
        (&json!(["a", "b"]), &json!([]))
    );
    assert!(done["failed"]["broken"].is_string(), "{done}");
    assert_eq!(triggers().await, ["a", "b", "broken"]);
    assert_eq!(refresh(first, &json!({})).await["refreshed"], json!(["a", "b"]));
    assert_eq!(
        refresh(first, &json!({"definitionIds": []})).await["refreshed"],
        json!([])
    );
    // A row that no build can read concerns its definition only, and is no message for a client.
    let saved = "CREATE TEMP TABLE saved AS SELECT id, spec FROM mainspring.schedule WHERE definition_id = 'a';
                 UPDATE mainspring.schedule SET spec = (repeat('[', 200) || repeat(']', 200))::json WHERE definition_id = 'a'";
    client.batch_execute(saved).await.unwrap();
    let done = refresh(first, &json!({})).await;
    assert_eq!(done["refreshed"], json!(["b"]), "{done}");
    let why = done["failed"]["a"].as_str().unwrap();
    assert!(why.contains("log of the node"), "{why}");
    let restore = "UPDATE mainspring.schedule s SET spec = o.spec FROM saved o WHERE o.id = s.id; DROP TABLE saved";
    client.batch_execute(restore).await.unwrap();
    assert_eq!(schedules().await, before, "no timer has moved");

    // One refresh of all at a time, which goes on without its client.
    let (blocker, path, none) = (
        database.connect().await,
        "actions/workflow-definitions/reload",
        json!({}),
    );
    client.execute("DELETE FROM mainspring.trigger", &[]).await.unwrap();
    let block = "BEGIN; LOCK TABLE mainspring.trigger IN EXCLUSIVE MODE";
    blocker.batch_execute(block).await.unwrap();
    let mut running = Box::pin(first.post(path, &none));
    let waits = wait_until("the refresh to wait", async || {
        let query = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event = 'relation'";
        client.query_one(query, &[]).await.unwrap().get::<_, i64>(0) > 0
    });
    tokio::select! {
        answer = &mut running => panic!("{}", answer.body),
        () = waits => {}
    }
    let other = first.post(path, &none).await.expect(202);
    assert_eq!(other, json!({"refreshed": [], "notFound": [], "failed": {}}));
    drop(running);
    blocker.batch_execute("ROLLBACK").await.unwrap();
    wait_until("the triggers of both", async || triggers().await == ["a", "b"]).await;
    wait_until("the refresh to end", async || {
        first.post(path, &none).await.status == 200
    })
    .await;
    first
        .post("actions/workflow-definitions/refresh", &json!({"definitionIds": "a"}))
        .await
        .assert_refused(400, "invalid-field");
    assert_invariants(&database).await;
}
