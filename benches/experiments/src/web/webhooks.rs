//! `webhooks`: workflows each of whose ends is an event for a sink, against workflows without one, and against a paused sink,
//! whose deliveries are only committed; and how fast deliveries that wait are sent to a receiver of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use futures_util::{StreamExt, stream};
use mainspring::Engine;
use mainspring::definition::WorkflowDefinition;
use mainspring::internals::{Failure, Target, nearest_rank, print_line};
use mainspring::webhook::{WebhookSecret, WebhookSink, WebhookSinkChange};
use serde_json::json;

use super::{LocalServer, PAIRS, failed, rate, to_three_digits};
use crate::engines::{EngineOptions, start};
use crate::rows::with_schema;
use crate::settings::Webhooks;

const SINK: &str = "hook";

/// Deliveries are lost if none arrives for this time.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn run(target: &Target, settings: &Webhooks) -> Result<(), Failure> {
    let received = Arc::<AtomicU64>::default();
    let counts = Arc::clone(&received);
    let receive = post(move || {
        counts.fetch_add(1, Relaxed);
        async { "" }
    });
    let server = LocalServer::start(Router::new().route("/", receive)).await?;
    with_schema(target, async |scratch| {
        let engines = EngineOptions::new(scratch, 1).start().await?;
        engines.publish(&[definition()?]).await?;
        let engine = engines.first()?;
        let (mut plain_rates, mut hook_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut paused_ratios = Vec::new();
        for pair in 1..=PAIRS {
            let plain = executes(engine, settings).await?;
            engine.add_webhook_sink(&sink(&server.url, false)).await?;
            let with_events = executes(engine, settings).await?;
            settled(&received).await;
            engine.delete_webhook_sink(SINK).await?;
            engine.add_webhook_sink(&sink(&server.url, true)).await?;
            let paused = executes(engine, settings).await?;
            engine.delete_webhook_sink(SINK).await?;
            eprintln!("pair {pair}: {plain:.0}/s without a sink, {with_events:.0}/s with one, {paused:.0}/s with a paused one");
            paused_ratios.push(paused / plain.max(1e-9));
            plain_rates.push(plain);
            hook_rates.push(with_events);
            ratios.push(with_events / plain.max(1e-9));
        }
        let delivered = deliveries(engine, settings, &server.url, &received).await?;
        engines.end().await;
        let [ratio, paused_ratio] = [&ratios, &paused_ratios].map(|all| to_three_digits(nearest_rank(all, 50)));
        let [plain, hooked] = [plain_rates, hook_rates].map(|rates| nearest_rank(&rates, 50).round());
        print_line(&format!(
            "{} clients: {plain} workflows/s without a sink, {hooked} workflows/s with an event each, {ratio} times (of {ratios:.2?}); \
             {paused_ratio} times with a paused sink (of {paused_ratios:.2?}); {} deliveries that waited: {delivered:.0}/s",
            settings.clients, settings.deliveries
        ));
        if settings.json {
            let report = json!({
                "experiment": "webhooks", "clients": settings.clients, "seconds": settings.seconds,
                "plain_per_s": plain, "workflows_per_s": hooked, "ratio": ratio, "paused_ratio": paused_ratio,
                "deliveries_per_s": delivered.round(),
            });
            print_line(&report.to_string());
        }
        Ok(())
    })
    .await
}

fn definition() -> Result<WorkflowDefinition, Failure> {
    let root = json!({"type": "Elsa.WriteLine", "id": "line", "text": "hello"});
    Ok(WorkflowDefinition::from_value(
        json!({"definitionId": "hello", "root": root}),
    )?)
}

fn sink(url: &str, paused: bool) -> WebhookSink {
    let mut sink = WebhookSink::new(SINK, url, WebhookSecret::random());
    sink.event_types = vec!["WorkflowInstance.Finished".to_owned()];
    sink.paused = paused;
    sink
}

async fn executes(engine: &Engine, settings: &Webhooks) -> Result<f64, Failure> {
    let engine = engine.clone();
    let execute = move || {
        let engine = engine.clone();
        async move {
            engine.execute(start("hello", None)).await?;
            Ok(1)
        }
    };
    rate(settings.clients, settings.seconds, execute).await
}

/// Waits until nothing more arrives.
async fn settled(received: &AtomicU64) {
    let mut before = u64::MAX;
    while received.load(Relaxed) != before {
        before = received.load(Relaxed);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// How many deliveries per second are sent that have waited at a paused sink.
async fn deliveries(engine: &Engine, settings: &Webhooks, url: &str, received: &AtomicU64) -> Result<f64, Failure> {
    engine.add_webhook_sink(&sink(url, true)).await?;
    let number = settings.deliveries as u64;
    let starts = (0..number).map(|_| engine.execute(start("hello", None)));
    let mut ended = stream::iter(starts).buffer_unordered(settings.clients);
    while let Some(executed) = ended.next().await {
        executed?;
    }
    let before = received.load(Relaxed);
    let mut change = WebhookSinkChange::default();
    change.paused = Some(false);
    let began = Instant::now();
    engine.change_webhook_sink(SINK, change).await?;
    let (mut seen, mut seen_at) = (0, Instant::now());
    while seen < number {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let now = received.load(Relaxed) - before;
        if now > seen {
            (seen, seen_at) = (now, Instant::now());
        } else if seen_at.elapsed() > TIMEOUT {
            return Err(failed(&format!("only {seen} of {number} deliveries arrive")));
        }
    }
    Ok(number as f64 / began.elapsed().as_secs_f64())
}
