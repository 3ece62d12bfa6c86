//! Events and the bookmarks that they fit come at the same moment, on two nodes: neither misses the other.

use std::time::Duration;

use mainspring::Engine;
use mainspring::runtime::{DeadLetterFilter, EventRequest, InstanceFilter, Page, StartRequest};
use rand::RngExt;
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, start};
use crate::support::node::assert_invariants;
use crate::support::single_node::literal;
use crate::support::{LONG_TIMEOUT, long, poll_until};

/// What the events of a race name.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Nothing: each instance waits for a name of its own.
    All,
    /// The correlation id of the instance; all share one name.
    Correlation,
    /// The instance; all share one name.
    Instance,
    /// A correlation id that the instance takes while it waits.
    LaterCorrelation,
    /// The activity execution that waits; all share one name.
    Execution,
    /// An empty correlation id; each instance waits for a name of its own.
    EmptyCorrelation,
    /// The correlation id of the instance; the event is replayed from its dead letter.
    Replay,
    /// Nothing: each starts the workflow that is published with such a trigger.
    Trigger,
}

fn script(text: &str) -> Value {
    json!({"typeName": "String", "expression": {"type": "JavaScript", "value": text}})
}

fn definition(kind: Kind) -> Value {
    let event = |name: Value| json!({"type": "Elsa.Event", "id": "event", "eventName": name});
    let root = match kind {
        Kind::All => event(script("'of ' + getCorrelationId()")),
        Kind::EmptyCorrelation => event(script("'of c' + getWorkflowInstanceId()")),
        Kind::Correlation | Kind::Instance | Kind::Execution | Kind::Replay => event(literal("shared")),
        Kind::Trigger => json!({"type": "Elsa.WriteLine", "id": "none", "text": "none"}),
        Kind::LaterCorrelation => {
            let leads = |source: &str, port: &str, target: &str| json!({"source": {"activity": source, "port": port}, "target": {"activity": target, "port": "In"}});
            let delay = json!({"typeName": "TimeSpan", "expression": {"type": "Literal", "value": "00:00:00.002"}});
            json!({"type": "Elsa.Flowchart", "id": "chart", "start": "fork", "activities": [
                {"type": "Elsa.FlowFork", "id": "fork", "branches": ["A", "B"]},
                event(literal("shared")),
                {"type": "Elsa.Delay", "id": "delay", "timeSpan": delay},
                {"type": "Elsa.Correlate", "id": "correlate", "correlationId": script("'c' + getWorkflowInstanceId()")}
            ], "connections": [
                leads("fork", "A", "event"), leads("fork", "B", "delay"), leads("delay", "Done", "correlate")
            ]})
        }
    };
    json!({"definitionId": format!("{kind:?}"), "root": root})
}

/// A workflow that an event of its own starts.
fn triggered(number: usize) -> Value {
    json!({"definitionId": format!("Trigger-{number}"), "root": {"type": "Elsa.Event", "id": "event",
        "canStartWorkflow": true, "eventName": literal(&format!("of cTrigger-{number}"))}})
}

fn started(kind: Kind, number: usize) -> StartRequest {
    StartRequest {
        instance_id: Some(format!("{kind:?}-{number}").into()),
        correlation_id: match kind {
            Kind::All | Kind::Correlation | Kind::Replay => Some(format!("c{kind:?}-{number}")),
            Kind::EmptyCorrelation => Some(String::new()),
            _ => None,
        },
        ..start(&format!("{kind:?}"))
    }
}

fn event(kind: Kind, number: usize) -> EventRequest {
    let correlation_id = format!("c{kind:?}-{number}");
    let name = match kind {
        Kind::All | Kind::Trigger | Kind::EmptyCorrelation => format!("of {correlation_id}"),
        _ => "shared".to_owned(),
    };
    EventRequest {
        name,
        correlation_id: match kind {
            Kind::Correlation | Kind::LaterCorrelation | Kind::Replay => Some(correlation_id),
            Kind::EmptyCorrelation => Some(String::new()),
            _ => None,
        },
        instance_id: (kind == Kind::Instance).then(|| format!("{kind:?}-{number}").into()),
        // The workflow is the first execution of an instance.
        activity_execution_id: (kind == Kind::Execution).then(|| format!("{kind:?}-{number}:2")),
        ..EventRequest::default()
    }
}

/// The dead letters of so many events for correlation ids that no instance has yet, in their order.
async fn dead_letters(test: &TestEngine, count: usize) -> Vec<String> {
    for number in 0..count {
        publish(&test.engine, Kind::Replay, number).await;
    }
    let client = test.database.connect().await;
    client
        .run(
            "UPDATE mainspring.inbox SET expires_at = now();
             UPDATE mainspring.cluster_job SET next_run_at = now() WHERE name = 'purge-expired'",
        )
        .await;
    client.wait_for_rows("dead_letter", count as i64).await;
    let (filter, mut ids) = (DeadLetterFilter::default(), vec![String::new(); count]);
    for number in 0..count.div_ceil(100) {
        let page = Page {
            page: u32::try_from(number).unwrap(),
            page_size: 100,
        };
        for dead_letter in test.engine.dead_letters(&filter, page).await.unwrap().items {
            let of = dead_letter.correlation_id.unwrap();
            let number: usize = of.strip_prefix("cReplay-").unwrap().parse().unwrap();
            ids[number] = dead_letter.id;
        }
    }
    ids
}

/// Publishes until the target of the event exists.
async fn publish(engine: &Engine, kind: Kind, number: usize) {
    poll_until(LONG_TIMEOUT, "the target of an event", async || {
        match engine.trigger_event(event(kind, number)).await {
            Ok(accepted) => Some(accepted),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("{kind:?} {number}: {error}"),
        }
    })
    .await;
}

async fn race(one: &TestEngine, two: &Engine, kind: Kind, number: usize, pause: Duration, dead_letter: Option<&str>) {
    let starts = async {
        if kind == Kind::Trigger {
            one.publish(triggered(number)).await;
        } else {
            one.engine.dispatch(started(kind, number)).await.unwrap();
        }
    };
    let publishes = async {
        // A random moment, not a wait.
        tokio::time::sleep(pause).await;
        match dead_letter {
            Some(id) => assert!(two.replay_dead_letter(id).await.unwrap().published.is_some()),
            None => publish(two, kind, number).await,
        }
    };
    tokio::join!(starts, publishes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_and_an_instance_that_begins_to_wait_never_miss_each_other() {
    let count = if long() { 2_000 } else { 150 };
    let one = TestEngine::new().await;
    let two = one.worker().await;
    let mut random = rand::rng();
    let kinds = [
        Kind::All,
        Kind::Correlation,
        Kind::Instance,
        Kind::LaterCorrelation,
        Kind::Execution,
        Kind::EmptyCorrelation,
        Kind::Replay,
        Kind::Trigger,
    ];
    for kind in kinds {
        one.publish(definition(kind)).await;
        let dead_letters = match kind {
            Kind::Replay => dead_letters(&one, count).await,
            _ => Vec::new(),
        };
        for first in (0..count).step_by(50) {
            let races = (first..count.min(first + 50)).map(|number| {
                let pause = Duration::from_micros(random.random_range(0..15_000));
                race(
                    &one,
                    &two,
                    kind,
                    number,
                    pause,
                    dead_letters.get(number).map(String::as_str),
                )
            });
            futures_util::future::join_all(races).await;
        }
        let finished = InstanceFilter {
            definition_ids: match kind {
                Kind::Trigger => (0..count).map(|n| format!("{kind:?}-{n}").into()).collect(),
                _ => vec![format!("{kind:?}").into()],
            },
            sub_statuses: vec!["Finished".to_owned()],
            ..InstanceFilter::default()
        };
        poll_until(
            LONG_TIMEOUT,
            &format!("every instance of {kind:?} to meet its event"),
            async || {
                // A busy machine may have no room for a list.
                let listed = one.engine.instances(&finished, Page::default()).await.ok()?;
                (listed.total_count == count as u64).then_some(())
            },
        )
        .await;
        assert_invariants(&one.database).await;
    }
    two.shutdown().await;
    one.assert_clean_end().await;
}
