//! A cluster of processes, and work for it.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{Child, Connection, Http, TIMEOUT, TestDatabase, in_environment, poll_until};

/// What a node logs that has taken over from another one.
pub(crate) const TAKEN_OVER: &str = "take-over completed";

/// What three nodes are called.
pub(crate) const NAMES: [&str; 3] = ["one", "two", "three"];

/// Starts three nodes at once, with further settings.
pub(crate) fn start_three(database: &TestDatabase, settings: &[&str]) -> Vec<Node> {
    let settings = &[&["--check-in", "200ms"], settings].concat();
    std::thread::scope(|scope| {
        let starts = NAMES.map(|name| scope.spawn(move || Node::start_with(database, name, settings, "")));
        starts.map(|start| start.join().unwrap()).into()
    })
}

/// A node under its own name.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) child: Child,
    /// None if it died before it listened.
    pub(crate) http: Option<Http>,
}

impl Node {
    /// Starts it and waits until it serves.
    pub(crate) fn start(database: &TestDatabase, name: &'static str) -> Self {
        Self::start_with(database, name, &["--check-in", "200ms"], "")
    }

    /// Starts it with settings of its own and failpoints at which it does not die, and waits until it serves.
    pub(crate) fn start_with(database: &TestDatabase, name: &'static str, settings: &[&str], failpoints: &str) -> Self {
        Self::start_at(
            &database.url(),
            name,
            settings,
            &[("MAINSPRING_FAILPOINTS", failpoints)],
        )
    }

    /// Starts it on the database of a URL with settings and variables of its own, and waits until it serves.
    pub(crate) fn start_at(url: &str, name: &'static str, settings: &[&str], variables: &[(&str, &str)]) -> Self {
        let child = spawn(url, name, settings, variables);
        let http = Http::new(&child.wait_for_line("ready ", TIMEOUT));
        Self {
            name,
            child,
            http: Some(http),
        }
    }

    /// Starts it with failpoints armed. It may die before it serves.
    pub(crate) async fn start_armed(database: &TestDatabase, name: &'static str, failpoints: &str) -> Self {
        Self::start_armed_with(database, name, &["--check-in", "200ms"], failpoints).await
    }

    /// The same with settings of its own.
    pub(crate) async fn start_armed_with(
        database: &TestDatabase,
        name: &'static str,
        settings: &[&str],
        failpoints: &str,
    ) -> Self {
        let failpoints = [("MAINSPRING_FAILPOINTS", failpoints)];
        Self::start_armed_at(&database.url(), name, settings, &failpoints).await
    }

    /// The same on the database of a URL with variables of its own.
    pub(crate) async fn start_armed_at(
        url: &str,
        name: &'static str,
        settings: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut child = spawn(url, name, settings, variables);
        let ready = poll_until(TIMEOUT, "an armed node to serve or to die", async || {
            let line = child
                .stdout()
                .into_iter()
                .find_map(|line| line.strip_prefix("ready ").map(str::to_owned));
            line.map(Some).or_else(|| child.has_ended().then_some(None))
        })
        .await;
        Self {
            name,
            child,
            http: ready.map(|url| Http::new(&url)),
        }
    }
}

/// Starts a node, and does not wait until it serves.
pub(crate) fn spawn(url: &str, name: &str, settings: &[&str], variables: &[(&str, &str)]) -> Child {
    let arguments = [
        "serve",
        "--database-url",
        url,
        "--listen",
        "127.0.0.1:0",
        "--node-id",
        name,
    ];
    let settings = in_environment(settings);
    let settings = settings.iter().map(|(name, value)| (&**name, *value));
    Child::start(
        &arguments,
        &settings.chain(variables.iter().copied()).collect::<Vec<_>>(),
    )
}

/// Two lines with a delay between them and an event after.
pub(crate) fn definition() -> Value {
    let script = |type_name: &str, text: &str| json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": text}});
    json!({
        "definitionId": "walk",
        "name": "Walk",
        "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.WriteLine", "id": "first", "text": script("String", "'first ' + getInput('n')")},
            {"type": "Elsa.Delay", "id": "rest", "timeSpan": script("TimeSpan", "'00:00:00.' + (100 + getInput('n') % 800)")},
            {"type": "Elsa.WriteLine", "id": "second", "text": script("String", "'second ' + getInput('n')")},
            {"type": "Elsa.Event", "id": "word", "eventName": script("String", "'go-' + getInput('n')")},
            {"type": "Elsa.WriteLine", "id": "third", "text": script("String", "'third ' + getInput('n')")}
        ]}
    })
}

/// Publishes the definition through a node.
pub(crate) async fn publish(http: &Http) {
    http.publish(&definition()).await;
}

/// Sends a request that a retry makes no worse, until one node has answered it. `node` gives the node to try next.
pub(crate) async fn send_until_answered(
    path: &str,
    key: &str,
    body: &Value,
    node: &mut (impl FnMut() -> Option<Http> + Send),
) {
    let began = Instant::now();
    loop {
        if let Some(http) = node()
            && let Ok(answer) = http
                .send(Method::POST, path, &[("idempotency-key", key)], Some(body))
                .await
        {
            match answer.status {
                200 => return,
                503 => {}
                status => panic!("{path} answered {status}: {}", answer.body),
            }
        }
        assert!(began.elapsed() < TIMEOUT * 2, "no node has answered {path}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Starts the walk of a number, with an idempotency key of its own.
pub(crate) async fn start_walk(n: impl Display, start: &Value, node: &mut (impl FnMut() -> Option<Http> + Send)) {
    send_until_answered("workflow-definitions/walk/dispatch", &format!("s{n}"), start, node).await;
}

/// Starts the walk of a number, and sends its event.
pub(crate) async fn walk(n: usize, node: &mut (impl FnMut() -> Option<Http> + Send)) {
    start_walk(n, &json!({"input": {"n": n}}), node).await;
    send_event(n, node).await;
}

/// The nodes that are registered, oldest first.
pub(crate) async fn incarnations(client: &Connection) -> Vec<i64> {
    let query = "SELECT array_agg(incarnation ORDER BY incarnation) FROM mainspring.node";
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// Sends the event for which the walk of a number waits.
pub(crate) async fn send_event(n: impl Display, node: &mut (impl FnMut() -> Option<Http> + Send)) {
    let event = format!("events/go-{n}/trigger");
    send_until_answered(&event, &format!("e{n}"), &json!({}), node).await;
}

/// Waits until so many instances are finished.
pub(crate) async fn wait_until_finished(client: &Connection, count: i64) {
    let probe = async || (client.rows("instance WHERE status = 1 AND sub_status = 3").await >= count).then_some(());
    let waited = tokio::time::timeout(TIMEOUT * 2, poll_until(TIMEOUT * 2, "all instances to finish", probe)).await;
    if waited.is_err() {
        panic!("not all finished: {:?}", unfinished(client).await);
    }
}

async fn unfinished(client: &Connection) -> Vec<String> {
    let query = "SELECT i.id || ' v' || i.version || ' work ' || (SELECT count(*) FROM mainspring.work w WHERE w.instance_id = i.id)
                 || ' timers ' || (SELECT count(*) FROM mainspring.timer t WHERE t.instance_id = i.id)
                 FROM mainspring.instance i WHERE status = 0 LIMIT 5";
    client
        .query(query, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect()
}

/// Each activity of each instance was begun and ended exactly once, and the invariants hold.
pub(crate) async fn assert_each_exactly_once(database: &TestDatabase, client: &Connection, count: i64) {
    let query = "SELECT activity_id, event_name, count(*), count(DISTINCT instance_id) FROM mainspring.journal
                 WHERE event_name IN ('Started', 'Completed') GROUP BY 1, 2 ORDER BY 1, 2";
    let rows = client.query(query, &[]).await.unwrap();
    let seen: Vec<(String, String, i64, i64)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))
        .collect();
    for activity in ["Workflow1", "root", "first", "rest", "second", "word", "third"] {
        for event in ["Completed", "Started"] {
            let wanted = (activity.to_owned(), event.to_owned(), count, count);
            assert!(
                seen.contains(&wanted),
                "{activity} {event} is not there once for each of {count}: {seen:?}"
            );
        }
    }
    assert_invariants(database).await;
}

/// `mainspring check` finds nothing.
pub(crate) async fn assert_invariants(database: &TestDatabase) {
    let url = database.url();
    let mut check = Child::start(&["check", "--json", "--database-url", &url], &[]);
    let status = check.wait(TIMEOUT);
    let report = check.stdout().join("\n");
    assert!(status.success(), "{report}");
    assert_eq!(
        serde_json::from_str::<Value>(&report).unwrap(),
        json!({"ok": true, "violations": []})
    );
}

/// Starts instances and publishes their events through whichever node answers, until all are accepted.
pub(crate) fn load(addresses: Vec<Http>, count: usize) -> Vec<JoinHandle<()>> {
    const LANES: usize = 8;
    let addresses: Arc<[Http]> = addresses.into();
    let lane = |lane: usize| {
        let addresses = Arc::clone(&addresses);
        let mut turn = lane;
        let mut next = move || {
            turn += 1;
            addresses.get(turn % addresses.len()).cloned()
        };
        async move {
            for n in (lane..count).step_by(LANES) {
                walk(n, &mut next).await;
                // So that there is work for as long as the faults continue.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    (0..LANES).map(|n| tokio::spawn(lane(n))).collect()
}
