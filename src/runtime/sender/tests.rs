//! What is read for the sinks of a node, and what a round says of them.

use std::time::{Duration, Instant};

use chrono::{TimeDelta, Utc};
use uuid::Uuid;

use super::attempt::Sent;
use super::round::{BYTES_OF_SINK, ClaimedSinks, MOST, MOST_BYTES, MOST_OF_SINK};
use super::verdict;
use crate::store::webhook::delivery::{Attempt, DueDeliveries, DueDelivery, DueSink, Marked, SinkClaim, SinkOutcome};
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
        instance: String::new(),
        event_type: "Elsa.RunTask".to_owned(),
        payload: "{}".to_owned(),
        attempts: 0,
        created_at: Utc::now(),
        due_at: Utc::now(),
    };
    DueSink {
        number: SinkNumber(number),
        failures,
        deliveries: (0..count).map(delivery).collect(),
    }
}

fn of(sinks: Vec<DueSink>) -> DueDeliveries {
    DueDeliveries {
        sinks,
        revision: None,
        now: Some(Utc::now()),
    }
}

/// One read of all that there is room for; how much that is, by sink.
fn read(sinks: &mut ClaimedSinks, failures: u32) -> Vec<(i32, usize)> {
    let rooms = sinks.rooms(Instant::now());
    let found: Vec<DueSink> = rooms
        .iter()
        .map(|room| due(room.claim.number.0, failures, room.room as usize))
        .collect();
    sinks.answered(&rooms, &of(found.clone()));
    for of_sink in &found {
        for delivery in &of_sink.deliveries {
            sinks.took_off(of_sink.number, delivery.id, delivery.payload.len());
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
        sinks.judge(SinkNumber(1), &SinkOutcome::Takes, Instant::now());
    }
    assert_eq!(read(&mut sinks, 0), [(1, MOST_OF_SINK - 8)]);
}

#[test]
fn a_sink_that_fails_is_asked_once_and_then_released() {
    let mut sinks = ClaimedSinks::default();
    sinks.claimed(&[claim(1)]);
    let rooms = sinks.rooms(Instant::now());
    let found = due(1, 3, 1);
    sinks.answered(&rooms, &of(vec![found.clone()]));
    sinks.took_off(SinkNumber(1), found.deliveries[0].id, 2);
    assert!(sinks.rooms(Instant::now()).is_empty(), "one is on its way");
    let fails = SinkOutcome::Fails {
        pause: Duration::ZERO,
        note: String::new(),
    };
    sinks.judge(SinkNumber(1), &fails, Instant::now());
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
fn what_bursts_cause_one_by_one_is_read_together() {
    let mut sinks = ClaimedSinks::default();
    sinks.claimed(&[claim(1)]);
    let rooms = sinks.rooms(Instant::now());
    assert!(
        sinks.answered(&rooms, &of(vec![due(1, 0, 3)])),
        "a read follows after a pause"
    );
    assert!(sinks.rooms(Instant::now()).is_empty(), "and none before");
    sinks.judge(SinkNumber(1), &SinkOutcome::Takes, Instant::now());
    assert!(sinks.rooms(Instant::now()).is_empty(), "whatever was marked meanwhile");
    sinks.ask_all();
    let rooms = sinks.rooms(Instant::now());
    let all = rooms[0].room as usize;
    assert!(!sinks.answered(&rooms, &of(vec![due(1, 0, all)])));
    assert_eq!(sinks.rooms(Instant::now()).len(), 1, "more is due than was read");
}

#[test]
fn a_read_begins_a_margin_before_what_was_found_and_is_whole_now_and_then() {
    let mut sinks = ClaimedSinks::default();
    let now = Instant::now();
    let next = |sinks: &mut ClaimedSinks, at: Instant, found: DueDeliveries| {
        sinks.ask_all();
        let rooms = sinks.rooms(at);
        sinks.answered(&rooms, &found);
        rooms[0].since
    };
    sinks.claimed(&[claim(1)]);
    let mut first = of(vec![due(1, 0, 3)]);
    let last = first.now.unwrap() - TimeDelta::minutes(5);
    first.sinks[0].deliveries[2].due_at = last;
    assert_eq!(next(&mut sinks, now, first), None);
    let nothing = of(vec![due(1, 0, 0)]);
    let at = nothing.now.unwrap();
    let margin = TimeDelta::seconds(2);
    assert_eq!(next(&mut sinks, now, nothing.clone()), Some(last - margin));
    assert_eq!(
        next(&mut sinks, now, nothing.clone()),
        Some(at - margin),
        "nothing was due until then"
    );
    let later = now + Duration::from_secs(31);
    assert_eq!(next(&mut sinks, later, nothing.clone()), None);
    // A claim that is made anew knows nothing.
    sinks.claimed(&[claim(1)]);
    assert_eq!(next(&mut sinks, now, nothing), None);
}

#[test]
fn slow_sinks_leave_places_to_the_others() {
    let mut sinks = ClaimedSinks::default();
    let claims: Vec<SinkClaim> = (1..=32).map(claim).collect();
    sinks.claimed(&claims);
    for _ in 0..9 {
        for number in 1..=32 {
            sinks.judge(SinkNumber(number), &SinkOutcome::Takes, Instant::now());
        }
    }
    assert_eq!(
        read(&mut sinks, 0),
        (1..=32).map(|number| (number, MOST / 32)).collect::<Vec<_>>()
    );
}

#[test]
fn bytes_in_flight_leave_less_room() {
    let mut sinks = ClaimedSinks::default();
    sinks.claimed(&[claim(1)]);
    let id = Uuid::new_v4();
    sinks.took_off(SinkNumber(1), id, BYTES_OF_SINK - 10);
    assert_eq!(sinks.rooms(Instant::now())[0].bytes, 10);
    sinks.took_off(SinkNumber(1), Uuid::new_v4(), 10);
    assert!(sinks.rooms(Instant::now()).is_empty(), "it has as much as it may have");
    sinks.landed(SinkNumber(1), id);
    assert_eq!(sinks.rooms(Instant::now())[0].bytes, BYTES_OF_SINK as i64 - 10);
    // All together have as much as they may have: one that has nothing is sent one delivery.
    let claims: Vec<SinkClaim> = (2..=20).map(claim).collect();
    sinks.claimed(&claims);
    for number in 2..=18 {
        sinks.took_off(SinkNumber(number), Uuid::new_v4(), MOST_BYTES / 16);
    }
    let rooms = sinks.rooms(Instant::now());
    let found: Vec<_> = rooms
        .iter()
        .map(|room| (room.claim.number.0, room.room, room.bytes))
        .collect();
    assert_eq!(found, [(19, 1, 0), (20, 1, 0)]);
}

#[test]
fn what_hangs_keeps_no_sink_from_being_asked_again() {
    let mut sinks = ClaimedSinks::default();
    sinks.claimed(&[claim(1)]);
    read(&mut sinks, 0);
    let fails = |seconds| SinkOutcome::Fails {
        pause: Duration::from_secs(seconds),
        note: String::new(),
    };
    let now = Instant::now();
    let later = |seconds| now + Duration::from_secs(seconds);
    sinks.judge(SinkNumber(1), &fails(10), now);
    // A second failure, and a success, of the same round.
    sinks.judge(SinkNumber(1), &fails(60), later(1));
    sinks.judge(SinkNumber(1), &SinkOutcome::Takes, later(1));
    assert!(sinks.rooms(later(9)).is_empty());
    let rooms = sinks.rooms(later(11));
    assert_eq!((rooms.len(), rooms[0].room, rooms[0].in_flight.len()), (1, 1, 8));
    sinks.answered(&rooms, &of(vec![due(1, 1, 1)]));
    assert!(sinks.rooms(later(12)).is_empty(), "one asks whether it is back");
    sinks.judge(SinkNumber(1), &SinkOutcome::Refuses, later(12));
    assert_eq!(sinks.rooms(later(12))[0].room, 1, "it answers");
}

#[test]
fn a_sink_without_anything_due_is_released_after_a_while() {
    let mut sinks = ClaimedSinks::default();
    sinks.claimed(&[claim(1)]);
    let rooms = sinks.rooms(Instant::now());
    sinks.answered(&rooms, &of(vec![due(1, 0, 0)]));
    assert!(sinks.rooms(Instant::now()).is_empty());
    assert!(sinks.releasable(Instant::now()).is_empty());
    // Reads that find nothing do not begin the time anew.
    let later = Instant::now() + Duration::from_secs(6);
    sinks.ask_all();
    let rooms = sinks.rooms(Instant::now());
    sinks.answered(&rooms, &of(vec![due(1, 0, 0)]));
    assert_eq!(sinks.releasable(later), [claim(1)]);
    // Another node has it, or it is paused.
    sinks.ask_all();
    let rooms = sinks.rooms(Instant::now());
    sinks.answered(&rooms, &of(Vec::new()));
    assert_eq!(sinks.releasable(Instant::now()), [claim(1)]);
    sinks.released(SinkNumber(1));
    assert_eq!(sinks.numbers().count(), 0);
}

fn sent(sink: i32, attempt: Attempt, asked: Option<u64>) -> Sent {
    let marked = Marked {
        sink: SinkNumber(sink),
        instance: String::new(),
        id: Uuid::new_v4(),
        attempt,
    };
    Sent {
        marked,
        asked: asked.map(Duration::from_secs),
    }
}

fn failed(error: &str) -> Attempt {
    answered(500, error)
}

fn answered(status: u16, error: &str) -> Attempt {
    Attempt::Failed {
        status: Some(status),
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

#[test]
fn what_a_sink_refuses_is_no_fault_of_the_sink() {
    let outcome = |attempts: &[Attempt]| {
        let round: Vec<Sent> = attempts.iter().map(|attempt| sent(1, attempt.clone(), None)).collect();
        verdict::of(&round, |number| Some((claim(number.0), 0))).remove(0).1
    };
    for status in [400, 409, 413, 422, 499] {
        assert_eq!(outcome(&[answered(status, "no")]), SinkOutcome::Refuses, "{status}");
    }
    for status in [301, 401, 403, 404, 408, 425, 429, 500, 503] {
        let fails = outcome(&[answered(status, "no")]);
        assert!(matches!(fails, SinkOutcome::Fails { .. }), "{status}");
    }
    let mixed = outcome(&[answered(500, "down"), answered(422, "no")]);
    assert!(matches!(mixed, SinkOutcome::Fails { note, .. } if note == "down"));
    assert_eq!(
        outcome(&[answered(422, "no"), Attempt::Delivered(200)]),
        SinkOutcome::Takes
    );
}
