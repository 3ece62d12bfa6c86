//! Random workflows, each on an undisturbed node and on three nodes that are killed: the journals agree, entry by entry.
//!
//! Every wait is for an event, and the test sends one at a time to an instance, chosen by a rule that both runs follow. So an
//! instance has the same bursts, and whatever a killed node has begun another one repeats.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::support::failpoints::CALL;
use crate::support::node::{NAMES, Node, assert_invariants, send_until_answered};
use crate::support::{Connection, Http, LONG_TIMEOUT, TestDatabase, long, poll_until};

#[path = "../../../src/execution/tests/random_workflow.rs"]
mod random_workflow;

const SETTINGS: [&str; 4] = ["--check-in", "200ms", "--tolerance", "1s"];

/// How many workflows run at a time.
const BATCH: u64 = 40;

/// How many waits an instance may have before the test counts it as endless.
const MOST_ROUNDS: usize = 120;

/// Where a node dies: from the claim of a row to the answer about its commit.
fn points() -> Vec<&'static str> {
    let all = CALL.into_iter();
    all.filter(|point| ["claim.", "burst.", "commit."].iter().any(|of| point.starts_with(of)))
        .collect()
}

/// Instances of random workflows on nodes that a round may kill.
struct Run<'a> {
    database: &'a TestDatabase,
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

    /// Waits until nothing is left to do and these bookmarks are gone.
    async fn settle(&self, used: &[(String, String)]) {
        let ids: Vec<&str> = self.instances.values().map(String::as_str).collect();
        let (of, bookmarks): (Vec<&str>, Vec<&str>) = used.iter().map(|(of, id)| (of.as_str(), id.as_str())).unzip();
        let query = "SELECT (SELECT count(*) FROM mainspring.work WHERE instance_id = ANY($1))
                          + (SELECT count(*) FROM mainspring.bookmark b
                             JOIN unnest($2::text[], $3::text[]) u(instance_id, id) USING (instance_id, id))
                          + cardinality($1) - (SELECT count(*) FROM mainspring.instance WHERE id = ANY($1))";
        poll_until(LONG_TIMEOUT, "all instances to wait or to end", async || {
            let row = self.client.query_one(query, &[&ids, &of, &bookmarks]).await.unwrap();
            (row.get::<_, i64>(0) == 0).then_some(())
        })
        .await;
    }

    /// The bookmark of each instance that is resumed in this round: `(instance, bookmark, event, execution)`.
    async fn choose(&self) -> Vec<[String; 4]> {
        let ids: Vec<&str> = self.instances.values().map(String::as_str).collect();
        let query = "SELECT instance_id, id, payload->>'eventName', activity_execution_id FROM mainspring.bookmark
                     WHERE instance_id = ANY($1) ORDER BY instance_id, length(activity_execution_id), activity_execution_id";
        let rows = self.client.query(query, &[&ids]).await.unwrap();
        let mut waiting: BTreeMap<String, Vec<[String; 4]>> = BTreeMap::new();
        for row in rows {
            let columns: [String; 4] = std::array::from_fn(|at| row.get(at));
            waiting.entry(columns[0].clone()).or_default().push(columns);
        }
        let choices = waiting.into_values();
        choices.map(|of| of[(self.round * 7) % of.len()].clone()).collect()
    }

    /// Sends an event to each instance that waits, and kills a node meanwhile; false if none waits.
    async fn step(&mut self, killed: Option<usize>) -> bool {
        let chosen = self.choose().await;
        let http = self.addresses();
        for (number, [instance, bookmark, event, execution]) in chosen.iter().enumerate() {
            let mut turn = number;
            let mut next = || {
                turn += 1;
                http.get(turn % http.len()).cloned()
            };
            let body = json!({"activityInstanceId": execution, "workflowInstanceId": instance});
            send_until_answered(
                &format!("events/{event}/trigger"),
                &format!("{instance}/{bookmark}"),
                &body,
                &mut next,
            )
            .await;
        }
        if let Some(killed) = killed {
            self.nodes[killed].child.kill9();
        }
        let used: Vec<(String, String)> = chosen
            .iter()
            .map(|[instance, bookmark, ..]| (instance.clone(), bookmark.clone()))
            .collect();
        self.settle(&used).await;
        self.round += 1;
        assert!(self.round < MOST_ROUNDS, "an instance does not end");
        !used.is_empty()
    }

    /// Kills a node, and starts it again, armed or not.
    async fn restart(&mut self, target: usize, failpoints: &str) {
        self.nodes[target].child.kill9();
        let node = Node::start_armed_with(self.database, NAMES[target], &SETTINGS, failpoints).await;
        self.nodes[target] = node;
    }

    /// What each workflow did: its end, then its journal without times and the id of the instance.
    async fn results(&self) -> BTreeMap<u64, Vec<String>> {
        let mut results = BTreeMap::new();
        let end = "SELECT status || ' ' || sub_status || ' ' || incident_count FROM mainspring.instance WHERE id = $1";
        let journal = "SELECT replace(concat_ws(' ', event_name, node_id, activity_execution_id, message, activity_state, payload), $1, '')
                       FROM mainspring.journal WHERE instance_id = $1 ORDER BY sequence";
        for (seed, id) in &self.instances {
            let mut lines: Vec<String> = Vec::new();
            for query in [end, journal] {
                let rows = self.client.query(query, &[id]).await.unwrap();
                lines.extend(rows.iter().map(|row| row.get::<_, String>(0)));
            }
            results.insert(*seed, lines);
        }
        results
    }
}

/// Runs the workflows of these seeds twice; returns how often a node died of a failpoint.
async fn compare(seeds: &[u64], random: &mut StdRng) -> usize {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let mut run = Run {
        database: &database,
        client: &client,
        nodes: vec![Node::start_with(&database, NAMES[0], &SETTINGS, "")],
        instances: BTreeMap::new(),
        round: 0,
    };
    for seed in seeds {
        let http = run.nodes[0].http.as_ref().unwrap();
        let mut model = random_workflow::random_workflow(*seed);
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
    for name in &NAMES[1..] {
        run.nodes.push(Node::start_with(&database, name, &SETTINGS, ""));
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
