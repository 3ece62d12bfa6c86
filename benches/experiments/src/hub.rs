//! `hub`: how long it takes from an event at one node until observers at another have what it caused, and
//! how many dispatched instances finish beside observers and without.
//!
//! An observer is a connection to the hub that Elsa Studio uses, and observes a waiting instance of its own. The instances
//! receive events all the time, with and without observers, so that these alone make the difference.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use mainspring::internals::{
    Client, Failure, Latencies, Measured, PersistentConnection, ScratchDatabase, Target, describe_environment,
    nearest_rank, print_line, text_field, with_nodes,
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tokio_util::task::AbortOnDropHandle;

use crate::database::{open, waiting};
use crate::settings::Hub;

/// The path of the hub.
const HUB: &str = "/elsa/hubs/workflow-instance";

/// The time before each measurement of dispatches.
const WARM_UP: Duration = Duration::from_secs(1);

/// The time for one event to reach its observer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Ends a record of SignalR's JSON protocol.
const END: char = '\u{1e}';

/// The target of the record that follows each commit of an observed instance.
const UPDATED: &str = "WorkflowInstanceUpdatedAsync";

/// The line of a dispatched instance.
const FINISHED: &str = "finished";

/// The pairs of measurements without and with observers.
const PAIRS: usize = 3;

/// The connections that dispatch.
const DISPATCHERS: usize = 32;

/// The interval of the events that the observed instances receive one by one.
const INTERVAL: Duration = Duration::from_millis(20);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A connection to the hub that observes one instance. Dropping it closes the connection.
struct Observer {
    instance: String,
    /// How many commits of the instance have been reported.
    reported: watch::Receiver<usize>,
    _reader: AbortOnDropHandle<()>,
}

fn closed(problem: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("the hub: {problem}"))
}

async fn send(socket: &mut Socket, record: &Value) -> Result<(), Failure> {
    let record = Message::text(format!("{record}{END}"));
    socket.send(record).await.map_err(|error| closed(&error))
}

impl Observer {
    /// Connects to a node as Studio does, and begins to observe.
    async fn connect(node: &Client, instance: &str) -> Result<Self, Failure> {
        let hub = format!("{}{HUB}", node.authority());
        // The library's own client brings its TLS; here the process needs one, though nothing is encrypted.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let negotiation = reqwest::Client::new().post(format!("http://{hub}/negotiate?negotiateVersion=1"));
        let answer = negotiation.send().await.map_err(|error| closed(&error))?;
        let negotiated: Value = answer.json().await.map_err(|error| closed(&error))?;
        let url = format!("ws://{hub}?id={}", text_field(&negotiated, "connectionToken"));
        let (mut socket, _) = connect_async(url).await.map_err(|error| closed(&error))?;
        send(&mut socket, &json!({"protocol": "json", "version": 1})).await?;
        let observe =
            json!({"type": 1, "target": "ObserveInstanceAsync", "arguments": [instance], "invocationId": "0"});
        send(&mut socket, &observe).await?;
        let (sender, reported) = watch::channel(0);
        let (begun, observing) = tokio::sync::oneshot::channel();
        let reader = tokio::spawn(async move {
            let mut begun = Some(begun);
            while let Some(Ok(message)) = socket.next().await {
                let Message::Text(text) = message else { continue };
                for record in text.as_str().split_terminator(END) {
                    let record: Value = serde_json::from_str(record).unwrap_or_default();
                    if text_field(&record, "target") == UPDATED {
                        sender.send_modify(|count| *count += 1);
                    } else if text_field(&record, "invocationId") == "0"
                        && let Some(begun) = begun.take()
                    {
                        // The receiver is there until then.
                        let _ = begun.send(());
                    }
                }
            }
        });
        let reader = AbortOnDropHandle::new(reader);
        match tokio::time::timeout(TIMEOUT, observing).await {
            Ok(Ok(())) => Ok(Self {
                instance: instance.to_owned(),
                reported,
                _reader: reader,
            }),
            _ => Err(closed(&"it does not accept an observer")),
        }
    }

    /// Sends an event to the instance, and waits until its commit is reported; returns the microseconds in between.
    async fn measure(&mut self, node: &mut PersistentConnection) -> Result<f64, Failure> {
        self.reported.borrow_and_update();
        let began = Instant::now();
        let event = trigger(node, &self.instance);
        let reported = tokio::time::timeout(TIMEOUT, self.reported.changed());
        let (event, reported) = tokio::join!(event, async { (reported.await, began.elapsed()) });
        event?;
        match reported {
            (Ok(Ok(())), took) => Ok(took.as_secs_f64() * 1e6),
            _ => Err(closed(&format!("no record about {}", self.instance))),
        }
    }
}

async fn trigger(node: &mut PersistentConnection, instance: &str) -> Result<(), Failure> {
    let target = json!({"workflowInstanceId": instance});
    node.post("events/go/trigger", target.to_string()).await.map(drop)
}

pub(crate) async fn run(target: &Target, settings: &Hub) -> Result<(), Failure> {
    for line in describe_environment(target.database_url()?).await? {
        print_line(&line);
    }
    let finished = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&finished);
    let on_line = move |line: &str| {
        if line == FINISHED {
            counter.fetch_add(1, Relaxed);
        }
    };
    let measured = with_nodes(target, 2, on_line, async |scratch, clients| {
        measure(scratch, clients, settings, &finished).await
    });
    let (Measurement { latencies, rates }, broken) = measured.await?;
    let ratios: Vec<f64> = rates.iter().map(|(alone, beside)| beside / alone.max(1e-9)).collect();
    let beside: Vec<f64> = rates.iter().map(|(_, beside)| *beside).collect();
    let ratio = (nearest_rank(&ratios, 50) * 1000.0).round() / 1000.0;
    let latencies = Latencies::of(&latencies);
    print_line(&format!(
        "{} observers: from an event at one node until an observer at another has its commit {}",
        settings.observers,
        latencies.in_text(),
    ));
    print_line(&format!(
        "dispatch with them: {ratio} times that without (of {ratios:.3?})"
    ));
    let report = latencies.report(
        "hub",
        &Measured {
            clients: settings.observers,
            seconds: settings.seconds,
            per_second: nearest_rank(&beside, 50),
            errors: broken,
        },
        json!({"dispatch_ratio": ratio}),
    );
    if settings.json {
        print_line(&report.to_string());
    }
    if broken > 0 {
        return Err(Failure::reported());
    }
    Ok(())
}

struct Measurement {
    /// Of events, in microseconds.
    latencies: Vec<f64>,
    /// The instances that finish per second without observers, and with them.
    rates: Vec<(f64, f64)>,
}

async fn measure(
    scratch: &ScratchDatabase,
    nodes: &[Client],
    settings: &Hub,
    finished: &Arc<AtomicUsize>,
) -> Result<Measurement, Failure> {
    let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else {
        return Err(Failure::failed("there is no node"));
    };
    let instances = start_instances(scratch, first, settings.observers).await?;
    let mut sender = PersistentConnection::open(first).await?;
    let mut observers = connect_all(last, &instances).await?;
    let mut latencies = Vec::new();
    for number in 0..settings.events {
        let place = number % observers.len().max(1);
        if let Some(observer) = observers.get_mut(place) {
            latencies.push(observer.measure(&mut sender).await?);
        }
    }
    drop(observers);
    let (of_events, receivers) = (Arc::new(AtomicUsize::new(0)), instances.clone());
    let failed = Arc::clone(&of_events);
    let _events = AbortOnDropHandle::new(tokio::spawn(async move {
        for instance in receivers.iter().cycle() {
            if let Err(error) = trigger(&mut sender, instance).await {
                failed.fetch_add(1, Relaxed);
                eprintln!("error: {}", error.redacted());
                return;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }));
    let mut rates = Vec::new();
    for _ in 0..PAIRS {
        let alone = dispatch(nodes, settings.seconds, finished).await?;
        let observers = connect_all(last, &instances).await?;
        let beside = dispatch(nodes, settings.seconds, finished).await?;
        drop(observers);
        eprintln!("without observers {alone:.0} workflows/s, with them {beside:.0}");
        rates.push((alone, beside));
    }
    if of_events.load(Relaxed) > 0 {
        return Err(Failure::failed("the events of the observed instances ended early"));
    }
    Ok(Measurement { latencies, rates })
}

/// Starts instances that wait for events without end, and returns their ids.
async fn start_instances(scratch: &ScratchDatabase, node: &Client, count: usize) -> Result<Vec<String>, Failure> {
    let event = json!({"type": "Elsa.Event", "id": "event", "eventName": "go"});
    let endless = json!({"type": "Elsa.While", "id": "loop", "condition": true, "body": event});
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": FINISHED});
    for (id, root) in [("endless", endless), ("plain", line)] {
        node.publish(&json!({"definitionId": id, "root": root})).await?;
    }
    let mut instances = Vec::new();
    for _ in 0..count {
        let started = node.post("workflow-definitions/endless/dispatch", &json!({})).await?;
        instances.push(text_field(&started, "workflowInstanceId").to_owned());
    }
    let session = open(scratch).await?;
    let began = Instant::now();
    while waiting(&session.client).await? < count {
        if began.elapsed() > TIMEOUT {
            return Err(Failure::failed("the instances do not begin to wait"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(instances)
}

async fn connect_all(node: &Client, instances: &[String]) -> Result<Vec<Observer>, Failure> {
    let mut observers = Vec::new();
    for instance in instances {
        observers.push(Observer::connect(node, instance).await?);
    }
    Ok(observers)
}

/// Dispatches at all nodes for so many seconds, after one to warm up; returns the instances that finished per second.
async fn dispatch(nodes: &[Client], seconds: usize, finished: &Arc<AtomicUsize>) -> Result<f64, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for (_, node) in (0..DISPATCHERS).zip(nodes.iter().cycle()) {
        let (node, stop) = (node.clone(), Arc::clone(&stop));
        clients.spawn(async move {
            let mut connection = PersistentConnection::open(&node).await?;
            while !stop.load(Relaxed) {
                connection.post("workflow-definitions/plain/dispatch", "{}").await?;
            }
            Ok::<_, Failure>(())
        });
    }
    tokio::time::sleep(WARM_UP).await;
    let (before, began) = (finished.load(Relaxed), Instant::now());
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    let (done, took) = (finished.load(Relaxed) - before, began.elapsed());
    stop.store(true, Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|error| Failure::failed(format!("a client ended early: {error}")))??;
    }
    Ok(done as f64 / took.as_secs_f64())
}
