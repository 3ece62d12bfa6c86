//! kill -9, at random moments and at every failpoint, with work in flight.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::failpoints::{self, CALL, POLL, PUBLISH, REGISTRATION, REMOVAL, SURVEY};
use crate::support::node::{
    Node, assert_each_exactly_once, definition, publish, send_until_answered, wait_until_finished,
};
use crate::support::schedule_load::{Clients, REPLAY, in_turn};
use crate::support::{TIMEOUT, TestDatabase, long};

/// Work that continues while nodes are killed.
struct Load {
    lanes: Vec<JoinHandle<usize>>,
    enough: Arc<AtomicBool>,
}

/// Starts instances and publishes their events, each in an order of its own, through whichever node answers: so many as
/// fast as it goes, then slowly until it is enough. Every request carries an idempotency key, so that a retry after a
/// lost answer is safe.
fn load(addresses: &Clients, count: usize) -> Load {
    const LANES: usize = 10;
    let enough = Arc::new(AtomicBool::new(false));
    let lane = |lane: usize| {
        let (mut next, enough) = (in_turn(addresses, lane), Arc::clone(&enough));
        async move {
            let mut done = 0;
            for n in (lane..).step_by(LANES) {
                if n >= count {
                    if enough.load(Ordering::Relaxed) {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                let start = json!({"input": {"n": n}});
                let (start_key, event_key, event) =
                    (format!("s{n}"), format!("e{n}"), format!("events/go-{n}/trigger"));
                if n % 3 == 0 {
                    send_until_answered(&event, &event_key, &json!({}), &mut next).await;
                }
                send_until_answered("workflow-definitions/walk/dispatch", &start_key, &start, &mut next).await;
                if n % 3 != 0 {
                    send_until_answered(&event, &event_key, &json!({}), &mut next).await;
                }
                done += 1;
            }
            done
        }
    };
    let lanes = (0..LANES).map(|n| tokio::spawn(lane(n))).collect();
    Load { lanes, enough }
}

/// Two nodes that are killed and restarted.
struct TwoNodes {
    database: TestDatabase,
    nodes: Vec<Node>,
    addresses: Clients,
}

impl TwoNodes {
    async fn start() -> Self {
        let database = TestDatabase::empty().await;
        // Both at once, on an empty database.
        let nodes = std::thread::scope(|scope| {
            let starts = ["one", "two"].map(|name| scope.spawn(|| Node::start(&database, name)));
            starts.map(|start| start.join().unwrap())
        });
        let addresses = Arc::new(Mutex::new(nodes.iter().map(|node| node.http.clone()).collect()));
        publish(nodes[0].http.as_ref().unwrap()).await;
        Self {
            database,
            nodes: nodes.into(),
            addresses,
        }
    }

    /// Kills a node and starts it again under its name, armed or not.
    async fn restart(&mut self, target: usize, failpoints: &str) {
        self.addresses.lock().unwrap()[target] = None;
        self.nodes[target].child.kill9();
        let name = self.nodes[target].name;
        self.nodes[target] = Node::start_armed(&self.database, name, failpoints).await;
        self.addresses.lock().unwrap()[target] = self.nodes[target].http.clone();
    }

    /// Publishes through a node that is armed to die of it, until it does, a new definition each time: an equal one is not
    /// written again.
    async fn publish_until_dead(&self, target: usize) {
        let http = self.nodes[target].http.clone().unwrap();
        let mut save = json!({"model": definition(), "publish": true});
        let began = Instant::now();
        for edition in 0.. {
            save["model"]["description"] = json!(format!("{edition}"));
            let published = http.send(reqwest::Method::POST, "workflow-definitions", &[], Some(&save));
            let Ok(answer) = published.await else { return };
            assert!(answer.status == 200 || answer.status == 503, "{answer:?}");
            assert!(began.elapsed() < TIMEOUT, "no publish passes the failpoint");
        }
    }

    /// Waits until an armed node dies; false if it does not pass the failpoint in time.
    async fn dies(&mut self, target: usize, timeout: Duration) -> bool {
        let child = &mut self.nodes[target].child;
        let began = Instant::now();
        while began.elapsed() < timeout {
            if child.has_ended() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }

    /// The same for a failpoint of a take-over: the other node is restarted until this one has one to take over from.
    async fn dies_during_a_removal(&mut self, target: usize) -> bool {
        let began = Instant::now();
        while !self.dies(target, Duration::from_secs(3)).await {
            if began.elapsed() > TIMEOUT {
                return false;
            }
            self.restart(1 - target, "").await;
        }
        true
    }

    async fn assert_clean_end(self, load: Load) {
        load.enough.store(true, Ordering::Relaxed);
        let mut count = 0;
        for lane in load.lanes {
            count += lane.await.unwrap();
        }
        let client = self.database.connect().await;
        // A row whose bursts were killed at a failpoint three times is a dead letter: kept, not lost.
        client.run("SET search_path = mainspring").await;
        let dead_letters = client.query("SELECT id FROM dead_letter", &[]).await.unwrap();
        for dead_letter in &dead_letters {
            let id: i64 = dead_letter.get(0);
            assert_eq!(client.execute(REPLAY, &[&"", &id]).await.unwrap(), 1);
        }
        println!("{} dead letters were replayed", dead_letters.len());
        wait_until_finished(&client, count as i64).await;
        assert_each_exactly_once(&self.database, &client, count as i64).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_instance_runs_once_through_kills_at_every_failpoint() {
    let mut two = TwoNodes::start().await;
    let load = load(&two.addresses, 200);
    let mut missed = Vec::new();
    for (round, point) in CALL.into_iter().chain(POLL).chain(PUBLISH).enumerate() {
        let target = round % 2;
        two.restart(target, &format!("{point}=abort@{}", 1 + round % 4)).await;
        if point.starts_with("publish") {
            two.publish_until_dead(target).await;
        }
        if !two.dies(target, TIMEOUT).await {
            missed.push(point);
        }
    }
    // A process passes these when it removes its own former incarnation, and when it starts.
    for (round, point) in REGISTRATION.into_iter().chain(SURVEY).chain(REMOVAL).enumerate() {
        let target = round % 2;
        // Alive once more, so that there is something to take over.
        two.restart(target, "").await;
        two.restart(target, &format!("{point}=abort")).await;
        if !two.dies_during_a_removal(target).await {
            missed.push(point);
        }
    }
    for target in [0, 1] {
        two.restart(target, "").await;
    }
    assert_eq!(missed, [""; 0], "failpoints that no process died at");
    two.assert_clean_end(load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_instance_runs_once_through_kills_at_random_moments() {
    let (count, kills) = if long() { (5_000, 200) } else { (200, 10) };
    let seed = if long() { rand::random() } else { 7 };
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut two = TwoNodes::start().await;
    let load = load(&two.addresses, count);
    for _ in 0..kills {
        // A random moment, not a wait.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..400))).await;
        two.restart(random.random_range(0..2), "").await;
    }
    two.assert_clean_end(load).await;
}

/// The names of the failpoints in the source below a folder.
fn points(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            points(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for hit in ["failpoint::hit(\"", "failpoint::hit_of(\"", "failpoint = Some(\""] {
                let names = text.split(hit).skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(names.map(str::to_owned));
            }
        }
    }
}

#[test]
fn every_failpoint_is_covered_by_a_kill_test() {
    let mut there = BTreeSet::new();
    points(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut there);
    let tried: BTreeSet<String> = failpoints::all().into_iter().map(str::to_owned).collect();
    assert_eq!(there, tried);
}
