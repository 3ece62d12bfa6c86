//! `fan-out`: one event without a correlation id that resumes many instances.
//!
//! Before the event of `--waiting` instances, one of 10,000 yields the rate to compare with. Up to 20,000 instances are
//! started by the nodes, more are copied. Times of resumed instances are those of their commits by the database's clock.
//! Meanwhile plain instances are executed and dispatched, each ten times a second; a dispatched one has begun when its
//! line arrives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mainspring::internals::{
    Client, Failure, Latencies, Measured, ScratchDatabase, Target, describe_environment, nearest_rank, print_line,
    with_nodes,
};
use serde_json::json;
use tokio_postgres::Client as Database;

use super::connections::Connections;
use super::{EXECUTED, Errors, PLAIN, publish_plain, waiting};
use crate::database::{count as counted, failed, open};
use crate::settings::FanOut;

/// The number of instances whose rate is compared with.
const REFERENCE: usize = 10_000;

/// The maximum number of instances that the nodes start in a round.
const STARTED: usize = 20_000;

/// The time between two executes, and between two dispatches.
const INTERVAL: Duration = Duration::from_millis(100);

/// The number of connections for them: one that waits delays no other.
const CONNECTIONS: usize = 512;

/// Instances are lost if none resumes for this time.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The line of an instance that the event resumed.
const RESUMED: &str = "resumed";

/// The beginning of the line of a dispatched instance; its number follows.
const BEGUN: &str = "begun:";

/// The state that the handler of lines shares with the measurement.
#[derive(Default)]
struct Shared {
    resumed: AtomicUsize,
    /// The number of each dispatched instance that has begun, and when.
    begun: Mutex<Vec<(usize, Instant)>>,
    errors: Errors,
}

impl Shared {
    fn receive(&self, line: &str) {
        let received = Instant::now();
        if line == RESUMED {
            self.resumed.fetch_add(1, Relaxed);
        } else if let Some(number) = line.strip_prefix(BEGUN).and_then(|number| number.parse().ok()) {
            self.begun().push((number, received));
        } else if line != EXECUTED {
            self.errors.add(&format!("an instance wrote {line:?}"));
        }
    }

    fn begun(&self) -> std::sync::MutexGuard<'_, Vec<(usize, Instant)>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of one event.
struct Round {
    waiting: usize,
    started: usize,
    starting: Duration,
    copying: Duration,
    answered_us: f64,
    resumed: Resumed,
    plain: Plain,
}

/// The resumed instances, by the database.
struct Resumed {
    count: usize,
    twice: usize,
    /// Microseconds from before the event.
    latencies: Latencies,
    /// From the first to the last.
    per_second: f64,
    median_per_second: f64,
}

/// The microseconds that plain work took.
struct Plain {
    /// From the response that accepts a dispatch to the line of its instance.
    begins: Vec<f64>,
    /// From the time at which an execute was due to its response.
    executes: Vec<f64>,
}

pub(crate) async fn run(target: &Target, settings: &FanOut) -> Result<(), Failure> {
    let [machine, server] = describe_environment(target.database_url()?).await?;
    let count = settings.waiting;
    let shared = Arc::new(Shared::default());
    let receiver = Arc::clone(&shared);
    let on_line = move |line: &str| receiver.receive(line);
    let measured = with_nodes(target, settings.nodes, on_line, async |scratch, clients| {
        let first = clients.first().ok_or_else(|| Failure::failed("there is no node"))?;
        publish_plain(first).await?;
        let mut reference = None;
        if count > REFERENCE {
            reference = Some(round(scratch, clients, &shared, REFERENCE).await?);
        }
        Ok((reference, round(scratch, clients, &shared, count).await?))
    });
    let ((reference, last), broken) = measured.await?;
    print_line(&format!("one event for {count} instances, {} nodes", settings.nodes));
    print_line(&machine);
    print_line(&server);
    for round in reference.iter().chain([&last]) {
        round.print();
    }
    let rounds = reference.iter().chain([&last]);
    let (lost, twice) = rounds.fold((0, 0), |(lost, twice), round| {
        (
            lost + round.waiting.saturating_sub(round.resumed.count),
            twice + round.resumed.twice,
        )
    });
    let ratio = reference.as_ref().map(|reference| {
        let ratio = last.resumed.per_second / reference.resumed.per_second.max(1e-6);
        (ratio * 100.0).round() / 100.0
    });
    if let Some(ratio) = ratio {
        print_line(&format!("rate: {ratio:.2} times that of {REFERENCE} instances"));
    }
    let measured = Measured {
        clients: count,
        seconds: 0,
        per_second: last.resumed.per_second,
        errors: shared.errors.count() + broken,
    };
    print_line(&format!("{lost} lost, {twice} twice, {} errors", measured.errors));
    if settings.json {
        let [begins, executes] = [&last.plain.begins, &last.plain.executes].map(|times| Latencies::of(times));
        let tenths = |time: Duration| (time.as_secs_f64() * 10.0).round() / 10.0;
        let more = json!({
            "nodes": settings.nodes,
            "waiting": count,
            "started": last.started,
            "started_s": tenths(last.starting),
            "copied": count - last.started,
            "copied_s": tenths(last.copying),
            "answered_us": last.answered_us.round(),
            "median_per_s": last.resumed.median_per_second.round(),
            "reference_per_s": reference.as_ref().map(|reference| reference.resumed.per_second.round()),
            "rate_ratio": ratio,
            "begins_p50_us": begins.p50,
            "begins_max_us": begins.max,
            "execute_p50_us": executes.p50,
            "execute_max_us": executes.max,
            "lost": lost,
            "twice": twice,
            "duplicates": twice,
        });
        print_line(&last.resumed.latencies.report("fan-out", &measured, more).to_string());
    }
    if lost + twice + measured.errors > 0 {
        return Err(Failure::reported());
    }
    Ok(())
}

impl Round {
    fn print(&self) {
        let copied = self.waiting - self.started;
        print_line(&format!(
            "{} waiting: {} started in {:.1} s, {copied} copied in {:.1} s",
            self.waiting,
            self.started,
            self.starting.as_secs_f64(),
            self.copying.as_secs_f64()
        ));
        print_line(&format!("event answered after {:.1} ms", self.answered_us / 1e3));
        print_line(&format!(
            "{} resumed, {:.0}/s, median of seconds {:.0}/s",
            self.resumed.count, self.resumed.per_second, self.resumed.median_per_second
        ));
        print_line(&format!("from sent to resumed: {}", self.resumed.latencies.in_text()));
        for (name, times) in [("begins", &self.plain.begins), ("execute", &self.plain.executes)] {
            print_line(&format!(
                "meanwhile {name}: {}, of {}",
                Latencies::of(times).in_text(),
                times.len()
            ));
        }
    }
}

/// Prepares instances, publishes their event, and waits until they have resumed.
async fn round(scratch: &ScratchDatabase, nodes: &[Client], shared: &Shared, count: usize) -> Result<Round, Failure> {
    let session = open(scratch).await?;
    let database = &session.client;
    let first = nodes.first().ok_or_else(|| Failure::failed("there is no node"))?;
    let name = format!("bench-{count}");
    let root = json!({"type": "Elsa.Sequence", "id": "steps", "activities": [
        {"type": "Elsa.Event", "id": "event", "eventName": name},
        {"type": "Elsa.WriteLine", "id": "line", "text": RESUMED}]});
    first.publish(&json!({"definitionId": name, "root": root})).await?;
    let (started, began) = (count.min(STARTED), Instant::now());
    waiting::start(database, nodes, &name, (0..started).map(|_| json!({}))).await?;
    let (starting, began) = (began.elapsed(), Instant::now());
    waiting::copy(database, &name, count - started).await?;
    let copying = began.elapsed();
    eprintln!("{count} wait");

    shared.resumed.store(0, Relaxed);
    shared.begun().clear();
    let since = clock(database).await?;
    let is_over = AtomicBool::new(false);
    let fan_out = async {
        let sent = Instant::now();
        // The instances may resume although the response is late.
        if let Err(failure) = first.post(&format!("events/{name}/trigger"), &json!({})).await {
            shared.errors.add(&failure.redacted());
        }
        let answered_us = sent.elapsed().as_secs_f64() * 1e6;
        let finished = wait(database, shared, &name, count).await;
        is_over.store(true, Relaxed);
        finished.map(|()| answered_us)
    };
    let (answered_us, plain) = tokio::join!(fan_out, plain_work(nodes, shared, &is_over));
    Ok(Round {
        waiting: count,
        started,
        starting,
        copying,
        answered_us: answered_us?,
        resumed: resumed(database, &name, since).await?,
        plain,
    })
}

/// Waits until `count` instances of the definition have finished, or none has for the timeout.
async fn wait(database: &Database, shared: &Shared, definition: &str, count: usize) -> Result<(), Failure> {
    let (mut last, mut since, mut reported) = (0, Instant::now(), Instant::now());
    loop {
        // Lines are cheap to count: the database is asked for the commits when the last has arrived.
        let lines = shared.resumed.load(Relaxed);
        if lines >= count && finished(database, definition).await? >= count {
            return Ok(());
        }
        if lines != last {
            (last, since) = (lines, Instant::now());
        } else if since.elapsed() > TIMEOUT {
            return Ok(());
        }
        if reported.elapsed() >= Duration::from_secs(1) {
            eprintln!("{lines} of {count} resumed");
            reported = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The time by the database's clock.
async fn clock(database: &Database) -> Result<DateTime<Utc>, Failure> {
    let row = database
        .query_one("SELECT clock_timestamp() AS now", &[])
        .await
        .map_err(failed)?;
    row.try_get("now").map_err(failed)
}

/// How many instances of the definition have finished without a fault.
async fn finished(database: &Database, definition: &str) -> Result<usize, Failure> {
    let query = format!("SELECT count(*) FROM instance i WHERE {}", finished_of(definition));
    Ok(usize::try_from(counted(database, &query).await?).unwrap_or(0))
}

fn finished_of(definition: &str) -> String {
    format!("i.definition_id = '{definition}' AND i.status = 1 /* finished */ AND i.sub_status = 3 /* finished */")
}

/// Reads how the instances of the definition resumed since a moment.
async fn resumed(database: &Database, definition: &str, since: DateTime<Utc>) -> Result<Resumed, Failure> {
    let finished = finished_of(definition);
    let each_second = format!(
        "SELECT count(*) AS count FROM instance i, (SELECT min(i.finished_at) FROM instance i WHERE {finished}) first(at)
         WHERE {finished} GROUP BY floor(extract(epoch FROM i.finished_at - first.at))
         ORDER BY floor(extract(epoch FROM i.finished_at - first.at))"
    );
    let overall = format!(
        "SELECT count(*) AS count,
                coalesce(extract(epoch FROM max(i.finished_at) - min(i.finished_at))::float8, 0) AS span,
                coalesce((percentile_disc(ARRAY[0.5, 0.95, 0.99, 1]) WITHIN GROUP
                    (ORDER BY extract(epoch FROM i.finished_at - $1)::float8 * 1e6)), '{{}}') AS percentiles
         FROM instance i WHERE {finished}"
    );
    // The start of a copy left no record, and that of a started one an older one.
    let twice = format!(
        "SELECT count(*) AS count FROM (SELECT FROM burst_record r
             JOIN instance i ON i.id = r.instance_id AND i.tenant_id = r.tenant_id
             WHERE i.definition_id = '{definition}' AND r.at >= $1
             GROUP BY r.tenant_id, r.instance_id HAVING count(*) > 1) t"
    );
    let row = database.query_one(&overall, &[&since]).await.map_err(failed)?;
    let (count, span): (i64, f64) = (row.get("count"), row.get("span"));
    let percentiles: Vec<f64> = row.get("percentiles");
    let twice: i64 = database
        .query_one(&twice, &[&since])
        .await
        .map_err(failed)?
        .get("count");
    let seconds = database.query(&each_second, &[]).await.map_err(failed)?;
    let mut seconds: Vec<f64> = seconds.iter().map(|row| row.get::<_, i64>("count") as f64).collect();
    let per_second = count as f64 / span.max(1e-3);
    // The last second is a part of one.
    seconds.pop();
    // A second without any has no row.
    seconds.resize(seconds.len().max(span as usize), 0.0);
    let at = |place: usize| percentiles.get(place).copied().unwrap_or_default().round();
    Ok(Resumed {
        count: usize::try_from(count).unwrap_or(0),
        twice: usize::try_from(twice).unwrap_or(0),
        latencies: Latencies {
            p50: at(0),
            p95: at(1),
            p99: at(2),
            max: at(3),
        },
        per_second,
        median_per_second: if seconds.is_empty() {
            per_second
        } else {
            nearest_rank(&seconds, 50)
        },
    })
}

/// Executes and dispatches until it is over, and waits until all has begun.
async fn plain_work(nodes: &[Client], shared: &Shared, is_over: &AtomicBool) -> Plain {
    let connections = Connections::new(nodes, CONNECTIONS);
    let connections = &connections;
    let execute = async |due: Instant| {
        let body = json!({"input": {"line": EXECUTED}});
        let answer = connections
            .post(&format!("workflow-definitions/{PLAIN}/execute"), &body)
            .await;
        answer.map(|_| due.elapsed().as_secs_f64() * 1e6)
    };
    let dispatch = async |number: usize| {
        tokio::time::sleep(INTERVAL / 2).await;
        let body = json!({"input": {"line": format!("{BEGUN}{number}")}});
        let answer = connections
            .post(&format!("workflow-definitions/{PLAIN}/dispatch"), &body)
            .await;
        answer.map(|_| (number, Instant::now()))
    };
    let (mut executes, mut dispatches) = (FuturesUnordered::new(), FuturesUnordered::new());
    let (mut times, mut accepted) = (Vec::new(), Vec::new());
    let (mut ticks, mut number) = (tokio::time::interval(INTERVAL), 0);
    loop {
        tokio::select! {
            due = ticks.tick(), if !is_over.load(Relaxed) => {
                executes.push(execute(due.into_std()));
                dispatches.push(dispatch(number));
                number += 1;
            }
            Some(executed) = executes.next() => match executed {
                Ok(time) => times.push(time),
                Err(failure) => shared.errors.add(&failure.redacted()),
            },
            Some(dispatched) = dispatches.next() => match dispatched {
                Ok(dispatched) => accepted.push(dispatched),
                Err(failure) => shared.errors.add(&failure.redacted()),
            },
            else => break,
        }
    }
    let waited = Instant::now();
    while shared.begun().len() < accepted.len() && waited.elapsed() < TIMEOUT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let begun: HashMap<usize, Instant> = shared.begun().iter().copied().collect();
    let begins = accepted.iter().filter_map(|(number, accepted)| {
        let Some(begun) = begun.get(number) else {
            shared.errors.add("a dispatched instance has not begun");
            return None;
        };
        Some(begun.saturating_duration_since(*accepted).as_secs_f64() * 1e6)
    });
    Plain {
        begins: begins.collect(),
        executes: times,
    }
}
