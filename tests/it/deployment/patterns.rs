//! The command lines of `docs/patterns`, started as documented (but for the ports, any free ones), and what each
//! page promises.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::node::{assert_each_exactly_once, assert_invariants, publish, wait_until_finished};
use crate::support::{Child, Connection, Http, TIMEOUT, TestDatabase, poll_until, wait_until};

struct Started {
    name: String,
    child: Child,
    http: Http,
}

/// The lines of a page that begin with this command.
fn lines(page: &str, command: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/patterns").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let found = text.lines().filter(|line| line.starts_with(command)).map(str::to_owned);
    found.collect()
}

/// Starts every node of a page, at once.
fn start(database: &TestDatabase, page: &str) -> Vec<Started> {
    let started = start_those(database, page, "");
    assert!(started.len() > 1, "{page}");
    started
}

/// Starts the nodes of a page whose command line contains this.
fn start_those(database: &TestDatabase, page: &str, with: &str) -> Vec<Started> {
    let url = database.url();
    let mut lines = lines(page, "mainspring serve ");
    lines.retain(|line| line.contains(with));
    let one = |line: &String| {
        let arguments: Vec<String> = line
            .split_whitespace()
            .skip(1)
            .map(|word| match word {
                "$DATABASE_URL" => url.clone(),
                word if word.starts_with("127.0.0.1:50") => "127.0.0.1:0".to_owned(),
                word => word.to_owned(),
            })
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let name = arguments[arguments.iter().position(|word| *word == "--node-id").unwrap() + 1];
        let child = Child::start(&arguments, &[]);
        let http = Http::new(&child.wait_for_line("ready ", TIMEOUT));
        let name = name.to_owned();
        Started { name, child, http }
    };
    std::thread::scope(|scope| {
        let starts: Vec<_> = lines.iter().map(|line| scope.spawn(move || one(line))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    })
}

fn by<'a>(nodes: &'a [Started], name: &str) -> &'a Http {
    &nodes.iter().find(|node| node.name == name).unwrap().http
}

async fn listed(http: &Http) -> Vec<Value> {
    http.get("cluster/nodes").await.expect(200)["items"]
        .as_array()
        .unwrap()
        .clone()
}

async fn roles(http: &Http, wanted: &[(&str, &[&str])]) {
    let nodes = listed(http).await;
    assert_eq!(nodes.len(), wanted.len(), "{nodes:?}");
    for (name, roles) in wanted {
        let node = nodes.iter().find(|node| node["nodeId"] == *name).unwrap();
        assert_eq!(node["roles"], json!(roles), "{node}");
    }
}

/// Runs workflows through these nodes, in turn.
async fn work(database: &TestDatabase, clients: &[&Http], count: usize) {
    publish(clients[0]).await;
    for n in 0..count {
        let client = clients[n % clients.len()];
        let start = json!({"input": {"n": n}});
        if n % 2 == 0 {
            client.dispatch("walk", &start).await;
        } else {
            let answer = client.execute("walk", &start).await;
            assert_eq!(answer["workflowState"]["subStatus"], "Suspended", "{answer}");
        }
        let next = clients[(n + 1) % clients.len()];
        next.trigger(&format!("go-{n}"), &json!({})).await;
    }
    let client = database.connect().await;
    wait_until_finished(&client, count as i64).await;
    assert_each_exactly_once(database, &client, count as i64).await;
}

async fn answers_health_alone(http: &Http) {
    assert_eq!(http.get("/health/ready").await.status, 200);
    assert_eq!(http.get("/health/live").await.status, 200);
    for path in ["cluster/nodes", "workflow-definitions", "/", "/workflows/resume/token"] {
        let answer = http.get(path).await;
        answer.assert_refused(421, "no-api-here");
    }
    assert_eq!(http.post("events/x/trigger", &json!({})).await.status, 421);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_database_with_separate_api_and_worker_nodes() {
    let database = TestDatabase::create().await;
    let nodes = start(&database, "shared-database.md");
    let all: &[&str] = &["api", "worker", "scheduler"];
    let api = by(&nodes, "api-1");
    let wanted = [
        ("node-1", all),
        ("node-2", all),
        ("node-3", all),
        ("api-1", &["api"][..]),
        ("worker-1", &["worker", "scheduler"][..]),
    ];
    roles(api, &wanted).await;
    answers_health_alone(by(&nodes, "worker-1")).await;
    work(&database, &[api, by(&nodes, "node-1"), by(&nodes, "node-2")], 12).await;
    let said = &nodes.iter().find(|node| node.name == "api-1").unwrap().child;
    assert!(
        said.stdout().iter().all(|line| line.starts_with("ready ")),
        "it ran something"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_does_everything() {
    let database = TestDatabase::create().await;
    let nodes = start(&database, "every-node.md");
    let all: &[&str] = &["api", "worker", "scheduler"];
    let clients: Vec<&Http> = nodes.iter().map(|node| &node.http).collect();
    roles(clients[2], &[("node-1", all), ("node-2", all), ("node-3", all)]).await;
    assert!(
        listed(clients[0])
            .await
            .iter()
            .all(|node| node["schedulerTerm"].is_null())
    );
    work(&database, &clients, 9).await;
}

/// Publishes a workflow that starts every second.
async fn schedule(http: &Http) {
    let literal = |type_name: &str, value: &str| json!({"typeName": type_name, "expression": {"type": "Literal", "value": value}});
    let model = json!({"definitionId": "ticks", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.Timer", "id": "tick", "canStartWorkflow": true, "interval": literal("TimeSpan", "00:00:01")},
        {"type": "Elsa.WriteLine", "id": "say", "text": literal("String", "tick")}
    ]}});
    http.publish(&model).await;
}

/// Waits until a node has fired after all that were fired before.
async fn fires(client: &Connection, name: &str) {
    let fired = "SELECT coalesce(max(fired), 0) FROM mainspring.schedule";
    let before = client.count(fired).await;
    let by = "SELECT count(*) FROM mainspring.schedule WHERE fired > $1 AND last_node = $2";
    poll_until(TIMEOUT, "a node to fire", async || {
        let fired: i64 = client.query_one(by, &[&before, &name]).await.ok()?.get(0);
        (fired > 0).then_some(())
    })
    .await;
}

/// The one active scheduler and its term.
async fn active(http: &Http) -> (String, u64) {
    poll_until(TIMEOUT, "one active scheduler", async || {
        let nodes = listed(http).await;
        let terms = nodes
            .iter()
            .filter(|node| node["state"] == "live")
            .filter_map(|node| Some((node["nodeId"].as_str()?.to_owned(), node["schedulerTerm"].as_u64()?)));
        let mut terms: Vec<_> = terms.collect();
        assert!(terms.len() < 2, "{nodes:?}");
        terms.pop()
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_scheduler_is_active_at_a_time_and_another_replaces_it_at_once() {
    let database = TestDatabase::create().await;
    let mut nodes = start(&database, "single-scheduler.md");
    let (first_api, other) = (by(&nodes, "worker-1").clone(), by(&nodes, "worker-2").clone());
    roles(
        &first_api,
        &[
            ("scheduler-1", &["scheduler"]),
            ("scheduler-2", &["scheduler"]),
            ("worker-1", &["api", "worker"]),
            ("worker-2", &["api", "worker"]),
        ],
    )
    .await;
    answers_health_alone(by(&nodes, "scheduler-1")).await;
    let (first, term) = active(&first_api).await;
    assert!(first.starts_with("scheduler-") && term > 0, "{first} {term}");
    work(&database, &[&first_api, &other], 6).await;
    schedule(&other).await;
    let client = database.connect().await;
    fires(&client, &first).await;
    nodes
        .iter()
        .find(|node| node.name == first)
        .unwrap()
        .child
        .signal("KILL");
    nodes.retain(|node| node.name != first);
    let (second, next) = poll_until(TIMEOUT, "the next one", async || {
        let (name, term) = active(&first_api).await;
        (name != first).then_some((name, term))
    })
    .await;
    assert!(next > term, "{next} after {term}");
    fires(&client, &second).await;
    // The killed one comes back as a candidate, and is elected when the second one stops.
    let _again = start_those(&database, "single-scheduler.md", &first);
    assert_eq!(active(&first_api).await, (second.clone(), next));
    nodes
        .iter()
        .find(|node| node.name == second)
        .unwrap()
        .child
        .signal("TERM");
    let (third, last) = poll_until(TIMEOUT, "the first one again", async || {
        let (name, term) = active(&first_api).await;
        (name == first).then_some((name, term))
    })
    .await;
    assert!(last > next, "{third}: {last} after {next}");
    fires(&client, &first).await;
    assert_invariants(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_scheduler_starts_each_occurrence_once() {
    let database = TestDatabase::create().await;
    let nodes = start(&database, "external-scheduler.md");
    let (one, two) = (by(&nodes, "worker-1"), by(&nodes, "worker-2"));
    roles(
        one,
        &[("worker-1", &["api", "worker"]), ("worker-2", &["api", "worker"])],
    )
    .await;
    let line = json!({"typeName": "String", "expression": {"type": "Literal", "value": "reported"}});
    let model = json!({"definitionId": "daily-report", "root": {"type": "Elsa.WriteLine", "id": "say", "text": line}});
    one.publish(&model).await;
    // What the page calls, with the key that it gives.
    let call = lines("external-scheduler.md", "curl ").pop().unwrap();
    let path = call
        .split_whitespace()
        .find(|word| word.starts_with("http://"))
        .unwrap();
    let path = path.strip_prefix("http://127.0.0.1:5001").unwrap();
    assert!(call.contains("Idempotency-Key: daily-report-$(date -u +%F)"), "{call}");
    let mut started = Vec::new();
    for day in ["2026-11-20", "2026-11-21"] {
        // Twice at the same moment, and once more later; at different nodes.
        let key = format!("daily-report-{day}");
        let headers = [("Idempotency-Key", key.as_str())];
        let body = json!({});
        let fire = async |http: &Http| {
            let answer = http.send(Method::POST, path, &headers, Some(&body)).await;
            answer.unwrap().expect(200)
        };
        let (first, second) = tokio::join!(fire(one), fire(two));
        assert_eq!(first, second);
        started.push(first["workflowInstanceId"].clone());
    }
    assert_ne!(started[0], started[1]);
    let client = database.connect().await;
    wait_until_finished(&client, 2).await;
    let count = client.rows("instance").await;
    assert_eq!(count, 2);
    // No node here has the role `scheduler`.
    schedule(one).await;
    let late = "SELECT count(*) FROM mainspring.schedule WHERE next_fire < now() - interval '2 seconds' AND fired = 0";
    wait_until("a schedule that no node fires", async || client.count(late).await == 1).await;
    assert_invariants(&database).await;
}
