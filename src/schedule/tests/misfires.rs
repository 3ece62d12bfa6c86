//! What fires after a downtime: each kind of schedule, each policy, downtimes of any length.

use chrono::TimeDelta;
use serde_json::json;

use super::*;
use crate::schedule::{FireDecision, MisfirePolicy, PlannedFire, Progress, ScheduleKind};

const ANCHOR: &str = "2026-01-01T00:00:00Z";

fn progress(last: Option<DateTime<Utc>>) -> Progress<'static> {
    Progress {
        id: "newsletter",
        anchor: at(ANCHOR),
        last_occurrence: last,
    }
}

fn with_policy(kind: Value, misfire: &Value) -> Schedule {
    let mut inputs = kind;
    inputs["misfire"] = misfire.clone();
    schedule(inputs)
}

fn fired(decision: &FireDecision) -> Vec<DateTime<Utc>> {
    decision.fire.iter().map(|fire| fire.occurrence).collect()
}

/// All occurrences after one and up to another instant, one by one.
fn occurrences(schedule: &Schedule, after: DateTime<Utc>, until: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let mut all = Vec::new();
    let mut from = after;
    while let Some(next) = schedule.next_after(from, at(ANCHOR)).filter(|next| *next <= until) {
        all.push(next);
        from = next;
    }
    all
}

/// Each kind, with the last occurrence before the nodes went down.
fn kinds() -> [(Value, Option<DateTime<Utc>>); 5] {
    [
        (
            json!({"cronExpression": "*/5 * * * *"}),
            Some(at("2026-01-01T12:00:00Z")),
        ),
        (
            json!({"cronExpression": "30 2 * * *", "timeZone": "Europe/Berlin"}),
            Some(at("2026-01-01T01:30:00Z")),
        ),
        (json!({"interval": "00:01:00"}), Some(at("2026-01-01T12:00:00Z"))),
        (
            json!({"interval": "00:10:00", "startAt": "2026-01-01T12:00:07Z"}),
            Some(at("2026-01-01T12:00:07Z")),
        ),
        (json!({"dateTime": "2026-01-01T12:30:00Z"}), None),
    ]
}

#[test]
fn every_kind_policy_and_downtime() {
    let minute = 60;
    let policies = [
        json!("FireOnceNow"),
        json!("Skip"),
        json!("FireAll:3"),
        json!("FireAll:1000"),
        json!("OnlyIfLateBy:00:10:00"),
        json!("OnlyIfLateBy:00:00:20"),
    ];
    let downtimes = [
        0,
        1,
        30,
        59,
        60,
        61,
        5 * minute,
        30 * minute + 20,
        61 * minute,
        86_400 * 3,
        86_400 * 20,
    ];
    let mut cases = 0;
    for (kind, last) in kinds() {
        for policy in &policies {
            let schedule = with_policy(kind.clone(), policy);
            let up = last.unwrap_or(at("2026-01-01T12:00:00Z"));
            for downtime in downtimes {
                let now = up + TimeDelta::seconds(downtime);
                let decision = schedule.due(&progress(last), now);
                let due = occurrences(&schedule, up, now);
                let context = format!("{kind} {policy} down for {downtime} s: {decision:?}");
                check_decision(&schedule, &due, now, &decision, &context);
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 5 * 6 * 11);
}

/// A reference implementation of the policies over the list of all due occurrences.
fn check_decision(
    schedule: &Schedule,
    due: &[DateTime<Utc>],
    now: DateTime<Utc>,
    decision: &FireDecision,
    context: &str,
) {
    let late_by = |seconds: i64| move |at: &DateTime<Utc>| now - *at >= TimeDelta::seconds(seconds);
    let threshold = match schedule.misfire().policy {
        MisfirePolicy::OnlyIfLateBy { less_than } => less_than.num_seconds().min(60),
        _ => 60,
    };
    let is_misfired = due.first().is_some_and(late_by(threshold));
    let expected: Vec<DateTime<Utc>> = match schedule.misfire().policy {
        _ if !is_misfired => due.to_vec(),
        MisfirePolicy::FireOnceNow => due.last().copied().into_iter().collect(),
        MisfirePolicy::Skip => due.iter().copied().filter(|at| !late_by(60)(at)).collect(),
        MisfirePolicy::FireAll { up_to } => due[due.len().saturating_sub(up_to)..].to_vec(),
        MisfirePolicy::OnlyIfLateBy { less_than } => {
            let latest = due.last().copied();
            latest
                .filter(|at| !late_by(less_than.num_seconds())(at))
                .into_iter()
                .collect()
        }
    };
    assert_eq!(fired(decision), expected, "{context}");
    assert_eq!(
        decision.next.map(|next| next.occurrence),
        schedule.next_after(now, at(ANCHOR)),
        "{context}"
    );
    if let Some(latest) = due.last() {
        assert_eq!(decision.last_occurrence, Some(*latest), "{context}");
    }
    let late = due.iter().filter(|at| late_by(threshold)(at)).count() as u64;
    let skipped = (due.len() - expected.len()) as u64;
    let stands_for: u64 = decision.fire.iter().map(|fire| fire.stands_for).sum();
    if decision.is_counted {
        assert_eq!((decision.misfired, decision.skipped), (late, skipped), "{context}");
    } else {
        assert!(
            due.len() > 2_000 && decision.misfired <= late && decision.skipped <= skipped,
            "{context}"
        );
    }
    assert!(stands_for <= decision.skipped, "{context}");
}

#[test]
fn downtimes_of_years_are_decided_at_once() {
    let now = at("2126-01-01T00:00:30Z");
    for (kind, latest) in [
        (json!({"cronExpression": "* * * * * *"}), "2126-01-01T00:00:30Z"),
        (json!({"cronExpression": "0 9 * * 1-5"}), "2125-12-31T09:00:00Z"),
        // Every second of one day in a year.
        (json!({"cronExpression": "* * * 3 7 *"}), "2125-07-03T23:59:59Z"),
        (json!({"interval": "00:00:07"}), "2126-01-01T00:00:26Z"),
        (
            json!({"interval": "00:00:00.001", "belowASecond": true}),
            "2126-01-01T00:00:30Z",
        ),
    ] {
        let is_interval = kind.get("interval").is_some();
        let once = with_policy(kind.clone(), &json!("FireOnceNow")).due(&progress(None), now);
        assert_eq!(fired(&once), [at(latest)], "{kind}");
        assert_eq!(once.is_counted, is_interval);
        assert!(once.misfired >= 1_000 && once.next.unwrap().occurrence > now);
        let skip = with_policy(kind.clone(), &json!("Skip")).due(&progress(None), now);
        assert!(skip.fire.len() <= 1_000 && skip.last_occurrence == Some(at(latest)));
        let all = with_policy(kind.clone(), &json!("FireAll:50"));
        let latest_fifty = all.due(&progress(None), now);
        let first = latest_fifty.fire[0].occurrence;
        let expected = occurrences(&all, first - TimeDelta::microseconds(1), now);
        assert_eq!(fired(&latest_fifty), expected, "{kind}");
        assert_eq!(expected.len(), 50);
    }
    // Occurrences of an interval are counted by division.
    let counted =
        with_policy(json!({"interval": "00:00:07"}), &json!("Skip")).due(&progress(None), at("2126-01-02T00:00:00Z"));
    let all = (at("2126-01-02T00:00:00Z") - at(ANCHOR)).num_seconds() / 7;
    assert_eq!(counted.skipped + counted.fire.len() as u64, all.unsigned_abs());
}

#[test]
fn occurrences_in_time_fire_in_batches() {
    let often = schedule(json!({"interval": "00:00:00.01", "belowASecond": true}));
    let now = at("2026-01-01T00:00:25Z");
    let mut decided = None;
    let mut all = Vec::new();
    let mut batches = 0;
    loop {
        let decision = often.due(&progress(decided), now);
        assert!(decision.last_occurrence > decided || decision.fire.is_empty());
        decided = decision.last_occurrence;
        all.extend(fired(&decision));
        batches += 1;
        let next = decision.next.unwrap();
        assert_eq!(next.fire_at <= now, decision.fire.len() == 1_000 && all.len() < 2_500);
        if next.fire_at > now {
            break;
        }
    }
    assert_eq!((batches, all.len()), (3, 2_500));
    assert_eq!(all, occurrences(&often, at(ANCHOR), now));
}

#[test]
fn no_occurrence_is_decided_twice_when_the_schedule_changes() {
    let mut rng = TestRng(99);
    let kinds = [
        json!({"cronExpression": "*/5 * * * *"}),
        json!({"cronExpression": "0 */2 * * *", "timeZone": "America/Santiago"}),
        json!({"interval": "00:07:00"}),
        json!({"interval": "00:00:30", "jitterSeconds": 20}),
        json!({"dateTime": "2026-01-02T00:00:00Z"}),
        json!({"cronExpression": "15 3 * * *", "timeZone": "Australia/Lord_Howe", "jitterSeconds": 600}),
    ];
    let policies = ["FireOnceNow", "Skip", "FireAll:5", "OnlyIfLateBy:01:00:00"];
    for _ in 0..60 {
        let mut now = at(ANCHOR);
        let mut decided: Option<DateTime<Utc>> = None;
        let mut last_fired = None;
        for _ in 0..30 {
            // The schedule changes at random, as by a new version; the clock may go back.
            let schedule = with_policy(kinds[rng.below(6)].clone(), &json!(rng.one_of(&policies)));
            now += TimeDelta::seconds(rng.below(20_000) as i64 - 2_000);
            let decision = schedule.due(&progress(decided), now);
            for occurrence in fired(&decision) {
                assert!(
                    Some(occurrence) > decided && Some(occurrence) > last_fired,
                    "{schedule} {occurrence}"
                );
                last_fired = Some(occurrence);
            }
            assert!(decision.last_occurrence >= decided);
            assert!(decision.last_occurrence.is_none_or(|last| last <= now) || decision.last_occurrence == decided);
            decided = decision.last_occurrence;
            let after = decision.next.map(|next| next.occurrence);
            assert!(after.is_none() || after > decided);
        }
    }
}

#[test]
fn a_point_in_time_fires_once_and_also_when_it_has_passed() {
    let once = schedule(json!({"dateTime": "2020-01-01T00:00:00Z"}));
    assert!(matches!(once.kind(), ScheduleKind::Once(_)));
    let decision = once.due(&progress(None), at("2026-01-01T00:00:01Z"));
    assert_eq!(fired(&decision), [at("2020-01-01T00:00:00Z")]);
    assert_eq!((decision.next, decision.misfired, decision.skipped), (None, 1, 0));
    let again = once.due(&progress(decision.last_occurrence), at("2026-01-01T00:00:02Z"));
    assert!(again.fire.is_empty() && again.next.is_none());
    assert_eq!(again.last_occurrence, decision.last_occurrence);
}

#[test]
fn a_schedule_fires_within_its_dates() {
    let bounded = schedule(json!({
        "interval": "1.00:00:00", "startAt": "2026-03-01T09:00:00Z", "endAt": "2026-03-03T09:00:00Z", "misfire": "FireAll",
    }));
    assert_eq!(
        bounded.next(&progress(None)).unwrap().occurrence,
        at("2026-03-01T09:00:00Z")
    );
    let decision = bounded.due(&progress(None), at("2027-01-01T00:00:00Z"));
    let days = ["2026-03-01T09:00:00Z", "2026-03-02T09:00:00Z", "2026-03-03T09:00:00Z"];
    assert_eq!(fired(&decision), days.map(at));
    assert_eq!(decision.next, None);
    // No occurrence is earlier than the anchor.
    let late = Progress {
        anchor: at("2026-03-02T10:00:00Z"),
        ..progress(None)
    };
    assert_eq!(bounded.next(&late).unwrap().occurrence, at("2026-03-03T09:00:00Z"));
}

#[test]
fn jitter_delays_and_keeps_the_order() {
    for (inputs, below) in [
        (json!({"interval": "00:00:30", "jitterSeconds": 20}), 20),
        (json!({"interval": "00:00:30", "jitterSeconds": 3600}), 30),
        (json!({"cronExpression": "0,1 0 * * *", "jitterSeconds": 600}), 600),
        (json!({"cronExpression": "* * * * * *", "jitterSeconds": 600}), 1),
    ] {
        let jittered = schedule(inputs.clone());
        let mut progress = progress(None);
        let mut last: Option<PlannedFire> = None;
        let mut delays = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let next = jittered.next(&progress).unwrap();
            assert_eq!(jittered.next(&progress), Some(next));
            let delay = next.fire_at - next.occurrence;
            assert!(
                delay >= TimeDelta::zero() && delay < TimeDelta::seconds(below),
                "{inputs} {delay}"
            );
            delays.insert(delay);
            if let Some(last) = last {
                assert!(last.fire_at < next.occurrence, "{inputs}");
            }
            // It does not fire earlier.
            let early = jittered.due(&progress, next.fire_at - TimeDelta::microseconds(1));
            assert!(early.fire.is_empty() && early.next == Some(next));
            let due = jittered.due(&progress, next.fire_at);
            assert_eq!(fired(&due), [next.occurrence]);
            last = Some(next);
            progress.last_occurrence = due.last_occurrence;
        }
        assert!(delays.len() > 150, "{inputs}");
    }
    // After a downtime the last one may still be delayed.
    let hourly = schedule(json!({"cronExpression": "@hourly", "jitterSeconds": 3600, "misfire": "FireAll"}));
    let progress = progress(None);
    let third = at("2026-01-01T03:00:00Z");
    let first_two = hourly.due(&progress, third);
    assert_eq!(
        fired(&first_two),
        [at("2026-01-01T01:00:00Z"), at("2026-01-01T02:00:00Z")]
    );
    assert_eq!(first_two.next.unwrap().occurrence, third);
}
