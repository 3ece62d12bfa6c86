//! Instances by each door, and when they have finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::Field;
use super::cost::{Cost, Meter};
use super::crew::Crew;
use crate::bench::figures::Latencies;
use crate::bench::settings::Mode;
use crate::harness::client::{Client, Lasting};
use crate::harness::failure::Failure;
use crate::id::DefinitionId;
use crate::runtime::{Engine, EventRequest, StartRequest};
use crate::store::observe;

const WARM_UP: Duration = Duration::from_secs(1);

/// What has not finished so long after the last that did is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// So many instances that are dispatched and have not finished are enough to keep all busy; more only wait.
const IN_FLIGHT: u64 = 4096;

/// How often it is looked how many have finished: far below what is measured.
const LOOK: Duration = Duration::from_millis(1);

pub(super) struct Outcome {
    /// Workflows that finished while the clock ran.
    pub(super) done: u64,
    pub(super) took: Duration,
    /// Of execute and http: from the call to its answer. Of dispatch: the same, but the answer only says that it is
    /// accepted. Of event, and where all was dispatched before: from the beginning until the instance had finished.
    pub(super) latencies: Latencies,
    pub(super) errors: usize,
    /// Instances that were accepted, and those of them that did not finish.
    pub(super) accepted: u64,
    pub(super) lost: u64,
    pub(super) cost: Cost,
}

/// What clients share.
struct Shared {
    measuring: AtomicBool,
    stop: AtomicBool,
    accepted: AtomicU64,
    /// Finished, as far as clients know: those that execute.
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

/// One measurement, with engines that come and go for it.
pub(super) async fn play(field: &Field, seconds: usize, instances: Option<usize>) -> Result<Outcome, Failure> {
    match (field.mode, instances) {
        (Mode::Event, _) => event(field, instances.unwrap_or(10_000)).await,
        (Mode::Dispatch, Some(instances)) => backlog(field, instances).await,
        _ => steady(field, seconds).await,
    }
}

/// Clients that go on until the time is over.
async fn steady(field: &Field, seconds: usize) -> Result<Outcome, Failure> {
    let crew = if field.mode == Mode::Http {
        Crew::nodes(field, field.nodes).await?
    } else {
        Crew::engines(field, field.nodes, None).await?
    };
    crew.publish(field).await?;
    let meter = field.meter().await?;
    let (shared, before_all) = (Shared::new(), field.finished());
    let mut clients = JoinSet::new();
    for (_, place) in (0..field.clients).zip((0..field.nodes).cycle()) {
        let (shared, counter) = (Arc::clone(&shared), Arc::clone(&field.counter));
        match (crew.all_engines().get(place), crew.all_clients().get(place)) {
            (Some(engine), _) if field.mode == Mode::Dispatch => {
                let engine = engine.clone();
                clients.spawn(async move { dispatches(&engine, &shared, &counter, before_all).await });
            }
            (Some(engine), _) => {
                let engine = engine.clone();
                clients.spawn(async move { executes(&engine, &shared).await });
            }
            (None, Some(client)) => {
                let client = client.clone();
                clients.spawn(async move { posts(&client, &shared).await });
            }
            (None, None) => {}
        }
    }
    let done = || {
        if field.mode == Mode::Dispatch {
            field.finished() - before_all
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
    if field.mode == Mode::Dispatch {
        field.wait_for(before_all + accepted).await;
    }
    let lost = accepted.saturating_sub(done());
    crew.end().await;
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

/// All are dispatched before any node works; then the clock starts.
async fn backlog(field: &Field, instances: usize) -> Result<Outcome, Failure> {
    let idle = Crew::engines(field, 1, Some(0)).await?;
    idle.publish(field).await?;
    let shared = Shared::new();
    fill(&idle, instances, &shared).await?;
    idle.end().await;
    let meter = field.meter().await?;
    let (spent, since, before) = (meter.read().await?, meter.clock().await?, field.finished());
    let accepted = shared.accepted.load(Relaxed);
    let began = Instant::now();
    let crew = Crew::engines(field, field.nodes, None).await?;
    field.wait_for(before + accepted).await;
    let took = began.elapsed();
    let cost = meter.read().await?.since(&spent);
    crew.end().await;
    finished_since(field, &meter, since, Span { took, accepted, cost }, &shared).await
}

/// Instances wait for an event, and it comes.
async fn event(field: &Field, instances: usize) -> Result<Outcome, Failure> {
    let crew = Crew::engines(field, field.nodes, None).await?;
    crew.publish(field).await?;
    let (meter, shared) = (field.meter().await?, Shared::new());
    let waiting = observe::waiting(meter.client()).await?;
    fill(&crew, instances, &shared).await?;
    let accepted = shared.accepted.load(Relaxed);
    let began = Instant::now();
    while (observe::waiting(meter.client()).await? - waiting) as u64 != accepted {
        if began.elapsed() > PATIENCE {
            return Err(Failure::failed(
                "the instances do not come to wait: the definition must wait for the event `bench` first",
            ));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (spent, since, before) = (meter.read().await?, meter.clock().await?, field.finished());
    let began = Instant::now();
    if let Some(engine) = crew.all_engines().first() {
        let request = EventRequest {
            name: "bench".to_owned(),
            ..EventRequest::default()
        };
        let met = engine.trigger_event(request).await?.resumed;
        if met != accepted {
            shared.error(&format!("the event met {met} of {accepted} instances"));
        }
    }
    field.wait_for(before + accepted).await;
    let took = began.elapsed();
    let cost = meter.read().await?.since(&spent);
    crew.end().await;
    finished_since(field, &meter, since, Span { took, accepted, cost }, &shared).await
}

struct Span {
    took: Duration,
    accepted: u64,
    cost: Cost,
}

/// What the database says of those that finished since a moment.
async fn finished_since(
    field: &Field,
    meter: &Meter,
    since: chrono::DateTime<chrono::Utc>,
    span: Span,
    shared: &Shared,
) -> Result<Outcome, Failure> {
    let (done, percentiles) = observe::ended(meter.client(), since).await?;
    let lost = span.accepted.saturating_sub(done);
    let at = |place: usize| percentiles.get(place).map_or(0.0, |time| (time * 10.0).round() / 10.0);
    eprintln!("{done} of {} finished on {} nodes", span.accepted, field.nodes);
    Ok(Outcome {
        done,
        took: span.took,
        latencies: Latencies {
            p50: at(0),
            p95: at(1),
            p99: at(2),
            max: at(3),
        },
        errors: shared.errors.load(Relaxed),
        accepted: span.accepted,
        lost,
        cost: span.cost,
    })
}

/// Dispatches so many instances, some at a time.
async fn fill(crew: &Crew, instances: usize, shared: &Arc<Shared>) -> Result<(), Failure> {
    let left = Arc::new(AtomicUsize::new(instances));
    let mut lanes = JoinSet::new();
    for (_, engine) in (0..256).zip(crew.all_engines().iter().cycle()) {
        let (engine, shared, left) = (engine.clone(), Arc::clone(shared), Arc::clone(&left));
        lanes.spawn(async move {
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                match engine.dispatch(request()).await {
                    Ok(_) => _ = shared.accepted.fetch_add(1, Relaxed),
                    Err(error) => shared.error(&error),
                }
            }
        });
    }
    while let Some(ended) = lanes.join_next().await {
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

/// Microseconds of each call in the time that is measured.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn add(&mut self, shared: &Shared, asked: Instant) {
        if shared.measuring.load(Relaxed) {
            self.0.push(asked.elapsed().as_secs_f64() * 1e6);
        }
    }
}

async fn executes(engine: &Engine, shared: &Shared) -> Vec<f64> {
    let mut times = Times::default();
    while !shared.stop.load(Relaxed) {
        let asked = Instant::now();
        match engine.execute(request()).await {
            Ok(executed) => {
                shared.accepted.fetch_add(1, Relaxed);
                if executed.sub_status() == Some("Finished") {
                    shared.finished.fetch_add(1, Relaxed);
                    times.add(shared, asked);
                } else {
                    shared.error(&format!("{} did not finish", executed.instance_id));
                }
            }
            Err(error) => refused(shared, &error).await,
        }
    }
    times.0
}

async fn dispatches(engine: &Engine, shared: &Shared, finished: &AtomicU64, before: u64) -> Vec<f64> {
    let mut times = Times::default();
    while !shared.stop.load(Relaxed) {
        if shared.accepted.load(Relaxed) >= finished.load(Relaxed) - before + IN_FLIGHT {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        let asked = Instant::now();
        match engine.dispatch(request()).await {
            Ok(_) => {
                shared.accepted.fetch_add(1, Relaxed);
                times.add(shared, asked);
            }
            Err(error) => refused(shared, &error).await,
        }
    }
    times.0
}

async fn posts(client: &Client, shared: &Shared) -> Vec<f64> {
    let mut times = Times::default();
    let mut lasting = None;
    while !shared.stop.load(Relaxed) {
        if lasting.is_none() {
            match Lasting::open(client).await {
                Ok(opened) => lasting = Some(opened),
                Err(failure) => refused(shared, &failure.told()).await,
            }
        }
        let Some(connection) = &mut lasting else { continue };
        let asked = Instant::now();
        match connection.post("workflow-definitions/bench/execute", "{}").await {
            Ok(answer) => {
                shared.accepted.fetch_add(1, Relaxed);
                if answer.windows(FINISHED.len()).any(|part| part == FINISHED) {
                    shared.finished.fetch_add(1, Relaxed);
                    times.add(shared, asked);
                } else {
                    shared.error(&"an instance did not finish");
                }
            }
            Err(failure) => {
                lasting = None;
                refused(shared, &failure.told()).await;
            }
        }
    }
    times.0
}

/// What an answer says of an instance that has finished.
const FINISHED: &[u8] = br#""subStatus":"Finished""#;

async fn refused(shared: &Shared, what: &(dyn std::fmt::Display + Sync)) {
    shared.error(what);
    // Who is gone fails as fast as it is asked.
    tokio::time::sleep(Duration::from_millis(10)).await;
}

impl Field {
    fn finished(&self) -> u64 {
        self.counter.load(Relaxed)
    }

    /// Waits until so many have finished, or nothing has for too long.
    async fn wait_for(&self, count: u64) {
        let (mut last, mut since) = (self.finished(), Instant::now());
        let mut told = Instant::now();
        while self.finished() < count && since.elapsed() < PATIENCE {
            tokio::time::sleep(LOOK).await;
            if self.finished() != last {
                (last, since) = (self.finished(), Instant::now());
            }
            if told.elapsed() >= Duration::from_secs(1) {
                eprintln!("{} to go", count.saturating_sub(last));
                told = Instant::now();
            }
        }
    }
}
