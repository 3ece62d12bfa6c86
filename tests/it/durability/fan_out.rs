//! Events that many instances wait for: each gets them once, also when nodes are killed, and when one of them cannot.

use std::time::Duration;

use futures_util::StreamExt;
use mainspring::Engine;
use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::runtime::EventRequest;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, event, save, start, start_as};
use crate::support::failpoints::FAN_OUT;
use crate::support::node::{Node, assert_invariants, wait_until_finished};
use crate::support::single_node::literal;
use crate::support::{Connection, Http, LONG_TIMEOUT, TIMEOUT, TestDatabase, poll_until, wait_until};

/// More than an event is given to at once.
const WAITING: i64 = 1100;

fn javascript(kind: &str, value: &str) -> Value {
    json!({"typeName": kind, "expression": {"type": "JavaScript", "value": value}})
}

/// Waits for `Open`, and writes a line.
fn definition() -> Value {
    json!({"definitionId": "crowd", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Event", "id": "gate", "eventName": literal("Open")},
        {"type": "Elsa.WriteLine", "id": "say", "text": "passed"}]}})
}

/// Starts so many instances of `crowd`, and waits until all wait.
async fn gather(http: &Http, client: &Connection, count: i64) {
    http.publish(&definition()).await;
    let starts = futures_util::stream::iter(0..count).map(|n| async move {
        http.dispatch("crowd", &json!({"instanceId": format!("i{n}")})).await;
    });
    starts.buffer_unordered(32).collect::<()>().await;
    poll_until(LONG_TIMEOUT, "all to wait", async || {
        let waiting = client.count("SELECT count(*) FROM mainspring.bookmark").await;
        (waiting == count).then_some(())
    })
    .await;
}

const SAID: &str = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'say' AND event_name = 'Completed'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_finishes_the_fan_out_of_a_killed_one() {
    // A fan-out takes one turn, and three pages.
    for point in FAN_OUT.into_iter().filter(|point| *point != "fan_out.keys") {
        finishes_after_a_kill(point, 3, WAITING, &json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_gives_the_turn_of_a_killed_one() {
    // Large enough to be given page by page to a few.
    let input = json!({"text": "x".repeat(900_000)});
    for point in FAN_OUT {
        // The turn writes the page of a few, and is all that there is to commit.
        let waiting = if point == "fan_out.committed" { 60 } else { 20 };
        finishes_after_a_kill(point, 1, waiting, &json!({"input": input})).await;
    }
}

/// Kills a node at this pass of a failpoint, while it gives an event to so many instances.
async fn finishes_after_a_kill(point: &str, pass: u32, waiting: i64, event: &Value) {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let mut one = Node::start_armed(&database, "one", &format!("{point}=abort@{pass}")).await;
    let http = one.http.clone().unwrap();
    gather(&http, &client, waiting).await;
    // The node may die before it answers.
    let _ = http.send(Method::POST, "events/Open/trigger", &[], Some(event)).await;
    poll_until(TIMEOUT, "the armed node to die", async || {
        one.child.has_ended().then_some(())
    })
    .await;
    let unfinished = "SELECT count(*) FROM mainspring.fan_out WHERE finished_at IS NULL";
    assert_eq!(client.count(unfinished).await, 1, "{point}");
    let _two = Node::start_with(&database, "two", &["--check-in", "200ms"], "");
    poll_until(LONG_TIMEOUT, "all to finish", async || {
        let finished = "SELECT count(*) FROM mainspring.instance WHERE status = 1 AND sub_status = 3";
        (client.count(finished).await == waiting).then_some(())
    })
    .await;
    assert_eq!(client.count(SAID).await, waiting, "{point}");
    assert_eq!(client.count(unfinished).await, 0, "{point}");
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_cannot_be_resumed_stops_no_other_and_its_event_is_replayed() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let node = Node::start_with(&database, "one", &["--check-in", "200ms"], "");
    let http = node.http.clone().unwrap();
    gather(&http, &client, WAITING).await;
    client
        .run(
            "CREATE FUNCTION mainspring.refuse() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''23000''; END';
             CREATE TRIGGER refuse BEFORE INSERT ON mainspring.work FOR EACH ROW
                 WHEN (NEW.instance_id = 'i700' AND NEW.fan_out IS NOT NULL) EXECUTE FUNCTION mainspring.refuse()",
        )
        .await;
    http.trigger("Open", &json!({})).await;
    poll_until(LONG_TIMEOUT, "all others to finish", async || {
        let finished = client
            .count("SELECT count(*) FROM mainspring.instance WHERE status = 1")
            .await;
        (finished == WAITING - 1).then_some(())
    })
    .await;
    let listed = poll_until(TIMEOUT, "the dead letter", async || {
        let listed = http.get("cluster/dead-letters").await.expect(200);
        let items = listed["items"].as_array().unwrap().clone();
        (items.len() == 1).then_some(items)
    })
    .await;
    assert_eq!(listed[0]["workflowInstanceId"], "i700", "{listed:?}");
    assert_invariants(&database).await;
    let path = format!("cluster/dead-letters/{}/replay", listed[0]["id"].as_str().unwrap());
    http.post(&path, &json!({})).await.expect(200);
    wait_until_finished(&client, WAITING).await;
    assert_eq!(client.count(SAID).await, WAITING);
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_wait_in_a_loop_run_once_for_each_event_in_order() {
    const LOOPING: i64 = 1500;
    let test = TestEngine::new().await;
    let client = test.database.connect().await;
    let body = json!({"type": "Elsa.Sequence", "id": "turn", "activities": [
        {"type": "Elsa.Event", "id": "gate", "eventName": literal("Open"),
         "result": {"typeName": "Object", "memoryReference": {"id": "w"}}},
        {"type": "Elsa.SetVariable", "id": "note", "variable": {"id": "s", "name": "Seen"},
         "value": javascript("Object", "getSeen() + getWord().n")},
        {"type": "Elsa.SetVariable", "id": "count", "variable": {"id": "n", "name": "N"},
         "value": javascript("Object", "getN() + 1")}]});
    test.publish(json!({"definitionId": "loop", "variables": [
            {"id": "w", "name": "Word", "typeName": "Object"},
            {"id": "s", "name": "Seen", "typeName": "String", "value": "seen"},
            {"id": "n", "name": "N", "typeName": "Int32", "value": 0}],
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.While", "id": "while", "body": body, "condition": javascript("Boolean", "getN() < 2")},
            {"type": "Elsa.WriteLine", "id": "say", "text": javascript("String", "getSeen()")}]}}))
        .await;
    let starts = futures_util::stream::iter(0..LOOPING).map(|_| async {
        test.engine.dispatch(start("loop")).await.unwrap();
    });
    starts.buffer_unordered(32).collect::<()>().await;
    poll_until(LONG_TIMEOUT, "all to wait", async || {
        let waiting = client.count("SELECT count(*) FROM mainspring.bookmark").await;
        (waiting == LOOPING).then_some(())
    })
    .await;
    for n in 1..=2 {
        let accepted = test.trigger("Open", json!({ "n": n })).await;
        assert!(accepted.fan_out.is_some(), "{accepted:?}");
    }
    poll_until(LONG_TIMEOUT, "all to finish", async || {
        let finished = client
            .count("SELECT count(*) FROM mainspring.instance WHERE status = 1")
            .await;
        (finished == LOOPING).then_some(())
    })
    .await;
    let turns = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'gate' AND event_name = 'Completed'";
    assert_eq!(client.count(turns).await, 2 * LOOPING);
    let seen = format!("{SAID} AND activity_state::text LIKE '%seen12%'");
    assert_eq!(client.count(&seen).await, LOOPING);
    assert_eq!(client.count("SELECT count(*) FROM mainspring.inbox").await, 0);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_wait_for_an_event_or_a_delay_in_a_loop_get_each_event_once() {
    const LOOPING: i64 = 20;
    let test = TestEngine::new().await;
    let client = test.database.connect().await;
    let leads = |source: &str, port: &str, target: &str| json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}});
    let delay = json!({"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "00:00:00.05"}});
    let body = json!({"type": "Elsa.Flowchart", "id": "chart", "start": "fork",
        "connections": [leads("fork", "A", "gate"), leads("gate", "Done", "note"), leads("note", "Done", "count"),
            leads("count", "Done", "clear"), leads("clear", "Done", "join"), leads("fork", "B", "delay"), leads("delay", "Done", "join")],
        "activities": [
            {"type": "Elsa.FlowFork", "id": "fork", "branches": ["A", "B"]},
            {"type": "Elsa.Event", "id": "gate", "eventName": literal("Open"),
             "result": {"typeName": "Object", "memoryReference": {"id": "w"}}},
            {"type": "Elsa.SetVariable", "id": "note", "variable": {"id": "s", "name": "Seen"},
             "value": javascript("Object", "getSeen() + getWord().n")},
            {"type": "Elsa.SetVariable", "id": "count", "variable": {"id": "n", "name": "N"},
             "value": javascript("Object", "getN() + 1")},
            {"type": "Elsa.SetVariable", "id": "clear", "variable": {"id": "w", "name": "Word"},
             "value": javascript("Object", "null")},
            {"type": "Elsa.Delay", "id": "delay", "timeSpan": delay},
            {"type": "Elsa.FlowJoin", "id": "join", "mode": literal("WaitAny")}]});
    test.publish(json!({"definitionId": "loop", "variables": [
            {"id": "w", "name": "Word", "typeName": "Object"},
            {"id": "s", "name": "Seen", "typeName": "String", "value": "seen"},
            {"id": "n", "name": "N", "typeName": "Int32", "value": 0}],
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.While", "id": "while", "body": body, "condition": javascript("Boolean", "getN() < 3")},
            {"type": "Elsa.WriteLine", "id": "say", "text": javascript("String", "getSeen()")}]}}))
        .await;
    for n in 0..LOOPING {
        test.engine.dispatch(start_as(&format!("i{n}"), "loop")).await.unwrap();
    }
    let waiting = "SELECT count(DISTINCT instance_id) FROM mainspring.bookmark WHERE publishable";
    wait_until("all to wait", async || client.count(waiting).await == LOOPING).await;
    // Each large enough to be given page by page, while the delays of the loops end.
    for n in 1..=3 {
        let word = json!({"n": n, "text": "x".repeat(900_000)});
        let accepted = test.trigger("Open", word).await;
        assert!(accepted.fan_out.is_some(), "{accepted:?}");
    }
    wait_until_finished(&client, LOOPING).await;
    let seen = format!("{SAID} AND activity_state::text LIKE '%seen123%'");
    assert_eq!(client.count(&seen).await, LOOPING);
    let delays = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'delay' AND event_name = 'Completed'";
    assert!(client.count(delays).await > 0, "no loop went on by its delay");
    assert_eq!(client.count("SELECT count(*) FROM mainspring.inbox").await, 0);
    test.assert_clean_end().await;
}

/// More than one fan-out may have unclaimed.
const HELD: i64 = 2100;

/// The activity of a definition that only some nodes have.
struct Rare;

impl Activity for Rare {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Rare")
    }

    async fn execute(&self, _: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(Step::Done)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_out_whose_rows_no_node_can_run_delays_no_other() {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let builder = |id: &str| {
        Engine::builder(database.url())
            .node_id(id)
            .check_in(Duration::from_millis(100))
    };
    let able = builder("able").activity(Rare).start().await.unwrap();
    let rare = json!({"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Event", "id": "gate", "eventName": literal("Held")}, {"type": "Rare", "id": "rare"}]});
    save(&able, json!({"definitionId": "rare", "root": rare})).await;
    save(&able, definition()).await;
    let starts = (0..HELD + WAITING).map(|n| if n < HELD { "rare" } else { "crowd" });
    let dispatched = futures_util::stream::iter(starts).map(|definition| async {
        able.dispatch(start(definition)).await.unwrap();
    });
    dispatched.buffer_unordered(32).collect::<()>().await;
    let bookmarks = "SELECT count(*) FROM mainspring.bookmark";
    poll_until(LONG_TIMEOUT, "all to wait", async || {
        (client.count(bookmarks).await == HELD + WAITING).then_some(())
    })
    .await;
    able.shutdown().await;

    let engine = builder("unable").start().await.unwrap();
    let test = TestEngine { database, engine };
    assert!(test.trigger("Held", json!({})).await.fan_out.is_some());
    let unclaimed = "SELECT count(*) FROM mainspring.work WHERE fan_out IS NOT NULL AND claimed_by IS NULL";
    wait_until("the fan-out to be full", async || client.count(unclaimed).await == 2000).await;
    assert!(test.trigger("Open", json!({})).await.fan_out.is_some());
    wait_until_finished(&client, WAITING).await;
    assert_eq!(client.count(SAID).await, WAITING);
    let able = Engine::builder(test.database.url()).node_id("able").activity(Rare);
    let able = able.start().await.unwrap();
    wait_until_finished(&client, HELD + WAITING).await;
    able.shutdown().await;
    test.assert_clean_end().await;
}

/// Two branches: one waits for `Later`, the other one begins with `first` and ends with `last`.
fn forked(definition: &str, branch: [Value; 2]) -> Value {
    let leads = |source: &str, port: &str, target: &str| json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}});
    let [first, last] = branch;
    let (from, to) = (first["id"].as_str().unwrap(), last["id"].as_str().unwrap());
    json!({"definitionId": definition, "variables": [{"id": "n", "name": "N", "typeName": "Int32", "value": 0}],
        "root": {"type": "Elsa.Flowchart", "id": "chart", "start": "fork",
            "connections": [leads("fork", "A", "later"), leads("fork", "B", from), leads(from, "Done", to)],
            "activities": [
                {"type": "Elsa.FlowFork", "id": "fork", "branches": ["A", "B"]},
                {"type": "Elsa.Event", "id": "later", "eventName": literal("Later")}, first, last]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_waits_for_a_publisher_holds_no_worker_and_its_burst_goes_on() {
    let database = TestDatabase::create().await;
    let builder = Engine::builder(database.url()).node_id("one").workers(1);
    let test = TestEngine::start(database, builder).await;
    let set = json!({"type": "Elsa.SetVariable", "id": "set", "variable": {"id": "n", "name": "N"},
        "value": javascript("Object", "getN() + 1")});
    let long =
        json!({"type": "Elsa.While", "id": "while", "body": set, "condition": javascript("Boolean", "getN() < 2500")});
    let say = |id: &str| json!({"type": "Elsa.WriteLine", "id": id, "text": "said"});
    test.publish(forked("long", [long, say("say")])).await;
    test.publish(json!({"definitionId": "quick", "root": say("quick")}))
        .await;
    // A publisher that is about to commit that the inbox keeps its event.
    let client = test.database.connect().await;
    client
        .run(
            "CREATE TABLE mainspring.gate (no integer);
             INSERT INTO mainspring.gate VALUES (1);
             CREATE FUNCTION mainspring.pass() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN PERFORM 1 FROM mainspring.gate FOR KEY SHARE; RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER pass AFTER INSERT ON mainspring.inbox DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION mainspring.pass()",
        )
        .await;
    let gate = test.database.connect().await;
    gate.run("BEGIN; SELECT 1 FROM mainspring.gate FOR UPDATE").await;
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let publishes = tokio::spawn({
        let engine = test.engine.clone();
        async move { engine.trigger_event(event("Later", json!({}))).await }
    });
    wait_until("the publisher to wait", async || client.count(waiting).await == 1).await;
    let id = test.engine.dispatch(start_as("i", "long")).await.unwrap();
    wait_until("the commit to wait", async || client.count(waiting).await == 2).await;
    let quick = test.engine.execute(start("quick")).await.unwrap();
    assert_eq!(quick.sub_status(), Some("Finished"));
    gate.run("ROLLBACK").await;
    assert!(publishes.await.unwrap().unwrap().kept);
    test.finishes(&id).await;
    let version = "SELECT version FROM mainspring.instance WHERE id = 'i'";
    assert!(client.count(version).await >= 3, "it yielded");
    assert_eq!(client.count(SAID).await, 1);
    test.assert_clean_end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_correlation_id_that_changes_twice_in_a_burst_counts_with_its_last_value() {
    let test = TestEngine::new().await;
    let client = test.database.connect().await;
    let correlate = |id: &str| json!({"type": "Elsa.Correlate", "id": id, "correlationId": literal(id)});
    test.publish(forked("twice", [correlate("one"), correlate("two")]))
        .await;
    let mut wait = forked("late", [correlate("one"), correlate("two")]);
    wait["root"]["activities"][2] = json!({"type": "Elsa.Sequence", "id": "one", "activities": [
        {"type": "Elsa.Event", "id": "now", "eventName": literal("Now")}, correlate("first")]});
    test.publish(wait).await;
    for id in ["first", "one", "two"] {
        let mut correlated = event("Later", json!({}));
        correlated.correlation_id = Some(id.to_owned());
        assert!(test.engine.trigger_event(correlated).await.unwrap().kept);
    }
    // In the burst that makes the bookmark, and in one that keeps it.
    for (definition, left) in [("twice", "first,one"), ("late", "first,one")] {
        let id = test.engine.dispatch(start_as(definition, definition)).await.unwrap();
        if definition == "late" {
            client.wait_for_rows("bookmark", 2).await;
            let mut correlated = event("Later", json!({}));
            correlated.correlation_id = Some("two".to_owned());
            assert!(test.engine.trigger_event(correlated).await.unwrap().kept);
            test.trigger("Now", json!({})).await;
        }
        test.finishes(&id).await;
        let kept = "SELECT string_agg(correlation_id, ',' ORDER BY correlation_id) FROM mainspring.inbox";
        let kept: String = client.query_one(kept, &[]).await.unwrap().get(0);
        assert_eq!(kept, left, "{definition}");
    }
    let refused = test.engine.trigger_event(EventRequest {
        name: "La\0ter".to_owned(),
        ..EventRequest::default()
    });
    assert_eq!(refused.await.unwrap_err().code(), "invalid-event");
    test.assert_clean_end().await;
}
