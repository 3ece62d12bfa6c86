//! A misfire policy as JSON: a word, a word with its value, or an object.

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::parse::{parse_choice, quoted, whole_number};
use super::policy::{Misfire, MisfirePolicy};
use crate::expression::TimeSpan;

/// `"FireAll"`, `"FireAll:10"`, or `{"policy": "FireAll", "upTo": 10, "lateFrom": "00:01:00"}`.
pub(super) fn read(value: &Value) -> Result<Misfire, String> {
    let (policy, argument, late_from) = match value {
        Value::String(text) => {
            let (policy, argument) = text
                .split_once(':')
                .map_or((text.as_str(), None), |(policy, argument)| {
                    (policy, Some(Value::String(argument.trim().to_owned())))
                });
            (policy.trim().to_owned(), argument, None)
        }
        Value::Object(object) => {
            let of = |wanted: &str| {
                let mut all = object.iter().filter(|(_, value)| !value.is_null());
                all.find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                    .map(|(_, value)| value.clone())
            };
            let known = ["policy", "upTo", "lessThan", "lateFrom"];
            let unknown = object
                .keys()
                .find(|name| !known.iter().any(|known| known.eq_ignore_ascii_case(name)));
            if let Some(unknown) = unknown {
                return Err(format!("{} is not one of {}", quoted(unknown), known.join(", ")));
            }
            let policy = of("policy").unwrap_or_else(|| json!("FireOnceNow"));
            let policy = policy.as_str().ok_or("policy must be text")?.to_owned();
            let argument = match (of("upTo"), of("lessThan")) {
                (Some(_), _) if !policy.eq_ignore_ascii_case("FireAll") => return Err("upTo requires FireAll".into()),
                (_, Some(_)) if !policy.eq_ignore_ascii_case("OnlyIfLateBy") => {
                    return Err("lessThan requires OnlyIfLateBy".into());
                }
                (up_to, less_than) => up_to.or(less_than),
            };
            (policy, argument, of("lateFrom"))
        }
        other => return Err(format!("must be text or an object, not {}", quoted(&other.to_string()))),
    };
    let late_from = late_from.map(|value| length(&value, "lateFrom")).transpose()?;
    Ok(Misfire {
        policy: policy_of(&policy, argument.as_ref())?,
        late_from: late_from.unwrap_or(Misfire::default().late_from),
    })
}

fn policy_of(name: &str, argument: Option<&Value>) -> Result<MisfirePolicy, String> {
    let names = ["FireOnceNow", "Skip", "FireAll", "OnlyIfLateBy"].map(|name| (name, name));
    match (parse_choice(name, &names)?, argument) {
        ("FireAll", None) => Ok(MisfirePolicy::FIRE_ALL),
        ("FireAll", Some(value)) => {
            let up_to = whole_number(value).and_then(|number| usize::try_from(number).ok());
            let up_to = up_to.filter(|number| (1..=MisfirePolicy::MAX_FIRES).contains(number));
            let up_to = up_to.ok_or_else(|| {
                let given = quoted(&value.to_string());
                format!(
                    "FireAll requires 1 to {} occurrences, not {given}",
                    MisfirePolicy::MAX_FIRES
                )
            })?;
            Ok(MisfirePolicy::FireAll { up_to })
        }
        ("OnlyIfLateBy", Some(value)) => Ok(MisfirePolicy::OnlyIfLateBy {
            less_than: length(value, "OnlyIfLateBy")?,
        }),
        ("OnlyIfLateBy", None) => {
            Err("OnlyIfLateBy requires a length of time, such as OnlyIfLateBy:00:10:00".to_owned())
        }
        ("Skip", None) => Ok(MisfirePolicy::Skip),
        (_, None) => Ok(MisfirePolicy::FireOnceNow),
        (name, Some(_)) => Err(format!("{name} takes no value")),
    }
}

fn length(value: &Value, of: &str) -> Result<TimeDelta, String> {
    let span = value.as_str().and_then(TimeSpan::parse).and_then(TimeSpan::to_duration);
    let span = span.and_then(|span| TimeDelta::from_std(span).ok());
    let span = span.filter(|span| (TimeDelta::seconds(1)..=TimeDelta::days(36_525)).contains(span));
    span.ok_or_else(|| {
        let given = quoted(&value.to_string());
        format!("{of} must be a length of time from 00:00:01 to 36525 days, not {given}")
    })
}

/// The long form.
pub(super) fn write(misfire: Misfire) -> Value {
    let late_from = span(misfire.late_from);
    match misfire.policy {
        MisfirePolicy::FireOnceNow => json!({"policy": "FireOnceNow", "lateFrom": late_from}),
        MisfirePolicy::Skip => json!({"policy": "Skip", "lateFrom": late_from}),
        MisfirePolicy::FireAll { up_to } => json!({"policy": "FireAll", "upTo": up_to, "lateFrom": late_from}),
        MisfirePolicy::OnlyIfLateBy { less_than } => {
            json!({"policy": "OnlyIfLateBy", "lessThan": span(less_than), "lateFrom": late_from})
        }
    }
}

/// In .NET's format, to the microsecond.
fn span(length: TimeDelta) -> String {
    let (seconds, nanos) = (length.num_seconds(), length.subsec_nanos());
    let mut text = format!(
        "{}.{:02}:{:02}:{:02}",
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60
    );
    if nanos > 0 {
        text = format!("{text}.{:07}", nanos / 100);
    }
    text.strip_prefix("0.").map_or(text.clone(), str::to_owned)
}
