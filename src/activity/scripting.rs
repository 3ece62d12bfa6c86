//! The activities that run a script: `Elsa.RunJavaScript` and `Elsa.RunCSharp`.

use serde_json::Value;

use super::tree::SCRIPT;
use super::{
    Activity, ActivityContext, Descriptor, Fault, InputDescriptor, OutputDescriptor, ScriptLanguage, Step, UiHint,
};

/// The type that runs JavaScript.
pub(crate) const RUN_JAVASCRIPT: &str = "Elsa.RunJavaScript";

/// The type that runs C#; a script that is written in it is checked at publish.
pub(crate) const RUN_CSHARP: &str = "Elsa.RunCSharp";

#[derive(Debug)]
pub(super) struct RunJavaScript;

impl Activity for RunJavaScript {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(RUN_JAVASCRIPT)
            .describe("Scripting", "Executes JavaScript code.")
            .display_name("Run JavaScript")
            .input(script_input("javascript"))
            .input(outcomes_input("setOutcome(name)"))
            .output(result_output())
            .fault_category("Script")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        run(context, ScriptLanguage::JavaScript).await
    }
}

#[derive(Debug)]
pub(super) struct RunCSharp;

impl Activity for RunCSharp {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(RUN_CSHARP)
            .describe("Scripting", "Executes C# code.")
            .display_name("Run C#")
            .input(script_input("csharp"))
            .input(outcomes_input("Outcome.Set(name)"))
            .output(result_output())
            .fault_category("Script")
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        run(context, ScriptLanguage::CSharp).await
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

/// Without a chosen outcome it is `Done`. As in Elsa, a null leaves the result as it is.
async fn run(context: &mut ActivityContext<'_>, language: ScriptLanguage) -> Result<Step, Fault> {
    let script = context.text("Script").unwrap_or_default();
    if script.trim().is_empty() {
        return Ok(Step::Done);
    }
    let ran = context.run_script(language, &script).await?;
    if ran.value != Value::Null {
        context.set_output("Result", ran.value);
    }
    Ok(ran.outcomes.map_or(Step::Done, Step::Outcomes))
}
