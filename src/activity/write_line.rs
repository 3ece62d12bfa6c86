//! `Elsa.WriteLine`: a line on the console.

use super::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};

#[derive(Debug)]
pub(super) struct WriteLine;

impl Activity for WriteLine {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.WriteLine")
            .describe("Console", "Writes a line of text to the console.")
            .display_name("Write Line")
            .input(InputDescriptor::new("Text", "String").describe("The text."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        context.write_line(&context.text("Text").unwrap_or_default());
        Ok(Step::Done)
    }
}
