//! `uploads`: megabytes per second of large bodies to a workflow that reads their size, against a handler that reads them.

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use futures_util::StreamExt;
use mainspring::internals::{Client, Failure, Target, nearest_rank, print_line};
use serde_json::json;

use super::{LocalServer, PAIRS, client, failed, rate, to_three_digits};
use crate::rows::{memory_of, start_node, with_schema};
use crate::settings::Uploads;

const MEGABYTE: usize = 1_000_000;

pub(crate) async fn run(target: &Target, settings: &Uploads) -> Result<(), Failure> {
    let plain = LocalServer::start(Router::new().route("/upload", post(size))).await?;
    with_schema(target, async |scratch| {
        let mut node = start_node(target, scratch).await?;
        let api = Client::new(&node.url());
        api.publish(&definition()).await?;
        let before = memory_of(&node, "VmRSS:")?;
        let (plain, workflow) = (format!("{}/upload", plain.url), format!("{}/workflows/upload", node.url()));
        let (mut plain_rates, mut workflow_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 1..=PAIRS {
            let alone = rate_of(&plain, settings).await?;
            let own = rate_of(&workflow, settings).await?;
            eprintln!("pair {pair}: a handler {alone:.0} MB/s, a workflow {own:.0} MB/s");
            plain_rates.push(alone);
            workflow_rates.push(own);
            ratios.push(own / alone.max(1e-9));
        }
        let memory = memory_of(&node, "VmHWM:")? - before;
        node.stop().await;
        let ratio = to_three_digits(nearest_rank(&ratios, 50));
        let [alone, own] = [plain_rates, workflow_rates].map(|rates| nearest_rank(&rates, 50).round());
        print_line(&format!(
            "bodies of {} MB, {} clients: a handler {alone} MB/s, a workflow {own} MB/s, {ratio} times (of {ratios:.2?}); \
             memory of the node {memory:+.0} MB",
            settings.megabytes, settings.clients
        ));
        if settings.json {
            let report = json!({
                "experiment": "uploads", "clients": settings.clients, "seconds": settings.seconds,
                "megabytes": settings.megabytes, "handler_mb_per_s": alone, "workflow_mb_per_s": own, "ratio": ratio,
                "memory_mb": memory.round(),
            });
            print_line(&report.to_string());
        }
        Ok(())
    })
    .await
}

/// Reads a body and gives its size.
async fn size(body: Body) -> String {
    let mut stream = body.into_data_stream();
    let mut size = 0;
    while let Some(Ok(chunk)) = stream.next().await {
        size += chunk.len();
    }
    size.to_string()
}

fn definition() -> serde_json::Value {
    let output = json!({"typeName": "Object", "memoryReference": {"id": "body"}});
    let size = json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": "String(getBody().length)"}});
    json!({"definitionId": "upload", "root": {
        "type": "Elsa.Sequence", "id": "root", "variables": [{"id": "body", "name": "Body", "typeName": "Object"}],
        "activities": [
            {"type": "Elsa.HttpEndpoint", "id": "in", "path": "upload", "parsedContent": output,
             "supportedMethods": {"typeName": "String[]", "expression": {"type": "Object", "value": "[\"POST\"]"}},
             "customProperties": {"canStartWorkflow": true}},
            {"type": "Elsa.WriteHttpResponse", "id": "out", "content": size},
        ]
    }})
}

/// Megabytes per second of whole uploads to a URL.
async fn rate_of(url: &str, settings: &Uploads) -> Result<f64, Failure> {
    let size = settings.megabytes * MEGABYTE;
    let (client, url, megabytes) = (client()?, url.to_owned(), settings.megabytes as u64);
    // Its requests share it.
    let body = axum::body::Bytes::from(vec![b'x'; size]);
    let upload = move || {
        let request = client.post(&url).header("content-type", "application/octet-stream");
        let request = request.body(body.clone());
        async move {
            let response = request.send().await.map_err(|error| failed(&error))?;
            let status = response.status();
            let text = response.text().await.map_err(|error| failed(&error))?;
            if text != size.to_string() {
                return Err(failed(&format!("{status} {text}")));
            }
            Ok(megabytes)
        }
    };
    rate(settings.clients, settings.seconds, upload).await
}
