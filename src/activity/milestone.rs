//! `Elsa.Start` and `Elsa.End`: where a flowchart begins and ends.

use super::{Activity, ActivityContext, Descriptor, Fault, Step};

#[derive(Debug)]
pub(super) struct Start;

impl Activity for Start {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Start")
            .describe("Flow", "Marks the start of a flowchart.")
            .start()
    }

    async fn execute(&self, _context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(Step::Done)
    }
}

#[derive(Debug)]
pub(super) struct End;

impl Activity for End {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.End")
            .describe("Flow", "Marks the end of a flowchart, and ends it.")
            .terminal()
    }

    async fn execute(&self, _context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(Step::Done)
    }
}
