//! `links`: how long a use of a resume link takes at one client, and executes over HTTP beside forged links.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mainspring::internals::{Client, Failure, Target, nearest_rank, print_line};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{PAIRS, client, failed, rate, to_three_digits};
use crate::rows::{start_node, with_schema};
use crate::settings::Links;

/// 100,000 a minute.
const FORGED_EACH: Duration = Duration::from_micros(600);

/// As long as a link, and signed by no node.
const FORGED: &str = "AAAAAQ0000000000000000000000000000000000000000000";

pub(crate) async fn run(target: &Target, settings: &Links) -> Result<(), Failure> {
    with_schema(target, async |scratch| {
        let mut node = start_node(target, scratch).await?;
        let api = Client::new(&node.url());
        api.publish(&waits()).await?;
        api.publish(&hello()).await?;
        let url = node.url();
        let times = uses(&url, settings.links).await?;
        let (mut plain_rates, mut beside_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let refused = Arc::<AtomicU64>::default();
        for pair in 1..=PAIRS {
            let plain = executes(&url, settings).await?;
            let forger = AbortOnDropHandle::new(tokio::spawn(forge(url.clone(), Arc::clone(&refused))));
            let beside = executes(&url, settings).await?;
            drop(forger);
            eprintln!("pair {pair}: {plain:.0}/s alone, {beside:.0}/s beside forged links");
            plain_rates.push(plain);
            beside_rates.push(beside);
            ratios.push(beside / plain.max(1e-9));
        }
        node.stop().await;
        let ratio = to_three_digits(nearest_rank(&ratios, 50));
        let [plain, beside] = [plain_rates, beside_rates].map(|rates| nearest_rank(&rates, 50).round());
        let [p50, p99] = [50, 99].map(|percent| nearest_rank(&times, percent).round());
        print_line(&format!(
            "{} uses of links, one after another: {p50} µs (p50), {p99} µs (p99); executes: {plain}/s alone, {beside}/s beside forged \
             links, {ratio} times (of {ratios:.2?}), {} refused",
            settings.links,
            refused.load(Relaxed)
        ));
        if settings.json {
            let report = json!({
                "experiment": "links", "clients": settings.clients, "seconds": settings.seconds, "links": settings.links,
                "p50_us": p50, "p99_us": p99, "plain_per_s": plain, "beside_per_s": beside, "ratio": ratio,
            });
            print_line(&report.to_string());
        }
        Ok(())
    })
    .await
}

fn waits() -> Value {
    json!({"definitionId": "waits", "root": {"type": "Elsa.Event", "id": "event", "eventName": "never"}})
}

fn hello() -> Value {
    json!({"definitionId": "hello", "root": {"type": "Elsa.WriteLine", "id": "line", "text": "hello"}})
}

async fn post(client: &reqwest::Client, url: &str, body: &Value) -> Result<Value, Failure> {
    let response = client.post(url).json(body).send().await;
    let response = response.map_err(|error| failed(&error))?;
    let status = response.status();
    let value: Value = response.json().await.map_err(|error| failed(&error))?;
    if status.is_success() {
        Ok(value)
    } else {
        Err(failed(&value))
    }
}

fn text_at<'v>(value: &'v Value, place: &str) -> &'v str {
    value.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

/// The time of each use, in microseconds, from the request to the state of its instance.
async fn uses(url: &str, links: usize) -> Result<Vec<f64>, Failure> {
    let client = client()?;
    let mut times = Vec::new();
    for _ in 0..links {
        let path = format!("{url}/elsa/api/workflow-definitions/waits/execute");
        let executed = post(&client, &path, &json!({})).await?;
        let id = text_at(&executed, "/workflowState/id");
        let path = format!("{url}/elsa/api/workflow-instances/{id}/resume-links");
        let link = post(&client, &path, &json!({})).await?;
        let link = format!("{url}{}", text_at(&link, "/url"));
        let began = Instant::now();
        let used = post(&client, &link, &json!({"input": {}})).await?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
        if text_at(&used, "/status") != "Finished" {
            return Err(failed(&used));
        }
    }
    Ok(times)
}

async fn executes(url: &str, settings: &Links) -> Result<f64, Failure> {
    let (client, url) = (client()?, format!("{url}/elsa/api/workflow-definitions/hello/execute"));
    let execute = move || {
        let (client, url) = (client.clone(), url.clone());
        async move { post(&client, &url, &json!({})).await.map(|_| 1) }
    };
    rate(settings.clients, settings.seconds, execute).await
}

/// Sends forged links, until it is dropped.
async fn forge(url: String, refused: Arc<AtomicU64>) {
    let Ok(client) = client() else { return };
    let mut pace = tokio::time::interval(FORGED_EACH);
    loop {
        pace.tick().await;
        let sent = client.post(format!("{url}/workflows/resume/{FORGED}")).json(&json!({}));
        let refused = Arc::clone(&refused);
        tokio::spawn(async move {
            if sent.send().await.is_ok_and(|response| response.status() == 404) {
                refused.fetch_add(1, Relaxed);
            }
        });
    }
}
