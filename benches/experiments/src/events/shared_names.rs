//! `shared-names`: how long it takes from an event until the instance that waits for it has run, beside further waiting
//! instances, starts of such instances and plain executes.
//!
//! Each client has its own instance, which waits for the client's event, writes its number, and waits for the next. The
//! client sends an event, reads the line from the standard output of the node that ran the instance, and sends the next
//! one. Times are from the response that accepts the event, and, as a second figure, from before the request.
//!
//! An event whose instance does not run is lost; an unexpected line is a second run.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mainspring::internals::{
    Client, Failure, Latencies, Measured, ScratchDatabase, Target, describe_environment, print_line, with_nodes,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::beside::{Beside, Phase};
use super::connections::Connections;
use super::{Address, EXECUTED, Errors, Window, publish_plain, text_of, waiting};
use crate::database::open;
use crate::settings::SharedNames;

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
    load: Load,
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

pub(crate) async fn run(target: &Target, settings: &SharedNames) -> Result<(), Failure> {
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
    let measured = with_nodes(target, settings.nodes, on_line, async |scratch, clients| {
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
    let load = &outcome.load;
    for (name, phase) in load.phases() {
        print_line(&format!(
            "{name}: {:.0} new waiters/s, execute {}",
            phase.waiters_per_s,
            phase.execute.in_text()
        ));
    }
    print_line(&format!("execute p99: {:.2} times that without events", load.ratio()));
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
            "waiting": settings.waiting,
            "publishers": settings.publishers,
        });
        if let Value::Object(more) = &mut more {
            more.extend(load.fields(settings));
        }
        print_line(&latencies.report("shared-names", &measured, more).to_string());
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
    fn fields(&self, settings: &SharedNames) -> serde_json::Map<String, Value> {
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

fn describe(settings: &SharedNames) -> String {
    let names = settings
        .names
        .map_or_else(|| "a name".to_owned(), |names| format!("one of {names} names"));
    format!(
        "each instance with {names} and a correlation id, {} further ones wait, {} publishers",
        settings.waiting, settings.publishers
    )
}

/// Prepares all instances, and measures.
async fn measure(
    scratch: &ScratchDatabase,
    nodes: &[Client],
    settings: &SharedNames,
    shared: &Shared,
    receivers: Vec<mpsc::Receiver<(u64, Instant)>>,
) -> Result<Outcome, Failure> {
    prepare(scratch, nodes, settings).await?;
    let beside = Beside::new(nodes, settings, &shared.errors);
    let before = async |name: &str, starters| {
        let progress = |second| {
            let (waiters, errors) = (beside.waiters.load(Relaxed), shared.errors.count());
            eprintln!("{name}, {second} s: {waiters} new waiters, {errors} errors");
        };
        beside.phase(starters, &Window::default(), progress).await
    };
    let alone = before("executes alone", 0).await;
    let no_events = before("beside starters", settings.starters).await;
    let (window, publishers) = (Window::default(), Connections::new(nodes, settings.publishers));
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
    let (with_events, _) = tokio::join!(beside.phase(settings.starters, &window, progress), join_all(clients));
    Ok(Outcome {
        took: with_events.took,
        load: Load {
            alone,
            no_events,
            with_events,
        },
    })
}

/// Starts an instance for each client, and the further ones, and waits until all wait for their events.
async fn prepare(scratch: &ScratchDatabase, nodes: &[Client], settings: &SharedNames) -> Result<(), Failure> {
    let event = text_of("Input", json!({"name": "event"}));
    let line = text_of("Output", json!({"activityId": "event"}));
    let root = json!({"type": "Elsa.While", "id": "loop", "condition": true, "body":
        {"type": "Elsa.Sequence", "id": "steps", "activities": [
            {"type": "Elsa.Event", "id": "event", "eventName": event},
            {"type": "Elsa.WriteLine", "id": "line", "text": line}]}});
    let first = nodes.first().ok_or_else(|| Failure::failed("there is no node"))?;
    first.publish(&json!({"definitionId": "bench", "root": root})).await?;
    publish_plain(first).await?;
    let session = open(scratch).await?;
    for (group, count) in [("client", settings.clients), ("waiting", settings.waiting)] {
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
