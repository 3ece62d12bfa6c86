//! A workflow of two checkpointed steps on dbos, with CLIENTS concurrent ones, for SECONDS after one second to warm up.
//!
//!     DATABASE_URL=… peer-dbos CONNECTIONS CLIENTS SECONDS
//!
//! Prints one JSON object: `finished` workflows in the measured time `took_s`, all `returned` workflows, and how often the
//! bodies of the two steps ran, which the caller compares with the rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use dbos::{Config, DBOS};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As that of `mainspring bench workflows`.
const WARM_UP: Duration = Duration::from_secs(1);

static FIRST: AtomicU64 = AtomicU64::new(0);
static SECOND: AtomicU64 = AtomicU64::new(0);

async fn two_steps(number: u64) -> dbos::Result<u64> {
    let first = dbos::step("first", || async move {
        FIRST.fetch_add(1, Relaxed);
        Ok(number + 1)
    })
    .await?;
    dbos::step("second", || async move {
        SECOND.fetch_add(1, Relaxed);
        Ok(first + 1)
    })
    .await
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>());
    let (Some(Ok(connections)), Some(Ok(clients)), Some(Ok(seconds)), None) =
        (arguments.next(), arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("usage: DATABASE_URL=… peer-dbos CONNECTIONS CLIENTS SECONDS");
        std::process::exit(2);
    };
    let url = std::env::var("DATABASE_URL").expect("DATABASE_URL must be set");
    let dbos = DBOS::new(Config {
        app_version: Some("1".to_owned()),
        max_connections: connections,
        ..Config::new("peer", url)
    });
    let workflow = dbos.register_workflow("two_steps", two_steps).expect("registered");
    dbos.launch().await.expect("launched");

    let (returned, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let (workflow, returned, stop) = (workflow.clone(), Arc::clone(&returned), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut number = u64::from(client);
                while !stop.load(Relaxed) {
                    let outcome = workflow.run(number).await.expect("finished");
                    assert_eq!(outcome, number + 2);
                    returned.fetch_add(1, Relaxed);
                    number += 1;
                }
            })
        })
        .collect();
    tokio::time::sleep(WARM_UP).await;
    let (began, before) = (Instant::now(), returned.load(Relaxed));
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    let (finished, took) = (returned.load(Relaxed) - before, began.elapsed());
    stop.store(true, Relaxed);
    for task in tasks {
        task.await.expect("no client failed");
    }
    dbos.shutdown().await;
    println!(
        r#"{{"finished": {finished}, "took_s": {:.6}, "returned": {}, "first": {}, "second": {}}}"#,
        took.as_secs_f64(),
        returned.load(Relaxed),
        FIRST.load(Relaxed),
        SECOND.load(Relaxed)
    );
}
