//! The repeat of a lost burst asks for the same children and the same keys, whatever became due, arrived or was cancelled
//! meanwhile, and wherever it yields.
//!
//! Branch A of the parent waits for an event, and executes a child for each of three items, with a call of a service before and
//! one after it. Branch B waits for something that comes while the burst of A is lost.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::calls::Calls;
use crate::support::failpoints::REPEAT;
use crate::support::node::{Node, assert_invariants, spawn};
use crate::support::single_node::literal;
use crate::support::{Connection, Gate, Http, LONG_TIMEOUT, TestDatabase, long, poll_until, wait_until};

const NODE: [&str; 2] = ["--check-in", "200ms"];

/// Where the burst of A is lost, at which passage.
const LOST_AT: [&str; 13] = [
    "burst.before@1",
    "call.made.a1@1",
    "child.running@1",
    "commit.begun@1",
    "commit.written@1",
    "commit.committed@1",
    "child.committed@1",
    "call.made.b1@1",
    "child.running@2",
    "child.committed@3",
    "call.made.b3@1",
    "burst.after@1",
    "commit.written@4",
];

/// What comes while the burst of A is lost.
const BETWEEN: [&str; 5] = ["nothing", "timer", "event", "resume", "child-end"];

/// How the parent yields: not at all, before and after activities.
const COMMITS: [&str; 3] = ["", "ActivityExecuting", "ActivityExecuted"];

fn text(script: &str) -> Value {
    json!({"typeName": "String", "expression": {"type": "JavaScript", "value": script}})
}

fn call(id: &str, name: &str) -> Value {
    json!({"type": "Mainspring.Call", "id": id, "name": text(name)})
}

fn event(name: &str) -> Value {
    json!({"type": "Elsa.Event", "id": format!("on-{name}"), "eventName": literal(name)})
}

fn sequence(id: &str, activities: Value) -> Value {
    json!({"type": "Elsa.Sequence", "id": id, "activities": activities})
}

/// What branch B waits for.
fn waits_for(between: &str) -> Value {
    match between {
        "timer" => json!({"type": "Elsa.Delay", "id": "delay", "timeSpan": "01:00:00"}),
        "child-end" => {
            json!({"type": "Elsa.DispatchWorkflow", "id": "dispatch", "workflowDefinitionId": literal("gate"),
            "waitForCompletion": true})
        }
        _ => event("Other"),
    }
}

fn parent(between: &str, commits: &str) -> Value {
    let input = json!({"typeName": "ObjectDictionary",
        "expression": {"type": "JavaScript", "value": "({n: getCurrentValue(), v: getV()})"}});
    let executes = json!({"type": "Elsa.ExecuteWorkflow", "id": "run", "workflowDefinitionId": literal("child"), "input": input,
        "waitForCompletion": true});
    let item = json!([
        call("a", "'a' + getCurrentValue()"),
        executes,
        call("b", "'b' + getCurrentValue()")
    ]);
    let items = json!({"typeName": "Object", "expression": {"type": "Literal", "value": [1, 2, 3]}});
    let each = json!({"type": "Elsa.ForEach", "id": "each", "items": items, "body": sequence("item", item)});
    let branches = json!([
        sequence("A", json!([event("Go"), each, call("end", "'end'")])),
        sequence(
            "B",
            json!([waits_for(between), call("other", "'other'"), call("more", "'more'")])
        ),
    ]);
    json!({"definitionId": "parent", "options": {"commitStrategyName": commits},
        "variables": [{"id": "v", "name": "V", "typeName": "Int32", "value": 0}],
        "root": {"type": "Elsa.Fork", "id": "fork", "joinMode": "WaitAll", "branches": branches}})
}

/// A database, a node that accepts and runs nothing, and the file of calls.
struct Cluster {
    database: TestDatabase,
    client: Connection,
    file: Calls,
    http: Http,
    _accepting: Node,
}

impl Cluster {
    async fn start(between: &str, commits: &str) -> Self {
        let database = TestDatabase::create().await;
        let client = database.connect().await;
        let file = Calls::new();
        let settings = [NODE[0], NODE[1], "--workers", "0"];
        let accepting = Node::start_at(&database.url(), "accepting", &settings, &[file.variable()]);
        let http = accepting.http.clone().unwrap();
        let line = json!({"type": "Elsa.WriteLine", "id": "work", "text": "work"});
        http.publish(&json!({"definitionId": "child", "root": sequence("root", json!([call("c", "'c' + getInput('n')"), line]))}))
            .await;
        http.publish(&json!({"definitionId": "gate", "root": sequence("root", json!([event("Gate")]))}))
            .await;
        http.publish(&parent(between, commits)).await;
        Self {
            database,
            client,
            file,
            http,
            _accepting: accepting,
        }
    }

    /// A node that runs, and stalls at its failpoints.
    fn node(&self, name: &'static str, failpoints: &str) -> Node {
        let variables = [self.file.variable(), ("MAINSPRING_FAILPOINTS", failpoints)];
        Node::start_at(&self.database.url(), name, &NODE, &variables)
    }

    /// Starts the parent, and kills the node that runs branch A at a point; `meanwhile` runs before, while the node stalls.
    async fn lose(&self, lost_at: &str, meanwhile: impl AsyncFnOnce()) {
        let mut first = self.node("first", "");
        self.http.dispatch("parent", &json!({"instanceId": "p"})).await;
        self.client
            .wait_for_rows("instance WHERE id = 'p' AND sub_status = 2", 1)
            .await;
        self.client.wait_for_rows("work", 0).await;
        first.child.kill9();
        let (point, passage) = lost_at.split_once('@').unwrap();
        let stall = Gate::new();
        let mut one = self.node("one", &format!("{}@{passage}", stall.stalls(point)));
        self.http.trigger("Go", &json!({})).await;
        stall.reached().await;
        meanwhile().await;
        one.child.kill9();
        let claimed = "SELECT (SELECT count(*) FROM mainspring.work WHERE claimed_by IS NOT NULL AND instance_id = 'p')
                            + (SELECT count(*) FROM mainspring.removed_node)";
        wait_until("the claims to be released", async || {
            self.client.count(claimed).await == 0
        })
        .await;
    }

    /// Makes the row of work by which branch B continues.
    async fn arrives(&self, between: &str) {
        match between {
            "timer" => {
                let due = "UPDATE mainspring.timer SET due = now(), available_at = now() WHERE instance_id = 'p'";
                self.client.run(due).await;
            }
            "event" => self.http.trigger("Other", &json!({})).await,
            "resume" => {
                let query = "SELECT id FROM mainspring.bookmark WHERE instance_id = 'p' AND activity_id = 'on-Other'";
                let bookmark: String = self.client.query_one(query, &[]).await.unwrap().get(0);
                // It is answered once it has run.
                let (http, body) = (self.http.clone(), json!({"bookmarkId": bookmark}));
                let resume = "workflow-instances/p/resume";
                tokio::spawn(async move { drop(http.send(reqwest::Method::POST, resume, &[], Some(&body)).await) });
                self.client
                    .wait_for_rows("work WHERE instance_id = 'p' AND kind = 1", 1)
                    .await;
            }
            _ => {}
        }
    }

    async fn finishes(&self) {
        poll_until(LONG_TIMEOUT, "the parent to end", async || {
            let ended = "instance WHERE id = 'p' AND status = 1 AND sub_status = 3";
            (self.client.rows(ended).await == 1).then_some(())
        })
        .await;
    }

    /// The calls as they were made, each with its name and its key.
    fn made(&self) -> Vec<(String, String)> {
        let calls = self.file.all().into_iter().map(|call| {
            let text = |field: &str| call[field].as_str().unwrap().to_owned();
            (text("name"), text("key"))
        });
        calls.collect()
    }

    /// The names of the calls as they were made.
    fn calls(&self) -> Vec<String> {
        self.made().into_iter().map(|(name, _)| name).collect()
    }

    /// The keys of the calls, by name.
    fn keys(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, key) in self.made() {
            keys.entry(name).or_default().insert(key);
        }
        keys
    }

    /// Each call was made under one key of its own, and each child ran once.
    async fn assert_same(&self, what: &str) {
        let keys = self.keys();
        let names: Vec<&str> = keys.keys().map(String::as_str).collect();
        let expected = [
            "a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3", "end", "more", "other",
        ];
        assert_eq!(names, expected, "{what}");
        for (name, keys) in &keys {
            assert_eq!(keys.len(), 1, "{what}: {name} was called under {keys:?}");
        }
        let distinct: BTreeSet<&String> = keys.values().flatten().collect();
        assert_eq!(distinct.len(), expected.len(), "{what}: {keys:?}");
        self.assert_children(3, what).await;
        assert_invariants(&self.database).await;
    }

    async fn assert_children(&self, count: i64, what: &str) {
        let children = "instance WHERE parent_instance_id = 'p' AND definition_id = 'child'";
        assert_eq!(self.client.rows(children).await, count, "{what}");
    }
}

/// Every point with one kind of row and one way to yield each, and with `--long` with all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_repeat_of_a_lost_burst_asks_for_the_same_children_and_keys() {
    let mut cases = Vec::new();
    for (number, lost_at) in LOST_AT.into_iter().enumerate() {
        for (kind, between) in BETWEEN.into_iter().enumerate() {
            for (way, commits) in COMMITS.into_iter().enumerate() {
                if long() || kind == number % BETWEEN.len() && way == number % COMMITS.len() {
                    cases.push((lost_at, between, commits));
                }
            }
        }
    }
    for (lost_at, between, commits) in cases {
        let what = format!("lost at {lost_at}, then {between}, commits {commits:?}");
        let cluster = Cluster::start(between, commits).await;
        if between == "child-end" {
            // Its end is a burst of its own, at another node, while the lock of the parent is held.
            let mut other = None;
            let inside = ["commit.begun", "commit.written", "commit.committed"];
            let outside = !inside.iter().any(|point| lost_at.starts_with(point));
            cluster
                .lose(lost_at, async || {
                    if outside {
                        other = Some(cluster.node("other", ""));
                        cluster.http.trigger("Gate", &json!({})).await;
                        let ended = "instance WHERE definition_id = 'gate' AND status = 1";
                        cluster.client.wait_for_rows(ended, 1).await;
                    }
                })
                .await;
            if !outside {
                cluster.http.trigger("Gate", &json!({})).await;
            }
            drop(other);
        } else {
            cluster.lose(lost_at, async || ()).await;
            cluster.arrives(between).await;
        }
        let _three = cluster.node("three", "");
        if between == "nothing" {
            cluster.http.trigger("Other", &json!({})).await;
        }
        cluster.finishes().await;
        cluster.assert_same(&what).await;
    }
}

/// Where the variables of the instance were set meanwhile, a child is the same only if it is asked for with the same inputs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_altered_instance_takes_no_child_that_it_does_not_ask_for() {
    for (value, children) in [(0, 3), (7, 5)] {
        let cluster = Cluster::start("event", "").await;
        cluster.lose("child.running@3", async || ()).await;
        let set = json!({"variables": [{"id": "v", "value": value}]});
        cluster
            .http
            .post("workflow-instances/p/variables", &set)
            .await
            .expect(200);
        let _three = cluster.node("three", "");
        cluster.http.trigger("Other", &json!({})).await;
        cluster.finishes().await;
        let keys = cluster.keys();
        assert_eq!((keys["a1"].len(), keys["b3"].len()), (2, 1), "{keys:?}");
        cluster.assert_children(children, &format!("V is {value}")).await;
        let with = format!(
            "instance WHERE parent_instance_id = 'p' AND convert_from(state, 'UTF8')::json->'input'->>'v' = '{value}'"
        );
        assert_eq!(cluster.client.rows(&with).await, 3);
        assert_invariants(&cluster.database).await;
    }
}

/// A row that crashes its processes is given up. What comes then has other keys, and a replay finds the children.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_takes_the_children_of_the_tries_before_and_shares_no_key_with_what_ran_meanwhile() {
    let cluster = Cluster::start("event", "").await;
    cluster
        .lose("child.running@3", async || {
            let last = "UPDATE mainspring.work SET crashes = 9 WHERE instance_id = 'p'";
            cluster.client.run(last).await;
        })
        .await;
    assert_eq!(cluster.client.rows("dead_letter").await, 1);
    let _three = cluster.node("three", "");
    cluster.http.trigger("Other", &json!({})).await;
    wait_until("branch B to end", async || cluster.keys().contains_key("more")).await;
    let replayed = cluster
        .http
        .post("cluster/dead-letters/replay", &json!({"all": true}))
        .await
        .expect(200);
    assert_eq!(replayed["replayed"], 1, "{replayed}");
    cluster.finishes().await;
    let keys = cluster.keys();
    let all: usize = keys.values().map(BTreeSet::len).sum();
    let distinct: BTreeSet<&String> = keys.values().flatten().collect();
    assert_eq!(distinct.len(), all, "{keys:?}");
    assert_eq!(
        (keys["a1"].len(), keys["c1"].len(), keys["other"].len()),
        (2, 1, 1),
        "{keys:?}"
    );
    cluster.assert_children(3, "after a replay").await;
    assert_invariants(&cluster.database).await;
}

/// A child that waits is cancelled, or ends, before the burst that executed it is repeated: branch B is as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_ends_meanwhile_changes_no_key_of_another_branch() {
    for (ends_by, join_mode) in [("event", "WaitAll"), ("cancel", "WaitAll"), ("event", "WaitAny")] {
        let cluster = Cluster::start("event", "").await;
        let executes = json!({"type": "Elsa.ExecuteWorkflow", "id": "run", "workflowDefinitionId": literal("gate"),
            "waitForCompletion": true});
        let names = |prefix: &str| -> Value {
            (1..4)
                .map(|n| call(&format!("{prefix}{n}"), &format!("'{prefix}{n}'")))
                .collect()
        };
        let mut first = vec![event("Go"), executes];
        first.extend(names("a").as_array().unwrap().clone());
        let mut second = vec![event("Go")];
        second.extend(names("b").as_array().unwrap().clone());
        let mut model = json!({"definitionId": "parent", "root": {"type": "Elsa.Fork", "id": "fork", "joinMode": join_mode,
            "branches": [sequence("A", first.into()), sequence("B", second.into())]}});
        model["root"]["branches"][1]["activities"][0]["id"] = "again".into();
        cluster.http.publish(&model).await;
        cluster.lose("call.made.b3@1", async || ()).await;
        let query = "SELECT id FROM mainspring.instance WHERE definition_id = 'gate'";
        let child: String = cluster.client.query_one(query, &[]).await.unwrap().get(0);
        let one = cluster.node("other", "burst.instance.p=stall:/nonexistent/gate");
        match ends_by {
            "event" => cluster.http.trigger("Gate", &json!({})).await,
            _ => drop(
                cluster
                    .http
                    .post(&format!("cancel/workflow-instances/{child}"), &json!({}))
                    .await
                    .expect(200),
            ),
        }
        let ended = format!("instance WHERE id = '{child}' AND status = 1");
        cluster.client.wait_for_rows(&ended, 1).await;
        drop(one);
        let _three = cluster.node("three", "");
        cluster.finishes().await;
        let (keys, calls) = (cluster.keys(), cluster.calls());
        assert!(keys.values().all(|keys| keys.len() == 1), "{ends_by}: {keys:?}");
        if join_mode == "WaitAny" {
            // The child had not ended in the lost burst, so that branch A does not overtake B in the repeat.
            assert_eq!(calls, ["b1", "b2", "b3", "b1", "b2", "b3"]);
        } else {
            assert_eq!(keys.len(), 6, "{keys:?}");
        }
        let gates = cluster.client.rows("instance WHERE definition_id = 'gate'").await;
        assert_eq!(gates, 1, "{ends_by}");
        assert_invariants(&cluster.database).await;
    }
}

/// Of two delays that are due at once, the first one's branch cancels the other, and yields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_whose_bookmark_is_burned_before_its_turn_is_consumed() {
    let cluster = Cluster::start("event", "").await;
    let delay = |id: &str| json!({"type": "Elsa.Delay", "id": id, "timeSpan": "01:00:00"});
    let fork = json!({"type": "Elsa.Fork", "id": "fork", "joinMode": "WaitAny", "branches": [delay("a"), delay("b")]});
    let model = json!({"definitionId": "parent", "options": {"commitStrategyName": "ActivityExecuted"},
        "root": sequence("root", json!([fork, call("c", "'c'"), call("d", "'d'")]))});
    cluster.http.publish(&model).await;
    cluster.http.dispatch("parent", &json!({"instanceId": "p"})).await;
    let node = cluster.node("one", "");
    cluster.client.wait_for_rows("timer WHERE instance_id = 'p'", 2).await;
    drop(node);
    cluster.arrives("timer").await;
    let _node = cluster.node("two", "");
    cluster.finishes().await;
    // Each commit passes: no call is made again.
    assert_eq!(cluster.calls(), ["c", "d"]);
    assert_invariants(&cluster.database).await;
}

/// Of the rows of a lost burst the first cannot be read for now: the second one does not run before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rows_of_a_lost_burst_wait_for_one_that_cannot_be_read() {
    let cluster = Cluster::start("event", "").await;
    let branch = |name: &str| {
        sequence(
            name,
            json!([event(name), call(&format!("call-{name}"), &format!("'{name}'"))]),
        )
    };
    let fork =
        json!({"type": "Elsa.Fork", "id": "fork", "joinMode": "WaitAll", "branches": [branch("One"), branch("Two")]});
    cluster
        .http
        .publish(&json!({"definitionId": "parent", "root": fork}))
        .await;
    let first = cluster.node("first", "");
    cluster.http.dispatch("parent", &json!({"instanceId": "p"})).await;
    cluster
        .client
        .wait_for_rows("bookmark WHERE instance_id = 'p'", 2)
        .await;
    drop(first);
    for (name, rows) in [("One", 1), ("Two", 2)] {
        cluster.http.trigger(name, &json!({})).await;
        cluster.client.wait_for_rows("work WHERE instance_id = 'p'", rows).await;
    }
    let row = "FROM mainspring.work WHERE instance_id = 'p' ORDER BY id LIMIT 1";
    let body: String = cluster
        .client
        .query_one(&format!("SELECT body::text {row}"), &[])
        .await
        .unwrap()
        .get(0);
    let first_row = format!("WHERE id = (SELECT id {row})");
    let spoil = format!(
        "UPDATE mainspring.work SET has_begun = true WHERE instance_id = 'p';
         UPDATE mainspring.work SET body = (repeat('[', 200) || repeat(']', 200))::json {first_row}"
    );
    cluster.client.batch_execute(&spoil).await.unwrap();
    for point in REPEAT {
        // It may die before it serves.
        let failpoints = format!("{point}=abort");
        let variables = [cluster.file.variable(), ("MAINSPRING_FAILPOINTS", failpoints.as_str())];
        spawn(&cluster.database.url(), "killed", &NODE, &variables).wait(LONG_TIMEOUT);
    }
    let second = cluster.node("second", "");
    let failed = "work WHERE instance_id = 'p' AND claimed_by IS NULL AND failures = 1";
    cluster.client.wait_for_rows(failed, 1).await;
    drop(second);
    let repair = format!("UPDATE mainspring.work SET body = $1::text::json, available_at = now() {first_row}");
    cluster.client.execute(&repair, &[&body]).await.unwrap();
    let _third = cluster.node("third", "");
    cluster.finishes().await;
    assert_eq!(cluster.calls(), ["One", "Two"]);
    assert_invariants(&cluster.database).await;
}
