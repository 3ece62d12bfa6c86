//! What is read for the sinks of a node, and what a round says of them.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::attempt::Sent;
use super::round::{ClaimedSinks, MOST, MOST_OF_SINK};
use super::verdict;
use crate::store::webhook::delivery::{Attempt, DueDelivery, DueSink, SinkClaim, SinkOutcome};
use crate::store::webhook::sink::SinkNumber;

fn claim(number: i32) -> SinkClaim {
    SinkClaim {
        number: SinkNumber(number),
        claim_no: 1,
    }
}

fn due(number: i32, failures: u32, count: usize) -> DueSink {
    let delivery = |_| DueDelivery {
        id: Uuid::new_v4(),
        event_type: "Elsa.RunTask".to_owned(),
        payload: "{}".to_owned(),
        attempts: 0,
        created_at: chrono::Utc::now(),
    };
    DueSink {
        number: SinkNumber(number),
        failures,
        deliveries: (0..count).map(delivery).collect(),
    }
}

/// One read of all that there is room for; how much that is, by sink.
fn read(sinks: &mut ClaimedSinks, failures: u32) -> Vec<(i32, usize)> {
    let rooms = sinks.rooms();
    let found: Vec<DueSink> = rooms
        .iter()
        .map(|room| due(room.claim.number.0, failures, room.room as usize))
        .collect();
    sinks.answered(&rooms, &found);
    for of_sink in &found {
        for delivery in &of_sink.deliveries {
            sinks.took_off(of_sink.number, delivery.id);
        }
    }
    rooms
        .iter()
        .map(|room| (room.claim.number.0, room.room as usize))
        .collect()
}

#[test]
fn a_sink_that_takes_what_it_is_sent_is_sent_more_at_once() {
    let mut sinks = ClaimedSinks::default();
    sinks.claimed(&[claim(1)]);
    assert_eq!(read(&mut sinks, 0), [(1, 8)]);
    assert_eq!(read(&mut sinks, 0), [], "nothing has landed");
    for _ in 0..9 {
        sinks.judge(SinkNumber(1), &SinkOutcome::Takes);
    }
    assert_eq!(read(&mut sinks, 0), [(1, MOST_OF_SINK - 8)]);
}

#[test]
fn a_sink_that_fails_is_asked_once_and_then_released() {
    let mut sinks = ClaimedSinks::default();
    sinks.claimed(&[claim(1)]);
    let rooms = sinks.rooms();
    let found = due(1, 3, 1);
    sinks.answered(&rooms, std::slice::from_ref(&found));
    sinks.took_off(SinkNumber(1), found.deliveries[0].id);
    assert!(sinks.rooms().is_empty(), "one is on its way");
    let fails = SinkOutcome::Fails {
        pause: Duration::ZERO,
        note: String::new(),
    };
    sinks.judge(SinkNumber(1), &fails);
    assert!(sinks.releasable(Instant::now()).is_empty());
    sinks.landed(SinkNumber(1), found.deliveries[0].id);
    assert_eq!(sinks.releasable(Instant::now()), [claim(1)]);
}

#[test]
fn many_sinks_that_hang_leave_room_for_another_one() {
    let mut sinks = ClaimedSinks::default();
    let claims: Vec<SinkClaim> = (1..=200).map(claim).collect();
    sinks.claimed(&claims);
    let total: usize = read(&mut sinks, 0).iter().map(|(_, room)| room).sum();
    assert!((MOST..=MOST + 200).contains(&total), "{total}");
    sinks.claimed(&[claim(201)]);
    assert_eq!(read(&mut sinks, 0), [(201, 1)]);
}

#[test]
fn a_sink_without_anything_due_is_released_after_a_while() {
    let mut sinks = ClaimedSinks::default();
    sinks.claimed(&[claim(1)]);
    let rooms = sinks.rooms();
    sinks.answered(&rooms, &[due(1, 0, 0)]);
    assert!(sinks.rooms().is_empty());
    assert!(sinks.releasable(Instant::now()).is_empty());
    assert_eq!(sinks.releasable(Instant::now() + Duration::from_secs(6)), [claim(1)]);
    // Another node has it, or it is paused.
    sinks.ask_all();
    let rooms = sinks.rooms();
    sinks.answered(&rooms, &[]);
    assert_eq!(sinks.releasable(Instant::now()), [claim(1)]);
    sinks.released(SinkNumber(1));
    assert_eq!(sinks.numbers().count(), 0);
}

fn sent(sink: i32, attempt: Attempt, asked: Option<u64>) -> Sent {
    Sent {
        sink: SinkNumber(sink),
        id: Uuid::new_v4(),
        attempt,
        asked: asked.map(Duration::from_secs),
    }
}

fn failed(error: &str) -> Attempt {
    Attempt::Failed {
        status: Some(500),
        error: error.to_owned(),
        pause: Duration::ZERO,
    }
}

#[test]
fn one_delivery_shows_that_a_sink_takes_them() {
    let round = [
        sent(1, failed("a"), None),
        sent(1, Attempt::Delivered(200), None),
        sent(2, failed("b"), None),
        sent(3, Attempt::Delivered(204), None),
        sent(3, Attempt::Gone, None),
        sent(4, failed("busy"), Some(40)),
        sent(4, Attempt::Delivered(200), None),
        sent(9, Attempt::Delivered(200), None),
    ];
    let find = |number: SinkNumber| (number.0 < 9).then(|| (claim(number.0), 2));
    let judged = verdict::of(&round, find);
    let outcomes: Vec<&SinkOutcome> = judged.iter().map(|(_, outcome)| outcome).collect();
    let [
        SinkOutcome::Takes,
        SinkOutcome::Fails { pause, note },
        SinkOutcome::Gone,
        SinkOutcome::Fails { pause: asked, .. },
    ] = &outcomes[..]
    else {
        panic!("{outcomes:?}");
    };
    assert_eq!(note, "b");
    assert!((3.0..=4.0).contains(&pause.as_secs_f64()), "{pause:?}");
    assert_eq!(*asked, Duration::from_secs(40));
}
