//! `mainspring bench locks`: pairs of lock and unlock.
//!
//! A pair counts when the lock was acquired and released in the provider (in process: when it was granted). Handoffs
//! between tasks of one session are counted separately.
//!
//! With `--contention 1 --clients 64 --sessions 3`, 64 tasks of three sessions compete for one key. A *handoff between
//! sessions* is the time from before a task drops its handle until a task of another session has the lock. A wait is the
//! time from the request to the grant.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::report::{add_fields, describe_environment};
use crate::bench::settings::{BenchLocks, Provider};
use crate::harness::failure::Failure;
use crate::harness::print_line;
#[cfg(feature = "redis")]
use crate::harness::secret::Secret;
use crate::harness::settings::Target;
use crate::lock::{
    Durations, FileLocks, Histogram, LocalLocks, LockProvider, LockRequest, PostgresLockOptions, PostgresLocks,
};

const WARM_UP: Duration = Duration::from_secs(1);
/// The timeout of a lock request.
const TIMEOUT: Duration = Duration::from_secs(30);

type Providers = Vec<Arc<dyn LockProvider>>;

pub(crate) async fn run(target: &Target, settings: &BenchLocks) -> Result<(), Failure> {
    let folder = Folder::of(settings);
    let providers = providers(target, settings, &folder).await?;
    let outcome = measure(&providers, settings).await;
    if settings.provider == Provider::Postgres {
        for line in describe_environment(target.database_url()?).await? {
            print_line(&line);
        }
    }
    report(settings, &outcome);
    if outcome.errors > 0 {
        return Err(Failure::failed(format!("{} requests failed", outcome.errors)));
    }
    Ok(())
}

/// The directory of lock files; a temporary one is removed at the end.
enum Folder {
    Given(PathBuf),
    Temporary(PathBuf),
}

impl Folder {
    fn of(settings: &BenchLocks) -> Self {
        match &settings.lock_dir {
            Some(folder) => Self::Given(folder.clone()),
            None => Self::Temporary(std::env::temp_dir().join(format!("mainspring-bench-{}", std::process::id()))),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) | Self::Temporary(path) => path,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Self::Temporary(path) = self {
            // Other providers do not create it.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

async fn providers(target: &Target, settings: &BenchLocks, folder: &Folder) -> Result<Providers, Failure> {
    let mut providers: Providers = Vec::new();
    let local = LocalLocks::new();
    for _ in 0..settings.sessions {
        providers.push(match settings.provider {
            Provider::Postgres => {
                // Above the limit that is derived from a small server's settings.
                let options = PostgresLockOptions::default()
                    .schema(&target.schema)
                    .most_locks(settings.clients.max(1000));
                Arc::new(PostgresLocks::connect(target.database_url()?, options).await?)
            }
            Provider::Local => Arc::new(local.clone()),
            Provider::File => Arc::new(FileLocks::open(folder.path())?),
            Provider::Redis => redis(settings).await?,
        });
    }
    Ok(providers)
}

#[cfg(feature = "redis")]
async fn redis(settings: &BenchLocks) -> Result<Arc<dyn LockProvider>, Failure> {
    use crate::lock::{RedisLockOptions, RedisLocks};

    let url = settings.redis_url.as_ref().map(Secret::reveal);
    let url = url.ok_or_else(|| Failure::usage("--provider redis needs a --redis-url"))?;
    let options = RedisLockOptions::default()
        .prefix("bench:")
        .most_locks(settings.clients.max(16_384));
    Ok(Arc::new(RedisLocks::connect(url, options).await?))
}

#[cfg(not(feature = "redis"))]
#[allow(clippy::unused_async, reason = "the form that it has with Redis")]
async fn redis(_: &BenchLocks) -> Result<Arc<dyn LockProvider>, Failure> {
    Err(Failure::usage(
        "this program was built without Redis: build it with `--features program`",
    ))
}

struct Outcome {
    per_second: f64,
    handoffs_per_second: f64,
    acquire: Durations,
    /// From the release in one session to the grant in another one.
    between_sessions: Durations,
    /// The maximum number of grants to other tasks between a request and its grant: the wait in the queue, independent of
    /// the machine's speed.
    longest_wait_grants: u64,
    errors: u64,
}

/// The state that the tasks share.
struct Shared {
    acquire: Histogram,
    between: Histogram,
    errors: AtomicU64,
    measuring: AtomicBool,
    stop: AtomicBool,
    /// Per key: the session and the time of the last release.
    released: Vec<Mutex<Option<(usize, Instant)>>>,
    /// Per key: the number of grants.
    grants: Vec<AtomicU64>,
    longest_wait_grants: AtomicU64,
}

/// The numbers of locks freed and handed over so far, of all providers.
fn counted(providers: &Providers, provider: Provider) -> (u64, u64) {
    let each = providers.iter().map(|one| one.stats());
    if provider == Provider::Local {
        // All sessions share one table.
        return each.take(1).fold((0, 0), |_, stats| (stats.granted, stats.handed_over));
    }
    each.fold((0, 0), |sum, stats| (sum.0 + stats.freed, sum.1 + stats.handed_over))
}

async fn measure(providers: &Providers, settings: &BenchLocks) -> Outcome {
    let (clients, seconds) = (settings.clients, settings.seconds);
    let keys = settings.contention.unwrap_or(clients);
    let shared = Arc::new(Shared {
        acquire: Histogram::default(),
        between: Histogram::default(),
        errors: AtomicU64::new(0),
        measuring: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        released: (0..keys).map(|_| Mutex::new(None)).collect(),
        grants: (0..keys).map(|_| AtomicU64::new(0)).collect(),
        longest_wait_grants: AtomicU64::new(0),
    });
    let random = || format!("{:x}", rand::random::<u64>());
    let names: Arc<str> = settings.names.clone().unwrap_or_else(random).into();
    let mut tasks = Vec::new();
    for (client, (session, provider)) in (0..clients).zip(providers.iter().enumerate().cycle()) {
        let contended = settings.contention.is_some();
        let (provider, shared, names) = (Arc::clone(provider), Arc::clone(&shared), Arc::clone(&names));
        tasks.push(tokio::spawn(async move {
            while !shared.stop.load(Relaxed) {
                let key = if contended { rand::random_range(0..keys) } else { client };
                lock_once(&provider, &shared, session, key, &names).await;
            }
        }));
    }
    tokio::time::sleep(WARM_UP).await;
    let began = Instant::now();
    let (freed, handed) = counted(providers, settings.provider);
    shared.measuring.store(true, Relaxed);
    let mut last = freed;
    for second in 1..=seconds {
        tokio::time::sleep_until((began + Duration::from_secs(second as u64)).into()).await;
        let (now, _) = counted(providers, settings.provider);
        let errors = shared.errors.load(Relaxed);
        eprintln!("{second} s: {} pairs/s, {errors} errors", now - last);
        last = now;
    }
    let took = began.elapsed().as_secs_f64();
    let (freed_after, handed_after) = counted(providers, settings.provider);
    shared.stop.store(true, Relaxed);
    for task in tasks {
        let _ = task.await;
    }
    Outcome {
        per_second: (freed_after - freed) as f64 / took,
        handoffs_per_second: (handed_after - handed) as f64 / took,
        acquire: shared.acquire.snapshot(),
        between_sessions: shared.between.snapshot(),
        longest_wait_grants: shared.longest_wait_grants.load(Relaxed),
        errors: shared.errors.load(Relaxed),
    }
}

async fn lock_once(provider: &Arc<dyn LockProvider>, shared: &Shared, session: usize, key: usize, names: &str) {
    let granted = || shared.grants.get(key).map_or(0, |grants| grants.load(Relaxed));
    let (requested, before) = (Instant::now(), granted());
    let request = LockRequest::exclusive(format!("bench/{names}/{key}"));
    match provider.acquire(request, TIMEOUT).await {
        Ok(handle) => {
            let got = Instant::now();
            let measuring = shared.measuring.load(Relaxed);
            if measuring {
                shared.acquire.record(got - requested);
                shared.longest_wait_grants.fetch_max(granted() - before, Relaxed);
            }
            if let Some(grants) = shared.grants.get(key) {
                grants.fetch_add(1, Relaxed);
            }
            if let Some(released) = shared.released.get(key) {
                let mut released = released.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, at)) = released.filter(|(other, _)| measuring && *other != session) {
                    shared.between.record(got.saturating_duration_since(at));
                }
                *released = Some((session, Instant::now()));
            }
            drop(handle);
        }
        Err(_) => {
            shared.errors.fetch_add(1, Relaxed);
            // An unavailable server fails at once: no busy loop.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn micros(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e7).round() / 10.0
}

fn report(settings: &BenchLocks, outcome: &Outcome) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    print_line(&format!(
        "{} tasks, {} sessions, {:?}, {cores} cores: {:.0} pairs/s; acquire p50 {:.1} µs, p95 {:.1} µs, p99 {:.1} µs; {} errors",
        settings.clients,
        settings.sessions,
        settings.provider,
        outcome.per_second,
        micros(outcome.acquire.p50),
        micros(outcome.acquire.p95),
        micros(outcome.acquire.p99),
        outcome.errors
    ));
    let mut object = json!({
        "bench": "locks",
        "clients": settings.clients,
        "seconds": settings.seconds,
        "ops_per_s": outcome.per_second.round(),
        "p50_us": micros(outcome.acquire.p50),
        "p95_us": micros(outcome.acquire.p95),
        "p99_us": micros(outcome.acquire.p99),
        "max_us": micros(outcome.acquire.max),
        "mean_us": micros(outcome.acquire.mean),
        "errors": outcome.errors,
        "provider": format!("{:?}", settings.provider).to_lowercase(),
        "sessions": settings.sessions,
        "cores": cores,
    });
    if let Some(keys) = settings.contention {
        let between = &outcome.between_sessions;
        let longest_to_mean = outcome.acquire.max.as_secs_f64() / outcome.acquire.mean.as_secs_f64().max(1e-9);
        print_line(&format!(
            "{keys} shared keys: {:.0} handoffs/s within a session; {} between sessions, p50 {:.1} µs, p99 {:.1} µs; \
             mean wait {:.1} µs, longest {:.1} µs: {longest_to_mean:.1} times the mean; at most {} grants before one",
            outcome.handoffs_per_second,
            between.count,
            micros(between.p50),
            micros(between.p99),
            micros(outcome.acquire.mean),
            micros(outcome.acquire.max),
            outcome.longest_wait_grants,
        ));
        // The former name of each field of handoffs stays as an alias.
        let more = json!({
            "contention": keys,
            "handoffs_per_s": outcome.handoffs_per_second.round(),
            "handed_over_per_s": outcome.handoffs_per_second.round(),
            "handoffs": between.count,
            "hand_overs": between.count,
            "handoff_p50_us": micros(between.p50),
            "hand_over_p50_us": micros(between.p50),
            "handoff_p99_us": micros(between.p99),
            "hand_over_p99_us": micros(between.p99),
            "mean_wait_us": micros(outcome.acquire.mean),
            "longest_wait_us": micros(outcome.acquire.max),
            "longest_wait_grants": outcome.longest_wait_grants,
            "longest_to_mean": (longest_to_mean * 10.0).round() / 10.0,
        });
        add_fields(&mut object, more);
    }
    if settings.json {
        print_line(&object.to_string());
    }
}
