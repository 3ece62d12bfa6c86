//! Nodes whose clocks are hours off, or jump: only the database's clock counts.

use std::path::PathBuf;

use serde_json::json;

use super::nodes::{NAMES, Node, PATIENCE, all_finish, each_exactly_once, insist, publish};
use crate::support::{Child, Connection, TestDatabase, poll_until};

/// The library that lies about the time, for programs with threads.
fn library() -> String {
    let folders = std::fs::read_dir("/usr/lib")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let found = folders
        .map(|folder| folder.join("faketime/libfaketimeMT.so.1"))
        .find(|path| path.exists());
    let found = found.expect("there is no libfaketime here: run scripts/install-missing faketime");
    found.display().to_string()
}

/// What a clock is set by; gone at the end.
struct Clock(PathBuf);

impl Clock {
    fn new(offset: &str) -> Self {
        let clock = Self(std::env::temp_dir().join(format!("mainspring-clock-{}", uuid::Uuid::new_v4().simple())));
        clock.set(offset);
        clock
    }

    fn set(&self, offset: &str) {
        let beside = self.0.with_extension("new");
        std::fs::write(&beside, format!("{offset}\n")).unwrap();
        std::fs::rename(beside, &self.0).unwrap();
    }

    fn node(&self, database: &TestDatabase, name: &'static str) -> Node {
        let path = self.0.display().to_string();
        let variables = Self::variables(&path);
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Node::start_at(&database.url(), name, &["--check-in", "200ms"], &variables)
    }

    fn variables(path: &str) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", library()),
            ("FAKETIME_TIMESTAMP_FILE", path.to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        ]
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Nobody is gone, nothing was early, and what stands in the journal is the database's time.
async fn agrees(client: &Connection, members: &[i64]) {
    let query = "SELECT array_agg(incarnation ORDER BY incarnation) FROM mainspring.node";
    assert_eq!(
        client.query_one(query, &[]).await.unwrap().get::<_, Vec<i64>>(0),
        members
    );
    let query = "WITH run AS (
                     SELECT instance_id, extract(epoch FROM max(happened_at) - min(happened_at))::float8 AS rested,
                            (substring(max(text) FROM '[0-9]+$')::integer % 800 + 100) / 1000.0::float8 AS due
                     FROM (SELECT instance_id, happened_at, '' AS text FROM mainspring.journal
                           WHERE activity_id = 'rest' AND event_name IN ('Started', 'Completed')
                           UNION ALL
                           SELECT i.id, NULL, i.id FROM mainspring.instance i) j
                     GROUP BY instance_id
                 )
                 SELECT count(*) FILTER (WHERE rested < due - 0.005), max(rested - due)::float8,
                        (SELECT max(abs(extract(epoch FROM now() - happened_at)))::float8 FROM mainspring.journal)
                 FROM run";
    let row = client.query_one(query, &[]).await.unwrap();
    let (early, late, off): (i64, f64, f64) = (row.get(0), row.get(1), row.get(2));
    println!("none was early, the latest {late:.3} s late; the oldest entry of the journal is {off:.1} s old");
    assert_eq!(early, 0, "delays that fired early");
    assert!(late < 60.0, "{late}");
    assert!(off < 1800.0, "{off}");
}

async fn load(nodes: &[Node], numbers: std::ops::Range<usize>) {
    for n in numbers {
        let http = nodes[n % 3].http.clone();
        let mut next = || http.clone();
        // The id tells the number, and so the delay.
        let start = json!({"instanceId": format!("walk-{n}"), "input": {"n": n}});
        insist(
            "workflow-definitions/walk/dispatch",
            &format!("s{n}"),
            &start,
            &mut next,
        )
        .await;
        let event = format!("events/go-{n}/trigger");
        insist(&event, &format!("e{n}"), &json!({}), &mut next).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_whose_clocks_are_hours_apart_and_jump_keep_the_time_of_the_database() {
    let database = TestDatabase::create().await;
    let clocks = ["+1h", "-1h", "+0"].map(Clock::new);
    // The lie is believed.
    let path = clocks[0].0.display().to_string();
    let variables = Clock::variables(&path);
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let date = Child::program("date", &["+now %s"], &variables);
    let told: u64 = date.wait_for_line("now ", PATIENCE).parse().unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    assert!(told > now + 3000, "{told} {now}");
    let mut nodes: Vec<Node> = clocks
        .iter()
        .zip(NAMES)
        .map(|(clock, name)| clock.node(&database, name))
        .collect();
    let said = nodes[0].child.stderr().join("\n");
    publish(nodes[0].http.as_ref().unwrap()).await;
    let client = database.connect().await;
    let query = "SELECT array_agg(incarnation ORDER BY incarnation) FROM mainspring.node";
    let members: Vec<i64> = client.query_one(query, &[]).await.unwrap().get(0);
    load(&nodes, 0..60).await;
    all_finish(&client, 60).await;
    agrees(&client, &members).await;
    // Now they jump, with delays under way.
    load(&nodes, 60..90).await;
    clocks[0].set("-3h");
    clocks[1].set("+3h");
    clocks[2].set("+1d");
    load(&nodes, 90..120).await;
    // Their own logs show that they have noticed: a request that fails is logged with the node's own time.
    poll_until(PATIENCE, "a node to log by its new clock", async || {
        let http = nodes[2].http.clone().unwrap();
        let answer = http.get("/health/live").await;
        let date = chrono::DateTime::parse_from_rfc2822(answer.header("date")).ok()?;
        (date.timestamp() > chrono::Utc::now().timestamp() + 80_000).then_some(())
    })
    .await;
    all_finish(&client, 120).await;
    agrees(&client, &members).await;
    for node in &mut nodes {
        assert!(!node.child.has_ended(), "{said}");
    }
    each_exactly_once(&database, &client, 120).await;
}
