//! `mainspring dev`: a complete local installation. It starts a private PostgreSQL, imports the samples, runs one and shows
//! its journal, and serves the API. Ctrl-C stops everything.

mod cluster;

use std::path::Path;
use std::time::Duration;

use tokio::net::TcpListener;

use super::samples;
use super::serve::{Drain, address_of, end_when_hung, serve_until_stopped, url_of};
use super::settings::{Common, Dev, is_local};
use crate::Result as EngineResult;
use crate::activity::{Console, Stdout};
use crate::api::{self, ApiOptions, ConnectionLimits, Studio};
use crate::harness::failure::Failure;
use crate::harness::print_line;
use crate::harness::private_postgres::{self, Options, PrivatePostgres};
use crate::harness::stop::{self, Shutdown};
use crate::id::{DefinitionId, InstanceId};
use crate::runtime::{Engine, JournalRecord, Page, StartRequest};

/// The drain timeout after Ctrl-C.
const DRAIN: Duration = Duration::from_secs(10);

/// How long the nodes and the server may take to stop after that.
const STOP_TIME: Duration = Duration::from_secs(45);

pub(super) async fn run(common: &Common, settings: &Dev) -> Result<(), Failure> {
    if !is_local(settings.listen) {
        return Err(Failure::usage(format!(
            "`mainspring dev` serves this machine only, and other machines can reach {}; use `mainspring serve` for that",
            settings.listen
        )));
    }
    if common.given_database_url().is_some() {
        eprintln!("`mainspring dev` uses a private PostgreSQL; the given database is not used");
    }
    let stop = stop::on_signals()?;
    stop.limit(DRAIN);
    let listeners = cluster::addresses(settings).await?;
    eprintln!("starting a private PostgreSQL in {} …", settings.data_dir.display());
    let mut postgres = tokio::select! {
        started = private_postgres::start(Options { folder: settings.data_dir.clone() }) => started?,
        () = stop.requested() => return Ok(()),
    };
    if let Some(notice) = postgres.notice() {
        eprintln!("{notice}");
    }
    let outcome = serve_on(&mut postgres, common, settings, listeners, &stop).await;
    stop.extend_limit(DRAIN + STOP_TIME).await;
    // Also after a failure.
    let stopped = postgres.stop().await.map_err(Failure::from);
    outcome.and(stopped)
}

async fn serve_on(
    postgres: &mut PrivatePostgres,
    common: &Common,
    settings: &Dev,
    listeners: Vec<TcpListener>,
    stop: &Shutdown,
) -> Result<(), Failure> {
    let studio = settings.studio.studio();
    let url = postgres.url().to_owned();
    let folder = postgres.folder().to_owned();
    let work = async {
        let starting = async {
            let builder = Engine::builder(&url).schema(&common.schema).migrate(true);
            let builder = settings.mail.apply(&common.elsa, builder);
            let engine = end_when_hung(builder).start().await?;
            let ids = samples::load(&engine).await?;
            show_first(&engine).await?;
            Ok::<_, crate::Error>((engine, ids))
        };
        let (engine, ids) = tokio::select! {
            started = starting => started?,
            () = stop.requested() => return Ok(()),
        };
        match <[TcpListener; 1]>::try_from(listeners) {
            Ok([listener]) => {
                let options = ApiOptions {
                    listen: address_of(&listener)?,
                    studio: studio.clone(),
                    studio_polls: settings.studio.polls(),
                    ..ApiOptions::default()
                };
                let base = url_of("http", options.listen);
                print_line(&format!("ready {base}"));
                print_line(&next_steps(&base, &ids, &folder));
                print_line(&studio_address(&base, studio.as_ref()));
                let drain = Drain {
                    notice: Duration::ZERO,
                    timeout: DRAIN,
                };
                let router = api::router(engine.clone(), options);
                serve_until_stopped(
                    engine,
                    listener,
                    ConnectionLimits::with_reserved_files(128),
                    router,
                    stop,
                    drain,
                )
                .await
            }
            Err(listeners) => {
                engine.shutdown().await;
                let started = cluster::Started {
                    samples: &ids,
                    folder: &folder,
                    studio: &settings.studio,
                    mail: settings.mail.variables(&common.elsa),
                };
                cluster::run(common, &url, listeners, &started, stop).await
            }
        }
    };
    tokio::select! {
        outcome = work => outcome,
        error = postgres.exited() => Err(error.into()),
    }
}

/// Runs the first sample and shows its journal.
async fn show_first(engine: &Engine) -> EngineResult<()> {
    print_line(&format!(
        "running the workflow {}, which writes:",
        samples::FIRST_SAMPLE
    ));
    let request = StartRequest {
        definition_id: DefinitionId::new(samples::FIRST_SAMPLE),
        ..StartRequest::default()
    };
    let executed = engine.execute(request).await?;
    // The workflow's lines come before ours.
    let _ = tokio::task::spawn_blocking(|| Stdout.flush(Duration::from_secs(1))).await;
    let id: InstanceId = executed.instance_id;
    let journal = engine.journal(&id, Page::default()).await?;
    print_line(&format!(
        "its journal, from GET /elsa/api/workflow-instances/{id}/journal:"
    ));
    for line in table(&journal.items) {
        print_line(&line);
    }
    Ok(())
}

fn table(records: &[JournalRecord]) -> Vec<String> {
    let head = ["#", "activity", "type", "event"].map(str::to_owned);
    let row = |record: &JournalRecord| {
        let event = record.event_name.clone().unwrap_or_default();
        [
            record.sequence.to_string(),
            record.activity_id.clone(),
            record.activity_type.clone(),
            event,
        ]
    };
    let rows: Vec<[String; 4]> = std::iter::once(head).chain(records.iter().map(row)).collect();
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |row: &[String; 4]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}", cells.collect::<Vec<_>>().join("  "))
            .trim_end()
            .to_owned()
    };
    rows.iter().map(line).collect()
}

/// The last line: where Elsa Studio is, or how to install it.
fn studio_address(base: &str, studio: Option<&Studio>) -> String {
    match studio {
        Some(studio) if studio.installed().is_some() => format!("\nElsa Studio: {base}/studio"),
        Some(_) => format!("\nTo have Elsa Studio at {base}/studio: mainspring studio install"),
        None => String::new(),
    }
}

/// Commands to paste into another terminal.
fn next_steps(base: &str, samples: &[String], folder: &Path) -> String {
    let api = format!("{base}/elsa/api");
    let samples = samples.join(", ");
    let folder = folder.display();
    let own = r#"{"publish": true, "model": {"definitionId": "mine", "root": {"id": "say", "type": "Elsa.WriteLine",
    "text": {"typeName": "String", "expression": {"type": "JavaScript", "value": "`Hello ${getInput(\"Name\")}`"}}}}}"#;
    let json = "-H 'Content-Type: application/json'";
    format!(
        r#"
Published: {samples}. To try in another terminal:

  # run a workflow
  curl -X POST {api}/workflow-definitions/{first}/execute

  # call one that is behind a URL
  curl {base}/workflows/greetings/Ada

  # start one that waits for a review of a large order, and review it
  curl -X POST {api}/workflow-definitions/order-approval/execute {json} \
    -d '{{"input": {{"OrderId": "42", "Amount": 5000}}}}'
  curl -X POST {api}/events/OrderReviewed/trigger {json} \
    -d '{{"correlationId": "42", "input": {{"approved": true}}}}'

  # publish your own and run it
  curl -X POST {api}/workflow-definitions {json} -d '{own}'
  curl -X POST {api}/workflow-definitions/mine/execute {json} -d '{{"input": {{"Name": "world"}}}}'

  # list the instances
  curl {api}/workflow-instances

The data is in {folder}; Ctrl-C stops everything and keeps it."#,
        first = samples::FIRST_SAMPLE,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bodies_of_the_commands_are_json() {
        let text = next_steps("http://h", &["a".to_owned()], Path::new("f"));
        let bodies: Vec<serde_json::Value> = text
            .split("-d '")
            .skip(1)
            .map(|rest| serde_json::from_str(rest.split_once('\'').unwrap().0).unwrap())
            .collect();
        assert_eq!(bodies.len(), 4, "{text}");
        let own = crate::definition::WorkflowDefinition::from_value(bodies[2]["model"].clone()).unwrap();
        assert_eq!(own.definition_id.as_str(), "mine");
    }

    #[test]
    fn a_table_has_aligned_columns() {
        let record = |sequence: i64, activity: &str| JournalRecord {
            id: String::new(),
            activity_instance_id: String::new(),
            parent_activity_instance_id: None,
            activity_id: activity.to_owned(),
            activity_type: "Elsa.WriteLine".to_owned(),
            activity_type_version: 1,
            activity_name: None,
            node_id: String::new(),
            timestamp: chrono::DateTime::UNIX_EPOCH,
            sequence,
            event_name: Some("Started".to_owned()),
            message: None,
            source: None,
            activity_state: None,
            payload: None,
        };
        assert_eq!(
            table(&[record(1, "a"), record(10, "long-activity")]),
            [
                "  #   activity       type            event",
                "  1   a              Elsa.WriteLine  Started",
                "  10  long-activity  Elsa.WriteLine  Started",
            ]
        );
    }
}
