//! The activities that run a script: one for each language that has some, as `Elsa.RunJavaScript`.

use serde_json::Value;

use super::tree::SCRIPT;
use super::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, OutputDescriptor, Step, UiHint};
use crate::expression::{LANGUAGES, Language, activity_type};

/// Runs scripts of a language.
#[derive(Debug)]
pub(super) struct RunScript {
    language: &'static dyn Language,
    type_name: String,
    chooses_by: &'static str,
}

impl RunScript {
    /// The activities of all languages.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        LANGUAGES.iter().filter_map(|language| {
            Some(Self {
                language: *language,
                type_name: activity_type(*language)?,
                chooses_by: language.chooses_by()?,
            })
        })
    }
}

impl Activity for RunScript {
    fn descriptor(&self) -> Descriptor {
        let name = self.language.display_name();
        Descriptor::new(&self.type_name)
            .describe("Scripting", format!("Executes {name} code."))
            .display_name(format!("Run {name}"))
            .input(script_input(self.language.editor()))
            .input(outcomes_input(self.chooses_by))
            .output(result_output())
            .fault_category("Script")
    }

    /// Without a chosen outcome it is `Done`. As in Elsa, a null leaves the result as it is.
    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        let script = context.text("Script").unwrap_or_default();
        if script.trim().is_empty() {
            return Ok(Step::Done);
        }
        let ran = context.run_script(self.language, &script).await?;
        if ran.value != Value::Null {
            context.set_output("Result", ran.value);
        }
        Ok(ran.outcomes.map_or(Step::Done, Step::Outcomes))
    }
}

fn script_input(language: &str) -> InputDescriptor {
    InputDescriptor::new(SCRIPT, "String")
        .default("")
        .hint(UiHint::CodeEditor(language.to_owned()))
        .describe("The script to run.")
}

/// The designer draws them; the script chooses among them.
fn outcomes_input(sets: &str) -> InputDescriptor {
    InputDescriptor::new("PossibleOutcomes", "String[]")
        .hint(UiHint::DynamicOutcomes(Vec::new()))
        .describe(format!("The outcomes that the script may choose by {sets}."))
}

fn result_output() -> OutputDescriptor {
    OutputDescriptor::new("Result", "Object").describe("What the script returns.")
}
