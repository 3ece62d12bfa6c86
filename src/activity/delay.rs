//! `Elsa.Delay`: lets time pass.
//!
//! The activity names a length, never a point in time: when it ends is counted from the commit, by the database's
//! clock. As a trigger it starts one instance, that long after its definition was published.

use serde_json::{Map, Value, json};

use super::{Activity, ActivityContext, ActivityKind, BookmarkRequest, Descriptor, Fault, InputDescriptor, Step};
use crate::expression::TimeSpan;
use crate::schedule::Schedule;

#[derive(Debug)]
pub(super) struct Delay;

impl Activity for Delay {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Delay")
            .describe("Scheduling", "Waits for the given time.")
            .kind(ActivityKind::Trigger)
            .input(
                InputDescriptor::new("TimeSpan", "TimeSpan")
                    .default("00:01:00")
                    .describe("How long to wait."),
            )
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        if context.started_by().is_some() {
            return Ok(Step::Done);
        }
        let span = match context.input("TimeSpan") {
            Value::String(text) => TimeSpan::parse(text),
            _ => None,
        };
        let span = span.ok_or_else(|| Fault::new("The input TimeSpan is empty; write it as \"00:00:05\""))?;
        // A delay that lies in the past is over at once, but still after the commit, as any other.
        let delay = span.to_duration().unwrap_or_default();
        context.bookmark(BookmarkRequest::delay(delay, json!({"timeSpan": span.to_string()})));
        Ok(Step::Wait)
    }

    fn trigger_schedule(&self, inputs: &Map<String, Value>) -> Option<crate::Result<Schedule>> {
        Some(Schedule::from_inputs(inputs))
    }
}
