//! The activities that run a script: one for each language that has scripts, such as `Elsa.RunJavaScript`.

use serde_json::Value;

use super::tree::SCRIPT;
use super::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, OutputDescriptor, Step, UiHint};
use crate::expression::Language;

/// Runs scripts of a language: the name of the type, and the language.
#[derive(Debug)]
pub(super) struct RunScript(pub(super) String, pub(super) &'static dyn Language);

impl Activity for RunScript {
    fn descriptor(&self) -> Descriptor {
        let language = self.1.facts();
        let name = language.display_name;
        let script = InputDescriptor::new(SCRIPT, "String")
            .default("")
            .hint(UiHint::CodeEditor(language.editor.to_owned()))
            .describe("The script to run.");
        let sets = language.chooses_by.unwrap_or_default();
        // The designer draws them; the script chooses among them.
        let outcomes = InputDescriptor::new("PossibleOutcomes", "String[]")
            .hint(UiHint::DynamicOutcomes(Vec::new()))
            .describe(format!("The outcomes that the script may choose by {sets}."));
        Descriptor::new(&self.0)
            .describe("Scripting", format!("Executes {name} code."))
            .display_name(format!("Run {name}"))
            .input(script)
            .input(outcomes)
            .output(OutputDescriptor::new("Result", "Object").describe("What the script returns."))
            .fault_category("Script")
    }

    /// The outcome is `Done` unless the script chooses one. As in Elsa, null leaves the result as it is.
    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let script = context.text("Script").unwrap_or_default();
        if script.trim().is_empty() {
            return Ok(Step::Done);
        }
        let ran = context.run_script(self.1, &script).await?;
        if ran.value != Value::Null {
            context.set_output("Result", ran.value);
        }
        Ok(ran.outcomes.map_or(Step::Done, Step::Outcomes))
    }
}
