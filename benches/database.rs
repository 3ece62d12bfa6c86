//! What a lock, a commit and a whole hello-world take on a real server, from one caller and from eight at a time.
//!
//! `MAINSPRING_DATABASE_URL=postgres://user:password@host:port/database cargo bench --bench database [-- FILTER]`
//!
//! Everything is in a schema of its own, which is dropped at the end (not if the process is killed: it is called
//! `mainspring_micro_` and the process id). How many workflows per second go through is no question for this program but
//! for `mainspring bench workflows`.
// A benchmark that cannot go on panics.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use divan::Bencher;
use mainspring::Engine;
use mainspring::activity::Console;
use mainspring::definition::WorkflowDefinition;
use mainspring::execution::InterpreterOptions;
use mainspring::id::DefinitionId;
use mainspring::lock::{LockProvider, LockRequest, PostgresLockOptions, PostgresLocks};
use mainspring::runtime::StartRequest;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

const VARIABLE: &str = "MAINSPRING_DATABASE_URL";
/// Callers at the same time.
const CALLERS: [usize; 2] = [1, 8];
const PATIENCE: Duration = Duration::from_secs(30);

/// Made when the first benchmark needs it.
static GROUND: OnceLock<Ground> = OnceLock::new();

fn main() {
    if std::env::var_os(VARIABLE).is_none() {
        eprintln!("nothing is measured: {VARIABLE} names no server");
        return;
    }
    let measured = catch_unwind(AssertUnwindSafe(divan::main));
    if let Some(ground) = GROUND.get() {
        ground.clear();
    }
    if let Err(panic) = measured {
        resume_unwind(panic);
    }
}

struct Ground {
    runtime: Runtime,
    schema: String,
    engine: Engine,
    locks: PostgresLocks,
    client: Client,
}

impl Ground {
    fn get() -> &'static Self {
        GROUND.get_or_init(Self::prepare)
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

/// The levels of the journal, each a workflow of its own.
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

/// The floor: a row and its commit in one round trip, prepared before.
#[divan::bench(sample_count = 1000, sample_size = 1)]
fn lone_commit(bencher: Bencher) {
    let ground = Ground::get();
    let insert = format!("INSERT INTO {}.lone_commit VALUES ($1)", ground.schema);
    let insert = ground.runtime.block_on(ground.client.prepare(&insert)).unwrap();
    bencher.bench_local(|| {
        let done = ground.runtime.block_on(ground.client.execute(&insert, &[&1_i64]));
        assert_eq!(done.unwrap(), 1);
    });
}

/// Acquire and give back, each time another name.
#[divan::bench(threads = CALLERS, sample_count = 1000, sample_size = 1)]
fn lock_of_its_own(bencher: Bencher) {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let ground = Ground::get();
    bencher.bench(|| {
        let name = NAMES.fetch_add(1, Ordering::Relaxed).to_string();
        drop(acquired(ground, name));
    });
}

/// Acquire and give back, all of them the same name.
#[divan::bench(threads = CALLERS, sample_count = 1000, sample_size = 1)]
fn lock_shared_by_all(bencher: Bencher) {
    let ground = Ground::get();
    bencher.bench(|| drop(acquired(ground, "the one".to_owned())));
}

fn acquired(ground: &Ground, name: String) -> mainspring::lock::LockHandle {
    let acquire = ground.locks.acquire(LockRequest::exclusive(name), PATIENCE);
    ground.runtime.block_on(acquire).unwrap()
}

/// Asked until answered that it has finished: the start, its burst, and the commit.
#[divan::bench(args = JOURNALS, threads = CALLERS, sample_count = 1000, sample_size = 1)]
fn execute(bencher: Bencher, journal: &str) {
    let ground = Ground::get();
    bencher.with_inputs(|| start(journal)).bench_values(|request| {
        let run = ground.runtime.block_on(ground.engine.execute(request)).unwrap();
        assert_eq!(run.sub_status(), Some("Finished"));
    });
}

/// Asked until answered that it is accepted, for good; the bursts run beside, on the same processors.
#[divan::bench(args = JOURNALS, threads = CALLERS, sample_count = 1000, sample_size = 1)]
fn dispatch(bencher: Bencher, journal: &str) {
    let ground = Ground::get();
    let dispatched = |request| ground.runtime.block_on(ground.engine.dispatch(request)).unwrap();
    bencher.with_inputs(|| start(journal)).bench_values(dispatched);
}
