//! Large flowcharts and many open executions: the work grows with their number, not with its square.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::in_memory::{InMemoryInstance, definition, start};
use crate::activity::Catalogue;
use crate::execution::{Instruction, Status, SubStatus};

/// Of a debug build, which takes two or three seconds; with quadratic work it takes minutes.
const LIMIT: Duration = Duration::from_secs(20);

/// Measures the time that this thread had a processor, whatever else the machine does; elsewhere than on Linux the time that passed.
struct Work(Instant, Option<Duration>);

impl Work {
    fn begin() -> Self {
        Self(Instant::now(), Self::now())
    }

    fn now() -> Option<Duration> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
    }

    fn done(&self) -> Duration {
        let of_thread = Self::now().zip(self.1).map(|(now, begun)| now - begun);
        of_thread.unwrap_or_else(|| self.0.elapsed())
    }
}

fn arrow(source: usize, port: &str, target: usize) -> Value {
    json!({"source": {"activity": format!("n{source}"), "port": port}, "target": {"activity": format!("n{target}")}})
}

/// A chain, each activity of which may lead back to the first one.
fn chain_with_loops(count: usize) -> Value {
    let end = json!({"id": "n0", "type": "Elsa.Event", "eventName": "E"});
    let lines = (1..count).map(|n| json!({"id": format!("n{n}"), "type": "Elsa.WriteLine"}));
    let activities: Vec<Value> = std::iter::once(end).chain(lines).collect();
    let forward = (1..count).map(|n| arrow(n - 1, "Done", n));
    let back = (1..count).map(|n| arrow(n, "Again", 0));
    let connections: Vec<Value> = forward.chain(back).collect();
    json!({"id": "f", "type": "Elsa.Flowchart", "activities": activities, "connections": connections})
}

#[tokio::test]
async fn a_large_flowchart_is_set_up_in_time() {
    let model = json!({"root": chain_with_loops(12_000)});
    let work = Work::begin();
    let definition = definition(model);
    let mut instance = InMemoryInstance::with(&definition, Catalogue::standard(), |options| {
        options.activities_per_burst = 20;
    });
    assert_eq!(instance.interpreter.validate(&definition), []);
    instance.start().await;
    // The first completion needs the graph.
    let hash = instance.state.as_ref().unwrap().bookmarks()[0].hash;
    let result = instance
        .burst(vec![Instruction::Stimulus {
            bookmark_id: None,
            hash,
            name: "Elsa.Event".to_owned(),
            payload: None,
        }])
        .await;
    assert!(result.yielded, "{:?}", result.state.incidents());
    assert!(work.done() < LIMIT, "{:?}", work.done());
}

/// Loops with two entrances, of which each connection has to be searched: what leads back into the middle is found all the same.
#[tokio::test]
async fn loops_with_several_entrances_take_bounded_time() {
    let count = 3_000;
    let forward = (1..count).map(|n| arrow(n - 1, "Done", n));
    // An entrance and a way back at each activity.
    let entrances = (1..count).map(|n| arrow(0, "Skip", n));
    let back = (2..count).map(|n| arrow(n, "Again", n - 1));
    let connections: Vec<Value> = forward.chain(entrances).chain(back).collect();
    let event = json!({"id": "n0", "type": "Elsa.Event", "eventName": "E"});
    let lines = (1..count).map(|n| json!({"id": format!("n{n}"), "type": "Elsa.WriteLine"}));
    let activities: Vec<Value> = std::iter::once(event).chain(lines).collect();
    let root = json!({"id": "f", "type": "Elsa.Flowchart", "activities": activities, "connections": connections});
    let work = Work::begin();
    let mut instance = InMemoryInstance::new(&definition(json!({"root": root})));
    instance.start().await;
    instance.event("E", Value::Null).await;
    assert!(work.done() < LIMIT, "{:?}", work.done());
}

#[tokio::test]
async fn ten_thousand_open_executions_are_cancelled_in_time() {
    let count = 9_900;
    let items: Vec<usize> = (0..count).collect();
    let body = json!({"id": "wait", "type": "Elsa.RunTask", "taskName": "T"});
    let root = json!({"id": "p", "type": "Elsa.ParallelForEach", "body": body,
        "items": {"typeName": "Object[]", "expression": {"type": "Object", "value": items}}});
    let mut instance = InMemoryInstance::with(&definition(json!({"root": root})), Catalogue::standard(), |options| {
        options.activities_per_burst = 20_000;
        options.bytes_per_burst = usize::MAX;
    });
    let work = Work::begin();
    let result = instance.burst(vec![start(serde_json::Map::new())]).await;
    assert_eq!(result.state.bookmarks().len(), count, "{:?}", result.state.incidents());
    let opened = work.done();
    let work = Work::begin();
    let result = instance.burst(vec![Instruction::Cancel]).await;
    let cancelled = work.done();
    assert_eq!(
        (result.status, result.sub_status),
        (Status::Finished, SubStatus::Cancelled)
    );
    assert_eq!(instance.events("Canceled").len(), count + 2);
    println!("opened in {opened:?}, cancelled in {cancelled:?}");
    assert!(opened + cancelled < LIMIT, "{opened:?}, {cancelled:?}");
}
