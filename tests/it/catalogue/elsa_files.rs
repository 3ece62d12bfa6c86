//! Elsa's own definitions, each with its outcome, where their folder is there.
//!
//! They are looked for beside the repository (`shared/elsa/workflows`), or where `MAINSPRING_ELSA_WORKFLOWS` names their
//! folder. A file that has no line here fails the test, and so does a pending one that has its outcome already.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use futures_util::{FutureExt, StreamExt};
use mainspring::Engine;
use mainspring::definition::WorkflowDefinition;
use mainspring::runtime::InstanceFilter;
use mainspring::runtime::Page;
use serde_json::{Value, json};

use crate::support::engine::start;
use crate::support::{Connection, LONG_TIMEOUT, TestDatabase, poll_until, wait_until};

/// Comes with HTTP.
const HTTP: Option<&str> = Some("HTTP activities belong to a later issue");

/// The files of one outcome, imported and published in this order, and why the outcome is pending.
const OUTCOMES: [(&[&str], Option<&str>); 16] = [
    (&["hello-world"], None),
    (&["implicit-loop"], None),
    (&["join-all-1"], None),
    (&["flowchart-1"], None),
    (&["flowchart-3-delay"], None),
    (&["flowchart-5-event"], None),
    (&["fork-decision-join-none"], None),
    (&["decision-merge-join-none"], None),
    (&["parallel-join"], None),
    (&["http-hello-world"], HTTP),
    (&["timer-workflow"], None),
    (&["cron-every-hour"], None),
    (&["bad-cron-expression"], None),
    (&["parent-child-child", "parent-child-parent"], None),
    (&["child-workflow", "parent-with-wait"], None),
    (&["provider", "consumer"], None),
];

/// The folder of the definitions; none: it is not there. One that is named and not there is an error.
fn folder() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("MAINSPRING_ELSA_WORKFLOWS") {
        let named = PathBuf::from(named);
        assert!(
            named.is_dir(),
            "MAINSPRING_ELSA_WORKFLOWS names no folder: {}",
            named.display()
        );
        return Some(named);
    }
    let home = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folders = ["../shared/elsa/workflows", "../../shared/elsa/workflows"];
    folders
        .iter()
        .map(|folder| home.join(folder))
        .find(|folder| folder.is_dir())
}

/// The cluster of one outcome: two nodes.
struct Nodes {
    one: Engine,
    two: Engine,
    database: TestDatabase,
    client: Connection,
}

impl Nodes {
    async fn start() -> Self {
        let database = TestDatabase::create().await;
        // On a busy machine a start may meet a timeout: it is made again, as a program would.
        let node = async |name: &'static str| {
            poll_until(LONG_TIMEOUT, "a node to start", async || {
                read_by(async || Engine::builder(database.url()).node_id(name).start().await).await
            })
            .await
        };
        let (one, two) = (node("one").await, node("two").await);
        let client = database.connect().await;
        Self {
            one,
            two,
            database,
            client,
        }
    }

    /// What the lines of all instances print, in order.
    async fn lines(&self) -> Vec<String> {
        let query = "SELECT coalesce(activity_state->>'Text', '') FROM mainspring.journal
                     WHERE activity_type = 'Elsa.WriteLine' AND event_name = 'Completed' ORDER BY happened_at, instance_id, sequence";
        let rows = self.client.query(query, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn finishes(&self, definition: &str) -> Value {
        let executed = self.one.execute(start(definition)).await.unwrap();
        poll_until(LONG_TIMEOUT, "the instance to finish", async || {
            let detail = read_by(async || self.two.instance(&executed.instance_id).await).await?;
            assert_ne!(
                detail.summary.sub_status, "Faulted",
                "{:?}",
                detail.workflow_state["incidents"]
            );
            (detail.summary.sub_status == "Finished").then_some(detail.workflow_state)
        })
        .await
    }
}

/// What a node reads; none: it is too busy to read, and the caller polls again.
async fn read_by<T>(read: impl AsyncFnOnce() -> mainspring::Result<T>) -> Option<T> {
    match read().await {
        Ok(read) => Some(read),
        Err(error) if error.is_transient() => None,
        Err(error) => panic!("{error}"),
    }
}

fn read(file: &str) -> WorkflowDefinition {
    let path = folder().unwrap().join(format!("{file}.json"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    WorkflowDefinition::from_json(&bytes).unwrap()
}

async fn run(files: &'static [&'static str]) {
    let nodes = Nodes::start().await;
    let name = *files.last().unwrap();
    let mut definitions: Vec<WorkflowDefinition> = files.iter().map(|file| read(file)).collect();
    let id = definitions.last().unwrap().definition_id.as_str().to_owned();
    if ["fork-decision-join-none", "decision-merge-join-none", "parallel-join"].contains(&name) {
        for definition in &mut definitions {
            let mode = ("Flowchart:ExecutionMode".to_owned(), json!("TokenBased"));
            definition.custom_properties.extend([mode]);
        }
    }
    if name == "bad-cron-expression" {
        let refused = nodes.one.save(definitions.remove(0), true).await.unwrap_err();
        let errors = refused.fields();
        assert_eq!(errors.len(), 1, "{refused:?}");
        assert!(errors[0].1.to_lowercase().contains("second"), "{errors:?}");
        return nodes.end().await;
    }
    for definition in definitions {
        let published = nodes.one.save(definition, true).await;
        published.unwrap_or_else(|error| panic!("{name} is not published: {error} {:?}", error.fields()));
    }
    match name {
        "hello-world" => {
            nodes.finishes(&id).await;
            assert_eq!(nodes.lines().await, ["Hello World!"]);
        }
        "implicit-loop" => {
            nodes.finishes(&id).await;
            assert_eq!(nodes.lines().await, ["Do something", "Retry", "Do something", "Done"]);
        }
        "join-all-1" => {
            nodes.finishes(&id).await;
            assert_eq!(nodes.lines().await, ["Start", "Line 1", "Line 2", "End"]);
        }
        "flowchart-1" | "decision-merge-join-none" | "parent-child-parent" => drop(nodes.finishes(&id).await),
        "flowchart-3-delay" => {
            let executed = nodes.one.execute(start(&id)).await.unwrap();
            assert_eq!(executed.sub_status(), Some("Suspended"));
            // The other node goes on.
            nodes.one.shutdown().await;
            wait_until("the delays to end", async || {
                nodes.client.rows("instance WHERE sub_status = 3").await == 1
            })
            .await;
            let mut lines = nodes.lines().await;
            lines.sort();
            assert_eq!(lines, (1..=9).map(|n| format!("WriteLine{n}")).collect::<Vec<_>>());
        }
        "flowchart-5-event" => {
            let executed = nodes.one.execute(start(&id)).await.unwrap();
            assert_eq!(executed.sub_status(), Some("Suspended"));
            let event = crate::support::engine::event("Event4", json!(null));
            nodes.two.trigger_event(event).await.unwrap();
            wait_until("the event to end it", async || {
                nodes.client.rows("instance WHERE sub_status = 3").await == 1
            })
            .await;
        }
        "fork-decision-join-none" => {
            nodes.finishes(&id).await;
            assert_eq!(nodes.lines().await, ["A", "C"]);
        }
        "parallel-join" => {
            nodes.finishes(&id).await;
            let once = "journal WHERE activity_id = '70fc1183cd5800f2' AND event_name = 'Completed'";
            assert_eq!(nodes.client.rows(once).await, 1);
        }
        "timer-workflow" => nodes.fires_each_minute(&id).await,
        "cron-every-hour" => assert_eq!(nodes.client.rows("schedule").await, 1),
        "parent-with-wait" => {
            nodes.finishes(&id).await;
            // The order of two instances is that of their commits: two nodes may date what they did a little late.
            let (of_child, of_parent): (Vec<_>, Vec<_>) = nodes
                .lines()
                .await
                .into_iter()
                .partition(|line| line.starts_with("Child"));
            assert_eq!(of_parent, ["Parent: Before child", "Parent: After child"]);
            assert_eq!(of_child, ["Child: Executing"]);
        }
        "consumer" => {
            let state = nodes.finishes(&id).await;
            let instance = state["id"].as_str().unwrap().into();
            let variables = poll_until(LONG_TIMEOUT, "the variables", async || {
                read_by(async || nodes.two.instance_variables(&instance).await).await
            })
            .await;
            assert!(
                variables.iter().any(|variable| variable.value == "Hello World!"),
                "{variables:?}"
            );
        }
        other => panic!("{other} has no outcome"),
    }
    nodes.end().await;
}

impl Nodes {
    /// Two minutes pass but for a second, as the schedule has it; each starts one instance in the whole cluster.
    async fn fires_each_minute(&self, definition: &str) {
        let gap = "SELECT extract(epoch FROM max(next_fire) - now())::bigint FROM mainspring.schedule";
        assert!(
            (0..=60).contains(&self.client.count(gap).await),
            "the first one is due within a minute"
        );
        let filter = InstanceFilter {
            definition_ids: vec![definition.into()],
            ..InstanceFilter::default()
        };
        for minute in 1..=2_u64 {
            // An occurrence fires once, so the second one is not moved to the place of the first.
            let seconds = 61 - minute;
            let passes = format!(
                "UPDATE mainspring.schedule SET version = version + 1, anchor = anchor - interval '{seconds} seconds',
                     next_occurrence = next_occurrence - interval '{seconds} seconds',
                     next_fire = next_fire - interval '{seconds} seconds',
                     last_occurrence = last_occurrence - interval '{seconds} seconds'"
            );
            self.client.run(&passes).await;
            wait_until("the instance of the minute", async || {
                let Some(listed) = read_by(async || self.two.instances(&filter, Page::default()).await).await else {
                    return false;
                };
                assert!(listed.total_count <= minute, "{minute}: {}", listed.total_count);
                listed.total_count == minute && self.lines().await.len() as u64 == minute
            })
            .await;
        }
        assert_eq!(self.lines().await, ["Hello from timer"; 2]);
    }

    async fn end(self) {
        self.one.shutdown().await;
        self.two.shutdown().await;
        assert_eq!(mainspring::check(&self.database.url(), "mainspring").await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_definition_of_elsa_has_its_outcome() {
    let Some(folder) = folder() else { return };
    let known: BTreeSet<String> = OUTCOMES
        .iter()
        .flat_map(|(files, _)| files.iter().map(|file| (*file).to_owned()))
        .collect();
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let json = names.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let present: BTreeSet<String> = json
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(present, known, "each file of the folder has an outcome here");
    let outcomes = futures_util::stream::iter(OUTCOMES).map(|(files, pending)| async move {
        // A panic is an outcome that is not there.
        (files, pending, AssertUnwindSafe(run(files)).catch_unwind().await)
    });
    let outcomes: Vec<_> = outcomes.buffer_unordered(3).collect().await;
    let mut wrong = Vec::new();
    for (files, pending, outcome) in outcomes {
        match (pending, outcome) {
            (None, Err(panic)) => {
                let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                wrong.push(format!("{files:?} does not run: {message}"));
            }
            (Some(reason), Ok(())) => wrong.push(format!("{files:?} runs, but is pending: {reason}")),
            (Some(reason), Err(_)) => println!("{files:?} is pending: {reason}"),
            (None, Ok(())) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
