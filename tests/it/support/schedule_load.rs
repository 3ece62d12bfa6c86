//! Load of schedules and delays: what has fired is read from the journals and compared with what is computed here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::node::{send_event, send_until_answered};
use super::{Connection, Http, TIMEOUT, poll_until};

pub(crate) const REPLAY: &str = include_str!("../../../sql/queries/dead_letter/replay.sql");

/// The nodes as clients see them: none while a node is dead.
pub(crate) type Clients = Arc<Mutex<Vec<Option<Http>>>>;

/// Gives the nodes in turn, from one of them on.
pub(crate) fn in_turn(addresses: &Clients, mut turn: usize) -> impl FnMut() -> Option<Http> + Send + use<> {
    let addresses = Arc::clone(addresses);
    move || {
        turn += 1;
        let addresses = addresses.lock().unwrap();
        addresses.get(turn % addresses.len()).cloned().flatten()
    }
}

/// Schedules that are not due during a test, so that the recomputation at a start always finds some.
const RARE: usize = 3;

pub(crate) fn script(type_name: &str, text: &str) -> Value {
    json!({"typeName": type_name, "expression": {"type": "JavaScript", "value": text}})
}

/// The database's time.
pub(crate) async fn clock(client: &Connection) -> DateTime<Utc> {
    let sql = "SELECT clock_timestamp()";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Schedules of all kinds, from one start on.
pub(crate) struct Schedules {
    pub(crate) schedules: usize,
    /// Between two occurrences of a schedule, in seconds; a divisor of 60.
    pub(crate) period: i64,
}

/// What has fired.
#[derive(Debug, Default)]
pub(crate) struct Fired {
    pub(crate) fired: usize,
    /// Occurrences for which a later one fired.
    pub(crate) stood_for: i64,
    /// The longest time from an occurrence to the line that reports it.
    pub(crate) latest: TimeDelta,
}

impl Schedules {
    /// Writes the occurrence that started it, and the number of others that it stands for.
    fn definition(&self, n: usize, start: DateTime<Utc>) -> Value {
        let mut timer = json!({"id": "timer", "canStartWorkflow": true, "startAt": start.to_rfc3339()});
        if n.is_multiple_of(2) {
            timer["type"] = json!("Elsa.Timer");
            timer["interval"] = json!(format!("00:00:{:02}", self.period));
        } else {
            timer["type"] = json!("Elsa.Cron");
            timer["cronExpression"] = json!(format!("*/{} * * * * *", self.period));
        }
        timer["misfire"] = if Self::fires_all(n) {
            json!({"policy": "FireAll", "upTo": 1000, "lateFrom": "01:00:00"})
        } else {
            json!({"policy": "FireOnceNow", "lateFrom": "00:00:01"})
        };
        if n % 4 == 3 {
            timer["jitterSeconds"] = json!(1);
        }
        let output = "getOutputFrom('timer', 'Result').occurrence + ' ' + getOutputFrom('timer', 'Result').standsFor";
        json!({"definitionId": format!("tick{n}"), "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            timer,
            {"type": "Elsa.WriteLine", "id": "line", "text": script("String", output)}
        ]}})
    }

    /// Of others one occurrence fires for all that it finds late.
    fn fires_all(n: usize) -> bool {
        n % 4 < 2
    }

    /// Publishes all of them before their first occurrence; what that is.
    pub(crate) async fn publish(&self, http: &Http, client: &Connection) -> DateTime<Utc> {
        for n in 0..RARE {
            let rare = json!({"definitionId": format!("rare{n}"), "root": {"type": "Elsa.Cron", "id": "timer",
                "canStartWorkflow": true, "cronExpression": "0 0 1 1 *", "startAt": "2090-01-01T00:00:00Z"}});
            http.publish(&rare).await;
        }
        let mut lead = 2 + i64::try_from(self.schedules).unwrap() / 20;
        loop {
            let start = (clock(client).await.timestamp() + lead) / self.period * self.period;
            let start = DateTime::from_timestamp(start, 0).unwrap();
            for n in 0..self.schedules {
                http.publish(&self.definition(n, start)).await;
            }
            if clock(client).await < start {
                return start;
            }
            // A busy machine: again, with more time. What has fired of it is before the first that counts.
            lead *= 3;
            assert!(lead < 1_000, "publishing takes too long");
        }
    }

    /// Waits until every schedule has come past this time.
    pub(crate) async fn wait_past(&self, client: &Connection, time: DateTime<Utc>) {
        let settled = "SELECT count(*) FROM mainspring.schedule WHERE last_occurrence > $1";
        let all = i64::try_from(self.schedules).unwrap();
        poll_until(TIMEOUT * 5, "all schedules to go on", async || {
            let past: i64 = client.query_one(settled, &[&time]).await.ok()?.get(0);
            (past == all).then_some(())
        })
        .await;
    }

    /// Stops them and waits for what they have started: each occurrence from the start to the end has fired once, or
    /// another one stands for it, and none was early.
    pub(crate) async fn each_once(&self, client: &Connection, start: DateTime<Utc>, end: DateTime<Utc>) -> Fired {
        self.wait_past(client, end).await;
        let stop = "UPDATE mainspring.schedule SET paused = true, version = version + 1";
        client.run(stop).await;
        all_end(client).await;
        let mut shown = Fired::default();
        let mut fired = self.fired(client, start, &mut shown).await;
        assert_eq!(fired.len(), self.schedules);
        let period = TimeDelta::seconds(self.period);
        for (n, occurrences) in &mut fired {
            occurrences.sort_unstable();
            let mut next = start;
            for (occurrence, stands_for) in &*occurrences {
                assert!(
                    *stands_for == 0 || !Self::fires_all(*n),
                    "tick{n} fires all: {occurrence} stands for {stands_for}"
                );
                let first = *occurrence - period * i32::try_from(*stands_for).unwrap();
                assert_eq!(
                    first, next,
                    "tick{n}: {occurrence}, which stands for {stands_for}; wanted {next}"
                );
                next = *occurrence + period;
                shown.stood_for += stands_for;
            }
            assert!(next > end, "tick{n} has not fired {next}");
            shown.fired += occurrences.len();
        }
        shown
    }

    /// The occurrences in the journals, by schedule: each instance has reported one, once.
    async fn fired(
        &self,
        client: &Connection,
        start: DateTime<Utc>,
        shown: &mut Fired,
    ) -> BTreeMap<usize, Vec<(DateTime<Utc>, i64)>> {
        let sql = "SELECT i.definition_id, i.id, i.sub_status, j.activity_state->>'Text', j.happened_at
                   FROM mainspring.instance i
                   LEFT JOIN mainspring.journal j
                       ON j.instance_id = i.id AND j.activity_id = 'line' AND j.event_name = 'Completed'
                   WHERE i.definition_id NOT IN ('sleep', 'nap')";
        let mut fired: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        let mut instances = BTreeSet::new();
        for row in client.query(sql, &[]).await.unwrap() {
            let (definition, instance, sub_status): (String, String, i16) = (row.get(0), row.get(1), row.get(2));
            let text: Option<String> = row.get(3);
            let text = text.unwrap_or_else(|| panic!("{instance} of {definition} has reported nothing"));
            assert_eq!(sub_status, 3, "{instance} of {definition}");
            assert!(
                instances.insert(instance.clone()),
                "{instance} has reported twice: {text}"
            );
            let (occurrence, stands_for) = text.split_once(' ').unwrap();
            let occurrence: DateTime<Utc> = occurrence.parse().unwrap();
            if occurrence < start {
                continue;
            }
            let lateness = row.get::<_, DateTime<Utc>>(4) - occurrence;
            assert!(lateness >= TimeDelta::zero(), "{instance}: {text} was early");
            shown.latest = shown.latest.max(lateness);
            let n = definition.strip_prefix("tick").unwrap().parse().unwrap();
            fired
                .entry(n)
                .or_default()
                .push((occurrence, stands_for.parse().unwrap()));
        }
        fired
    }
}

/// Instances that sleep for a while and then wait for an event.
#[derive(Clone, Copy)]
pub(crate) struct Delays {
    /// So many at least.
    pub(crate) least: usize,
    /// The longest sleep, in milliseconds; below a minute.
    pub(crate) longest: usize,
    /// How many at a time are started.
    pub(crate) lanes: usize,
}

impl Delays {
    pub(crate) async fn publish(http: &Http) {
        let rest = "'00:00:' + (getInput('ms') / 1000).toFixed(3).padStart(6, '0')";
        let sleep = json!({"definitionId": "sleep", "root": {"type": "Elsa.Sequence", "id": "root", "activities": [
            {"type": "Elsa.WriteLine", "id": "first", "text": "first"},
            {"type": "Elsa.Delay", "id": "rest", "timeSpan": script("TimeSpan", rest)},
            {"type": "Elsa.WriteLine", "id": "second", "text": "second"},
            {"type": "Elsa.Event", "id": "word", "eventName": script("String", "'go-' + getInput('n')")},
            {"type": "Elsa.WriteLine", "id": "third", "text": "third"}
        ]}});
        http.publish(&sleep).await;
    }

    fn milliseconds(self, n: usize) -> usize {
        200 + n * 7_919 % self.longest
    }

    /// Starts them until it is stopped.
    pub(crate) fn start(self, addresses: &Clients) -> Load {
        let enough = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicUsize::new(0));
        let lane = |lane: usize| {
            let (enough, next) = (Arc::clone(&enough), Arc::clone(&next));
            let mut address = in_turn(addresses, lane);
            async move {
                while !enough.load(Ordering::SeqCst) || next.load(Ordering::SeqCst) < self.least {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    let input = json!({"n": n, "ms": self.milliseconds(n)});
                    let start = json!({"instanceId": format!("sleep-{n}"), "input": input});
                    let path = "workflow-definitions/sleep/dispatch";
                    send_until_answered(path, &format!("s{n}"), &start, &mut address).await;
                    send_event(n, &mut address).await;
                    // So that there is work for as long as the faults continue.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        };
        Load {
            lanes: (0..self.lanes).map(|n| tokio::spawn(lane(n))).collect(),
            enough,
            accepted: next,
        }
    }

    /// Each activity of each of them began and ended once, and none woke too early; how late the latest was.
    pub(crate) async fn each_once(self, client: &Connection, count: usize) -> Duration {
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
        let mut latest = 0.0;
        for row in client.query(sql, &[]).await.unwrap() {
            let (instance, slept): (String, f64) = (row.get(0), row.get(1));
            let n = instance.strip_prefix("sleep-").unwrap().parse().unwrap();
            let late = slept - self.milliseconds(n) as f64;
            assert!(late > -5.0, "{instance} slept only {slept} ms");
            latest = late.max(latest);
        }
        Duration::from_secs_f64(latest / 1e3)
    }
}

/// Sleepers that are being started.
pub(crate) struct Load {
    lanes: Vec<JoinHandle<()>>,
    enough: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
}

impl Load {
    /// Stops when there are enough; how many there are.
    pub(crate) async fn stop(self) -> usize {
        self.enough.store(true, Ordering::SeqCst);
        for lane in self.lanes {
            lane.await.unwrap();
        }
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Waits until everything has run to its end.
pub(crate) async fn all_end(client: &Connection) {
    client.run("SET search_path = mainspring").await;
    let unfinished = "SELECT (SELECT count(*) FROM work) + (SELECT count(*) FROM instance WHERE status = 0)";
    poll_until(TIMEOUT * 10, "all instances to end", async || {
        // A row whose bursts were killed at a failpoint three times is a dead letter: kept, not lost.
        for dead_letter in client.query("SELECT id FROM dead_letter", &[]).await.ok()? {
            let id: i64 = dead_letter.get(0);
            client.execute(REPLAY, &[&"", &id]).await.ok()?;
        }
        (client.count(unfinished).await == 0).then_some(())
    })
    .await;
}
