//! Events and the bookmarks that they fit come at the same moment, on two nodes: neither misses the other.

use std::time::Duration;

use mainspring::Engine;
use mainspring::runtime::{EventRequest, InstanceFilter, Page, StartRequest};
use rand::RngExt;
use serde_json::{Value, json};

use crate::support::engine::{TestEngine, start};
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
        Kind::Correlation | Kind::Instance => event(literal("shared")),
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
    let correlated = matches!(kind, Kind::All | Kind::Correlation);
    StartRequest {
        instance_id: Some(format!("{kind:?}-{number}").into()),
        correlation_id: correlated.then(|| format!("c{kind:?}-{number}")),
        ..start(&format!("{kind:?}"))
    }
}

fn event(kind: Kind, number: usize) -> EventRequest {
    let correlation_id = format!("c{kind:?}-{number}");
    let name = match kind {
        Kind::All | Kind::Trigger => format!("of {correlation_id}"),
        _ => "shared".to_owned(),
    };
    EventRequest {
        name,
        correlation_id: matches!(kind, Kind::Correlation | Kind::LaterCorrelation).then_some(correlation_id),
        instance_id: (kind == Kind::Instance).then(|| format!("{kind:?}-{number}").into()),
        ..EventRequest::default()
    }
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

async fn race(one: &TestEngine, two: &Engine, kind: Kind, number: usize, pause: Duration) {
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
        publish(two, kind, number).await;
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
        Kind::Trigger,
    ];
    for kind in kinds {
        one.publish(definition(kind)).await;
        for first in (0..count).step_by(50) {
            let races = (first..count.min(first + 50)).map(|number| {
                let pause = Duration::from_micros(random.random_range(0..15_000));
                race(&one, &two, kind, number, pause)
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
        poll_until(LONG_TIMEOUT, "every instance to meet its event", async || {
            let listed = one.engine.instances(&finished, Page::default()).await.unwrap();
            (listed.total_count == count as u64).then_some(())
        })
        .await;
    }
    two.shutdown().await;
    one.assert_clean_end().await;
}
