//! `mainspring bench signals`: how long it takes from an event until the instance that waits for it has run.
//!
//! Each client has its own instance, which waits for the client's event, writes its number, and waits for the next. The
//! client sends an event, reads the line from the standard output of the node that ran the instance, and sends the next
//! one. Times are those of this process's clock: from the response that accepts the event, and, as a second figure, from
//! before the request. (A line that arrives before the response counts as zero.)
//!
//! An event whose instance does not run is lost; an unexpected line is a second run.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::mpsc;

use super::nodes;
use super::report::describe_environment;
use super::report::{Latencies, Measured};
use crate::bench::settings::BenchSignals;
use crate::harness::client::Client;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::settings::Target;
use crate::store::observe;

const WARM_UP: Duration = Duration::from_secs(1);

/// The timeout of an instance's run after its event was accepted.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout until all instances wait for their first event.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The capacity of a client's channel. It reads one line per event: what exceeds the capacity is counted as a second run.
const UNREAD: usize = 4;

/// The state that the clients share.
struct Shared {
    /// Per client: the number of each received event, and the time of its line.
    lines: Vec<mpsc::Sender<(u64, Instant)>>,
    answered: AtomicU64,
    measuring: AtomicBool,
    stop: AtomicBool,
    lost: AtomicUsize,
    twice: AtomicUsize,
    errors: AtomicUsize,
    /// Microseconds from accepted, and from sent.
    times: Mutex<Vec<(f64, f64)>>,
}

impl Shared {
    /// Passes a line to its client.
    fn receive(&self, line: &str) {
        let received = Instant::now();
        let parsed = line.split_once(':').and_then(|(client, event)| {
            let sender = self.lines.get(client.parse::<usize>().ok()?)?;
            Some((sender, event.parse::<u64>().ok()?))
        });
        let Some((sender, event)) = parsed else {
            self.error(&format!("an instance wrote {line:?}"));
            return;
        };
        // A full or a closed channel: the client does not wait for this line.
        if sender.try_send((event, received)).is_err() {
            self.twice.fetch_add(1, Relaxed);
        }
    }

    fn error(&self, what: &str) {
        // An unavailable node fails at once: the output is limited.
        if self.errors.fetch_add(1, Relaxed) < 10 {
            eprintln!("error: {what}");
        }
    }
}

pub(crate) async fn run(target: &Target, settings: &BenchSignals) -> Result<(), Failure> {
    let [machine, server] = describe_environment(target.database_url()?).await?;
    let (lines, receivers): (Vec<_>, Vec<_>) = (0..settings.clients).map(|_| mpsc::channel(UNREAD)).unzip();
    let shared = Arc::new(Shared {
        lines,
        answered: AtomicU64::new(0),
        measuring: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        lost: AtomicUsize::new(0),
        twice: AtomicUsize::new(0),
        errors: AtomicUsize::new(0),
        times: Mutex::new(Vec::new()),
    });
    let receiver = Arc::clone(&shared);
    let on_line = move |line: &str| receiver.receive(line);
    let measured = nodes::with_nodes(target, settings.nodes, on_line, async |scratch, clients| {
        measure(scratch, clients, settings, &shared, receivers).await
    });
    let (took, broken) = measured.await?;
    let times = std::mem::take(&mut *shared.times.lock().unwrap_or_else(PoisonError::into_inner));
    let (accepted, sent): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
    let (latencies, from_sent) = (Latencies::of(&accepted), Latencies::of(&sent));
    let [lost, twice] = [&shared.lost, &shared.twice].map(|count| count.load(Relaxed));
    let measured = Measured {
        clients: settings.clients,
        seconds: settings.seconds,
        per_second: accepted.len() as f64 / took.as_secs_f64(),
        errors: shared.errors.load(Relaxed) + broken,
    };
    print_line(&format!(
        "{} clients, {} nodes: {:.0} events/s",
        settings.clients, settings.nodes, measured.per_second
    ));
    print_line(&machine);
    print_line(&server);
    print_line(&format!("from accepted to run: {}", latencies.in_text()));
    print_line(&format!("from sent to run: {}", from_sent.in_text()));
    print_line(&format!("{lost} lost, {twice} twice, {} errors", measured.errors));
    if settings.json {
        let more = json!({
            "nodes": settings.nodes,
            "events": accepted.len(),
            "sent_p50_us": from_sent.p50,
            "sent_p95_us": from_sent.p95,
            "sent_p99_us": from_sent.p99,
            "lost": lost,
            "twice": twice,
            "duplicates": twice,
        });
        print_line(&latencies.report("signals", &measured, more).to_string());
    }
    if lost + twice + measured.errors > 0 {
        return Err(Failure::reported());
    }
    if accepted.is_empty() {
        return Err(Failure::failed("no event was measured: increase --seconds"));
    }
    Ok(())
}

/// Measures, and returns for how long.
async fn measure(
    scratch: &ScratchDatabase,
    nodes: &[Client],
    settings: &BenchSignals,
    shared: &Arc<Shared>,
    receivers: Vec<mpsc::Receiver<(u64, Instant)>>,
) -> Result<Duration, Failure> {
    prepare(scratch, nodes, settings.clients).await?;
    let clients = receivers.into_iter().zip(nodes.iter().cycle()).enumerate();
    let clients = clients.map(|(number, (on_line, node))| client(number, node, shared, on_line));
    let watch = async {
        tokio::time::sleep(WARM_UP).await;
        shared.measuring.store(true, Relaxed);
        let began = Instant::now();
        let mut last = shared.answered.load(Relaxed);
        for second in 1..=settings.seconds {
            tokio::time::sleep_until((began + Duration::from_secs(second as u64)).into()).await;
            let now = shared.answered.load(Relaxed);
            let errors = shared.errors.load(Relaxed);
            eprintln!("{second} s: {} events/s, {errors} errors", now - last);
            last = now;
        }
        shared.measuring.store(false, Relaxed);
        shared.stop.store(true, Relaxed);
        began.elapsed()
    };
    let (took, _) = tokio::join!(watch, join_all(clients));
    Ok(took)
}

/// Starts an instance for each client, and waits until all instances wait for their events.
async fn prepare(scratch: &ScratchDatabase, nodes: &[Client], count: usize) -> Result<(), Failure> {
    let of = |kind: &str, value: serde_json::Value| json!({"typeName": "String", "expression": {"type": kind, "value": value}});
    let definition = json!({"definitionId": "bench", "root": {"type": "Elsa.While", "id": "loop", "condition": true, "body":
        {"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": "Elsa.Event", "id": "event", "eventName": of("Input", json!({"name": "event"}))},
            {"type": "Elsa.WriteLine", "id": "line", "text": of("Output", json!({"activityId": "event"}))}]}}});
    let save = json!({"model": definition, "publish": true});
    let first = nodes.first().ok_or_else(|| Failure::failed("there is no node"))?;
    first.post("workflow-definitions", &save).await?;
    for (number, node) in (0..count).zip(nodes.iter().cycle()) {
        let start = json!({"input": {"event": format!("bench-{number}")}});
        node.post("workflow-definitions/bench/dispatch", &start).await?;
    }
    let (session, began) = (scratch.open().await?, Instant::now());
    while observe::waiting(&session.client).await? < count {
        if began.elapsed() > START_TIMEOUT {
            return Err(Failure::failed("the instances do not reach their events"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Sends events until `shared.stop`, each after the run for the previous one.
async fn client(number: usize, node: &Client, shared: &Shared, mut on_line: mpsc::Receiver<(u64, Instant)>) {
    let path = format!("events/bench-{number}/trigger");
    let mut event = 0;
    while !shared.stop.load(Relaxed) {
        event += 1;
        let sent = Instant::now();
        if let Err(failure) = node.post(&path, &json!({"input": format!("{number}:{event}")})).await {
            shared.error(&failure.redacted());
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        let accepted = Instant::now();
        let run = loop {
            match tokio::time::timeout(TIMEOUT, on_line.recv()).await {
                Ok(Some((received, at))) if received == event => break Some(at),
                Ok(Some(_)) => {
                    shared.twice.fetch_add(1, Relaxed);
                }
                Ok(None) | Err(_) => break None,
            }
        };
        let Some(run_at) = run else {
            shared.lost.fetch_add(1, Relaxed);
            // The instance waits for another event than the next one.
            return;
        };
        shared.answered.fetch_add(1, Relaxed);
        if shared.measuring.load(Relaxed) {
            let micros = |since: Instant| run_at.saturating_duration_since(since).as_secs_f64() * 1e6;
            let times = (micros(accepted), micros(sent));
            shared.times.lock().unwrap_or_else(PoisonError::into_inner).push(times);
        }
    }
}
