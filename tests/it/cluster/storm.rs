//! Schedules and sleeping instances on three nodes that are killed at every failpoint and at random, stopped past their
//! tolerance, ended in good order and started again: what fires when is compared with what the test computes by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::kill::REPLAY;
use super::nodes::{NAMES, Node, PATIENCE, insist, is_sound};
use crate::support::{Connection, Http, TestDatabase, long, poll_until};

/// Each lane is one node's: what it dies at, one after the other.
const POINTS: [&[&str]; 3] = [
    &[
        "fire.peek",
        "claim.peek",
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

/// Beside those that need a fault before they are passed: what brings a node there, and where it dies.
const AFTER_A_FAULT: [&str; 2] = [
    "burst.before=cut@2;claim.release=abort",
    "commit.answered=cut@2;resolve.before=abort",
];

const SETTINGS: [&str; 4] = ["--check-in", "200ms", "--tolerance", "1s"];

/// Schedules that are not due while this goes on: what recomputes schedules at a start always finds them.
const RARE: usize = 3;

struct Size {
    schedules: usize,
    /// Between two occurrences of a schedule, in seconds; a divisor of 60.
    period: i64,
    sleepers: usize,
    /// The longest sleep, in milliseconds.
    sleep: usize,
    /// Passes through all points, and faults at random after that.
    passes: usize,
    faults: usize,
}

impl Size {
    fn of_this_run() -> Self {
        if long() {
            Self {
                schedules: 200,
                period: 2,
                sleepers: 10_000,
                sleep: 50_000,
                passes: 3,
                faults: 60,
            }
        } else {
            Self {
                schedules: 20,
                period: 1,
                sleepers: 300,
                sleep: 6_000,
                passes: 1,
                faults: 6,
            }
        }
    }
}

fn script(type_name: &str, text: &str) -> Value {
    json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": text}})
}

/// Tells which occurrence started it, and for how many others that stands.
fn tick(n: usize, size: &Size, start: DateTime<Utc>) -> Value {
    let period = size.period;
    let mut timer = json!({"id": "timer", "canStartWorkflow": true, "startAt": start.to_rfc3339()});
    let with = match n % 4 {
        0 => {
            json!({"interval": format!("00:00:{period:02}"), "misfire": {"policy": "FireAll", "upTo": 1000, "lateFrom": "01:00:00"}})
        }
        1 => {
            json!({"cronExpression": format!("*/{period} * * * * *"), "misfire": {"policy": "FireAll", "upTo": 1000, "lateFrom": "01:00:00"}})
        }
        // One fires for all that it is late for.
        2 => {
            json!({"interval": format!("00:00:{period:02}"), "misfire": {"policy": "FireOnceNow", "lateFrom": "00:00:01"}})
        }
        _ => {
            json!({"cronExpression": format!("*/{period} * * * * *"), "jitterSeconds": 1, "misfire": {"policy": "FireOnceNow", "lateFrom": "00:00:01"}})
        }
    };
    timer.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    let of_cron = n % 2 == 1;
    timer["type"] = json!(if of_cron { "Elsa.Cron" } else { "Elsa.Timer" });
    let told = "getOutputFrom('timer', 'Result').occurrence + ' ' + getOutputFrom('timer', 'Result').standsFor";
    json!({"definitionId": format!("tick{n}"), "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        timer,
        {"type": "Elsa.WriteLine", "id": "line", "text": script("String", told)}
    ]}})
}

fn rare(n: usize) -> Value {
    json!({"definitionId": format!("rare{n}"), "root": {"type": "Elsa.Cron", "id": "timer", "canStartWorkflow": true,
        "cronExpression": "0 0 1 1 *", "startAt": "2090-01-01T00:00:00Z"}})
}

fn sleeper() -> Value {
    let rest = "'00:00:' + (getInput('ms') / 1000).toFixed(3).padStart(6, '0')";
    json!({"definitionId": "sleep", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
        {"type": "Elsa.WriteLine", "id": "first", "text": script("String", "'first'")},
        {"type": "Elsa.Delay", "id": "rest", "timeSpan": script("TimeSpan", rest)},
        {"type": "Elsa.WriteLine", "id": "second", "text": script("String", "'second'")},
        {"type": "Elsa.Event", "id": "word", "eventName": script("String", "'go-' + getInput('n')")},
        {"type": "Elsa.WriteLine", "id": "third", "text": script("String", "'third'")}
    ]}})
}

/// How long a sleeper sleeps, in milliseconds.
fn sleeps(n: usize, longest: usize) -> usize {
    200 + n * 7_919 % longest
}

async fn publish(http: &Http, model: &Value) {
    http.post("workflow-definitions", &json!({"model": model, "publish": true}))
        .await
        .expect(200);
}

async fn clock(client: &Connection) -> DateTime<Utc> {
    let sql = "SELECT clock_timestamp()";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Publishes all schedules before their first occurrence; what that is.
async fn publish_ticks(http: &Http, client: &Connection, size: &Size) -> DateTime<Utc> {
    for n in 0..RARE {
        publish(http, &rare(n)).await;
    }
    let mut lead = if long() { 20 } else { 4 };
    loop {
        let start = (clock(client).await.timestamp() + lead) / size.period * size.period;
        let start = DateTime::from_timestamp(start, 0).unwrap();
        for n in 0..size.schedules {
            publish(http, &tick(n, size, start)).await;
        }
        if clock(client).await < start {
            return start;
        }
        // A busy machine: again, with more time. What has fired of it is before the first that counts.
        lead *= 2;
        assert!(lead < 300, "publishing takes too long");
    }
}

/// The nodes as clients see them: none while a node is dead.
type Addresses = Arc<Mutex<Vec<Option<Http>>>>;

/// Puts instances to sleep until it is told to stop, and at least so many.
struct Load {
    lanes: Vec<JoinHandle<()>>,
    enough: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
}

impl Load {
    fn start(addresses: &Addresses, size: &Size) -> Self {
        const LANES: usize = 8;
        let enough = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicUsize::new(0));
        let (least, sleep) = (size.sleepers, size.sleep);
        let lane = |lane: usize| {
            let (addresses, enough, next) = (Arc::clone(addresses), Arc::clone(&enough), Arc::clone(&next));
            let mut turn = lane;
            let mut address = move || {
                turn += 1;
                let addresses = addresses.lock().unwrap();
                addresses.get(turn % addresses.len()).cloned().flatten()
            };
            async move {
                while !enough.load(Ordering::SeqCst) || next.load(Ordering::SeqCst) < least {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    let start = json!({"instanceId": format!("sleep-{n}"), "input": {"n": n, "ms": sleeps(n, sleep)}});
                    let path = "workflow-definitions/sleep/dispatch";
                    insist(path, &format!("s{n}"), &start, &mut address).await;
                    let event = format!("events/go-{n}/trigger");
                    insist(&event, &format!("e{n}"), &json!({}), &mut address).await;
                    // So that there is work for as long as the faults go on.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        };
        let lanes = (0..LANES).map(|n| tokio::spawn(lane(n))).collect();
        Self {
            lanes,
            enough,
            accepted: next,
        }
    }

    async fn stop(self) -> usize {
        self.enough.store(true, Ordering::SeqCst);
        for lane in self.lanes {
            lane.await.unwrap();
        }
        self.accepted.load(Ordering::SeqCst)
    }
}

/// A node, and what is done to it.
struct Victim<'a> {
    place: usize,
    node: Node,
    database: &'a TestDatabase,
    client: &'a Connection,
    addresses: Addresses,
    /// What was done how often.
    done: BTreeMap<&'static str, usize>,
}

impl<'a> Victim<'a> {
    async fn start(place: usize, database: &'a TestDatabase, client: &'a Connection, addresses: &Addresses) -> Self {
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

    /// Starts again so that it dies at a point; false if it did not come past it.
    async fn dies_at(&mut self, failpoints: &str) -> bool {
        self.kill();
        if failpoints.contains("fire.computed") {
            // What a node computes anew at its start.
            let old = "UPDATE mainspring.schedule SET tz_version = '2000a'";
            self.client.batch_execute(old).await.unwrap();
        }
        self.start_again(failpoints).await;
        let began = Instant::now();
        while began.elapsed() < PATIENCE / 2 {
            if self.node.child.has_ended() {
                self.addresses.lock().unwrap()[self.place] = None;
                self.did("died at a point");
                return true;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        false
    }

    /// Dies at each of these; those at which it did not.
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
        poll_until(PATIENCE, "a node to end", async || child.has_ended().then_some(())).await;
        self.start_again("").await;
        self.did("ended");
    }

    /// Is stopped until the others have declared it dead, and goes on as if nothing had been.
    async fn is_stopped(&mut self) {
        let mine = "SELECT max(incarnation) FROM mainspring.node WHERE node_id = $1";
        let incarnation: Option<i64> = self.client.query_one(mine, &[&self.node.name]).await.unwrap().get(0);
        self.addresses.lock().unwrap()[self.place] = None;
        self.node.child.signal("STOP");
        let stands = "SELECT count(*) FROM mainspring.node WHERE incarnation = $1";
        poll_until(PATIENCE, "a stopped node to be declared dead", async || {
            let stands: i64 = self.client.query_one(stands, &[&incarnation]).await.ok()?.get(0);
            (stands == 0).then_some(())
        })
        .await;
        self.node.child.signal("CONT");
        self.addresses.lock().unwrap()[self.place] = self.node.http.clone();
        self.did("stopped");
    }
}

/// Which occurrences of each schedule have fired, and for how many others each stands.
type Fired = BTreeMap<usize, Vec<(DateTime<Utc>, i64)>>;

/// What the journals say: each instance of a schedule has told once which occurrence it is.
async fn fired(client: &Connection, start: DateTime<Utc>) -> Fired {
    let sql = "SELECT i.definition_id, i.id, i.sub_status, j.activity_state->>'Text'
               FROM mainspring.instance i
               LEFT JOIN mainspring.journal j
                   ON j.instance_id = i.id AND j.activity_id = 'line' AND j.event_name = 'Completed'
               WHERE i.definition_id <> 'sleep'";
    let mut fired = Fired::new();
    let mut instances = BTreeSet::new();
    for row in client.query(sql, &[]).await.unwrap() {
        let (definition, instance, sub_status): (String, String, i16) = (row.get(0), row.get(1), row.get(2));
        let told: Option<String> = row.get(3);
        let told = told.unwrap_or_else(|| panic!("{instance} of {definition} has told nothing"));
        assert_eq!(sub_status, 3, "{instance} of {definition}");
        let (occurrence, stands_for) = told.split_once(' ').unwrap();
        let occurrence: DateTime<Utc> = occurrence.parse().unwrap();
        assert!(instances.insert(instance.clone()), "{instance} has told twice: {told}");
        if occurrence >= start {
            let n = definition.strip_prefix("tick").unwrap().parse().unwrap();
            let of = fired.entry(n).or_default();
            of.push((occurrence, stands_for.parse().unwrap()));
        }
    }
    fired
}

/// Each occurrence from the first to the last has fired once, or another one stands for it.
fn each_once(fired: &mut Fired, size: &Size, start: DateTime<Utc>, end: DateTime<Utc>) -> (usize, i64) {
    let period = TimeDelta::seconds(size.period);
    assert_eq!(fired.len(), size.schedules);
    let (mut all, mut stood_for) = (0, 0);
    for (n, occurrences) in fired {
        occurrences.sort_unstable();
        let mut next = start;
        for (occurrence, stands_for) in &*occurrences {
            assert!(
                *stands_for == 0 || n % 4 > 1,
                "tick{n} fires all: {occurrence} stands for {stands_for}"
            );
            let first = *occurrence - period * i32::try_from(*stands_for).unwrap();
            assert_eq!(
                first, next,
                "tick{n}: {occurrence} and {stands_for} before it; wanted {next} next"
            );
            next = *occurrence + period;
            stood_for += stands_for;
        }
        assert!(next > end, "tick{n} has not fired {next}");
        all += occurrences.len();
    }
    (all, stood_for)
}

/// Each activity of each sleeper began and ended once, and none woke too early.
async fn each_slept_once(client: &Connection, count: usize, size: &Size) {
    let count = i64::try_from(count).unwrap();
    let sql = "SELECT j.activity_id, j.event_name, count(*), count(DISTINCT j.instance_id)
               FROM mainspring.journal j JOIN mainspring.instance i ON i.id = j.instance_id
               WHERE i.definition_id = 'sleep' AND i.sub_status = 3 AND j.event_name IN ('Started', 'Completed')
               GROUP BY 1, 2";
    let rows = client.query(sql, &[]).await.unwrap();
    let seen: BTreeMap<(String, String), (i64, i64)> = rows
        .iter()
        .map(|row| ((row.get(0), row.get(1)), (row.get(2), row.get(3))))
        .collect();
    for activity in ["Workflow1", "root", "first", "rest", "second", "word", "third"] {
        for event in ["Started", "Completed"] {
            let found = seen.get(&(activity.to_owned(), event.to_owned()));
            assert_eq!(found, Some(&(count, count)), "{activity} {event}");
        }
    }
    let sql = "SELECT instance_id, extract(epoch FROM max(happened_at) - min(happened_at))::float8 * 1000
               FROM mainspring.journal WHERE activity_id = 'rest' AND event_name IN ('Started', 'Completed') GROUP BY 1";
    for row in client.query(sql, &[]).await.unwrap() {
        let (instance, slept): (String, f64) = (row.get(0), row.get(1));
        let n = instance.strip_prefix("sleep-").unwrap().parse().unwrap();
        assert!(
            slept > sleeps(n, size.sleep) as f64 - 5.0,
            "{instance} slept {slept} ms"
        );
    }
}

async fn all_end(client: &Connection) {
    let unfinished =
        "SELECT (SELECT count(*) FROM mainspring.work) + (SELECT count(*) FROM mainspring.instance WHERE status = 0)";
    poll_until(PATIENCE * 3, "all instances to end", async || {
        // At a failpoint it is the row that kills its process, and at its third time it is given up: kept, not lost.
        for letter in client.query("SELECT id FROM mainspring.dead_letter", &[]).await.ok()? {
            let id: i64 = letter.get(0);
            client.execute(REPLAY, &[&"", &id]).await.ok()?;
        }
        let left: i64 = client.query_one(unfinished, &[]).await.ok()?.get(0);
        (left == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_occurrence_and_every_sleeper_comes_once_through_a_storm() {
    let size = Size::of_this_run();
    let seed = std::env::var("MAINSPRING_TEST_SEED").map_or(7, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let began = Instant::now();
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let addresses: Addresses = Arc::new(Mutex::new(vec![None; 3]));
    let mut victims = Vec::new();
    for place in 0..3 {
        victims.push(Victim::start(place, &database, &client, &addresses).await);
    }
    let first = victims[0].node.http.clone().unwrap();
    publish(&first, &sleeper()).await;
    let start = publish_ticks(&first, &client, &size).await;
    let load = Load::start(&addresses, &size);
    client.batch_execute("SET search_path = mainspring").await.unwrap();

    let mut missed = Vec::new();
    for pass in 0..size.passes {
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
            .map(|(victim, armed)| victim.dies_at_all(armed));
        missed.extend(futures_util::future::join_all(lanes).await.concat());
    }
    println!("all points after {:?}", began.elapsed());
    assert_eq!(missed, [""; 0], "points at which nobody died");

    for fault in 0..size.faults {
        let place = random.random_range(0..3);
        match fault % 4 {
            0 => victims[place].is_stopped().await,
            1 => victims[place].is_killed().await,
            2 => victims[place].is_ended().await,
            // All at once.
            _ => {
                for victim in &mut victims {
                    victim.kill();
                    victim.did("killed");
                }
                for victim in &mut victims {
                    victim.start_again("").await;
                }
            }
        }
        // The moment is the point of it.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..400))).await;
    }
    let end = clock(&client).await;
    let stormed = began.elapsed();
    let sleepers = load.stop().await;
    let loaded = began.elapsed();
    let settled = "SELECT count(*) FROM schedule WHERE last_occurrence > $1";
    let wanted = i64::try_from(size.schedules).unwrap();
    poll_until(PATIENCE * 2, "all schedules to come past the storm", async || {
        let past: i64 = client.query_one(settled, &[&end]).await.ok()?.get(0);
        (past == wanted).then_some(())
    })
    .await;
    let stop = "UPDATE schedule SET paused = true, version = version + 1";
    client.batch_execute(stop).await.unwrap();
    all_end(&client).await;
    let (occurrences, stood_for) = each_once(&mut fired(&client, start).await, &size, start, end);
    each_slept_once(&client, sleepers, &size).await;
    is_sound(&database).await;
    let mut done = BTreeMap::new();
    for victim in &victims {
        for (what, often) in &victim.done {
            *done.entry(*what).or_insert(0) += often;
        }
    }
    println!(
        "{done:?}; {occurrences} occurrences fired, {stood_for} others were stood for, {sleepers} sleepers; storm over after {stormed:?}, load after {loaded:?}, all after {:?}",
        began.elapsed()
    );
}
