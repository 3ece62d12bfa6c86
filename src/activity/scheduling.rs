//! `Elsa.Timer`, `Elsa.Cron` and `Elsa.StartAt`: start an instance at a time, or wait for that time. `Elsa.Delay` only waits.
//!
//! As a trigger, each of the first three becomes a schedule when its definition is published, and its output names the
//! occurrence. Inside a workflow, each waits for its next occurrence by the clock of the database. A delay is a length, never
//! a point in time: it is counted from the commit.

use serde_json::{Map, Value, json};

use super::primitives::EVENT_PAYLOAD_INPUT;
use super::{
    Activity, ActivityContext, ActivityKind, BookmarkRequest, Choice, Descriptor, Fault, InputDescriptor,
    OutputDescriptor, Step, UiHint,
};
use crate::Result as EngineResult;
use crate::elsa_json::timestamp_text;
use crate::expression::TimeSpan;
use crate::schedule::{self, Progress, Schedule};

#[derive(Debug)]
pub(super) struct Delay;

impl Activity for Delay {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Delay")
            .describe("Scheduling", "Waits for the given time.")
            .input(
                InputDescriptor::new("TimeSpan", "TimeSpan")
                    .default("00:01:00")
                    .describe("How long to wait, as 00:05:00 or 1.12:00:00 (days first)."),
            )
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let span = match context.input("TimeSpan") {
            Value::String(text) => TimeSpan::parse(text),
            _ => None,
        };
        let span = span.ok_or_else(|| Fault::new("The input TimeSpan is empty; write it as \"00:00:05\""))?;
        // A negative delay is due at once, but still after the commit.
        let delay = span.to_duration().unwrap_or_default();
        context.bookmark(BookmarkRequest::delay(delay, json!({"timeSpan": span.to_string()})));
        Ok(Step::Wait)
    }
}

#[derive(Debug)]
pub(super) struct Timer;

#[derive(Debug)]
pub(super) struct CronActivity;

#[derive(Debug)]
pub(super) struct StartAt;

impl Activity for Timer {
    fn descriptor(&self) -> Descriptor {
        let description = "Starts the workflow repeatedly after an interval, or waits for one.";
        described("Elsa.Timer", description).with_options(|descriptor| {
            descriptor.input(
                InputDescriptor::new("Interval", "TimeSpan")
                    .default("00:01:00")
                    .describe("The time between two occurrences, as 00:05:00."),
            )
        })
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        execute(context)
    }

    fn trigger_schedule(&self, inputs: &Map<String, Value>) -> Option<EngineResult<Schedule>> {
        Some(Schedule::from_inputs(inputs))
    }
}

impl Activity for CronActivity {
    fn descriptor(&self) -> Descriptor {
        let description = "Starts the workflow at the times of a cron expression, or waits for the next one.";
        described("Elsa.Cron", description).with_options(|descriptor| {
            descriptor.input(
                InputDescriptor::new("CronExpression", "String")
                    .describe("Five fields, or six with the second first, as \"0 0 9 * * MON-FRI\"."),
            )
        })
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        execute(context)
    }

    fn trigger_schedule(&self, inputs: &Map<String, Value>) -> Option<EngineResult<Schedule>> {
        Some(Schedule::from_inputs(inputs))
    }
}

impl Activity for StartAt {
    fn descriptor(&self) -> Descriptor {
        let description = "Starts the workflow at a point in time, or waits for it.";
        described("Elsa.StartAt", description).with_options(|descriptor| {
            descriptor.input(
                InputDescriptor::new("DateTime", "DateTimeOffset")
                    .as_given()
                    .describe("The point in time; without an offset in the time zone of this activity."),
            )
        })
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        execute(context)
    }

    fn trigger_schedule(&self, inputs: &Map<String, Value>) -> Option<EngineResult<Schedule>> {
        Some(Schedule::from_inputs(inputs))
    }
}

fn described(type_name: &str, description: &str) -> Descriptor {
    Descriptor::new(type_name)
        .describe("Scheduling", description)
        .kind(ActivityKind::Trigger)
        .output(OutputDescriptor::new("Result", "Object").describe("The occurrence that started the instance."))
}

/// The group of the inputs that all schedules share.
const OPTIONS: &str = "Schedule";

/// Adds the inputs that all schedules share, after their own.
trait WithOptions {
    fn with_options(self, own: impl FnOnce(Self) -> Self) -> Self
    where
        Self: Sized;
}

impl WithOptions for Descriptor {
    fn with_options(self, own: impl FnOnce(Self) -> Self) -> Self {
        let option = |name: &str, type_name: &str, description: &str| {
            let option = InputDescriptor::new(name, type_name);
            option.describe(description).category(OPTIONS)
        };
        let choice = |name: &str, description: &str, values: &[&str]| {
            let choices = values.iter().map(|value| Choice::from(*value)).collect();
            option(name, "String", description).hint(UiHint::Dropdown(choices))
        };
        own(self)
            .input(option(
                "TimeZone",
                "String",
                "The name of a time zone, as Europe/Berlin. UTC unless given.",
            ))
            .input(choice(
                "Gap",
                "For a local time that the clock skips: EndOfGap unless given.",
                &["EndOfGap", "Shift", "Skip"],
            ))
            .input(choice(
                "OverlapTime",
                "For a local time that occurs twice: First unless given.",
                &["First", "Second", "Both"],
            ))
            .input(option(
                "Misfire",
                "Object",
                "For a misfire: FireOnceNow (default), Skip, FireAll, FireAll:20, or OnlyIfLateBy:00:10:00.",
            ))
            .input(choice(
                "Overlap",
                "While an earlier instance runs: Allow unless given.",
                &["Allow", "Skip", "QueueOne"],
            ))
            .input(option(
                "JitterSeconds",
                "Int32",
                "Fires later, by less than this number of seconds.",
            ))
            .input(option("StartAt", "String", "The earliest time at which it may fire."))
            .input(option("EndAt", "String", "The latest time at which it may fire."))
            .input(option("BelowASecond", "Boolean", "Allows an interval below a second."))
    }
}

/// The inputs that a trigger gives to the instance that it starts, as in Elsa.
pub(crate) fn inputs_of_trigger(type_name: &str) -> &'static [&'static str] {
    match type_name {
        "Elsa.Timer" => &["StartAt", "Interval"],
        "Elsa.Cron" => &["CronExpression"],
        "Elsa.StartAt" => &["ExecuteAt"],
        "Elsa.Event" => &[EVENT_PAYLOAD_INPUT],
        _ => &[],
    }
}

/// Gives the instance the time of the occurrence, and what it repeats by.
fn give(context: &mut ActivityContext<'_>, payload: &Value) {
    for name in inputs_of_trigger(context.node().type_name()) {
        let value = match *name {
            "StartAt" | "ExecuteAt" => payload.get("occurrence").cloned().unwrap_or_default(),
            repeated => context.input(repeated).clone(),
        };
        // A client may start at a trigger without an occurrence.
        if !value.is_null() {
            context.set_workflow_input(name, value);
        }
    }
}

fn execute(context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
    if let Some(payload) = context.started_by().cloned() {
        give(context, &payload);
        context.set_output("Result", payload);
        return Ok(Step::Done);
    }
    let schedule = Schedule::from_inputs(context.inputs()).map_err(|error| Fault::new(error.message()))?;
    let now = context.now();
    // As in Elsa, a point in time in the past is not waited for.
    if matches!(schedule.kind(), schedule::ScheduleKind::Once(at) if *at <= now) {
        return Ok(Step::Done);
    }
    let id = context.execution_id().as_str().to_owned();
    let progress = Progress {
        id: &id,
        anchor: now,
        last_occurrence: None,
    };
    let next = schedule
        .next(&progress)
        .ok_or_else(|| Fault::new(format!("The schedule {schedule} has no further occurrence")))?;
    let request = match (schedule.kind(), schedule.length(&id)) {
        // An interval from now on is a length: it is counted from the commit, like a delay, and a repeat of the burst has the same.
        (schedule::ScheduleKind::Interval(interval), Some(length)) => {
            BookmarkRequest::delay(length, json!({"interval": interval.to_string()}))
        }
        (kind, _) => {
            let at = timestamp_text(next.fire_at);
            let payload = match kind {
                schedule::ScheduleKind::Cron(cron) => json!({"executeAt": at, "cronExpression": cron.to_string()}),
                _ => json!({"executeAt": at}),
            };
            BookmarkRequest::at(next.fire_at, payload)
        }
    };
    context.bookmark(request);
    Ok(Step::Wait)
}
