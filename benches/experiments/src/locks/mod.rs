//! `locks`: Mainspring's locks, measured by `mainspring bench locks`, and after it in the same run what a program would
//! do itself: two statements for each pair, or two commands of Redis.

mod plain_redis;
mod unbatched;

use std::future::Future;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mainspring::internals::{Failure, Target, add_fields, print_line};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::settings::{Locks, LocksIn};
use unbatched::UnbatchedForm;

/// The numbers of connections; the best result is the baseline.
const CONNECTIONS: [usize; 3] = [4, 16, 64];

/// The longest measurement of one number of connections: a longer one changes the result by less than its variance.
const MAX_TIME: Duration = Duration::from_secs(5);

/// The seconds in which one client is measured.
const SINGLE_SECONDS: usize = 2;

pub(crate) async fn run(target: &Target, settings: &Locks) -> Result<(), Failure> {
    let url = target.database_url()?;
    let mut report = ours(url, settings, settings.clients, settings.seconds).await?;
    let measured = rate(&report);
    if let Some(redis) = &settings.redis_url {
        let plain = plain_redis::rate(redis, settings).await?;
        let ratio = hundredths(measured / plain.max(1.0));
        print_line(&format!("plain Redis: {plain:.0} pairs/s; ratio {ratio}"));
        add_fields(
            &mut report,
            json!({"plain_redis_ops_per_s": plain.round(), "plain_redis_ratio": ratio}),
        );
    } else {
        add_fields(&mut report, beside_statements(url, settings, measured).await?);
    }
    if settings.json {
        print_line(&report.to_string());
    }
    Ok(())
}

/// The report of `mainspring bench locks`, which is this binary. Its other lines are printed.
async fn ours(url: &str, settings: &Locks, clients: usize, seconds: usize) -> Result<Value, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("bench locks: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(|error| failed(&error))?);
    let [clients, seconds] = [clients, seconds].map(|number| number.to_string());
    command.args(["bench", "locks", "--json", "--clients", &clients, "--seconds", &seconds]);
    if let (Some(redis), LocksIn::Redis) = (&settings.redis_url, settings.provider) {
        command.args(["--provider", "redis", "--redis-url", redis]);
    }
    // An argument would show a password in the list of processes.
    command.env("MAINSPRING_DATABASE_URL", url).stderr(Stdio::inherit());
    let output = command.output().await.map_err(|error| failed(&error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut report = None;
    for line in text.lines() {
        match line.starts_with('{') {
            true => report = serde_json::from_str(line).ok(),
            false => print_line(line),
        }
    }
    report.filter(|_| output.status.success()).ok_or_else(Failure::reported)
}

fn rate(report: &Value) -> f64 {
    report.get("ops_per_s").and_then(Value::as_f64).unwrap_or_default()
}

/// Two statements for each pair, in several forms, with the best number of connections.
async fn beside_statements(url: &str, settings: &Locks, measured: f64) -> Result<Value, Failure> {
    let time = Duration::from_secs(settings.seconds as u64).min(MAX_TIME);
    let two_trips = best(url, UnbatchedForm::TwoTrips, time).await?;
    let pipelined = best(url, UnbatchedForm::Pipelined, time).await?;
    let one_statement = best(url, UnbatchedForm::OneStatement, time).await?;
    let single_baseline = unbatched_rate(url, UnbatchedForm::TwoTrips, 1, time).await?;
    let single = rate(&ours(url, settings, 1, SINGLE_SECONDS).await?);
    let ratio = hundredths(measured / two_trips.max(1.0));
    print_line(&format!(
        "two round trips {two_trips:.0} pairs/s, pipelined {pipelined:.0}, one statement {one_statement:.0}; ratio {ratio}"
    ));
    let single_ratio = hundredths(single_baseline / single.max(1.0));
    print_line(&format!(
        "one client: a pair takes {:.1} µs, two round trips {:.1} µs; {single_ratio} times as long",
        1e6 / single.max(1.0),
        1e6 / single_baseline.max(1.0),
    ));
    Ok(json!({
        "baseline_ops_per_s": two_trips.round(),
        "ratio": ratio,
        "pipelined_ops_per_s": pipelined.round(),
        "one_statement_ops_per_s": one_statement.round(),
        "single_client_ops_per_s": single.round(),
        "single_client_baseline_ops_per_s": single_baseline.round(),
        "single_client_ratio": single_ratio,
    }))
}

fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

async fn best(url: &str, form: UnbatchedForm, time: Duration) -> Result<f64, Failure> {
    let mut best: f64 = 0.0;
    for connections in CONNECTIONS {
        let per_second = unbatched_rate(url, form, connections, time).await?;
        eprintln!("{form:?}, {connections} connections: {per_second:.0} pairs/s");
        best = best.max(per_second);
    }
    Ok(best)
}

async fn unbatched_rate(url: &str, form: UnbatchedForm, connections: usize, time: Duration) -> Result<f64, Failure> {
    let mut pairs = Vec::new();
    for _ in 0..connections {
        let (locks, key) = (unbatched::UnbatchedLocks::connect(url).await?, rand::random());
        let locks = Arc::new(locks);
        pairs.push(move || {
            let locks = Arc::clone(&locks);
            async move { locks.pair(form, key).await }
        });
    }
    pairs_per_second(pairs, Duration::from_millis(500), time).await
}

/// Tasks that take and release a lock each, all the time: the pairs per second after the warm-up.
async fn pairs_per_second<F, P>(tasks: Vec<F>, warm_up: Duration, time: Duration) -> Result<f64, Failure>
where
    F: Fn() -> P + Send + Sync + 'static,
    P: Future<Output = Result<(), Failure>> + Send,
{
    let (pairs, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut running = JoinSet::new();
    for pair in tasks {
        let (pairs, stop) = (Arc::clone(&pairs), Arc::clone(&stop));
        running.spawn(async move {
            while !stop.load(Relaxed) {
                pair().await?;
                pairs.fetch_add(1, Relaxed);
            }
            Ok::<_, Failure>(())
        });
    }
    tokio::time::sleep(warm_up).await;
    let (before, began) = (pairs.load(Relaxed), Instant::now());
    tokio::time::sleep(time).await;
    let (after, took) = (pairs.load(Relaxed), began.elapsed());
    stop.store(true, Relaxed);
    while let Some(ended) = running.join_next().await {
        ended.map_err(|error| Failure::failed(format!("a client ended early: {error}")))??;
    }
    Ok((after - before) as f64 / took.as_secs_f64())
}
