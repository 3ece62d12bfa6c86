//! `metrics`: scrapes of a node among many instances, and dispatches with scrapes and samples against a node without metrics.

use std::time::{Duration, Instant};

use mainspring::internals::{
    ANY_PORT, Failure, Node, ScratchDatabase, Target, log_only, nearest_rank, node_options, print_line,
};
use serde_json::json;
use tokio_postgres::Client as Database;
use tokio_util::task::AbortOnDropHandle;

use crate::database::{count, execute, open};
use crate::rows::with_schema;
use crate::settings::Metrics;
use crate::web::{PAIRS, client, failed, rate, to_three_digits};

/// As Prometheus would.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(15);

/// How long a node may take until it serves a sample.
const FIRST_SAMPLE: Duration = Duration::from_secs(300);

const FINISHED: &str = "SELECT count(*) FROM instance WHERE status = 1 /* finished */";

pub(crate) async fn run(target: &Target, settings: &Metrics) -> Result<(), Failure> {
    with_schema(target, async |scratch| {
        let session = open_migrated(target, scratch).await?;
        let database = &session.client;
        let (mut plain_rates, mut metrics_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 1..=PAIRS {
            let plain = dispatches(target, scratch, database, settings, false).await?;
            let with = dispatches(target, scratch, database, settings, true).await?;
            eprintln!("pair {pair}: {plain:.0}/s without metrics, {with:.0}/s with metrics");
            plain_rates.push(plain);
            metrics_rates.push(with);
            ratios.push(with / plain.max(1e-9));
        }
        let ratio = to_three_digits(nearest_rank(&ratios, 50));
        let [plain, with] = [plain_rates, metrics_rates].map(|rates| nearest_rank(&rates, 50).round());
        fill(database, settings).await?;
        let (times, sample) = scrapes(target, scratch, settings).await?;
        let [p50, p99] = [50, 99].map(|percent| to_three_digits(nearest_rank(&times, percent)));
        print_line(&format!(
            "{} scrapes among {} instances and {} timers: {p50} ms (p50), {p99} ms (p99), a sample takes {sample} s; dispatches: \
             {plain}/s without metrics, {with}/s with a scrape every 15 s and samples, {ratio} times (of {ratios:.2?})",
            settings.scrapes, settings.instances, settings.timers
        ));
        if settings.json {
            let report = json!({
                "experiment": "metrics", "clients": settings.clients, "seconds": settings.seconds, "scrapes": settings.scrapes,
                "instances": settings.instances, "timers": settings.timers, "scrape_p50_ms": p50, "scrape_p99_ms": p99,
                "sample_s": sample, "plain_per_s": plain, "metrics_per_s": with, "ratio": ratio,
            });
            print_line(&report.to_string());
        }
        Ok(())
    })
    .await
}

async fn start(target: &Target, scratch: &ScratchDatabase, has_metrics: bool) -> Result<Node, Failure> {
    let mut options = node_options(target, scratch, log_only());
    options
        .variables
        .push(("MAINSPRING_NO_METRICS", (!has_metrics).to_string()));
    let mut node = Node::start(&options, "node-1", ANY_PORT)?;
    node.ready().await?;
    Ok(node)
}

/// A session, after a node has made the schema and has the workflow.
async fn open_migrated(target: &Target, scratch: &ScratchDatabase) -> Result<crate::database::Session, Failure> {
    let mut node = start(target, scratch, false).await?;
    let hello = json!({"definitionId": "hello", "root": {"type": "Elsa.WriteLine", "id": "line", "text": "hello"}});
    mainspring::internals::Client::new(&node.url()).publish(&hello).await?;
    node.stop().await;
    open(scratch).await
}

/// How many dispatched instances finish per second at one node.
async fn dispatches(
    target: &Target,
    scratch: &ScratchDatabase,
    database: &Database,
    settings: &Metrics,
    has_metrics: bool,
) -> Result<f64, Failure> {
    let mut node = start(target, scratch, has_metrics).await?;
    let metrics = format!("{}/metrics", node.url());
    let scraper = has_metrics.then(|| AbortOnDropHandle::new(tokio::spawn(scrape_periodically(metrics))));
    let (client, url) = (
        client()?,
        format!("{}/elsa/api/workflow-definitions/hello/dispatch", node.url()),
    );
    let dispatch = move || {
        let sent = client.post(&url).json(&json!({})).send();
        async move {
            let response = sent.await.map_err(|error| failed(&error))?;
            response.error_for_status().map(|_| 1).map_err(|error| failed(&error))
        }
    };
    let (began, before) = (Instant::now(), count(database, FINISHED).await?);
    rate(settings.clients, settings.seconds, dispatch).await?;
    // What is accepted and has not run yet is not done.
    while count(database, "SELECT count(*) FROM work").await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let finished = count(database, FINISHED).await? - before;
    let rate = finished as f64 / began.elapsed().as_secs_f64();
    drop(scraper);
    node.stop().await;
    Ok(rate)
}

async fn scrape_periodically(url: String) {
    let Ok(client) = client() else { return };
    loop {
        if let Ok(response) = client.get(&url).send().await {
            drop(response.bytes().await);
        }
        tokio::time::sleep(SCRAPE_INTERVAL).await;
    }
}

/// Adds finished instances, and timers of others that wait.
async fn fill(database: &Database, settings: &Metrics) -> Result<(), Failure> {
    let (instances, timers) = (settings.instances, settings.timers);
    eprintln!("{instances} instances and {timers} timers are added");
    let instances = format!(
        "INSERT INTO instance (tenant_id, id, definition_id, version_id, definition_version, status, sub_status, version,
                               finished_at, state)
         SELECT '', 'filled' || n, 'hello', 'filled', 1, w.status, w.sub_status, 1, now(), '{{}}'
         FROM generate_series(1, {instances}) n
         CROSS JOIN LATERAL (SELECT CASE WHEN n <= {timers} THEN 0 /* running */ ELSE 1 /* finished */ END AS status,
                                    CASE WHEN n <= {timers} THEN 2 ELSE 3 END AS sub_status) w"
    );
    let timers = format!(
        "INSERT INTO timer (tenant_id, instance_id, id, due, available_at)
         SELECT '', 'filled' || n, 'b', now() + interval '1 day', now() + interval '1 day' FROM generate_series(1, {timers}) n"
    );
    execute(database, &instances).await?;
    execute(database, &timers).await?;
    execute(database, "VACUUM ANALYZE instance").await?;
    execute(database, "VACUUM ANALYZE timer").await
}

/// The times of scrapes in milliseconds, and how long the sample took that they show, in seconds.
async fn scrapes(target: &Target, scratch: &ScratchDatabase, settings: &Metrics) -> Result<(Vec<f64>, f64), Failure> {
    let mut node = start(target, scratch, true).await?;
    let (client, url) = (client()?, format!("{}/metrics", node.url()));
    let scrape = async || -> Result<String, Failure> {
        let response = client.get(&url).send().await.map_err(|error| failed(&error))?;
        response.text().await.map_err(|error| failed(&error))
    };
    let began = Instant::now();
    let sample = loop {
        let text = scrape().await?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("mainspring_cluster_sample_duration_seconds "));
        match line.and_then(|number| number.parse::<f64>().ok()) {
            Some(seconds) => break to_three_digits(seconds),
            None if began.elapsed() > FIRST_SAMPLE => return Err(Failure::failed("no sample of the cluster came")),
            None => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let mut times = Vec::new();
    for _ in 0..settings.scrapes {
        let began = Instant::now();
        scrape().await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    node.stop().await;
    Ok((times, sample))
}
