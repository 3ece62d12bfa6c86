//! `churn`: what many finished workflows leave behind in `work` and `timer`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use mainspring::definition::WorkflowDefinition;
use mainspring::internals::{Failure, ScratchDatabase, Target, print_line};
use serde_json::json;

use crate::database::{failed, open};
use crate::engines::{EngineOptions, finished, start, wait_for};
use crate::rows;
use crate::settings::Churn;

/// The clients that dispatch.
const CLIENTS: usize = 64;

/// The maximum number of dispatched, unfinished instances: enough to keep all workers busy.
const IN_FLIGHT: u64 = 4096;

const SIZES: &str = "SELECT pg_total_relation_size('work') AS work, pg_total_relation_size('timer') AS timer,
                            (SELECT count(*) FROM work) AS left_over";

pub(crate) async fn run(target: &Target, settings: &Churn) -> Result<(), Failure> {
    rows::with_schema(target, async |scratch| {
        let session = open(scratch).await?;
        let [empty_poll, empty_claim] = rows::idle_buffers(&session.client).await?;
        let (finished, took) = dispatch_until(scratch, settings.workflows as u64).await?;
        let mut node = rows::start_node(target, scratch).await?;
        eprintln!("idle for {} s, until autovacuum has run", settings.seconds);
        tokio::time::sleep(Duration::from_secs(settings.seconds as u64)).await;
        let sizes = session.client.query_one(SIZES, &[]).await.map_err(failed)?;
        let [poll, claim] = rows::idle_buffers(&session.client).await?;
        node.stop().await;
        let megabytes = |name: &str| sizes.get::<_, i64>(name) as f64 / f64::from(1 << 20);
        print_line(&format!(
            "{finished} workflows in {:.0} s, {} rows of work left",
            took.as_secs_f64(),
            sizes.get::<_, i64>("left_over")
        ));
        print_line(&format!(
            "on disk: work {:.1} MB, timer {:.1} MB",
            megabytes("work"),
            megabytes("timer")
        ));
        print_line(&format!(
            "buffers: poll {poll} against {empty_poll}, claim {claim} against {empty_claim} of empty tables"
        ));
        Ok(())
    })
    .await
}

/// Clients dispatch until so many instances have finished. Returns how many have, and the time until then.
async fn dispatch_until(scratch: &ScratchDatabase, count: u64) -> Result<(u64, Duration), Failure> {
    let line = json!({"type": "Elsa.WriteLine", "id": "line", "text": "Hello from Mainspring!"});
    let definition = WorkflowDefinition::from_value(json!({"definitionId": "bench", "root": line}))?;
    let engines = EngineOptions::new(scratch, 1).start().await?;
    engines.publish(&[definition]).await?;
    let (engine, accepted, stop) = (engines.first()?, AtomicU64::new(0), AtomicBool::new(false));
    let (accepted, stop, before) = (&accepted, &stop, finished());
    let clients = (0..CLIENTS).map(async |_| {
        while !stop.load(Relaxed) {
            if accepted.load(Relaxed) >= finished() - before + IN_FLIGHT {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            engine.dispatch(start("bench", None)).await?;
            accepted.fetch_add(1, Relaxed);
        }
        Ok::<_, Failure>(())
    });
    let began = Instant::now();
    let measured = async {
        wait_for(before + count).await;
        stop.store(true, Relaxed);
        began.elapsed()
    };
    let (dispatched, took) = tokio::join!(try_join_all(clients), measured);
    dispatched?;
    wait_for(before + accepted.load(Relaxed)).await;
    engines.end().await;
    Ok((finished() - before, took))
}
