//! A start that is lost, or whose reply is: the caller learns its outcome, and no claim stays behind.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::node::{Node, assert_invariants};
use crate::support::{Answer, Connection, Gate, Http, Server, TIMEOUT, TestDatabase, poll_until, wait_until};

/// How often a crash may come too late.
const ROUNDS: usize = 20;

/// What a node logs that releases rows that it had claimed and does not run.
const ORPHANED_CLAIM: &str = "a claim was orphaned";

async fn publish(http: &Http) {
    let model = json!({"definitionId": "says", "root": {"type": "Elsa.WriteLine", "id": "say", "text": "here"}});
    http.publish(&model).await;
}

fn executes(http: &Http) -> JoinHandle<Answer> {
    let http = http.clone();
    tokio::spawn(async move { http.post("workflow-definitions/says/execute", &json!({})).await })
}

/// The instance of the start that waits for its burst.
async fn accepted(admin: &Connection) -> String {
    poll_until(TIMEOUT, "the start to be accepted", async || {
        let row = admin.query_opt("SELECT instance_id FROM mainspring.work", &[]).await;
        row.unwrap().map(|row| row.get(0))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_lost_in_a_server_crash_is_unknown_and_not_repeated() {
    let server = Server::start().await;
    let database = TestDatabase::create_on(&server.url()).await;
    // Nothing but a commit that is flushed writes its log.
    let idles = database.connect().await;
    for setting in ["wal_writer_delay = '10s'", "autovacuum = off"] {
        idles.run(&format!("ALTER SYSTEM SET {setting}")).await;
    }
    idles.run("SELECT pg_reload_conf()").await;
    let gate = Gate::new();
    let node = Node::start_with(&database, "one", &["--check-in", "200ms"], &gate.stalls("burst.before"));
    let http = node.http.clone().unwrap();
    publish(&http).await;
    let mut lost = None;
    for _ in 0..ROUNDS {
        let mut admin = database.connect().await;
        let answer = executes(&http);
        let id = accepted(&admin).await;
        // Before the node has the reply of its statement, it would repeat a start that the crash took.
        gate.reached().await;
        let process: i32 = admin.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let bystander = database.connect().await;
        server.crash(process);
        // Until the server has noticed, it lets connections in that end with it.
        wait_until("the server to end all sessions", async || bystander.is_closed()).await;
        poll_until(TIMEOUT, "the server to be back", async || {
            let connected = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await;
            connected.ok().map(drop)
        })
        .await;
        admin = database.connect().await;
        let left = admin.rows("work").await;
        http.readiness_becomes(200).await;
        if left == 0 {
            lost = Some((id, answer.await.unwrap()));
            break;
        }
        // Something else was flushed in between.
        answer.abort();
        admin.execute("DELETE FROM mainspring.work", &[]).await.unwrap();
    }
    let (id, answer) = lost.expect("no crash took a start");
    assert_eq!(
        (answer.status, &answer.body["code"], &answer.body["workflowInstanceId"]),
        (503, &json!("outcome-unknown"), &json!(id)),
        "{}",
        answer.body
    );
    gate.open();
    let next = http.post("workflow-definitions/says/execute", &json!({})).await;
    next.expect(200);
    assert_eq!(http.get(&format!("workflow-instances/{id}")).await.status, 404);
    assert_invariants(&database).await;
}

/// The connection is cut after the start is committed, and before its reply arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_whose_reply_is_lost_runs_at_once_and_its_caller_is_answered() {
    let database = TestDatabase::create().await;
    let settings = ["--check-in", "200ms"];
    let mut nodes = Vec::new();
    for (route, key) in [("dispatch", ""), ("dispatch", "k1"), ("execute", ""), ("execute", "k2")] {
        let mut node = Node::start_with(&database, "one", &settings, "accept.after=cut");
        let http = node.http.clone().unwrap();
        publish(&http).await;
        let headers: &[(&str, &str)] = if key.is_empty() {
            &[]
        } else {
            &[("idempotency-key", key)]
        };
        let path = format!("workflow-definitions/says/{route}");
        let answer = http.send(Method::POST, &path, headers, Some(&json!({}))).await.unwrap();
        let id = if route == "dispatch" {
            answer.expect(200)["workflowInstanceId"].clone()
        } else {
            answer.expect(200)["workflowState"]["id"].clone()
        };
        http.instance_becomes(id.as_str().unwrap(), "Finished").await;
        assert_eq!(
            node.child
                .stderr()
                .iter()
                .filter(|line| line.contains("in doubt"))
                .count(),
            1
        );
        node.child.signal("TERM");
        node.child.wait(TIMEOUT);
        nodes.push(node);
    }
    for node in &nodes {
        assert!(!node.child.logs(ORPHANED_CLAIM));
    }
    let client = database.connect().await;
    assert_eq!(client.rows("instance WHERE status = 1").await, nodes.len() as i64);
    assert_invariants(&database).await;
}

/// The caller is answered at its deadline, and the start accepted after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_accepted_after_its_caller_was_answered_runs_at_once() {
    let database = TestDatabase::create().await;
    let settings = ["--check-in", "200ms", "--answer-timeout", "500ms"];
    let node = Node::start_with(&database, "one", &settings, "");
    let http = node.http.clone().unwrap();
    publish(&http).await;
    let mut client = database.connect().await;
    for route in ["dispatch", "execute"] {
        let held = client.transaction().await.unwrap();
        let locks = "LOCK TABLE mainspring.work IN SHARE MODE";
        held.batch_execute(locks).await.unwrap();
        let answer = http
            .post(&format!("workflow-definitions/says/{route}"), &json!({}))
            .await;
        answer.assert_refused(503, "outcome-unknown");
        held.rollback().await.unwrap();
        let id: &Value = &answer.body["workflowInstanceId"];
        http.instance_becomes(id.as_str().unwrap(), "Finished").await;
    }
    assert!(!node.child.logs(ORPHANED_CLAIM));
    assert_invariants(&database).await;
}
