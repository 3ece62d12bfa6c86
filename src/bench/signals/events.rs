//! How long it takes from an event until the instance that waits for it has run.
//!
//! Each client has its own instance, which waits for the client's event, writes its number, and waits for the next. The
//! client sends an event, reads the line from the standard output of the node that ran the instance, and sends the next
//! one. Times are those of this process's clock: from the response that accepts the event, and, as a second figure, from
//! before the request. (A line that arrives before the response counts as zero.)
//!
//! An event whose instance does not run is lost; an unexpected line is a second run: of the event, or of a burst whose
//! commit failed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::beside::{Beside, Phase};
use super::connections::Connections;
use super::{Address, EXECUTED, Errors, Window, publish, publish_plain, text_of, waiting};
use crate::bench::nodes;
use crate::bench::report::{Latencies, Measured, describe_environment};
use crate::bench::settings::{BenchSignals, BenchWake, name_of};
use crate::harness::client::Client;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::secret::Secret;
use crate::harness::settings::Target;

/// The timeout of an instance's run after its event was accepted.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The capacity of a client's channel. It reads one line per event: what exceeds the capacity is counted as a second run.
const UNREAD: usize = 4;

/// The state that the clients share.
struct Shared {
    /// Per client: the number of each received event, and the time of its line.
    lines: Vec<mpsc::Sender<(u64, Instant)>>,
    answered: AtomicU64,
    lost: AtomicUsize,
    twice: AtomicUsize,
    errors: Errors,
    /// Microseconds from accepted, and from sent.
    times: Mutex<Vec<(f64, f64)>>,
}

impl Shared {
    /// Passes a line to its client.
    fn receive(&self, line: &str) {
        let received = Instant::now();
        if line == EXECUTED {
            return;
        }
        let parsed = line.split_once(':').and_then(|(client, event)| {
            let sender = self.lines.get(client.parse::<usize>().ok()?)?;
            Some((sender, event.parse::<u64>().ok()?))
        });
        let Some((sender, event)) = parsed else {
            self.errors.add(&format!("an instance wrote {line:?}"));
            return;
        };
        // A full or a closed channel: the client does not wait for this line.
        if sender.try_send((event, received)).is_err() {
            self.twice.fetch_add(1, Relaxed);
        }
    }
}

/// What the phases measured.
struct Outcome {
    took: Duration,
    load: Option<Load>,
}

/// The phases with starters or executes.
struct Load {
    /// Executes alone.
    alone: Phase,
    /// Executes and starters.
    no_events: Phase,
    /// Executes, starters and events.
    with_events: Phase,
}

pub(super) async fn run(target: &Target, settings: &BenchSignals) -> Result<(), Failure> {
    if settings.elsewhere && settings.nodes < 2 {
        return Err(Failure::usage("--elsewhere needs two nodes or more: give --nodes 2"));
    }
    let [machine, server] = describe_environment(target.database_url()?).await?;
    let (lines, receivers): (Vec<_>, Vec<_>) = (0..settings.clients).map(|_| mpsc::channel(UNREAD)).unzip();
    let shared = Arc::new(Shared {
        lines,
        answered: AtomicU64::new(0),
        lost: AtomicUsize::new(0),
        twice: AtomicUsize::new(0),
        errors: Errors::default(),
        times: Mutex::new(Vec::new()),
    });
    let receiver = Arc::clone(&shared);
    let on_line = move |line: &str| receiver.receive(line);
    let arguments: Vec<Vec<String>> = (0..settings.nodes).map(|number| arguments(settings, number)).collect();
    let measured = nodes::with_different_nodes(target, &arguments, on_line, async |scratch, clients| {
        measure(scratch, clients, settings, &shared, receivers).await
    });
    let (outcome, broken) = measured.await?;
    let times = std::mem::take(&mut *shared.times.lock().unwrap_or_else(PoisonError::into_inner));
    let (accepted, sent): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
    let (latencies, from_sent) = (Latencies::of(&accepted), Latencies::of(&sent));
    let [lost, twice] = [&shared.lost, &shared.twice].map(|count| count.load(Relaxed));
    let measured = Measured {
        clients: settings.clients,
        seconds: settings.seconds,
        per_second: accepted.len() as f64 / outcome.took.as_secs_f64(),
        errors: shared.errors.count() + broken,
    };
    print_line(&format!(
        "{} clients, {} nodes: {:.0} events/s",
        settings.clients, settings.nodes, measured.per_second
    ));
    print_line(&describe(settings));
    print_line(&machine);
    print_line(&server);
    print_line(&format!("from accepted to run: {}", latencies.in_text()));
    print_line(&format!("from sent to run: {}", from_sent.in_text()));
    if let Some(load) = &outcome.load {
        for (name, phase) in load.phases() {
            print_line(&format!(
                "{name}: {:.0} new waiters/s, execute {}",
                phase.waiters_per_s,
                phase.execute.in_text()
            ));
        }
        print_line(&format!("execute p99: {:.2} times that without events", load.ratio()));
    }
    print_line(&format!("{lost} lost, {twice} twice, {} errors", measured.errors));
    if settings.json {
        let mut more = json!({
            "nodes": settings.nodes,
            "events": accepted.len(),
            "sent_p50_us": from_sent.p50,
            "sent_p95_us": from_sent.p95,
            "sent_p99_us": from_sent.p99,
            "lost": lost,
            "twice": twice,
            "duplicates": twice,
            "names": settings.names,
            "correlated": settings.correlated,
            "waiting": settings.waiting.unwrap_or(0),
            "publishers": publishers(settings),
            "elsewhere": settings.elsewhere,
            "wake": name_of(settings.wake),
        });
        if let (Value::Object(more), Some(load)) = (&mut more, &outcome.load) {
            more.extend(load.fields(settings));
        }
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

impl Load {
    fn phases(&self) -> [(&'static str, &Phase); 3] {
        [
            ("executes alone", &self.alone),
            ("beside starters", &self.no_events),
            ("beside starters and events", &self.with_events),
        ]
    }

    /// The p99 of executes beside events against that without.
    fn ratio(&self) -> f64 {
        self.with_events.execute.p99 / self.no_events.execute.p99.max(0.1)
    }

    /// Its fields in JSON.
    fn fields(&self, settings: &BenchSignals) -> serde_json::Map<String, Value> {
        let mut fields = serde_json::Map::new();
        fields.insert("starters".to_owned(), json!(settings.starters));
        for (prefix, phase) in [("", &self.with_events), ("no_events_", &self.no_events)] {
            fields.insert(format!("{prefix}waiters_per_s"), json!(phase.waiters_per_s.round()));
        }
        for (prefix, phase) in [
            ("", &self.with_events),
            ("no_events_", &self.no_events),
            ("alone_", &self.alone),
        ] {
            fields.insert(format!("{prefix}execute_p50_us"), json!(phase.execute.p50));
            fields.insert(format!("{prefix}execute_p99_us"), json!(phase.execute.p99));
        }
        fields.insert(
            "execute_p99_ratio".to_owned(),
            json!((self.ratio() * 100.0).round() / 100.0),
        );
        fields
    }
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

/// The nodes to which events are sent.
fn receivers_of_events<'a>(settings: &BenchSignals, nodes: &'a [Client]) -> &'a [Client] {
    match nodes.split_first() {
        Some((first, _)) if settings.elsewhere => std::slice::from_ref(first),
        _ => nodes,
    }
}

/// The number of events that are published at the same time.
fn publishers(settings: &BenchSignals) -> usize {
    settings.publishers.unwrap_or(settings.clients)
}

fn describe(settings: &BenchSignals) -> String {
    let names = settings
        .names
        .map_or_else(|| "a name".to_owned(), |names| format!("one of {names} names"));
    let correlated = if settings.correlated {
        " and a correlation id"
    } else {
        ""
    };
    let place = if settings.elsewhere {
        format!(
            ", sent to a node without workers, wake notifications over {}",
            name_of(settings.wake)
        )
    } else {
        String::new()
    };
    format!(
        "each instance with {names}{correlated}, {} further ones wait, {} publishers{place}",
        settings.waiting.unwrap_or(0),
        publishers(settings)
    )
}

/// Prepares all instances, and measures.
async fn measure(
    scratch: &ScratchDatabase,
    nodes: &[Client],
    settings: &BenchSignals,
    shared: &Shared,
    receivers: Vec<mpsc::Receiver<(u64, Instant)>>,
) -> Result<Outcome, Failure> {
    prepare(scratch, nodes, settings).await?;
    let seconds = settings.seconds;
    let beside = Beside::new(nodes, settings, &shared.errors);
    let mut before = Vec::new();
    if let Some(beside) = &beside {
        for (name, starters) in [
            ("executes alone", 0),
            ("beside starters", settings.starters.unwrap_or(0)),
        ] {
            let progress = |second| {
                let (waiters, errors) = (beside.waiters.load(Relaxed), shared.errors.count());
                eprintln!("{name}, {second} s: {waiters} new waiters, {errors} errors");
            };
            before.push(beside.phase(starters, &Window::default(), progress).await);
        }
    }
    let (window, publishers) = (
        Window::default(),
        Connections::new(receivers_of_events(settings, nodes), publishers(settings)),
    );
    let clients = receivers.into_iter().enumerate();
    let clients = clients.map(|(number, on_line)| {
        let address = Address::of(settings, "client", number);
        client(number, address, &publishers, &window, shared, on_line)
    });
    let mut last = 0;
    let progress = |second| {
        let (now, errors) = (shared.answered.load(Relaxed), shared.errors.count());
        eprintln!("{second} s: {} events/s, {errors} errors", now - last);
        last = now;
    };
    let Some(beside) = &beside else {
        let (took, _) = tokio::join!(window.pass(seconds, progress), join_all(clients));
        return Ok(Outcome { took, load: None });
    };
    let starters = settings.starters.unwrap_or(0);
    let (with_events, _) = tokio::join!(beside.phase(starters, &window, progress), join_all(clients));
    let mut before = before.into_iter();
    let load = match (before.next(), before.next()) {
        (Some(alone), Some(no_events)) => Some((alone, no_events)),
        _ => None,
    };
    let took = with_events.took;
    let load = load.map(|(alone, no_events)| Load {
        alone,
        no_events,
        with_events,
    });
    Ok(Outcome { took, load })
}

/// Starts an instance for each client, and the further ones, and waits until all wait for their events.
async fn prepare(scratch: &ScratchDatabase, nodes: &[Client], settings: &BenchSignals) -> Result<(), Failure> {
    let event = text_of("Input", json!({"name": "event"}));
    let line = text_of("Output", json!({"activityId": "event"}));
    let root = json!({"type": "Elsa.While", "id": "loop", "condition": true, "body":
        {"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": "Elsa.Event", "id": "event", "eventName": event},
            {"type": "Elsa.WriteLine", "id": "line", "text": line}]}});
    let first = nodes.first().ok_or_else(|| Failure::failed("there is no node"))?;
    publish(first, "bench", root).await?;
    publish_plain(first).await?;
    let session = scratch.open().await?;
    for (group, count) in [("client", settings.clients), ("waiting", settings.waiting.unwrap_or(0))] {
        let starts = (0..count).map(|number| Address::of(settings, group, number).start());
        waiting::start(&session.client, nodes, "bench", starts).await?;
    }
    Ok(())
}

/// Sends events until the window is over, each after the run for the previous one.
async fn client(
    number: usize,
    address: Address,
    publishers: &Connections,
    window: &Window,
    shared: &Shared,
    mut on_line: mpsc::Receiver<(u64, Instant)>,
) {
    let path = format!("events/{}/trigger", address.event);
    let mut event = 0;
    while !window.is_over() {
        event += 1;
        let body = json!({"input": format!("{number}:{event}"), "correlationId": address.correlation_id});
        let (sent, answer) = match publishers.take().await {
            // Hundreds of clients may wait for a slow publisher: their events are not measured any more.
            Ok(_) if window.is_over() => return,
            Ok(mut publisher) => (Instant::now(), publisher.post(&path, &body).await),
            Err(failure) => (Instant::now(), Err(failure)),
        };
        if let Err(failure) = answer {
            shared.errors.add(&failure.redacted());
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
        if window.is_measuring() {
            let micros = |since: Instant| run_at.saturating_duration_since(since).as_secs_f64() * 1e6;
            let times = (micros(accepted), micros(sent));
            shared.times.lock().unwrap_or_else(PoisonError::into_inner).push(times);
        }
    }
}
