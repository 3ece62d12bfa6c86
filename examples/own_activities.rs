//! Activities of your own: one calls a service, one waits for a decision.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example own_activities` runs a workflow; with the argument
//! `serve` it serves Elsa's API on port 5001, too.

use std::io;
use std::time::Duration;

use mainspring::activity::{
    Activity, ActivityContext, BookmarkRequest, Descriptor, Fault, InputDescriptor, OutputDescriptor, Resumption, Step,
};
use mainspring::api::{self, ApiOptions};
use mainspring::runtime::{ResumeRequest, StartRequest};
use mainspring::{Engine, definition::WorkflowDefinition};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Reserves an article in the warehouse.
struct Reserve;

impl Activity for Reserve {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Shop.Reserve")
            .describe("Shop", "Reserves an article in the warehouse.")
            .input(InputDescriptor::new("Article", "String").required())
            .output(OutputDescriptor::new("Result", "String").describe("The number of the reservation."))
            .fault_category("Warehouse")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let article: String = context.read("Article")?;
        let number = reserve(&article, &context.idempotency_key())
            .await
            .map_err(|why| Fault::new(why).code("out-of-stock").category("Warehouse"))?;
        context.set_output("Result", number);
        Ok(Step::Done)
    }
}

/// Waits until a decision arrives.
struct Decide;

impl Activity for Decide {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Shop.Decide")
            .describe("Shop", "Waits for a decision.")
            .outcome("Approved")
            .outcome("Rejected")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        context.bookmark(BookmarkRequest::new(Value::Null));
        Ok(Step::Wait)
    }

    async fn resumed(&self, _: &mut ActivityContext<'_>, resumption: Resumption) -> Result<Step, Fault> {
        let is_approved = resumption.input.get("approved") == Some(&json!(true));
        Ok(Step::outcome(if is_approved { "Approved" } else { "Rejected" }))
    }
}

/// The call of a service, which returns the same reservation for the same key.
async fn reserve(article: &str, key: &str) -> Result<String, String> {
    println!("reserving {article} under the key {key}");
    match article {
        "tea" => Ok("R-1".to_owned()),
        other => Err(format!("{other} is out of stock")),
    }
}

/// A flowchart that uses both, in Elsa's JSON.
fn order() -> Value {
    let script = |text: &str| json!({"typeName": "Object", "expression": {"type": "JavaScript", "value": text}});
    let connection = |source: &str, port: &str, target: &str| json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}});
    json!({
        "definitionId": "order",
        "variables": [{"id": "reservation", "name": "Reservation", "typeName": "String"}],
        "outputs": [{"name": "Reservation", "type": "String"}],
        "root": {"id": "flow", "type": "Elsa.Flowchart",
            "activities": [
                {"id": "decide", "type": "Shop.Decide"},
                {"id": "reserve", "type": "Shop.Reserve", "article": "tea",
                    "result": {"typeName": "String", "memoryReference": {"id": "reservation"}}},
                {"id": "out", "type": "Elsa.SetOutput", "outputName": "Reservation", "outputValue": script("getReservation()")}
            ],
            "connections": [connection("decide", "Approved", "reserve"), connection("reserve", "Done", "out")]}
    })
}

/// Starts an engine that knows the activities.
pub(crate) async fn start(url: &str) -> mainspring::Result<Engine> {
    let engine = Engine::builder(url).activity(Reserve).activity(Decide).start().await?;
    engine.save(WorkflowDefinition::from_value(order())?, true).await?;
    Ok(engine)
}

/// Runs the workflow; returns its output.
pub(crate) async fn run(engine: &Engine) -> mainspring::Result<Value> {
    let started = engine
        .execute(StartRequest {
            definition_id: "order".into(),
            ..StartRequest::default()
        })
        .await?;
    println!("it is {}", started.sub_status().unwrap_or("unknown"));
    let resumed = engine
        .resume(ResumeRequest {
            instance_id: started.instance_id,
            input: [("approved".to_owned(), json!(true))].into_iter().collect(),
            ..ResumeRequest::default()
        })
        .await?;
    println!("it is {}", resumed.sub_status().unwrap_or("unknown"));
    Ok(resumed.workflow_state().get("output").cloned().unwrap_or_default())
}

/// Serves Elsa's API until the program is asked to stop.
pub(crate) async fn serve(engine: Engine, listener: TcpListener, stop: impl Future<Output = ()>) -> io::Result<()> {
    let options = ApiOptions {
        listen: listener.local_addr()?,
        ..ApiOptions::default()
    };
    let router = api::router(engine.clone(), options);
    api::serve(listener, router, stop, Duration::from_secs(20)).await?;
    engine.shutdown().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    let engine = start(&url).await?;
    println!("{}", run(&engine).await?);
    if std::env::args().nth(1).as_deref() == Some("serve") {
        let stop = async { drop(tokio::signal::ctrl_c().await) };
        serve(engine, TcpListener::bind("127.0.0.1:5001").await?, stop).await?;
    } else {
        engine.shutdown().await;
    }
    Ok(())
}
