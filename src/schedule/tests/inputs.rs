//! Schedules as JSON: reading, writing, and errors, all reported at once.

use serde_json::json;

use super::*;
use crate::schedule::{MisfirePolicy, OverlapPolicy, ScheduleKind};

fn refused(inputs: Value) -> Vec<(String, String)> {
    let error = Schedule::from_inputs(inputs.as_object().unwrap()).unwrap_err();
    assert_eq!(error.code(), "invalid-schedule");
    for (_, what) in error.fields() {
        assert!(error.message().contains(what));
    }
    error.fields().to_vec()
}

#[test]
fn the_defaults_are_written_out() {
    let cron = schedule(json!({"CronExpression": "0 0 9 * * *", "Text": "another input"}));
    assert_eq!(
        serde_json::to_value(&cron).unwrap(),
        json!({
            "cronExpression": "0 0 9 * * *",
            "timeZone": "UTC",
            "gap": "EndOfGap",
            "overlapTime": "First",
            "misfire": {"policy": "FireOnceNow", "lateFrom": "00:01:00"},
            "overlap": "Allow",
            "jitterSeconds": 0,
        })
    );
    assert_eq!(cron.to_string(), "0 0 9 * * * (UTC)");
    assert_eq!(cron.overlap(), OverlapPolicy::Allow);
}

#[test]
fn a_written_schedule_can_be_read() {
    for inputs in [
        json!({"cronExpression": "@daily", "timeZone": "europe/berlin", "gap": "skip", "overlapTime": "BOTH"}),
        json!({"interval": "00:00:30", "jitterSeconds": "20", "overlap": "queueone", "startAt": null, "gap": ""}),
        json!({"interval": "00:00:00.25", "belowASecond": true, "misfire": "FireAll:7"}),
        json!({"interval": "1.02:03:04", "misfire": {"policy": "OnlyIfLateBy", "lessThan": "36.00:00:00.5", "lateFrom": "00:00:10"}}),
        json!({"dateTime": "2030-01-31T09:00:00.123456+01:00", "misfire": "Skip"}),
        json!({"cronExpression": "0 9 * * *", "startAt": "2026-01-01T00:00:00Z", "endAt": "2026-12-31T00:00:00Z"}),
    ] {
        let read = schedule(inputs.clone());
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(
            serde_json::from_value::<Schedule>(written.clone()).unwrap(),
            read,
            "{inputs} {written}"
        );
    }
}

#[test]
fn misfires_have_a_short_and_a_long_form() {
    let policy = |misfire: Value| schedule(json!({"interval": "01:00:00", "misfire": misfire})).misfire();
    assert_eq!(policy(json!(null)).policy, MisfirePolicy::FireOnceNow);
    assert_eq!(policy(json!("fireoncenow")).policy, MisfirePolicy::FireOnceNow);
    assert_eq!(policy(json!("FireAll")).policy, MisfirePolicy::FireAll { up_to: 100 });
    assert_eq!(policy(json!("FireAll: 7")).policy, MisfirePolicy::FireAll { up_to: 7 });
    assert_eq!(
        policy(json!({"policy": "FireAll", "upTo": 7})),
        policy(json!("FireAll:7"))
    );
    let ten_minutes = MisfirePolicy::OnlyIfLateBy {
        less_than: chrono::TimeDelta::minutes(10),
    };
    assert_eq!(policy(json!("OnlyIfLateBy:00:10:00")).policy, ten_minutes);
    assert_eq!(
        policy(json!({"lateFrom": "00:05:00"})).late_from,
        chrono::TimeDelta::minutes(5)
    );
    for (invalid, hint) in [
        (json!("Sometimes"), "FireOnceNow, Skip, FireAll, OnlyIfLateBy"),
        (json!("FireAll:0"), "1 to 1000"),
        (json!("FireAll:1001"), "1 to 1000"),
        (json!("OnlyIfLateBy"), "requires a length of time"),
        (json!("OnlyIfLateBy:soon"), "length of time"),
        (json!("Skip:3"), "takes no value"),
        (json!({"policy": "Skip", "upTo": 3}), "requires FireAll"),
        (json!({"policy": "Skip", "lessThan": "1"}), "requires OnlyIfLateBy"),
        (json!({"policy": "Skip", "lateFrom": "-00:01:00"}), "lateFrom"),
        (json!({"policy": "Skip", "limit": 3}), "not one of policy"),
        (json!(3), "text or an object"),
    ] {
        let all = refused(json!({"interval": "01:00:00", "misfire": invalid}));
        assert!(
            all.len() == 1 && all[0].0 == "misfire" && all[0].1.contains(hint),
            "{all:?}"
        );
    }
}

#[test]
fn times_without_an_offset_are_local() {
    let once = |inputs: Value| match schedule(inputs).kind() {
        ScheduleKind::Once(at) => *at,
        other => panic!("{other:?}"),
    };
    let berlin = |text: &str| once(json!({"dateTime": text, "timeZone": "Europe/Berlin"}));
    assert_eq!(
        once(json!({"dateTime": "2026-07-01T12:00:00"})),
        at("2026-07-01T12:00:00Z")
    );
    assert_eq!(berlin("2026-07-01T12:00:00"), at("2026-07-01T10:00:00Z"));
    assert_eq!(berlin("2026-07-01 12:00"), at("2026-07-01T10:00:00Z"));
    assert_eq!(berlin("2026-07-01T12:00:00.25-03:00"), at("2026-07-01T15:00:00.25Z"));
    assert_eq!(berlin("2026-03-29T02:30:00"), at("2026-03-29T01:00:00Z"));
    let all = refused(json!({"dateTime": "2026-03-29T02:30:00", "timeZone": "Europe/Berlin", "gap": "Skip"}));
    assert!(all[0].1.contains("does not exist in Europe/Berlin"), "{all:?}");
}

#[test]
fn all_errors_are_reported_at_once() {
    let all = refused(json!({
        "cronExpression": "0 0 30 2 *",
        "timeZone": "Europe/Berln",
        "gap": "Jump",
        "overlapTime": 3,
        "misfire": "Never",
        "overlap": "Cancel",
        "jitterSeconds": -1,
        "startAt": "tomorrow",
        "endAt": "10000-01-01T00:00:00Z",
        "belowASecond": "perhaps",
    }));
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "timeZone",
            "gap",
            "overlapTime",
            "cronExpression",
            "startAt",
            "endAt",
            "misfire",
            "overlap",
            "jitterSeconds",
            "belowASecond"
        ]
    );
    assert!(
        all[0].1.contains("Europe/Berlin") && all[3].1.contains("never fires"),
        "{all:?}"
    );
}

#[test]
fn each_invalid_input_is_refused() {
    for (inputs, name, hint) in [
        (json!({}), "cronExpression", "is required"),
        (json!({"interval": null}), "interval", "is required"),
        (
            json!({"interval": "01:00:00", "dateTime": "2030-01-01T00:00:00Z"}),
            "dateTime",
            "only one of",
        ),
        (json!({"interval": "00:00:00"}), "interval", "above zero"),
        (json!({"interval": "-01:00:00"}), "interval", "above zero"),
        (json!({"interval": 5}), "interval", "must be text"),
        (json!({"interval": "00:00:00.5"}), "interval", "belowASecond"),
        (json!({"dateTime": "1969-12-31T23:59:59Z"}), "dateTime", "1970 to 9999"),
        (
            json!({"dateTime": "+10000-01-01T00:00:00Z"}),
            "dateTime",
            "not a point in time",
        ),
        (
            json!({"interval": "01:00:00", "startAt": "2026-02-01T00:00:00Z", "endAt": "2026-01-01T00:00:00Z"}),
            "startAt",
            "is after endAt",
        ),
        (
            json!({"dateTime": "2026-02-01T00:00:00Z", "endAt": "2026-01-01T00:00:00Z"}),
            "dateTime",
            "is after endAt",
        ),
        (
            json!({"dateTime": "2026-02-01T00:00:00Z", "startAt": "2026-03-01T00:00:00Z"}),
            "dateTime",
            "is before startAt",
        ),
        (
            json!({"cronExpression": "0 9 * * MON", "startAt": "2026-01-06T00:00:00Z", "endAt": "2026-01-09T00:00:00Z"}),
            "cronExpression",
            "never fires: no occurrence lies between",
        ),
        (
            json!({"cronExpression": "0 9 * * *", "jitterSeconds": 86_401}),
            "jitterSeconds",
            "0 to 86400",
        ),
        (
            json!({"cronExpression": "0 9 * * *", "jitterSeconds": 1.5}),
            "jitterSeconds",
            "whole number",
        ),
    ] {
        let all = refused(inputs.clone());
        assert!(
            all.len() == 1 && all[0].0 == name && all[0].1.contains(hint),
            "{inputs}: {all:?}"
        );
    }
    // The bounds themselves are valid.
    let last = schedule(json!({"dateTime": "9999-12-31T23:59:59.999999Z"}));
    assert_eq!(
        last.next_after(at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z"))
            .unwrap()
            .timestamp(),
        253_402_300_799
    );
    let first = schedule(json!({"dateTime": "1970-01-01T00:00:00Z"}));
    assert_eq!(
        first.next_after(at("1960-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z")),
        Some(DateTime::UNIX_EPOCH)
    );
}
