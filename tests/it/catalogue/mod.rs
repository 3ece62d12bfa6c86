//! Every activity of the catalogue, by port and mode, on nodes that change at every suspension; and the definitions of Elsa.

mod elsa_files;

use std::collections::{BTreeMap, BTreeSet};

use mainspring::Engine;
use mainspring::activity::Catalogue;
use mainspring::runtime::{EventRequest, StartRequest};
use serde_json::{Value, json};

use crate::support::cases::{Case, Step, cases};
use crate::support::engine::{save, start_as};
use crate::support::{TestDatabase, wait_until};

/// What became of an instance.
#[derive(Debug, PartialEq)]
struct Played {
    sub_status: String,
    lines: Vec<String>,
    /// Activity, event and outcomes, in the order of the journal.
    journal: Vec<String>,
    output: Value,
}

async fn worker(database: &TestDatabase, number: usize) -> Engine {
    let builder = Engine::builder(database.url()).node_id(format!("worker-{}", number % 3));
    builder.start().await.unwrap()
}

async fn apply(engine: &Engine, database: &TestDatabase, case: &Case, step: &Step) {
    match step {
        Step::Event(name, payload) => {
            let event = EventRequest {
                name: (*name).to_owned(),
                input: Some(payload.clone()),
                instance_id: Some(case.name.into()),
                ..EventRequest::default()
            };
            engine.trigger_event(event).await.unwrap();
        }
        Step::Task(result) => {
            let tasks = engine.tasks(None, 1000).await.unwrap().items;
            let of_case = tasks
                .iter()
                .find(|task| task.workflow_instance_id.as_str() == case.name);
            let id = &of_case
                .unwrap_or_else(|| panic!("{} waits for no task", case.name))
                .task_id;
            engine.complete_task(id, result.clone(), None).await.unwrap();
        }
        Step::Due => {
            let due = "UPDATE mainspring.timer SET due = now(), available_at = now() WHERE instance_id = $1";
            let client = database.connect().await;
            assert_eq!(
                client.execute(due, &[&case.name]).await.unwrap(),
                1,
                "{} waits for a time",
                case.name
            );
        }
    }
}

/// Plays all cases. With `moves` each wait ends on another node than the one on which it began: one node works at a time, and
/// the next one takes its place once everything waits.
async fn play(cases: &[Case], moves: bool) -> BTreeMap<&'static str, Played> {
    let database = TestDatabase::create().await;
    let client = database.connect().await;
    let builder = Engine::builder(database.url()).node_id("requests").workers(0);
    let requests = builder.start().await.unwrap();
    for case in cases {
        if let Some(used) = &case.uses {
            save(&requests, used.clone()).await;
        }
        save(&requests, case.definition.clone()).await;
    }
    let mut working = worker(&database, 0).await;
    for case in cases {
        let start = StartRequest {
            correlation_id: Some("c".to_owned()),
            ..start_as(case.name, case.name)
        };
        requests.dispatch(start).await.unwrap();
    }
    let rounds = cases.iter().map(|case| case.steps.len()).max().unwrap_or(0);
    for round in 0..=rounds {
        let left = "SELECT (SELECT count(*) FROM mainspring.work) + (SELECT count(*) FROM mainspring.fan_out WHERE finished_at IS NULL)
                         + (SELECT count(*) FROM mainspring.timer WHERE due <= now())";
        wait_until("everything to wait or to end", async || {
            client.count(left).await == 0 && client.rows("instance").await >= cases.len() as i64
        })
        .await;
        if round == rounds {
            break;
        }
        if moves {
            let next = worker(&database, round + 1).await;
            working.shutdown().await;
            working = next;
        }
        for case in cases {
            if let Some(step) = case.steps.get(round) {
                let id = case.name.into();
                let detail = requests.instance(&id).await.unwrap();
                assert_eq!(
                    detail.summary.sub_status, "Suspended",
                    "{} before its step {round}: {:?}",
                    case.name, detail.workflow_state
                );
                apply(&requests, &database, case, step).await;
            }
        }
    }
    let mut played = BTreeMap::new();
    for case in cases {
        let detail = requests.instance(&case.name.into()).await.unwrap();
        let entries = client
            .query(
                "SELECT activity_id || ' ' || event_name || ' ' || coalesce(payload->>'Outcomes', ''), activity_type, event_name,
                        activity_state->>'Text'
                 FROM mainspring.journal WHERE instance_id = $1 ORDER BY sequence",
                &[&case.name],
            )
            .await
            .unwrap();
        let is_line = |row: &&tokio_postgres::Row| {
            row.get::<_, &str>(1) == "Elsa.WriteLine" && row.get::<_, &str>(2) == "Completed"
        };
        let lines = entries
            .iter()
            .filter(is_line)
            .map(|row| row.get::<_, Option<String>>(3).unwrap_or_default());
        let one = Played {
            sub_status: detail.summary.sub_status,
            lines: lines.collect(),
            journal: entries.iter().map(|row| row.get(0)).collect(),
            output: detail.workflow_state["output"].clone(),
        };
        played.insert(case.name, one);
    }
    working.shutdown().await;
    requests.shutdown().await;
    assert_eq!(mainspring::check(&database.url(), "mainspring").await.unwrap(), []);
    played
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_ends_the_same_on_one_node_and_on_nodes_that_change() {
    let cases = cases();
    let (still, moved) = (play(&cases, false).await, play(&cases, true).await);
    for case in &cases {
        let (still, moved) = (&still[case.name], &moved[case.name]);
        assert_eq!(still.sub_status, case.sub_status, "{}: {still:?}", case.name);
        assert_eq!(still.lines, case.lines, "{}", case.name);
        assert_eq!(still.output, case.output, "{}", case.name);
        assert_eq!(still, moved, "{}", case.name);
    }
}

/// The types in a definition.
fn types_in(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = fields.get("type").and_then(Value::as_str) {
                found.insert(name.to_owned());
            }
            fields.values().for_each(|field| types_in(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| types_in(item, found)),
        _ => {}
    }
}

#[test]
fn every_activity_type_has_a_case_that_waits() {
    let mut covered = BTreeSet::from(["Elsa.Workflow".to_owned()]);
    // What has to do with clients and servers: `it::http`, `it::mail`, and beside the code.
    let http = [
        "HttpEndpoint",
        "WriteHttpResponse",
        "WriteFileHttpResponse",
        "SendHttpRequest",
        "FlowSendHttpRequest",
        "DownloadHttpFile",
        "SendEmail",
    ];
    covered.extend(http.map(|name| format!("Elsa.{name}")));
    let mut names = BTreeSet::new();
    for case in cases() {
        assert!(names.insert(case.name), "{} twice", case.name);
        assert!(!case.steps.is_empty(), "{} changes its node", case.name);
        types_in(&case.definition, &mut covered);
    }
    let catalogue = Catalogue::standard();
    let all: BTreeSet<&str> = catalogue
        .descriptors()
        .iter()
        .map(|descriptor| &*descriptor.type_name)
        .collect();
    let missing: Vec<&&str> = all.iter().filter(|name| !covered.contains(**name)).collect();
    assert!(missing.is_empty(), "no case has {missing:?}");
    assert_ne!(json!(all), json!([]));
}
