//! A node is killed while it runs a workflow: another one runs the burst again, with the same idempotency key.
//!
//! `DATABASE_URL=postgres://user:password@localhost/name cargo run --example take_over`

use std::process::Stdio;
use std::time::Duration;

use mainspring::activity::{Activity, ActivityContext, Descriptor, Fault, Step};
use mainspring::runtime::StartRequest;
use mainspring::{Engine, definition::WorkflowDefinition};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Charges a card; on the node that will be killed it does not return.
struct Charge {
    hangs: bool,
}

impl Activity for Charge {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Charge")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        // A payment service that is given the key charges once.
        println!(
            "attempt {} under the key {}",
            context.attempt(),
            context.idempotency_key()
        );
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Ok(Step::Done)
    }
}

async fn start(hangs: bool) -> mainspring::Result<Engine> {
    let url = std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://localhost/postgres".to_owned());
    let engine = Engine::builder(url).activity(Charge { hangs }).start().await?;
    let payment = br#"{"definitionId": "payment", "root": {"type": "Charge", "id": "charge"}}"#;
    engine.save(WorkflowDefinition::from_json(payment)?, true).await?;
    Ok(engine)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("hang") {
        let engine = start(true).await?;
        let payment = StartRequest {
            definition_id: "payment".into(),
            instance_id: Some("payment-1".into()),
            ..StartRequest::default()
        };
        engine.dispatch(payment).await?;
        return std::future::pending().await;
    }
    // The first node is this program once more, in a process of its own.
    let mut first = Command::new(std::env::current_exe()?)
        .arg("hang")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = first.stdout.take().ok_or("the first node has no output")?;
    if let Some(line) = BufReader::new(output).lines().next_line().await? {
        println!("first: {line}");
    }
    first.kill().await?;
    let second = start(false).await?;
    while second.instance(&"payment-1".into()).await?.summary.status != "Finished" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    second.shutdown().await;
    Ok(())
}
