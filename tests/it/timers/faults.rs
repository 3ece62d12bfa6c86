//! Schedules and sleeping instances on three nodes that are killed at every failpoint and at random, stopped past their
//! tolerance, shut down and started again: what fires is compared with what the test computes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::node::{NAMES, Node, assert_invariants};
use crate::support::schedule_load::{Clients, Delays, Schedules, clock};
use crate::support::{Connection, TIMEOUT, TestDatabase, long, poll_until, wait_until};

/// For each node the failpoints at which it dies, one after another.
const POINTS: [&[&str]; 3] = [
    &[
        "fire.poll",
        "claim.poll",
        "commit.gathered",
        "commit.written",
        "fire.computed",
        "burst.before",
    ],
    &[
        "fire.computed",
        "claim.before",
        "commit.begun",
        "fire.decided",
        "commit.matched",
        "claim.after",
    ],
    &[
        "fire.fired",
        "claim.locked",
        "commit.locked",
        "commit.committed",
        "commit.answered",
        "burst.after",
    ],
];

/// Failpoints that are passed only after a fault: the fault, and the failpoint at which the node dies.
const AFTER_A_FAULT: [&str; 2] = [
    "burst.before=cut@2;claim.release=abort",
    "commit.answered=cut@2;classify.before=abort",
];

const SETTINGS: [&str; 4] = ["--check-in", "200ms", "--tolerance", "1s"];

struct Size {
    schedules: Schedules,
    sleepers: Delays,
    /// Passes through all points, and faults at random after that.
    passes: usize,
    faults: usize,
}

impl Size {
    fn of_this_run() -> Self {
        let (schedules, period) = if long() { (200, 20) } else { (20, 1) };
        let (least, longest, lanes) = if long() { (10_000, 50_000, 12) } else { (150, 5_000, 3) };
        let (passes, faults) = if long() { (4, 60) } else { (1, 4) };
        Self {
            schedules: Schedules { schedules, period },
            sleepers: Delays { least, longest, lanes },
            passes,
            faults,
        }
    }
}

/// A node, and what is done to it.
struct FaultedNode<'a> {
    place: usize,
    node: Node,
    database: &'a TestDatabase,
    client: &'a Connection,
    addresses: Clients,
    /// What was done how often.
    done: BTreeMap<&'static str, usize>,
}

impl<'a> FaultedNode<'a> {
    async fn start(place: usize, database: &'a TestDatabase, client: &'a Connection, addresses: &Clients) -> Self {
        let node = Node::start_armed_with(database, NAMES[place], &SETTINGS, "").await;
        addresses.lock().unwrap()[place] = node.http.clone();
        Self {
            place,
            node,
            database,
            client,
            addresses: Arc::clone(addresses),
            done: BTreeMap::new(),
        }
    }

    fn did(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    fn kill(&mut self) {
        self.addresses.lock().unwrap()[self.place] = None;
        self.node.child.kill9();
    }

    async fn start_again(&mut self, failpoints: &str) {
        self.node = Node::start_armed_with(self.database, NAMES[self.place], &SETTINGS, failpoints).await;
        self.addresses.lock().unwrap()[self.place] = self.node.http.clone();
    }

    /// Starts again so that it dies at a failpoint; false if it did not pass it.
    async fn dies_at(&mut self, failpoints: &str) -> bool {
        let began = Instant::now();
        while began.elapsed() < TIMEOUT {
            self.kill();
            if failpoints.contains("fire.computed") {
                // What a node computes anew at its start, if no other one that starts just now was before it.
                let old = "UPDATE mainspring.schedule SET tz_version = '2000a'";
                self.client.run(old).await;
            }
            self.start_again(failpoints).await;
            let started = Instant::now();
            while started.elapsed() < TIMEOUT / 6 {
                if self.node.child.has_ended() {
                    self.addresses.lock().unwrap()[self.place] = None;
                    self.did("died at a point");
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        false
    }

    /// Dies at each of these; returns those that it did not pass.
    async fn dies_at_all(&mut self, points: Vec<String>) -> Vec<String> {
        let mut missed = Vec::new();
        for point in points {
            if !self.dies_at(&point).await {
                missed.push(point);
            }
        }
        self.kill();
        self.start_again("").await;
        missed
    }

    async fn is_killed(&mut self) {
        self.kill();
        self.start_again("").await;
        self.did("killed");
    }

    /// Ends in good order.
    async fn is_ended(&mut self) {
        self.addresses.lock().unwrap()[self.place] = None;
        self.node.child.signal("TERM");
        let child = &mut self.node.child;
        wait_until("a node to end", async || child.has_ended()).await;
        self.start_again("").await;
        self.did("ended");
    }

    /// Is stopped until the others have declared it dead, and continues as if nothing had been.
    async fn is_stopped(&mut self) {
        let mine = "SELECT max(incarnation) FROM mainspring.node WHERE node_id = $1";
        let incarnation: Option<i64> = self.client.query_one(mine, &[&self.node.name]).await.unwrap().get(0);
        self.addresses.lock().unwrap()[self.place] = None;
        self.node.child.signal("STOP");
        let stands = "SELECT count(*) FROM mainspring.node WHERE incarnation = $1";
        poll_until(TIMEOUT, "a stopped node to be removed", async || {
            let stands: i64 = self.client.query_one(stands, &[&incarnation]).await.ok()?.get(0);
            (stands == 0).then_some(())
        })
        .await;
        self.node.child.signal("CONT");
        self.addresses.lock().unwrap()[self.place] = self.node.http.clone();
        self.did("stopped");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_occurrence_and_every_delay_fires_once_through_random_faults() {
    let Size {
        schedules,
        sleepers,
        passes,
        faults,
    } = Size::of_this_run();
    let seed = std::env::var("MAINSPRING_TEST_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let began = Instant::now();
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let addresses: Clients = Arc::new(Mutex::new(vec![None; 3]));
    let mut victims = Vec::new();
    for place in 0..3 {
        victims.push(FaultedNode::start(place, &database, &client, &addresses).await);
    }
    let first = victims[0].node.http.clone().unwrap();
    Delays::publish(&first).await;
    let start = schedules.publish(&first, &client).await;
    let load = sleepers.start(&addresses);

    let mut missed = Vec::new();
    for pass in 0..passes {
        let mut armed = |place: usize| {
            let points = POINTS[(place + pass) % 3].iter();
            let points = points.map(|point| format!("{point}=abort@{}", random.random_range(1..4)));
            let last = AFTER_A_FAULT.iter().map(|text| (*text).to_owned());
            points.chain(last.skip(place).take(1)).collect::<Vec<_>>()
        };
        let armed: Vec<Vec<String>> = (0..3).map(&mut armed).collect();
        let lanes = victims
            .iter_mut()
            .zip(armed)
            .map(|(target, armed)| target.dies_at_all(armed));
        missed.extend(futures_util::future::join_all(lanes).await.concat());
    }
    println!("all points after {:?}", began.elapsed());
    assert_eq!(missed, [""; 0], "failpoints that no process died at");

    for fault in 0..faults {
        let place = random.random_range(0..3);
        match fault % 4 {
            0 => victims[place].is_stopped().await,
            1 => victims[place].is_killed().await,
            2 => victims[place].is_ended().await,
            // All at once.
            _ => {
                for target in &mut victims {
                    target.kill();
                    target.did("killed");
                }
                for target in &mut victims {
                    target.start_again("").await;
                }
            }
        }
        // A random moment, not a wait.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..400))).await;
    }
    let end = clock(&client).await;
    let stormed = began.elapsed();
    let slept = load.stop().await;
    let loaded = began.elapsed();
    let shown = schedules.each_once(&client, start, end).await;
    let latest = sleepers.each_once(&client, slept).await;
    assert_invariants(&database).await;
    let mut done = BTreeMap::new();
    for target in &victims {
        for (what, often) in &target.done {
            *done.entry(*what).or_insert(0) += often;
        }
    }
    println!("{done:?}; {shown:?}; {slept} sleepers, the latest late by {latest:?}");
    let ended = began.elapsed();
    println!("the storm was over after {stormed:?}, the load after {loaded:?}, all of it after {ended:?}");
}
