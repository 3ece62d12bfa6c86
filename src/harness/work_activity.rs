//! `Mainspring.Work`: sleeps for a given time. The demo and the failover benchmark need long bursts, and start their nodes
//! with this activity.

use std::time::Duration;

use crate::activity::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};

/// The activity type name.
pub(crate) const WORK_ACTIVITY: &str = "Mainspring.Work";

/// Sleeps, as an activity does that calls a remote service: the burst is long and uses no CPU.
pub(crate) struct WorkActivity;

impl Activity for WorkActivity {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(WORK_ACTIVITY)
            .describe("Demonstration", "Sleeps for the given time.")
            .input(InputDescriptor::new("Milliseconds", "Int64").describe("The duration."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let time = context.read("Milliseconds")?;
        tokio::time::sleep(Duration::from_millis(time)).await;
        Ok(Step::Done)
    }
}
