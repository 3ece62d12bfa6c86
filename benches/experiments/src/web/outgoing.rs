//! `outgoing`: requests of SendHttpRequest to a server of this process, against those of a client alone.

use axum::Router;
use axum::routing::get;
use mainspring::Engine;
use mainspring::definition::WorkflowDefinition;
use mainspring::internals::{Failure, Target, nearest_rank, print_line};
use serde_json::{Value, json};

use super::{LocalServer, PAIRS, client, failed, rate, to_three_digits};
use crate::engines::{EngineOptions, start};
use crate::rows::with_schema;
use crate::settings::Outgoing;

pub(crate) async fn run(target: &Target, settings: &Outgoing) -> Result<(), Failure> {
    let server = LocalServer::start(Router::new().route("/", get(async || "hello"))).await?;
    with_schema(target, async |scratch| {
        let engines = EngineOptions::new(scratch, 1).start().await?;
        engines.publish(&[definition(&server.url, settings.requests)?]).await?;
        let engine = engines.first()?;
        let (mut plain_rates, mut workflow_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 1..=PAIRS {
            let alone = client_rate(&server.url, settings).await?;
            let own = workflow_rate(engine, settings).await?;
            eprintln!("pair {pair}: the client alone {alone:.0}/s, workflows {own:.0}/s");
            plain_rates.push(alone);
            workflow_rates.push(own);
            ratios.push(own / alone.max(1e-9));
        }
        engines.end().await;
        let ratio = to_three_digits(nearest_rank(&ratios, 50));
        let [alone, own] = [plain_rates, workflow_rates].map(|rates| nearest_rank(&rates, 50).round());
        print_line(&format!(
            "{} at once, {} requests a workflow: the client alone {alone} requests/s, workflows {own} requests/s, {ratio} times \
             (of {ratios:.2?})",
            settings.clients, settings.requests
        ));
        if settings.json {
            let report = json!({
                "experiment": "outgoing", "clients": settings.clients, "seconds": settings.seconds,
                "requests": settings.requests, "client_per_s": alone, "workflows_per_s": own, "ratio": ratio,
            });
            print_line(&report.to_string());
        }
        Ok(())
    })
    .await
}

/// A workflow that sends so many requests, one after another.
fn definition(url: &str, requests: usize) -> Result<WorkflowDefinition, Failure> {
    let send = |number: usize| json!({"type": "Elsa.SendHttpRequest", "id": format!("send-{number}"), "url": url, "method": "GET"});
    let activities: Vec<Value> = (0..requests).map(send).collect();
    let root = json!({"type": "Elsa.Sequence", "id": "root", "activities": activities});
    let model = json!({"definitionId": "outgoing", "root": root});
    Ok(WorkflowDefinition::from_value(model)?)
}

async fn client_rate(url: &str, settings: &Outgoing) -> Result<f64, Failure> {
    let (client, url) = (client()?, url.to_owned());
    let send = move || {
        let request = client.get(&url);
        async move {
            let response = request.send().await.map_err(|error| failed(&error))?;
            let text = response.text().await.map_err(|error| failed(&error))?;
            if text == "hello" { Ok(1) } else { Err(failed(&text)) }
        }
    };
    rate(settings.clients, settings.seconds, send).await
}

async fn workflow_rate(engine: &Engine, settings: &Outgoing) -> Result<f64, Failure> {
    let (engine, requests) = (engine.clone(), settings.requests as u64);
    let execute = move || {
        let engine = engine.clone();
        async move {
            let executed = engine.execute(start("outgoing", None)).await?;
            match executed.sub_status() {
                Some("Finished") => Ok(requests),
                other => Err(failed(&format!("an instance is {other:?}"))),
            }
        }
    };
    rate(settings.clients, settings.seconds, execute).await
}
