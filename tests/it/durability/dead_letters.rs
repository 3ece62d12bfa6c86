//! Dead letters replayed in bulk, by filter.

use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::{Answer, Connection, Http, TestDatabase};

const DENIED: &str = "permission denied for table burst_record";

/// Inserts dead-lettered starts of a workflow, with instance ids of a range of numbers.
async fn given_up(client: &Connection, workflow: &str, (first, last): (i32, i32), reason: &str, failures: i32) {
    let insert =
        "INSERT INTO mainspring.dead_letter (tenant_id, instance_id, kind, reason, work_id, definition_id, version_id,
                                                      definition_version, body, failures, crashes, accepted_at)
                  SELECT '', 'i' || n, 0, $4, 1000000 + n, d.definition_id, d.version_id, d.version, '{}', $5, 3, now()
                  FROM mainspring.definition d, generate_series($2::int, $3::int) n
                  WHERE d.definition_id = $1 AND d.is_published";
    let made = client
        .execute(insert, &[&workflow, &first, &last, &reason, &failures])
        .await
        .unwrap();
    assert_eq!(made, u64::try_from(last - first + 1).unwrap());
}

async fn publish(http: &Http, id: &str, root: Value, options: Value) {
    let model = json!({"definitionId": id, "root": root, "options": options});
    http.publish(&model).await;
}

async fn replay(http: &Http, body: Value) -> Value {
    http.post("cluster/dead-letters/replay", &body).await.expect(200)
}

fn counts(answer: &Value) -> (u64, u64, u64) {
    let count = |name: &str| answer[name].as_u64().unwrap();
    (count("replayed"), count("notNeeded"), count("refused"))
}

async fn dead_letters(http: &Http, query: &str) -> u64 {
    let listed = http.get(&format!("cluster/dead-letters{query}")).await.expect(200);
    listed["totalCount"].as_u64().unwrap()
}

async fn finished(client: &Connection, count: i64) {
    client.wait_for_rows("instance WHERE status = 1", count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_replayed_by_filter_in_bounded_pages_and_each_once() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let node = Node::start_with(&database, "one", &[], "");
    let http = node.http.as_ref().unwrap();
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": "x"});
    publish(http, "hello", line.clone(), json!({})).await;
    publish(http, "other", line, json!({})).await;
    let waits = json!({"type": "Elsa.Event", "id": "event", "eventName": "Never"});
    publish(
        http,
        "single",
        waits,
        json!({"activationStrategyType": "SingletonStrategy"}),
    )
    .await;
    given_up(&client, "hello", (1, 300), DENIED, 20).await;
    given_up(&client, "hello", (301, 303), "three processes crashed", 0).await;
    given_up(&client, "other", (401, 405), DENIED, 20).await;
    given_up(&client, "single", (501, 503), DENIED, 20).await;

    // The list takes the same filter.
    assert_eq!(dead_letters(http, "").await, 311);
    assert_eq!(
        dead_letters(http, "?definitionId=hello&cause=failed&reasonContains=PERMISSION").await,
        300
    );
    assert_eq!(dead_letters(http, "?cause=crashed&kinds=start").await, 3);
    assert_eq!(dead_letters(http, "?kinds=resume&kinds=cancel").await, 0);
    assert_eq!(dead_letters(http, "?createdUntil=2001-01-01T00:00:00Z").await, 0);
    assert_eq!(dead_letters(http, "?createdFrom=2001-01-01T00:00:00Z").await, 311);

    // A misspelt filter replays nothing.
    let refused = |answer: Answer| (answer.status, answer.body["code"].as_str().unwrap().to_owned());
    for (body, code) in [
        (json!({}), "missing-field"),
        (json!({"definitionID": "hello", "resonContains": "x"}), "invalid-field"),
        (json!({"kinds": ["sart"]}), "invalid-field"),
        (json!({"createdFrom": "yesterday"}), "invalid-field"),
    ] {
        let answer = http.post("cluster/dead-letters/replay", &body).await;
        assert_eq!(refused(answer), (400, code.to_owned()), "{body}");
    }
    assert_eq!(dead_letters(http, "").await, 311);

    // In pages, and only what the filter matches.
    let hello = |after: &Value| json!({"definitionId": "hello", "cause": "failed", "reasonContains": "permission", "pageSize": 200, "after": after});
    let first = replay(http, hello(&Value::Null)).await;
    assert_eq!(counts(&first), (200, 0, 0));
    let second = replay(http, hello(&first["next"])).await;
    assert_eq!((counts(&second), &second["next"]), ((100, 0, 0), &Value::Null));
    finished(&client, 300).await;
    assert_eq!(dead_letters(http, "").await, 11);
    assert_eq!(
        counts(&replay(http, hello(&Value::Null)).await),
        (0, 0, 0),
        "no match is left"
    );

    // Starts are checked against their activation strategy, one by one.
    let single = replay(http, json!({"definitionId": "single"})).await;
    assert_eq!(counts(&single), (1, 0, 2));
    assert_eq!(dead_letters(http, "?definitionId=single").await, 2);

    // Beside each other and beside single replays each is replayed once.
    let listed = http.get("cluster/dead-letters?definitionId=other").await.expect(200);
    let one = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let (path, nothing) = (format!("cluster/dead-letters/{one}/replay"), json!({}));
    let (a, b, single) = tokio::join!(
        replay(http, json!({"definitionId": "other"})),
        replay(http, json!({"definitionId": "other", "kinds": ["start"]})),
        http.post(&path, &nothing)
    );
    let by_itself = u64::from(single.status == 200);
    assert_eq!(counts(&a).0 + counts(&b).0 + by_itself, 5, "{a} {b} {}", single.body);
    finished(&client, 305).await;
    assert_eq!(client.rows("instance WHERE definition_id = 'other'").await, 5);
    assert_invariants(&database).await;
}

/// What a bulk replay cannot do in one statement, or does not need to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_replay_republishes_stimuli_and_discards_what_no_instance_needs() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let node = Node::start_with(&database, "one", &[], "");
    let http = node.http.as_ref().unwrap();
    let waits = json!({"type": "Elsa.Event", "id": "event", "eventName": "Go"});
    publish(http, "waits", waits, json!({})).await;
    let ran = http.execute("waits", &json!({})).await;
    let id = ran["workflowState"]["id"].as_str().unwrap().to_owned();
    // An event that expired before its instance came to wait, and a resume of an instance that is gone.
    let event = "INSERT INTO mainspring.dead_letter (tenant_id, instance_id, kind, reason, inbox_id, hash, name, body, failures,
                                                     crashes, accepted_at)
                 SELECT '', $1, 6, 'expired', 7, b.hash, 'Elsa.Event', '{\"payload\": {}}', 0, 0, now()
                 FROM mainspring.bookmark b WHERE b.instance_id = $1";
    assert_eq!(client.execute(event, &[&id]).await.unwrap(), 1);
    let resume =
        "INSERT INTO mainspring.dead_letter (tenant_id, instance_id, kind, reason, work_id, body, failures, crashes)
                  VALUES ('', 'gone', 1, 'failed', 1000001, '{}', 20, 0)";
    client.execute(resume, &[]).await.unwrap();
    let answer = replay(http, json!({"all": true})).await;
    assert_eq!((counts(&answer), &answer["next"]), ((1, 1, 0), &Value::Null));
    finished(&client, 1).await;
    assert_eq!(dead_letters(http, "").await, 0);
    assert_invariants(&database).await;
}

/// Outside of an activity's call, where no fault of the instance is made of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_that_panics_again_and_again_becomes_a_dead_letter_and_harms_no_other() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let node = Node::start_with(&database, "one", &[], "burst.instance.bad=panic");
    let http = node.http.as_ref().unwrap();
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": "x"});
    publish(http, "hello", line, json!({})).await;
    for id in ["bad", "good"] {
        http.dispatch("hello", &json!({"instanceId": id})).await;
    }
    http.instance_becomes("good", "Finished").await;
    client
        .wait_for_rows(
            "work WHERE instance_id = 'bad' AND failures > 0 AND claimed_by IS NULL",
            1,
        )
        .await;
    client
        .run("UPDATE mainspring.work SET failures = 19, available_at = now() WHERE instance_id = 'bad'")
        .await;
    client
        .wait_for_rows("dead_letter WHERE instance_id = 'bad' AND reason LIKE '%panicked%'", 1)
        .await;
    http.dispatch("hello", &json!({"instanceId": "after"})).await;
    http.instance_becomes("after", "Finished").await;
    assert_invariants(&database).await;
}
