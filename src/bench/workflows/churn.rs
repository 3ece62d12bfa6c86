//! `mainspring bench churn`: what many finished workflows leave behind in `work` and `timer`.

use std::time::Duration;

use super::{FinishedCounter, Scenario, built_in, load};
use crate::bench::rows;
use crate::bench::settings::{BenchChurn, Mode};
use crate::db::{ANSWER_TIMEOUT, within};
use crate::definition::WorkflowDefinition;
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::harness::scratch::ScratchDatabase;
use crate::harness::settings::Target;

const SIZES: &str = "SELECT pg_total_relation_size('work') AS work, pg_total_relation_size('timer') AS timer,
                            (SELECT count(*) FROM work) AS left_over";

pub(crate) async fn run(target: &Target, settings: &BenchChurn) -> Result<(), Failure> {
    let counter = FinishedCounter::install()?;
    rows::with_schema(target, async |scratch| {
        let scenario = Scenario {
            url: scratch.url.clone(),
            schema: scratch.schema.clone(),
            log: target.child_log("warn"),
            definition: WorkflowDefinition::from_value(built_in(Mode::Dispatch))?,
            parts: Vec::new(),
            mode: Mode::Dispatch,
            clients: 64,
            nodes: 1,
            workers: 512,
            pool_size: 8,
            script_time_limit: None,
            counter,
            counts: None,
        };
        measure(target, &scenario, scratch, settings).await
    })
    .await
}

async fn measure(
    target: &Target,
    scenario: &Scenario,
    scratch: &ScratchDatabase,
    settings: &BenchChurn,
) -> Result<(), Failure> {
    let session = scratch.open().await?;
    let empty = rows::idle_buffers(&session.client).await?;
    let (finished, took) = load::dispatch_until(scenario, settings.workflows as u64).await?;
    let mut node = rows::start_node(target, scratch).await?;
    eprintln!("idle for {} s, until autovacuum has run", settings.seconds);
    tokio::time::sleep(Duration::from_secs(settings.seconds as u64)).await;
    let sizes = within(ANSWER_TIMEOUT, session.client.query_one(SIZES, &[])).await?;
    let [poll, claim] = rows::idle_buffers(&session.client).await?;
    node.stop().await;
    let [empty_poll, empty_claim] = empty;
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
}
