//! The time of a lock, a commit and a whole hello-world on a real server, with one and with eight concurrent callers.
//!
//! `MAINSPRING_DATABASE_URL=postgres://user:password@host:port/database cargo bench --bench database [-- FILTER]`
//!
//! It uses a temporary schema, `mainspring_micro_` and the process id, which it drops at the end unless it is killed.
//! `mainspring bench workflows` measures the throughput.
// A benchmark that fails panics.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use divan::Bencher;
use mainspring::Engine;
use mainspring::activity::Console;
use mainspring::definition::WorkflowDefinition;
use mainspring::id::DefinitionId;
use mainspring::lock::{LockProvider, LockRequest, PostgresLockOptions, PostgresLocks};
use mainspring::runtime::{InterpreterOptions, StartRequest};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

const VARIABLE: &str = "MAINSPRING_DATABASE_URL";
/// The numbers of concurrent callers.
const CALLERS: [usize; 2] = [1, 8];
const TIMEOUT: Duration = Duration::from_secs(30);

/// Created by the first benchmark that needs it.
static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

fn main() {
    if std::env::var_os(VARIABLE).is_none() {
        eprintln!("nothing is measured: {VARIABLE} is not set");
        return;
    }
    let measured = catch_unwind(AssertUnwindSafe(divan::main));
    if let Some(environment) = ENVIRONMENT.get() {
        environment.clear();
    }
    if let Err(panic) = measured {
        resume_unwind(panic);
    }
}

struct Environment {
    runtime: Runtime,
    schema: String,
    engine: Engine,
    locks: PostgresLocks,
    client: Client,
}

impl Environment {
    fn get() -> &'static Self {
        ENVIRONMENT.get_or_init(Self::prepare)
    }

    fn prepare() -> Self {
        let url = std::env::var(VARIABLE).unwrap();
        let schema = format!("mainspring_micro_{}", std::process::id());
        let runtime = Runtime::new().unwrap();
        let (engine, locks, client) = runtime.block_on(async {
            let options = InterpreterOptions {
                console: Arc::new(Quiet),
                ..InterpreterOptions::default()
            };
            let builder = Engine::builder(&url).schema(&schema).interpreter(options);
            let engine = builder.start().await.unwrap();
            for journal in JOURNALS {
                engine.save(hello_world(journal), true).await.unwrap();
            }
            let options = PostgresLockOptions::default().schema(&schema);
            let locks = PostgresLocks::connect(&url, options).await.unwrap();
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            let table = format!("CREATE TABLE {schema}.lone_commit (number bigint NOT NULL)");
            client.batch_execute(&table).await.unwrap();
            (engine, locks, client)
        });
        Self {
            runtime,
            schema,
            engine,
            locks,
            client,
        }
    }

    fn clear(&self) {
        self.runtime.block_on(async {
            self.engine.shutdown().await;
            let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema);
            self.client.batch_execute(&drop).await.unwrap();
        });
    }
}

/// The journal levels, with a workflow each.
const JOURNALS: [&str; 2] = ["full", "off"];

fn hello_world(journal: &'static str) -> WorkflowDefinition {
    let mut definition = WorkflowDefinition::from_json(include_bytes!("../samples/hello-world.json")).unwrap();
    definition.definition_id = DefinitionId::new(journal);
    definition.id = String::new().into();
    definition.options.insert("journal".to_owned(), journal.into());
    definition
}

fn start(journal: &str) -> StartRequest {
    StartRequest {
        definition_id: journal.into(),
        ..StartRequest::default()
    }
}

struct Quiet;

impl Console for Quiet {
    fn write_line(&self, line: &str) {
        divan::black_box(line);
    }
}

/// The lower bound: one prepared insert and its commit in one round trip.
#[divan::bench(sample_count = 1000, sample_size = 1)]
fn lone_commit(bencher: Bencher) {
    let environment = Environment::get();
    let insert = format!("INSERT INTO {}.lone_commit VALUES ($1)", environment.schema);
    let insert = environment
        .runtime
        .block_on(environment.client.prepare(&insert))
        .unwrap();
    bencher.bench_local(|| {
        let done = environment
            .runtime
            .block_on(environment.client.execute(&insert, &[&1_i64]));
        assert_eq!(done.unwrap(), 1);
    });
}

/// Acquire and release, each time another name.
#[divan::bench(threads = CALLERS, sample_count = 1000, sample_size = 1)]
fn lock_of_its_own(bencher: Bencher) {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let environment = Environment::get();
    bencher.bench(|| {
        let name = NAMES.fetch_add(1, Ordering::Relaxed).to_string();
        drop(acquired(environment, name));
    });
}

/// Acquire and release, always the same name.
#[divan::bench(threads = CALLERS, sample_count = 1000, sample_size = 1)]
fn lock_shared_by_all(bencher: Bencher) {
    let environment = Environment::get();
    bencher.bench(|| drop(acquired(environment, "the one".to_owned())));
}

fn acquired(environment: &Environment, name: String) -> mainspring::lock::LockHandle {
    let acquire = environment.locks.acquire(LockRequest::exclusive(name), TIMEOUT);
    environment.runtime.block_on(acquire).unwrap()
}

/// From the call to the finished workflow: the start, its burst, and the commit.
#[divan::bench(args = JOURNALS, threads = CALLERS, sample_count = 1000, sample_size = 1)]
fn execute(bencher: Bencher, journal: &str) {
    let environment = Environment::get();
    bencher.with_inputs(|| start(journal)).bench_values(|request| {
        let run = environment
            .runtime
            .block_on(environment.engine.execute(request))
            .unwrap();
        assert_eq!(run.sub_status(), Some("Finished"));
    });
}

/// From the call to its durable acceptance; the bursts run concurrently, on the same processors.
#[divan::bench(args = JOURNALS, threads = CALLERS, sample_count = 1000, sample_size = 1)]
fn dispatch(bencher: Bencher, journal: &str) {
    let environment = Environment::get();
    let dispatched = |request| {
        environment
            .runtime
            .block_on(environment.engine.dispatch(request))
            .unwrap()
    };
    bencher.with_inputs(|| start(journal)).bench_values(dispatched);
}
