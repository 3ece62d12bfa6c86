//! Random workflows, each on an undisturbed node and on three nodes that are killed: the journals agree, entry by entry, and each
//! call of a service has one key, however often it is repeated.
//!
//! Every wait is for an event or a task, and the test ends one at a time of an instance and its children, chosen by a rule that
//! both runs follow; a delay ends by itself before the next. So an instance has the same bursts, and whatever a killed node has
//! begun another one repeats.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::calls::Calls;
use crate::support::failpoints::CALL;
use crate::support::node::{NAMES, Node, assert_invariants, send_until_answered};
use crate::support::{Connection, Http, LONG_TIMEOUT, TestDatabase, long, poll_until};

#[path = "../../../src/execution/tests/random_workflow.rs"]
mod random_workflow;

const SETTINGS: [&str; 4] = ["--check-in", "200ms", "--tolerance", "1s"];

/// How many workflows run at a time.
const BATCH: u64 = 40;

/// The definitions of children: one waits, the other does not.
const WAITS: &str = "random-child-waits";
const RUNS: &str = "random-child-runs";

/// The types that take the place of lines in the generated workflows.
const OTHERS: [&str; 6] = [
    "Mainspring.Call",
    "Elsa.RunTask",
    "Elsa.ExecuteWorkflow",
    "Elsa.DispatchWorkflow",
    "Elsa.BulkDispatchWorkflows",
    "Elsa.Delay",
];

/// How many waits an instance may have before the test counts it as endless.
const MOST_ROUNDS: usize = 120;

/// Where a node dies: from the claim of a row to the answer about its commit.
fn points() -> Vec<&'static str> {
    let all = CALL.into_iter();
    all.filter(|point| ["claim.", "burst.", "commit."].iter().any(|of| point.starts_with(of)))
        .collect()
}

/// Puts tasks, children and a delay in the place of some lines. Inside loops there are only tasks and children that do not wait:
/// what waits there more than once at the same time has no order that both runs follow.
fn replace_lines(value: &mut Value, in_loop: bool, delayed: &mut bool, random: &mut StdRng) {
    let kind = value["type"].as_str().unwrap_or_default();
    let is_loop = kind == "Elsa.For" || ["While", "Each"].iter().any(|of| kind.contains(of));
    if kind == "Elsa.WriteLine" && value.get("customProperties").is_none() && random.random_bool(0.4) {
        let id = value["id"].clone();
        let child = |kind: &str, of: &str, waits: bool| json!({"id": id, "type": kind, "workflowDefinitionId": of, "waitForCompletion": waits, "correlationId": id});
        *value = match random.random_range(0..if in_loop { 3 } else { 7 }) {
            2 => json!({"id": id, "type": "Mainspring.Call", "name": id}),
            0 => json!({"id": id, "type": "Elsa.RunTask", "taskName": id}),
            1 => child("Elsa.ExecuteWorkflow", RUNS, true),
            3 => child("Elsa.ExecuteWorkflow", WAITS, true),
            4 => child("Elsa.DispatchWorkflow", WAITS, true),
            5 => {
                let mut bulk = child("Elsa.BulkDispatchWorkflows", WAITS, true);
                bulk["items"] = json!([1, 2]);
                let script = format!("{id} + getItem()");
                bulk["correlationIdFunction"] =
                    json!({"typeName": "String", "expression": {"type": "JavaScript", "value": script}});
                bulk
            }
            _ if *delayed => return,
            _ => {
                *delayed = true;
                json!({"id": id, "type": "Elsa.Delay", "timeSpan": "00:00:00.05"})
            }
        };
        return;
    }
    match value {
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace_lines(field, in_loop || is_loop, delayed, random)),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace_lines(item, in_loop, delayed, random)),
        _ => {}
    }
}

/// A wait that the test ends.
struct Wait {
    instance: String,
    bookmark: String,
    /// The event; none: it is a task.
    event: Option<String>,
    execution: String,
}

/// Instances of random workflows on nodes that a round may kill.
struct Run<'a> {
    database: &'a TestDatabase,
    calls: &'a Calls,
    client: &'a Connection,
    nodes: Vec<Node>,
    /// The instances, by the seeds of their workflows.
    instances: BTreeMap<u64, String>,
    round: usize,
}

impl Run<'_> {
    fn addresses(&self) -> Vec<Http> {
        self.nodes.iter().filter_map(|node| node.http.clone()).collect()
    }

    /// Starts an instance of each workflow.
    async fn start(&mut self, seeds: &[u64]) {
        let http = self.addresses();
        for (number, seed) in seeds.iter().enumerate() {
            let node = &http[number % http.len()];
            let started = node.dispatch(&format!("random-{seed}"), &json!({})).await;
            let id = started["workflowInstanceId"].as_str().unwrap().to_owned();
            self.instances.insert(*seed, id);
        }
        self.settle(&[]).await;
    }

    /// Waits until nothing is left to do, no delay is left and these bookmarks are gone.
    async fn settle(&self, used: &[Wait]) {
        let ids: Vec<&str> = self.instances.values().map(String::as_str).collect();
        let (of, bookmarks): (Vec<&str>, Vec<&str>) =
            used.iter().map(|wait| (&*wait.instance, &*wait.bookmark)).unzip();
        let query = "WITH family AS (
                         SELECT unnest($1::text[]) AS id
                         UNION SELECT c.id FROM mainspring.child c
                         WHERE c.parent_instance_id = ANY($1) OR c.root_instance_id = ANY($1))
                     SELECT (SELECT count(*) FROM mainspring.work JOIN family f ON f.id = instance_id)
                          + (SELECT count(*) FROM mainspring.timer t JOIN family f ON f.id = t.instance_id)
                          + (SELECT count(*) FROM mainspring.bookmark b
                             JOIN unnest($2::text[], $3::text[]) u(instance_id, id) USING (instance_id, id))
                          + cardinality($1) - (SELECT count(*) FROM mainspring.instance WHERE id = ANY($1))";
        poll_until(LONG_TIMEOUT, "all instances to wait or to end", async || {
            let row = self.client.query_one(query, &[&ids, &of, &bookmarks]).await.unwrap();
            (row.get::<_, i64>(0) == 0).then_some(())
        })
        .await;
    }

    /// The bookmark of each instance, or of one of its children, that is resumed in this round.
    async fn choose(&self) -> Vec<Wait> {
        let ids: Vec<&str> = self.instances.values().map(String::as_str).collect();
        let query = "SELECT coalesce(i.parent_instance_id, i.id), b.instance_id, b.id, b.payload->>'eventName',
                            b.activity_execution_id
                     FROM mainspring.bookmark b JOIN mainspring.instance i ON i.id = b.instance_id
                     WHERE (i.id = ANY($1) OR i.parent_instance_id = ANY($1)) AND b.name IN ('Elsa.Event', 'Elsa.RunTask')
                     ORDER BY i.parent_instance_id IS NOT NULL, CASE WHEN i.parent_instance_id IS NOT NULL THEN i.correlation_id END,
                              i.id, length(b.activity_execution_id), b.activity_execution_id";
        let rows = self.client.query(query, &[&ids]).await.unwrap();
        let mut waiting: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for row in &rows {
            waiting.entry(row.get(0)).or_default().push(row);
        }
        let chosen = waiting.into_values().map(|of| of[(self.round * 7) % of.len()]);
        chosen
            .map(|row| Wait {
                instance: row.get(1),
                bookmark: row.get(2),
                event: row.get(3),
                execution: row.get(4),
            })
            .collect()
    }

    /// Ends a wait of each instance that waits, and kills a node meanwhile; false if none waits.
    async fn step(&mut self, killed: Option<usize>) -> bool {
        let chosen = self.choose().await;
        let http = self.addresses();
        for (number, wait) in chosen.iter().enumerate() {
            let mut turn = number;
            let mut next = || {
                turn += 1;
                http.get(turn % http.len()).cloned()
            };
            let (path, body) = match &wait.event {
                Some(event) => (
                    format!("events/{event}/trigger"),
                    json!({"activityInstanceId": wait.execution, "workflowInstanceId": wait.instance}),
                ),
                None => (format!("tasks/{}/complete", wait.execution), json!({"result": "done"})),
            };
            send_until_answered(&path, &format!("{}/{}", wait.instance, wait.bookmark), &body, &mut next).await;
        }
        if let Some(killed) = killed {
            self.nodes[killed].child.kill9();
        }
        self.settle(&chosen).await;
        self.round += 1;
        assert!(self.round < MOST_ROUNDS, "an instance does not end");
        !chosen.is_empty()
    }

    /// Kills a node, and starts it again, armed or not.
    async fn restart(&mut self, target: usize, failpoints: &str) {
        self.nodes[target].child.kill9();
        self.nodes[target] = self.node(NAMES[target], failpoints).await;
    }

    async fn node(&self, name: &'static str, failpoints: &str) -> Node {
        let variables = [self.calls.variable(), ("MAINSPRING_FAILPOINTS", failpoints)];
        Node::start_armed_at(&self.database.url(), name, &SETTINGS, &variables).await
    }

    /// What each workflow did: its end, then its journal without times and ids of instances; then the same of its children.
    async fn results(&self) -> BTreeMap<u64, Vec<String>> {
        let mut results = BTreeMap::new();
        for (seed, id) in &self.instances {
            let query = "SELECT id FROM mainspring.instance WHERE parent_instance_id = $1";
            let rows = self.client.query(query, &[id]).await.unwrap();
            let children: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let without_ids = |line: String| {
                let line = line.replace(id, "");
                children.iter().fold(line, |line, child| line.replace(child, "child"))
            };
            let mut lines: Vec<String> = self.journal(id).await.into_iter().map(without_ids).collect();
            let mut of_children = Vec::new();
            for child in &children {
                of_children.push(without_ids(self.journal(child).await.join("\n")));
            }
            of_children.sort();
            lines.extend(of_children);
            results.insert(*seed, lines);
        }
        results
    }

    async fn journal(&self, id: &str) -> Vec<String> {
        let end = "SELECT status || ' ' || sub_status || ' ' || incident_count FROM mainspring.instance WHERE id = $1";
        let journal = "SELECT concat_ws(' ', event_name, activity_type, node_id, activity_execution_id, message, activity_state, payload)
                       FROM mainspring.journal WHERE instance_id = $1 ORDER BY sequence";
        let mut lines: Vec<String> = Vec::new();
        for query in [end, journal] {
            let rows = self.client.query(query, &[&id]).await.unwrap();
            lines.extend(rows.iter().map(|row| row.get::<_, String>(0)));
        }
        lines
    }
}

/// Each execution has called under one key, which no other has. Returns how many calls were repeated.
fn assert_keys(calls: &Calls) -> usize {
    let (mut keys, mut executions, mut repeated) = (BTreeMap::new(), BTreeMap::new(), 0);
    for call in calls.all() {
        let text = |field: &str| call[field].as_str().unwrap().to_owned();
        let (key, execution) = (text("key"), text("execution"));
        let before = executions.insert(key.clone(), execution.clone());
        assert!(before.is_none_or(|before| before == execution), "{call}");
        if let Some(before) = keys.insert(execution, key.clone()) {
            assert_eq!(before, key, "{call}");
            repeated += 1;
        }
    }
    repeated
}

/// Runs the workflows of these seeds twice; returns how often a node died of a failpoint.
async fn compare(seeds: &[u64], random: &mut StdRng) -> usize {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let calls = Calls::new();
    let mut run = Run {
        database: &database,
        calls: &calls,
        client: &client,
        nodes: Vec::new(),
        instances: BTreeMap::new(),
        round: 0,
    };
    run.nodes.push(run.node(NAMES[0], "").await);
    let line = json!({"id": "says", "type": "Elsa.WriteLine", "text": "says"});
    for (id, activities) in [
        (RUNS, json!([line])),
        (
            WAITS,
            json!([{"id": "go", "type": "Elsa.Event", "eventName": "go"}, line]),
        ),
    ] {
        let http = run.nodes[0].http.as_ref().unwrap();
        http.publish(
            &json!({"definitionId": id, "root": {"id": "root", "type": "Elsa.Sequence", "activities": activities}}),
        )
        .await;
    }
    for seed in seeds {
        let http = run.nodes[0].http.as_ref().unwrap();
        let mut model = random_workflow::random_workflow(*seed);
        replace_lines(&mut model["root"], false, &mut false, &mut StdRng::seed_from_u64(*seed));
        if seed % 3 == 0 {
            // All of it inside a workflow as an activity.
            let (part, name) = (format!("part-{seed}"), format!("Part{seed}"));
            let outer = json!({"definitionId": model["definitionId"], "options": model["options"],
                "root": {"type": name, "id": "nested", "version": 1, "workflowDefinitionId": part,
                    "workflowDefinitionVersionId": "of-another-server"}});
            model["definitionId"] = part.into();
            model["name"] = name.into();
            model["options"]["usableAsActivity"] = true.into();
            http.publish(&model).await;
            model = outer;
        }
        http.publish(&model).await;
    }
    run.start(seeds).await;
    while run.step(None).await {}
    let expected = run.results().await;
    for kind in OTHERS {
        let ended = format!("Completed {kind} ");
        let mut lines = expected.values().flatten();
        assert!(lines.any(|line| line.starts_with(&ended)), "no workflow ended a {kind}");
    }
    for name in &NAMES[1..] {
        let node = run.node(name, "").await;
        run.nodes.push(node);
    }
    run.round = 0;
    run.start(seeds).await;
    let points = points();
    let mut died = 0;
    loop {
        // One node at a time dies: a row that is begun three times in vain is a dead letter.
        let target = random.random_range(0..NAMES.len());
        let goes_on = if random.random_bool(0.8) {
            let point = points[random.random_range(0..points.len())];
            run.restart(target, &format!("{point}=abort@{}", random.random_range(1..3)))
                .await;
            let goes_on = run.step(None).await;
            died += usize::from(run.nodes[target].child.has_ended());
            goes_on
        } else {
            run.step(Some(target)).await
        };
        run.restart(target, "").await;
        if !goes_on {
            break;
        }
    }
    let found = run.results().await;
    for (seed, expected) in &expected {
        assert_eq!(&found[seed], expected, "seed {seed}");
    }
    assert_eq!(client.rows("dead_letter").await, 0);
    drop(run.nodes);
    assert_invariants(&database).await;
    let repeated = assert_keys(&calls);
    println!("{repeated} calls were repeated");
    died
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_workflows_have_one_journal_whatever_node_dies() {
    let first: u64 = if long() { rand::random::<u32>().into() } else { 1000 };
    // Without end where it is 0.
    let wanted = std::env::var("MAINSPRING_RANDOM_BATCHES").ok();
    let wanted = wanted.and_then(|batches| batches.parse().ok()).unwrap_or(20);
    let batches: u64 = if long() { wanted } else { 1 };
    let mut random = StdRng::seed_from_u64(first);
    for batch in (0..).take_while(|batch| batches == 0 || *batch < batches) {
        let begin = first + batch * BATCH;
        let seeds: Vec<u64> = (begin..begin + BATCH).collect();
        println!("seeds {begin} to {}", begin + BATCH - 1);
        let died = compare(&seeds, &mut random).await;
        println!("{died} nodes died within a burst");
        assert!(died > 0, "no node died of its failpoint");
    }
}
