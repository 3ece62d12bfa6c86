//! The load of each mode, and the wait until its instances have finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;

use super::Scenario;
use super::cost::{Cost, Meter, Reading};
use super::engines::EngineGroup;
use crate::bench::queries;
use crate::bench::report::Latencies;
use crate::bench::settings::Mode;
use crate::harness::client::{Client, PersistentConnection};
use crate::harness::failure::Failure;
use crate::id::DefinitionId;
use crate::runtime::{Engine, EventRequest, StartRequest};

const WARM_UP: Duration = Duration::from_secs(1);

/// Instances are lost if none finishes for this time.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of dispatched, unfinished instances: enough to keep all workers busy.
const IN_FLIGHT: u64 = 4096;

/// The poll interval of the finished count.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

pub(super) struct Outcome {
    /// Workflows that finished in the measured time.
    pub(super) done: u64,
    pub(super) took: Duration,
    /// Execute, http and endpoint: from the call to the response with the outcome. Dispatch: from the call to its acceptance. Event,
    /// and a backlog: from the start of the measurement to the end of the instance.
    pub(super) latencies: Latencies,
    pub(super) errors: usize,
    /// Accepted instances, and those of them that did not finish.
    pub(super) accepted: u64,
    pub(super) lost: u64,
    pub(super) cost: Cost,
}

/// The state that the clients share.
struct Shared {
    measuring: AtomicBool,
    stop: AtomicBool,
    accepted: AtomicU64,
    /// Instances that finished by the responses to clients.
    finished: AtomicU64,
    errors: AtomicUsize,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            measuring: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            errors: AtomicUsize::new(0),
        })
    }

    fn error(&self, what: &dyn std::fmt::Display) {
        if self.errors.fetch_add(1, Relaxed) < 10 {
            eprintln!("error: {what}");
        }
    }
}

/// Runs one measurement, with its own engines.
pub(super) async fn run(scenario: &Scenario, seconds: usize, instances: Option<usize>) -> Result<Outcome, Failure> {
    match (scenario.mode, instances) {
        (Mode::Event, _) => event(scenario, instances.unwrap_or(10_000)).await,
        (Mode::Dispatch, Some(instances)) => backlog(scenario, instances).await,
        _ => steady(scenario, seconds).await,
    }
}

/// Clients start instances until the time is over.
async fn steady(scenario: &Scenario, seconds: usize) -> Result<Outcome, Failure> {
    let group = if scenario.mode.is_over_http() {
        EngineGroup::nodes(scenario, scenario.nodes).await?
    } else {
        EngineGroup::engines(scenario, scenario.nodes, None).await?
    };
    group.publish(scenario).await?;
    let _held = scenario.held_snapshot().await?;
    let meter = scenario.meter().await?;
    let (shared, before_all) = (Shared::new(), scenario.finished());
    let mut clients = JoinSet::new();
    for (_, place) in (0..scenario.clients).zip((0..scenario.nodes).cycle()) {
        let (shared, counter) = (Arc::clone(&shared), Arc::clone(&scenario.counter));
        match (group.all_engines().get(place), group.all_clients().get(place)) {
            (Some(engine), _) if scenario.mode == Mode::Dispatch => {
                let engine = engine.clone();
                clients.spawn(async move { dispatch_loop(&engine, &shared, &counter, before_all).await });
            }
            (Some(engine), _) => {
                let engine = engine.clone();
                clients.spawn(async move { execute_loop(&engine, &shared).await });
            }
            (None, Some(client)) => {
                let client = client.clone();
                let mode = scenario.mode;
                clients.spawn(async move { http_loop(mode, &client, &shared).await });
            }
            (None, None) => {}
        }
    }
    let done = || {
        if scenario.mode == Mode::Dispatch {
            scenario.finished() - before_all
        } else {
            shared.finished.load(Relaxed)
        }
    };
    tokio::time::sleep(WARM_UP).await;
    let (spent, first) = (meter.read().await?, done());
    shared.measuring.store(true, Relaxed);
    let began = Instant::now();
    let mut last = first;
    for second in 1..=seconds {
        tokio::time::sleep_until((began + Duration::from_secs(second as u64)).into()).await;
        let now = done();
        let errors = shared.errors.load(Relaxed);
        eprintln!("{second} s: {} workflows/s, {errors} errors", now - last);
        last = now;
    }
    shared.measuring.store(false, Relaxed);
    let (took, done_in_time) = (began.elapsed(), done() - first);
    let cost = meter.read().await?.since(&spent);
    shared.stop.store(true, Relaxed);
    let mut times = Vec::new();
    while let Some(ended) = clients.join_next().await {
        times.extend(ended.map_err(|error| Failure::failed(format!("a client ended early: {error}")))?);
    }
    let accepted = shared.accepted.load(Relaxed);
    if scenario.mode == Mode::Dispatch {
        scenario.wait_for(before_all + accepted).await;
    }
    let lost = accepted.saturating_sub(done());
    group.end().await;
    Ok(Outcome {
        done: done_in_time,
        took,
        latencies: Latencies::of(&times),
        errors: shared.errors.load(Relaxed),
        accepted,
        lost,
        cost,
    })
}

/// Dispatches all instances before any worker runs; then the measurement starts.
async fn backlog(scenario: &Scenario, instances: usize) -> Result<Outcome, Failure> {
    let idle = EngineGroup::engines(scenario, 1, Some(0)).await?;
    idle.publish(scenario).await?;
    let _held = scenario.held_snapshot().await?;
    let shared = Shared::new();
    dispatch_all(&idle, instances, &shared).await?;
    idle.end().await;
    let meter = scenario.meter().await?;
    let begin = Begin::now(scenario, &meter).await?;
    let group = EngineGroup::engines(scenario, scenario.nodes, None).await?;
    finished_since(scenario, &meter, begin, group, &shared).await
}

/// Instances wait for one event, which is then sent.
async fn event(scenario: &Scenario, instances: usize) -> Result<Outcome, Failure> {
    let group = EngineGroup::engines(scenario, scenario.nodes, None).await?;
    group.publish(scenario).await?;
    let _held = scenario.held_snapshot().await?;
    let (meter, shared) = (scenario.meter().await?, Shared::new());
    let waiting = queries::waiting(meter.client()).await?;
    dispatch_all(&group, instances, &shared).await?;
    let accepted = shared.accepted.load(Relaxed);
    let began = Instant::now();
    while (queries::waiting(meter.client()).await? - waiting) as u64 != accepted {
        if began.elapsed() > TIMEOUT {
            return Err(Failure::failed(
                "the instances do not wait: the definition must start with the event `bench`",
            ));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let begin = Begin::now(scenario, &meter).await?;
    if let Some(engine) = group.all_engines().first() {
        let request = EventRequest {
            name: "bench".to_owned(),
            ..EventRequest::default()
        };
        let answer = engine.trigger_event(request).await?;
        let resumed = answer.resumed;
        // A fan-out resumes them later.
        if answer.fan_out.is_none() && resumed != accepted {
            shared.error(&format!("the event resumed {resumed} of {accepted} instances"));
        }
    }
    finished_since(scenario, &meter, begin, group, &shared).await
}

/// The state at the start of a measurement.
struct Begin {
    spent: Reading,
    since: DateTime<Utc>,
    finished: u64,
    at: Instant,
}

impl Begin {
    async fn now(scenario: &Scenario, meter: &Meter) -> Result<Self, Failure> {
        Ok(Self {
            spent: meter.read().await?,
            since: meter.clock().await?,
            finished: scenario.finished(),
            at: Instant::now(),
        })
    }
}

/// Waits for all accepted instances, and ends the engines; the outcome since `begin`, from the database.
async fn finished_since(
    scenario: &Scenario,
    meter: &Meter,
    begin: Begin,
    group: EngineGroup,
    shared: &Shared,
) -> Result<Outcome, Failure> {
    let accepted = shared.accepted.load(Relaxed);
    scenario.wait_for(begin.finished + accepted).await;
    let took = begin.at.elapsed();
    let cost = meter.read().await?.since(&begin.spent);
    group.end().await;
    let (done, percentiles) = queries::ended(meter.client(), begin.since).await?;
    let at = |place: usize| percentiles.get(place).map_or(0.0, |time| (time * 10.0).round() / 10.0);
    eprintln!("{done} of {accepted} finished on {} nodes", scenario.nodes);
    Ok(Outcome {
        done,
        took,
        latencies: Latencies {
            p50: at(0),
            p95: at(1),
            p99: at(2),
            max: at(3),
        },
        errors: shared.errors.load(Relaxed),
        accepted,
        lost: accepted.saturating_sub(done),
        cost,
    })
}

/// Dispatches instances, 256 at a time.
async fn dispatch_all(group: &EngineGroup, instances: usize, shared: &Arc<Shared>) -> Result<(), Failure> {
    let left = Arc::new(AtomicUsize::new(instances));
    let mut tasks = JoinSet::new();
    for (_, engine) in (0..256).zip(group.all_engines().iter().cycle()) {
        let (engine, shared, left) = (engine.clone(), Arc::clone(shared), Arc::clone(&left));
        tasks.spawn(async move {
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                match engine.dispatch(request()).await {
                    Ok(_) => _ = shared.accepted.fetch_add(1, Relaxed),
                    Err(error) => shared.error(&error),
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Failure::failed(format!("a client ended early: {error}")))?;
    }
    Ok(())
}

fn request() -> StartRequest {
    StartRequest {
        definition_id: DefinitionId::new("bench"),
        ..StartRequest::default()
    }
}

/// The microseconds of each call in the measured time.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn add(&mut self, shared: &Shared, called: Instant) {
        if shared.measuring.load(Relaxed) {
            self.0.push(called.elapsed().as_secs_f64() * 1e6);
        }
    }
}

async fn execute_loop(engine: &Engine, shared: &Shared) -> Vec<f64> {
    let mut times = Times::default();
    while !shared.stop.load(Relaxed) {
        let called = Instant::now();
        match engine.execute(request()).await {
            Ok(executed) => {
                shared.accepted.fetch_add(1, Relaxed);
                if executed.sub_status() == Some("Finished") {
                    shared.finished.fetch_add(1, Relaxed);
                    times.add(shared, called);
                } else {
                    shared.error(&format!("{} did not finish", executed.instance_id));
                }
            }
            Err(error) => count_error(shared, &error).await,
        }
    }
    times.0
}

async fn dispatch_loop(engine: &Engine, shared: &Shared, finished: &AtomicU64, before: u64) -> Vec<f64> {
    let mut times = Times::default();
    while !shared.stop.load(Relaxed) {
        if shared.accepted.load(Relaxed) >= finished.load(Relaxed) - before + IN_FLIGHT {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        }
        let called = Instant::now();
        match engine.dispatch(request()).await {
            Ok(_) => {
                shared.accepted.fetch_add(1, Relaxed);
                times.add(shared, called);
            }
            Err(error) => count_error(shared, &error).await,
        }
    }
    times.0
}

async fn http_loop(mode: Mode, client: &Client, shared: &Shared) -> Vec<f64> {
    let mut times = Times::default();
    let mut connection = None;
    while !shared.stop.load(Relaxed) {
        if connection.is_none() {
            match PersistentConnection::open(client).await {
                Ok(opened) => connection = Some(opened),
                Err(failure) => count_error(shared, &failure.redacted()).await,
            }
        }
        let Some(open) = &mut connection else { continue };
        let called = Instant::now();
        let answer = match mode {
            Mode::Endpoint => open.get_at("/workflows/bench").await,
            _ => open.post("workflow-definitions/bench/execute", "{}").await,
        };
        match answer {
            Ok(answer) => {
                shared.accepted.fetch_add(1, Relaxed);
                // The response of a workflow leaves after its commit, with what the workflow says.
                if mode == Mode::Endpoint || answer.windows(FINISHED.len()).any(|part| part == FINISHED) {
                    shared.finished.fetch_add(1, Relaxed);
                    times.add(shared, called);
                } else {
                    shared.error(&"an instance did not finish");
                }
            }
            Err(failure) => {
                connection = None;
                count_error(shared, &failure.redacted()).await;
            }
        }
    }
    times.0
}

/// The scenario of a response whose instance has finished.
const FINISHED: &[u8] = br#""subStatus":"Finished""#;

async fn count_error(shared: &Shared, what: &(dyn std::fmt::Display + Sync)) {
    shared.error(what);
    // An unavailable node fails at once: no busy loop.
    tokio::time::sleep(Duration::from_millis(10)).await;
}

impl Scenario {
    pub(super) fn finished(&self) -> u64 {
        self.counter.load(Relaxed)
    }

    /// Waits until `count` instances have finished, or none has for the timeout.
    pub(super) async fn wait_for(&self, count: u64) {
        let (mut last, mut since) = (self.finished(), Instant::now());
        let mut reported = Instant::now();
        while self.finished() < count && since.elapsed() < TIMEOUT {
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.finished() != last {
                (last, since) = (self.finished(), Instant::now());
            }
            if reported.elapsed() >= Duration::from_secs(1) {
                eprintln!("{} to go", count.saturating_sub(last));
                reported = Instant::now();
            }
        }
    }
}
