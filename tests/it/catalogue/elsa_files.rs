//! Elsa's own definitions, each with its outcome, where their folder is there.
//!
//! They are looked for beside the repository (`shared/elsa/workflows`), or where `MAINSPRING_ELSA_WORKFLOWS` names their
//! folder. Each outcome is a test of its own, and a file that belongs to none fails one.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use mainspring::Engine;
use mainspring::api::{ApiOptions, router, serve};
use mainspring::definition::WorkflowDefinition;
use mainspring::runtime::{Executed, Idempotency, InstanceFilter, Page, StartRequest};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::elsa_workflows::elsa_workflows;
use crate::support::engine::start;
use crate::support::{Connection, LONG_TIMEOUT, TestDatabase, client_builder, poll_until};

/// A test for each outcome, with the files that it imports and publishes, in this order.
macro_rules! outcomes {
    ($($test:ident: $($file:literal),+;)+) => {
        /// All files that have an outcome.
        const FILES: &[&str] = &[$($($file),+),+];

        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            if elsa_workflows().is_some() {
                run(&[$($file),+]).await;
            }
        })+
    };
}

outcomes! {
    hello_world: "hello-world";
    implicit_loop: "implicit-loop";
    join_all: "join-all-1";
    flowchart: "flowchart-1";
    flowchart_with_delays: "flowchart-3-delay";
    flowchart_with_an_event: "flowchart-5-event";
    fork_decision_join: "fork-decision-join-none";
    decision_merge_join: "decision-merge-join-none";
    parallel_join: "parallel-join";
    http_hello_world_answers: "http-hello-world";
    timer_fires_each_minute: "timer-workflow";
    cron_has_its_schedule: "cron-every-hour";
    bad_cron_expression_is_refused: "bad-cron-expression";
    child_of_a_child: "parent-child-child", "parent-child-parent";
    parent_waits_for_its_child: "child-workflow", "parent-with-wait";
    consumer_of_a_provider: "provider", "consumer";
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

    /// Publishes a definition; a transient failure of a busy machine is met by another try.
    async fn publish(&self, definition: &WorkflowDefinition) {
        poll_until(LONG_TIMEOUT, "the definition to be published", async || {
            read_by(async || self.one.save(definition.clone(), true).await).await
        })
        .await;
    }

    /// The error of a definition that cannot be published.
    async fn refuses(&self, definition: &WorkflowDefinition) -> mainspring::Error {
        poll_until(LONG_TIMEOUT, "the definition to be refused", async || {
            let refused = self.one.save(definition.clone(), true).await.unwrap_err();
            (!refused.is_transient()).then_some(refused)
        })
        .await
    }

    /// Starts one instance, however often it is tried.
    async fn execute(&self, definition: &str) -> Executed {
        let request = StartRequest {
            instance_id: Some("the-instance".into()),
            idempotency: Some(Idempotency {
                key: "the-start".to_owned(),
                fingerprint: [0; 32],
            }),
            ..start(definition)
        };
        poll_until(LONG_TIMEOUT, "the start to be answered", async || {
            read_by(async || self.one.execute(request.clone()).await).await
        })
        .await
    }

    /// Until all instances have a sub-status.
    async fn reaches(&self, sub_status: &str) {
        poll_until(LONG_TIMEOUT, sub_status, async || {
            let listed =
                read_by(async || self.two.instances(&InstanceFilter::default(), Page::default()).await).await?;
            let all = !listed.items.is_empty() && listed.items.iter().all(|instance| instance.sub_status == sub_status);
            all.then_some(())
        })
        .await;
    }

    async fn finishes(&self, definition: &str) -> Value {
        let executed = self.execute(definition).await;
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
        Err(error) => panic!("{error} {:?}", error.fields()),
    }
}

fn read(file: &str) -> WorkflowDefinition {
    let path = elsa_workflows().unwrap().join(format!("{file}.json"));
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
        let refused = nodes.refuses(&definitions[0]).await;
        let errors = refused.fields();
        assert_eq!(errors.len(), 1, "{refused:?}");
        assert!(errors[0].1.to_lowercase().contains("second"), "{errors:?}");
        return nodes.end().await;
    }
    for definition in &definitions {
        nodes.publish(definition).await;
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
            nodes.execute(&id).await;
            // The other node continues.
            nodes.one.shutdown().await;
            nodes.reaches("Finished").await;
            let mut lines = nodes.lines().await;
            lines.sort();
            assert_eq!(lines, (1..=9).map(|n| format!("WriteLine{n}")).collect::<Vec<_>>());
        }
        "flowchart-5-event" => {
            nodes.execute(&id).await;
            nodes.reaches("Suspended").await;
            let event = crate::support::engine::event("Event4", json!(null));
            poll_until(LONG_TIMEOUT, "the event to be accepted", async || {
                read_by(async || nodes.two.trigger_event(event.clone()).await).await
            })
            .await;
            nodes.reaches("Finished").await;
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
        "http-hello-world" => {
            let route = "trigger WHERE name = 'Elsa.HttpEndpoint' AND payload->>'method' = 'get'";
            assert_eq!(nodes.client.rows(route).await, 1);
            nodes.says_hello_at("hello-world").await;
        }
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

/// Serves a node; its address.
async fn served(engine: &Engine) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listen = listener.local_addr().unwrap();
    let options = ApiOptions {
        listen,
        ..ApiOptions::default()
    };
    let routes = router(engine.clone(), options);
    tokio::spawn(serve(listener, routes, std::future::pending(), Duration::ZERO));
    listen
}

impl Nodes {
    /// Each node answers a GET, and nothing else.
    async fn says_hello_at(&self, path: &str) {
        let client = client_builder().timeout(LONG_TIMEOUT).build().unwrap();
        for engine in [&self.one, &self.two] {
            let url = format!("http://{}/workflows/{path}", served(engine).await);
            // 503 is a transient failure of a busy machine.
            let (status, text) = poll_until(LONG_TIMEOUT, "an answer", async || {
                let response = client.get(&url).send().await.unwrap();
                let status = response.status().as_u16();
                let text = response.text().await.unwrap();
                (status != 503).then_some((status, text))
            })
            .await;
            assert_eq!((status, text.as_str()), (200, "Hello World!"));
            let posted = client.post(&url).send().await.unwrap();
            assert_eq!(posted.status().as_u16(), 405);
        }
        self.reaches("Finished").await;
    }

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
            poll_until(LONG_TIMEOUT, "the instance of the minute", async || {
                let listed = read_by(async || self.two.instances(&filter, Page::default()).await).await?;
                assert!(listed.total_count <= minute, "{minute}: {}", listed.total_count);
                (listed.total_count == minute && self.lines().await.len() as u64 == minute).then_some(())
            })
            .await;
        }
        assert_eq!(self.lines().await, ["Hello from timer"; 2]);
    }

    async fn end(self) {
        self.one.shutdown().await;
        self.two.shutdown().await;
        let violations = poll_until(LONG_TIMEOUT, "the check", async || {
            read_by(async || mainspring::check(&self.database.url(), "mainspring").await).await
        })
        .await;
        assert_eq!(violations, []);
    }
}

#[test]
fn every_file_of_the_folder_has_an_outcome() {
    let Some(folder) = elsa_workflows() else { return };
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let json = names.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let present: BTreeSet<String> = json
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let known: BTreeSet<String> = FILES.iter().map(|file| (*file).to_owned()).collect();
    assert_eq!(present, known, "each file of the folder has an outcome here");
}
