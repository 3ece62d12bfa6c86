//! Many resumes of one instance at once, on several nodes: each runs once, and the lock does not move for each.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::node::{Node, assert_invariants};
use crate::support::single_node::literal;
use crate::support::{Answer, Connection, Gate, Http, TestDatabase, wait_until};

/// As `store::claim` has it: the most rows that one burst consumes.
const PER_BURST: usize = 100;

struct ResumeCluster {
    database: TestDatabase,
    client: Connection,
    gate: Gate,
    nodes: Vec<Node>,
    clients: Vec<Http>,
}

impl ResumeCluster {
    /// One node, which may stall in the middle of its second burst; the others join later.
    async fn new(stalls: bool, model: Value) -> Self {
        let database = TestDatabase::create().await;
        let gate = Gate::new();
        let settings = ["--check-in", "200ms", "--log", "debug"];
        let stall = format!("{}@2", gate.stalls("burst.running"));
        let first = Node::start_with(&database, "one", &settings, if stalls { &stall } else { "" });
        let http = first.http.clone().unwrap();
        http.publish(&model).await;
        let client = database.connect().await;
        Self {
            database,
            client,
            gate,
            nodes: vec![first],
            clients: vec![http],
        }
    }

    fn join(&mut self) {
        for name in ["two", "three"] {
            let settings = ["--check-in", "200ms", "--log", "debug"];
            let node = Node::start_with(&self.database, name, &settings, "");
            self.clients.push(node.http.clone().unwrap());
            self.nodes.push(node);
        }
    }

    async fn start(&self) -> String {
        let answer = self.clients[0].post("workflow-definitions/r/execute", &json!({})).await;
        let state = answer.expect(200);
        state["workflowState"]["id"].as_str().unwrap().to_owned()
    }

    /// How often a line was logged, by all nodes.
    fn said(&self, line: &str) -> usize {
        let lines = self.nodes.iter().flat_map(|node| node.child.stderr());
        lines.filter(|said| said.contains(line)).count()
    }
}

/// Waits once, then writes a line.
fn once() -> Value {
    json!({"definitionId": "r", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Event", "id": "wait", "eventName": literal("go")},
        {"type": "Elsa.WriteLine", "id": "after", "text": literal("after")}
    ]}})
}

/// Waits at as many bookmarks at once.
fn many(count: usize) -> Value {
    let mut activities = vec![json!({"type": "Elsa.Start", "id": "start"})];
    let mut connections = Vec::new();
    for n in 0..count {
        let id = format!("wait{n}");
        activities.push(json!({"type": "Elsa.Event", "id": id, "eventName": literal(&format!("go-{n}"))}));
        connections.push(json!({"source": {"activity": "start", "port": "Done"},
                                "target": {"activity": id, "port": "In"}}));
    }
    json!({"definitionId": "r", "root": {"type": "Elsa.Flowchart", "id": "root", "start": "start",
        "activities": activities, "connections": connections}})
}

async fn resume(http: &Http, id: &str, body: Value) -> Answer {
    http.post(&format!("workflow-instances/{id}/resume"), &body).await
}

/// One runs it, and the others get `already-resumed`.
fn exactly_one_ran(answers: &[Answer]) {
    let ran = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(ran, 1, "{:?}", answers.iter().map(|a| a.status).collect::<Vec<_>>());
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        let refusal = (answer.status, &answer.body["code"]);
        assert_eq!(refusal, (409, &json!("already-resumed")), "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_simultaneous_resumes_on_three_nodes_one_runs() {
    let mut three = ResumeCluster::new(false, once()).await;
    three.join();
    for round in 1..=10 {
        let id = three.start().await;
        let answers = join_all(three.clients.iter().map(|http| resume(http, &id, json!({})))).await;
        exactly_one_ran(&answers);
        let done = "SELECT count(*) FROM mainspring.journal WHERE activity_id = 'after' AND event_name = 'Completed'";
        assert_eq!(three.client.count(done).await, round);
        assert!(three.said(&format!("Acquired distributed lock for workflow instance {id}")) > 0);
        let released = format!("Released distributed lock for workflow instance {id}");
        wait_until("the lock to be released", async || three.said(&released) > 0).await;
    }
    assert_invariants(&three.database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resume_of_what_another_node_is_resuming_gets_already_resumed() {
    let mut three = ResumeCluster::new(true, once()).await;
    let id = three.start().await;
    let first = {
        let (http, id) = (three.clients[0].clone(), id.clone());
        tokio::spawn(async move { resume(&http, &id, json!({})).await })
    };
    three.gate.reached().await;
    three.join();
    let second = {
        let (http, id) = (three.clients[1].clone(), id.clone());
        tokio::spawn(async move { resume(&http, &id, json!({})).await })
    };
    let contended = format!("Lock acquisition failed; resume already in progress for workflow {id}");
    let still = format!("the lock of instance {id} is still held elsewhere");
    wait_until("the second to find the lock taken, again and again", async || {
        three.said(&contended) > 0 && three.said(&still) >= 5
    })
    .await;
    three.gate.open();
    exactly_one_ran(&[first.await.unwrap(), second.await.unwrap()]);
    // Each node logs it once, not with every retry; the first one, too, if it resumes while another one runs the rest.
    for node in &three.nodes {
        let logged = node
            .child
            .stderr()
            .iter()
            .filter(|line| line.contains(&contended))
            .count();
        assert!(logged <= 1, "{} logged {logged} times", node.name);
    }
    assert_invariants(&three.database).await;
}

/// 200 resumes on three nodes, all of them pending when the burst of the first one continues.
async fn two_hundred(model: Value, bodies: Vec<Value>) -> Vec<Answer> {
    let mut three = ResumeCluster::new(true, model).await;
    let id = three.start().await;
    let bodies = if bodies.is_empty() {
        let ids = "SELECT array_agg(id ORDER BY id) FROM mainspring.bookmark";
        let ids: Vec<String> = three.client.query_one(ids, &[]).await.unwrap().get(0);
        ids.into_iter().map(|id| json!({"bookmarkId": id})).collect()
    } else {
        bodies
    };
    let count = bodies.len();
    let mut bodies = bodies.into_iter();
    let spawn = |http: &Http, body: Value| {
        let (http, id) = (http.clone(), id.clone());
        tokio::spawn(async move { resume(&http, &id, body).await })
    };
    let mut answers = vec![spawn(&three.clients[0], bodies.next().unwrap())];
    three.gate.reached().await;
    three.join();
    answers.extend(bodies.enumerate().map(|(n, body)| spawn(&three.clients[n % 3], body)));
    wait_until("all to be accepted", async || {
        let pending = three.client.rows("work").await;
        pending == count as i64
    })
    .await;
    three.gate.open();
    let answers: Vec<Answer> = join_all(answers).await.into_iter().map(Result::unwrap).collect();
    // Its first burst, the one that stalled with one row, and then as few as can consume the others.
    let bursts = 2 + (count - 1).div_ceil(PER_BURST);
    let version = three.client.count("SELECT version FROM mainspring.instance").await;
    assert!(version <= bursts as i64, "{version} bursts for {count} resumes");
    // After each burst, every node may try for rows that another one has consumed: it takes the lock once in vain.
    let held = three.said(&format!("Acquired distributed lock for workflow instance {id}"));
    assert!(
        held <= bursts * three.nodes.len(),
        "the lock was taken {held} times for {bursts} bursts"
    );
    assert_eq!(three.client.rows("work").await, 0);
    assert_invariants(&three.database).await;
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_resumes_of_one_instance_do_not_pass_its_lock_around() {
    for answer in two_hundred(many(200), Vec::new()).await {
        answer.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_resumes_of_one_bookmark_run_it_once() {
    exactly_one_ran(&two_hundred(once(), vec![json!({}); 200]).await);
}
