//! `mainspring bench signals`: the time from an event until the instance that waits for it has run.
//!
//! Each client has its own instance, which waits for the client's event, writes its number, and waits for the next. The
//! client sends an event, reads the line from the standard output of the node that ran the instance, and sends the next
//! one. Times are measured by this process's clock: from the response that accepts the event, and, as a second figure, from
//! before the request. (A line that arrives before the response counts as zero.)
//!
//! An event whose instance does not run is lost; an unexpected line is a second run: of the event, or of a burst whose
//! commit failed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::measured_workflow::name_of;
use super::report::{Latencies, Measured, describe_environment};
use super::settings::{BenchSignals, BenchWake};
use super::{nodes, queries};
use crate::harness::client::{Client, PersistentConnection};
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::secret::Secret;
use crate::harness::settings::Target;

const WARM_UP: Duration = Duration::from_secs(1);

/// The timeout of an instance's run after its event was accepted, and of a start until its instance waits.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client waits after an error: an unavailable node fails at once.
const PAUSE: Duration = Duration::from_millis(100);

/// The number of concurrent starts.
const CONCURRENT_STARTS: usize = 64;

/// The capacity of a client's channel. It reads one line per event: what exceeds the capacity is counted as a second run.
const UNREAD: usize = 4;

/// The number of an event, and the time of its line.
type Line = (u64, Instant);

/// The state that the clients share.
struct Shared {
    /// Per client.
    lines: Vec<mpsc::Sender<Line>>,
    measuring: AtomicBool,
    stop: AtomicBool,
    answered: AtomicU64,
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
    if settings.elsewhere && settings.nodes < 2 {
        return Err(Failure::usage("--elsewhere needs two nodes or more: give --nodes 2"));
    }
    let [machine, server] = describe_environment(target.database_url()?).await?;
    let (lines, receivers): (Vec<_>, Vec<_>) = (0..settings.clients).map(|_| mpsc::channel(UNREAD)).unzip();
    let shared = Arc::new(Shared {
        lines,
        measuring: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        lost: AtomicUsize::new(0),
        twice: AtomicUsize::new(0),
        errors: AtomicUsize::new(0),
        times: Mutex::new(Vec::new()),
    });
    let receiver = Arc::clone(&shared);
    let on_line = move |line: &str| receiver.receive(line);
    let arguments: Vec<Vec<String>> = (0..settings.nodes).map(|number| arguments(settings, number)).collect();
    let measured = nodes::with_different_nodes(target, &arguments, on_line, async |scratch, nodes| {
        measure(scratch, nodes, settings, &shared, receivers).await
    });
    let (took, violations) = measured.await?;
    let times = std::mem::take(&mut *shared.times.lock().unwrap_or_else(PoisonError::into_inner));
    let (accepted, sent): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
    let (latencies, from_sent) = (Latencies::of(&accepted), Latencies::of(&sent));
    let [lost, twice, errors] = [&shared.lost, &shared.twice, &shared.errors].map(|count| count.load(Relaxed));
    let measured = Measured {
        clients: settings.clients,
        seconds: settings.seconds,
        per_second: accepted.len() as f64 / took.as_secs_f64(),
        errors: errors + violations,
    };
    print_line(&format!(
        "{} clients, {} nodes: {:.0} events/s",
        settings.clients, settings.nodes, measured.per_second
    ));
    if settings.elsewhere {
        let wake = name_of(settings.wake);
        print_line(&format!(
            "events are sent to a node without workers, wake notifications over {wake}"
        ));
    }
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
            "elsewhere": settings.elsewhere,
            "wake": name_of(settings.wake),
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

/// The arguments of a node. With `--elsewhere` the first one has no workers.
fn arguments(settings: &BenchSignals, number: usize) -> Vec<String> {
    let mut arguments = Vec::new();
    if settings.elsewhere && number == 0 {
        arguments.extend(["--workers", "0"].map(str::to_owned));
    }
    if settings.wake == BenchWake::Rabbitmq {
        arguments.extend(["--wake", "rabbitmq"].map(str::to_owned));
        // Where it is not given, the nodes read the same variable.
        let url = settings.rabbitmq_url.as_ref().map(Secret::reveal);
        arguments.extend(
            url.into_iter()
                .flat_map(|url| ["--rabbitmq-url".to_owned(), url.to_owned()]),
        );
    }
    arguments
}

/// Prepares the instances, and sends events for the measured time, after the warm-up. Returns how long that was.
async fn measure(
    scratch: &ScratchDatabase,
    nodes: &[Client],
    settings: &BenchSignals,
    shared: &Shared,
    receivers: Vec<mpsc::Receiver<Line>>,
) -> Result<Duration, Failure> {
    prepare(scratch, nodes, settings.clients).await?;
    // Events go to the first node only, if they are to run elsewhere.
    let places = nodes
        .iter()
        .take(if settings.elsewhere { 1 } else { nodes.len() })
        .cycle();
    let clients = receivers.into_iter().enumerate().zip(places);
    let clients = clients.map(|((number, lines), node)| client(number, node, shared, lines));
    let window = async {
        tokio::time::sleep(WARM_UP).await;
        shared.measuring.store(true, Relaxed);
        let (began, mut last) = (Instant::now(), shared.answered.load(Relaxed));
        for second in 1..=settings.seconds {
            tokio::time::sleep_until((began + Duration::from_secs(second as u64)).into()).await;
            let (now, errors) = (shared.answered.load(Relaxed), shared.errors.load(Relaxed));
            eprintln!("{second} s: {} events/s, {errors} errors", now - last);
            last = now;
        }
        shared.measuring.store(false, Relaxed);
        shared.stop.store(true, Relaxed);
        began.elapsed()
    };
    let (took, _) = tokio::join!(window, join_all(clients));
    Ok(took)
}

/// Starts an instance for each client, and waits until all wait for their events.
async fn prepare(scratch: &ScratchDatabase, nodes: &[Client], count: usize) -> Result<(), Failure> {
    let text = |kind: &str, value: Value| json!({"typeName": "String", "expression": {"type": kind, "value": value}});
    let event = text("Input", json!({"name": "event"}));
    let line = text("Output", json!({"activityId": "event"}));
    let root = json!({"type": "Elsa.While", "id": "loop", "condition": true, "body":
        {"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": "Elsa.Event", "id": "event", "eventName": event},
            {"type": "Elsa.WriteLine", "id": "line", "text": line}]}});
    let first = nodes.first().ok_or_else(|| Failure::failed("there is no node"))?;
    first.publish(&json!({"definitionId": "bench", "root": root})).await?;
    let starts = (0..count).zip(nodes.iter().cycle()).map(async |(number, node)| {
        let start = json!({"input": {"event": format!("client-{number}")}});
        node.post("workflow-definitions/bench/dispatch", &start).await
    });
    let starts = stream::iter(starts).buffer_unordered(CONCURRENT_STARTS);
    starts.try_for_each(async |_| Ok(())).await?;
    let session = scratch.open().await?;
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let waiting = queries::waiting(&session.client).await?;
        if waiting >= count {
            return Ok(());
        }
        if waiting > last {
            (last, since) = (waiting, Instant::now());
        } else if since.elapsed() > TIMEOUT {
            return Err(Failure::failed("the instances do not reach their events"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Sends events until the end, each after the run for the previous one.
async fn client(number: usize, node: &Client, shared: &Shared, mut lines: mpsc::Receiver<Line>) {
    let path = format!("events/client-{number}/trigger");
    let (mut event, mut open) = (0, None);
    while !shared.stop.load(Relaxed) {
        event += 1;
        let sent = Instant::now();
        if let Err(failure) = send(node, &mut open, &path, &format!("{number}:{event}")).await {
            shared.error(&failure.redacted());
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let accepted = Instant::now();
        let run = loop {
            match tokio::time::timeout(TIMEOUT, lines.recv()).await {
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

/// Sends an event over the connection of a client, which opens at the first one, and after an error.
async fn send(node: &Client, open: &mut Option<PersistentConnection>, path: &str, input: &str) -> Result<(), Failure> {
    let mut connection = match open.take() {
        Some(connection) => connection,
        None => PersistentConnection::open(node).await?,
    };
    connection.post(path, json!({"input": input}).to_string()).await?;
    // After a failure it is not used again.
    *open = Some(connection);
    Ok(())
}
