//! `traces`: executes over HTTP at a node that sends one trace of a hundred to a collector, against one that sends none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use mainspring::internals::{ANY_PORT, Failure, Node, Target, log_only, nearest_rank, node_options, print_line};
use serde_json::json;

use super::{LocalServer, PAIRS, client, failed, rate, to_three_digits};
use crate::rows::with_schema;
use crate::settings::Traces;

pub(crate) async fn run(target: &Target, settings: &Traces) -> Result<(), Failure> {
    let received = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&received);
    let take = move |body: Bytes| {
        counted.fetch_add(body.len() as u64, Relaxed);
        async {}
    };
    let collector = LocalServer::start(Router::new().route("/v1/traces", post(take))).await?;
    with_schema(target, async |scratch| {
        let mut options = node_options(target, scratch, log_only());
        let mut without = Node::start(&options, "node-1", ANY_PORT)?;
        without.ready().await?;
        for (name, value) in [
            ("MAINSPRING_OTLP_ENDPOINT", collector.url.clone()),
            ("MAINSPRING_OTLP_RATIO", settings.ratio.to_string()),
        ] {
            options.variables.push((name, value));
        }
        let mut with = Node::start(&options, "node-2", ANY_PORT)?;
        with.ready().await?;
        let hello = json!({"definitionId": "hello", "root": {"type": "Elsa.WriteLine", "id": "line", "text": "hello"}});
        send(&client()?, &api(&without, ""), &json!({"model": hello, "publish": true})).await?;

        let (mut rates, mut ratios) = ([vec![], vec![]], Vec::new());
        for round in 1..=PAIRS {
            let without = executes(&without, settings).await?;
            let with = executes(&with, settings).await?;
            eprintln!("round {round}: {without:.0}/s without a collector, {with:.0}/s with one");
            ratios.push(with / without.max(1e-9));
            for (rates, rate) in rates.iter_mut().zip([without, with]) {
                rates.push(rate);
            }
        }
        without.stop().await;
        with.stop().await;
        let bytes = received.load(Relaxed);
        if bytes == 0 && settings.ratio > 0.0 {
            return Err(failed(&"the collector has received nothing"));
        }
        let [without, with] = rates.map(|rates| nearest_rank(&rates, 50).round());
        let ratio = to_three_digits(nearest_rank(&ratios, 50));
        print_line(&format!(
            "executes: {without}/s without a collector, {with}/s with {} of the traces sent to one, {ratio} times (of \
             {ratios:.2?}); {bytes} bytes were sent",
            settings.ratio
        ));
        if settings.json {
            let report = json!({
                "experiment": "traces", "clients": settings.clients, "seconds": settings.seconds, "sampled": settings.ratio,
                "without_per_s": without, "with_per_s": with, "ratio": ratio, "sent_bytes": bytes,
            });
            print_line(&report.to_string());
        }
        Ok(())
    })
    .await
}

fn api(node: &Node, rest: &str) -> String {
    format!("{}/elsa/api/workflow-definitions{rest}", node.url())
}

async fn send(client: &reqwest::Client, url: &str, body: &serde_json::Value) -> Result<(), Failure> {
    let response = client
        .post(url)
        .json(body)
        .send()
        .await
        .map_err(|error| failed(&error))?;
    let response = response.error_for_status().map_err(|error| failed(&error))?;
    response.bytes().await.map_err(|error| failed(&error))?;
    Ok(())
}

async fn executes(node: &Node, settings: &Traces) -> Result<f64, Failure> {
    let (client, url) = (client()?, api(node, "/hello/execute"));
    let execute = move || {
        let (client, url) = (client.clone(), url.clone());
        async move { send(&client, &url, &json!({})).await.map(|()| 1) }
    };
    rate(settings.clients, settings.seconds, execute).await
}
