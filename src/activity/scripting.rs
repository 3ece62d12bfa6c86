//! The activities that run a script: `Elsa.RunJavaScript` and `Elsa.RunCSharp`.

use serde_json::Value;

use super::tree::SCRIPT;
use super::{
    Activity, ActivityContext, Descriptor, Fault, InputDescriptor, OutputDescriptor, ScriptLanguage, Step, UiHint,
};

/// The type that runs C#; a script that is written in it is checked at publish.
pub(crate) const RUN_CSHARP: &str = "Elsa.RunCSharp";

#[derive(Debug)]
pub(super) struct RunJavaScript;

impl Activity for RunJavaScript {
    fn descriptor(&self) -> Descriptor {
        describe(
            "Elsa.RunJavaScript",
            "Run JavaScript",
            "Executes JavaScript code.",
            "javascript",
            "setOutcome(name)",
        )
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        run(context, ScriptLanguage::JavaScript).await
    }
}

#[derive(Debug)]
pub(super) struct RunCSharp;

impl Activity for RunCSharp {
    fn descriptor(&self) -> Descriptor {
        describe(RUN_CSHARP, "Run C#", "Executes C# code.", "csharp", "Outcome.Set(name)")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        run(context, ScriptLanguage::CSharp).await
    }
}

fn describe(type_name: &str, shown: &str, what: &str, language: &str, sets: &str) -> Descriptor {
    Descriptor::new(type_name)
        .describe("Scripting", what)
        .display_name(shown)
        .input(
            InputDescriptor::new(SCRIPT, "String")
                .default("")
                .hint(UiHint::CodeEditor(language.to_owned()))
                .describe("The script to run."),
        )
        .input(
            InputDescriptor::new("PossibleOutcomes", "String[]")
                .hint(UiHint::DynamicOutcomes(Vec::new()))
                .describe(format!("The outcomes that the script may choose by {sets}.")),
        )
        .output(OutputDescriptor::new("Result", "Object").describe("What the script returns."))
        .fault_category("Script")
}

/// Without a chosen outcome it is `Done`. As in Elsa, a null leaves the result as it is.
async fn run(context: &mut ActivityContext<'_>, language: ScriptLanguage) -> Result<Step, Fault> {
    let script = context.text(SCRIPT).unwrap_or_default();
    if script.trim().is_empty() {
        return Ok(Step::Done);
    }
    let ran = context.run_script(language, &script).await?;
    if ran.value != Value::Null {
        context.set_output("Result", ran.value);
    }
    Ok(ran.outcomes.map_or(Step::Done, Step::Outcomes))
}
