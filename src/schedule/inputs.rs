//! A schedule as JSON: the inputs of Elsa's Cron, Timer and StartAt, and the optional ones of every schedule.
//!
//! `cronExpression`, `interval` or `dateTime`, exactly one; `timeZone`, `gap`, `overlapTime`, `misfire`, `overlap`,
//! `jitterSeconds`, `startAt`, `endAt`, `belowASecond`. The case of names and of choices does not matter; null and empty
//! text count as absent.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use mainspring_language::parse_date_text;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value, json};

use super::clock_change::{ClockChangeRules, Gap, OverlapTime};
use super::cron::Cron;
use super::interval::Interval;
use super::misfire_json;
use super::parse::{parse_choice, quoted, whole_number};
use super::policy::OverlapPolicy;
use super::recurrence::{EARLIEST, LATEST, Schedule, ScheduleKind};
use super::zone::Zone;
use crate::{Error, Result};

const NAMES: [&str; 12] = [
    "cronExpression",
    "interval",
    "dateTime",
    "timeZone",
    "gap",
    "overlapTime",
    "misfire",
    "overlap",
    "jitterSeconds",
    "startAt",
    "endAt",
    "belowASecond",
];
const GAPS: [(&str, Gap); 3] = [("EndOfGap", Gap::FireAtEnd), ("Shift", Gap::Shift), ("Skip", Gap::Skip)];
const OVERLAP_TIMES: [(&str, OverlapTime); 3] = [
    ("First", OverlapTime::First),
    ("Second", OverlapTime::Second),
    ("Both", OverlapTime::Both),
];
const OVERLAPS: [(&str, OverlapPolicy); 3] = [
    ("Allow", OverlapPolicy::Allow),
    ("Skip", OverlapPolicy::Skip),
    ("QueueOne", OverlapPolicy::QueueOne),
];
/// A day.
const MAX_JITTER_SECONDS: u32 = 86_400;

impl Schedule {
    /// Reads a schedule. Unknown names are ignored: they belong to other inputs of the activity.
    ///
    /// # Errors
    /// `invalid-schedule`, with every error by the name of its input ([`Error::fields`]).
    pub fn from_inputs(inputs: &Map<String, Value>) -> Result<Self> {
        let mut reader = InputReader::of(inputs);
        let zone = reader.read("timeZone", text, |name| Zone::named(name).map_err(message));
        let gap = reader.read("gap", text, |choice| parse_choice(choice, &GAPS));
        let overlap_time = reader.read("overlapTime", text, |choice| parse_choice(choice, &OVERLAP_TIMES));
        let rules = ClockChangeRules {
            gap: gap.unwrap_or_default(),
            overlap: overlap_time.unwrap_or_default(),
        };
        let zone = zone.unwrap_or(Zone::UTC);
        let instant = |text: &str| instant(text, &zone, rules);
        let kind = reader.kind(instant);
        let start_at = reader.read("startAt", text, instant);
        let end_at = reader.read("endAt", text, instant);
        let misfire = reader.read("misfire", Some, misfire_json::read).unwrap_or_default();
        let overlap = reader.read("overlap", text, |choice| parse_choice(choice, &OVERLAPS));
        let jitter_seconds = reader.read("jitterSeconds", Some, jitter_seconds).unwrap_or_default();
        let below_a_second = reader.read("belowASecond", Some, flag).unwrap_or_default();
        if let (Some(start), Some(end)) = (start_at, end_at)
            && start > end
        {
            reader.add_error(
                "startAt",
                format!("{} is after endAt, {}", rfc3339(start), rfc3339(end)),
            );
        }
        if let Some(ScheduleKind::Interval(interval)) = &kind
            && interval.is_below_a_second()
            && !below_a_second
        {
            let error = "makes more than one occurrence a second; set belowASecond to true if that is intended";
            reader.add_error("interval", format!("{interval} {error}"));
        }
        if let (Some(ScheduleKind::Once(at)), Some(end)) = (&kind, end_at)
            && *at > end
        {
            reader.add_error("dateTime", format!("{} is after endAt, {}", rfc3339(*at), rfc3339(end)));
        }
        if let (Some(ScheduleKind::Once(at)), Some(start)) = (&kind, start_at)
            && *at < start
        {
            let error = format!("{} is before startAt, {}", rfc3339(*at), rfc3339(start));
            reader.add_error("dateTime", error);
        }
        let schedule = kind.map(|kind| Self {
            kind,
            zone: zone.clone(),
            rules,
            misfire,
            overlap: overlap.unwrap_or_default(),
            jitter_seconds,
            start_at,
            end_at,
            below_a_second,
        });
        if let Some(schedule) = &schedule
            && reader.errors.is_empty()
            && schedule.next_after(DateTime::<Utc>::MIN_UTC, EARLIEST).is_none()
        {
            let name = schedule.kind_name();
            reader.add_error(
                name,
                "never fires: no occurrence lies between startAt and endAt".to_owned(),
            );
        }
        reader.finish(schedule)
    }

    /// The schedule as inputs, with all defaults.
    pub fn to_inputs(&self) -> Map<String, Value> {
        let what = match &self.kind {
            ScheduleKind::Cron(cron) => json!(cron.to_string()),
            ScheduleKind::Interval(interval) => json!(interval.to_string()),
            ScheduleKind::Once(at) => json!(rfc3339(*at)),
        };
        let mut inputs = Map::new();
        let mut put = |name: &str, value: Value| inputs.insert(name.to_owned(), value);
        put(self.kind_name(), what);
        put("timeZone", json!(self.zone.name()));
        put("gap", json!(choice_name(self.rules.gap, &GAPS)));
        put("overlapTime", json!(choice_name(self.rules.overlap, &OVERLAP_TIMES)));
        put("misfire", misfire_json::write(self.misfire));
        put("overlap", json!(choice_name(self.overlap, &OVERLAPS)));
        put("jitterSeconds", json!(self.jitter_seconds));
        if let Some(start) = self.start_at {
            put("startAt", json!(rfc3339(start)));
        }
        if let Some(end) = self.end_at {
            put("endAt", json!(rfc3339(end)));
        }
        if self.below_a_second {
            put("belowASecond", json!(true));
        }
        inputs
    }

    /// The input that says when it fires.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            ScheduleKind::Cron(_) => "cronExpression",
            ScheduleKind::Interval(_) => "interval",
            ScheduleKind::Once(_) => "dateTime",
        }
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_inputs().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_inputs(&Map::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Reads the known inputs, and collects their errors.
struct InputReader<'a> {
    given: Vec<(&'static str, &'a Value)>,
    errors: Vec<(&'static str, String)>,
    /// The input of an activity with one kind of schedule, if it is present but empty.
    empty: Option<&'static str>,
}

/// The inputs of which exactly one must be given.
const KINDS: [&str; 3] = ["cronExpression", "interval", "dateTime"];

impl<'a> InputReader<'a> {
    fn of(inputs: &'a Map<String, Value>) -> Self {
        let known = |name: &str| NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(name));
        let is_given = |value: &Value| !value.is_null() && value.as_str().is_none_or(|text| !text.trim().is_empty());
        let given = inputs.iter().filter(|(_, value)| is_given(value));
        let mut places = inputs.keys().filter_map(|name| known(name));
        Self {
            given: given.filter_map(|(name, value)| Some((known(name)?, value))).collect(),
            errors: Vec::new(),
            empty: places.find(|name| KINDS.contains(name)),
        }
    }

    fn add_error(&mut self, name: &'static str, what: String) {
        self.errors.push((name, what));
    }

    /// The input, if it is given and can be read.
    fn read<F, T>(
        &mut self,
        name: &'static str,
        form: impl Fn(&'a Value) -> Option<F>,
        read: impl Fn(F) -> Result<T, String>,
    ) -> Option<T> {
        let (_, value) = self.given.iter().find(|(given, _)| *given == name)?;
        let Some(formed) = form(value) else {
            self.add_error(name, format!("must be text, not {}", quoted(&value.to_string())));
            return None;
        };
        read(formed).map_err(|wrong| self.add_error(name, wrong)).ok()
    }

    fn kind(&mut self, instant: impl Fn(&str) -> Result<DateTime<Utc>, String>) -> Option<ScheduleKind> {
        let given = KINDS
            .into_iter()
            .filter(|kind| self.given.iter().any(|(name, _)| name == kind));
        let given: Vec<&'static str> = given.collect();
        if given.is_empty() {
            match self.empty {
                Some(empty) => self.add_error(empty, "is required, and must not depend on an instance".to_owned()),
                None => self.add_error("cronExpression", format!("one of {} is required", KINDS.join(", "))),
            }
        }
        if let [_, second, ..] = given.as_slice() {
            let what = format!("only one of {} can be given", given.join(", "));
            self.add_error(second, what);
        }
        let cron = self.read("cronExpression", text, |text| Cron::parse(text).map_err(message));
        let interval = self.read("interval", text, |text| Interval::parse(text).map_err(message));
        let once = self.read("dateTime", text, instant);
        cron.map(ScheduleKind::Cron)
            .or(interval.map(ScheduleKind::Interval))
            .or(once.map(ScheduleKind::Once))
    }

    fn finish<T>(self, read: Option<T>) -> Result<T> {
        match read {
            Some(read) if self.errors.is_empty() => Ok(read),
            _ => {
                let all: Vec<String> = self
                    .errors
                    .iter()
                    .map(|(name, what)| format!("{name}: {what}"))
                    .collect();
                let error = Error::invalid(
                    "invalid-schedule",
                    format!("the schedule is invalid: {}", all.join("; ")),
                );
                Err(self
                    .errors
                    .into_iter()
                    .fold(error, |error, (name, what)| error.field(name, what)))
            }
        }
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().map(str::trim)
}

fn message(error: Error) -> String {
    error.message().to_owned()
}

fn choice_name<T: PartialEq>(choice: T, choices: &[(&'static str, T)]) -> &'static str {
    choices
        .iter()
        .find(|(_, known)| *known == choice)
        .map_or("", |(name, _)| name)
}

/// A text with an offset is an instant; without one it is a local time of the schedule's zone.
fn instant(text: &str, zone: &Zone, rules: ClockChangeRules) -> Result<DateTime<Utc>, String> {
    let written = parse_date_text(text, Utc::now()).ok_or_else(|| {
        format!(
            "{} is not a point in time; write it as 2030-01-31T09:00:00Z",
            quoted(text)
        )
    })?;
    let read = match written.offset {
        Some(_) => written.or_utc().with_timezone(&Utc),
        None => {
            let local = written.local;
            let bounded = bounded(local.and_utc())?;
            let second = zone.instant_of(bounded.naive_utc(), rules.gap, rules.overlap);
            let second = second.ok_or_else(|| format!("{} does not exist in {zone}", quoted(text)))?;
            let nanos = local.and_utc().timestamp_subsec_nanos();
            DateTime::from_timestamp(second, nanos).unwrap_or(bounded)
        }
    };
    let micros = DateTime::from_timestamp_micros(read.timestamp_micros());
    bounded(micros.unwrap_or(read))
}

fn bounded(at: DateTime<Utc>) -> Result<DateTime<Utc>, String> {
    if at < EARLIEST || at > *LATEST {
        return Err(format!("{} is not in the years 1970 to 9999", rfc3339(at)));
    }
    Ok(at)
}

fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn jitter_seconds(value: &Value) -> Result<u32, String> {
    let seconds = whole_number(value).and_then(|seconds| u32::try_from(seconds).ok());
    let seconds = seconds.filter(|seconds| *seconds <= MAX_JITTER_SECONDS);
    seconds.ok_or_else(|| {
        let given = quoted(&value.to_string());
        format!("{given} is not a whole number of seconds from 0 to {MAX_JITTER_SECONDS}")
    })
}

fn flag(value: &Value) -> Result<bool, String> {
    let text = value.as_str().map(str::trim);
    match (value, text) {
        (Value::Bool(flag), _) => Ok(*flag),
        (_, Some(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        (_, Some(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(format!("{} is neither true nor false", quoted(&value.to_string()))),
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ScheduleKind::Cron(cron) => write!(f, "{cron} ({})", self.zone),
            ScheduleKind::Interval(interval) => write!(f, "every {interval}"),
            ScheduleKind::Once(at) => write!(f, "at {}", rfc3339(*at)),
        }
    }
}
