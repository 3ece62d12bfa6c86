//! `Elsa.Timer` inside a workflow: a length, counted from the commit, whatever the clock says.

use std::time::Duration;

use serde_json::{Value, json};

use super::activities::literal;
use super::in_memory::{InMemoryInstance, definition};
use crate::execution::SubStatus;
use crate::execution::bookmark::Bookmark;

fn timer(options: Value) -> InMemoryInstance {
    let mut timer = json!({"id": "t", "type": "Elsa.Timer", "interval": literal("TimeSpan", "00:00:05")});
    let fields = timer.as_object_mut().unwrap();
    fields.extend(options.as_object().unwrap().clone());
    InMemoryInstance::new(&definition(json!({"root": timer})))
}

/// The bookmark of a timer that begins when the clock shows this time of the epoch.
async fn bookmark(options: Value, clock: Duration) -> Bookmark {
    let mut instance = timer(options);
    instance.slept = clock;
    let result = instance.start().await;
    assert_eq!(
        result.sub_status,
        SubStatus::Suspended,
        "{:?}",
        result.state.incidents()
    );
    result.state.bookmarks()[0].clone()
}

#[tokio::test]
async fn an_interval_is_counted_from_the_commit_at_each_repeat() {
    let end = literal("String", "2100-01-01T00:00:00Z");
    for options in [
        json!({}),
        json!({"endAt": end}),
        json!({"timeZone": literal("String", "Europe/Berlin")}),
    ] {
        let mut all = Vec::new();
        for nanos in [0, 1, 123_456_789, 999_999_999, 5_000_000_500] {
            let one = bookmark(options.clone(), Duration::from_nanos(nanos)).await;
            assert_eq!(one.delay, Some(Duration::from_secs(5)), "{options} at {nanos}: {one:?}");
            assert_eq!(one.due, None);
            assert_eq!(one.payload, json!({"interval": "00:00:05"}));
            all.push(one);
        }
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    }
}

#[tokio::test]
async fn jitter_is_part_of_the_length() {
    let jitter = json!({"jitterSeconds": literal("Int32", "3")});
    let first = bookmark(jitter.clone(), Duration::from_nanos(7)).await;
    let delay = first.delay.expect("a length");
    assert!(
        (Duration::from_secs(5)..Duration::from_secs(8)).contains(&delay),
        "{delay:?}"
    );
    for nanos in [500, 1_234_567_891] {
        assert_eq!(bookmark(jitter.clone(), Duration::from_nanos(nanos)).await, first);
    }
}

#[tokio::test]
async fn an_interval_from_a_point_in_time_is_due_at_points_in_time() {
    let from = json!({"startAt": literal("String", "1970-01-01T01:00:00Z")});
    for nanos in [0, 1, 123_456_789] {
        let one = bookmark(from.clone(), Duration::from_nanos(nanos)).await;
        assert_eq!(one.payload, json!({"executeAt": "1970-01-01T01:00:00+00:00"}));
        assert_eq!(one.delay, None);
    }
    // After its end there is no occurrence.
    let mut ended = timer(json!({"endAt": literal("String", "1970-01-01T00:00:04Z")}));
    assert_eq!(ended.start().await.sub_status, SubStatus::Faulted);
}
