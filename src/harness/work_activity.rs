//! `Mainspring.Work`: is busy for a while. The demo and the failover benchmark need bursts that last, and their nodes
//! know this activity.

use std::time::Duration;

use crate::activity::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};

/// The name of the type.
pub(crate) const WORK: &str = "Mainspring.Work";

/// Takes its time, as an activity does that calls somebody outside: the burst lasts, a core is not burnt.
pub(crate) struct Work;

impl Activity for Work {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(WORK)
            .describe("Demonstration", "Is busy for the given time.")
            .input(InputDescriptor::new("Milliseconds", "Int64").describe("How long."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let time = context.read("Milliseconds")?;
        tokio::time::sleep(Duration::from_millis(time)).await;
        Ok(Step::Done)
    }
}
