//! `Elsa.SetVariable`: assigns a variable.

use serde_json::Value;

use super::{Activity, ActivityContext, Descriptor, Fault, InputDescriptor, Step};

#[derive(Debug)]
pub(super) struct SetVariable;

impl Activity for SetVariable {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.SetVariable")
            .describe("Primitives", "Assigns a value to a variable.")
            .display_name("Set Variable")
            .input(
                InputDescriptor::new("Variable", "Variable")
                    .raw()
                    .hint("variable-picker"),
            )
            .input(InputDescriptor::new("Value", "Object").describe("The value to assign."))
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        // The designer writes the whole variable, people write its name.
        let variable = match context.node().property("variable") {
            Some(Value::String(name)) => name.as_str(),
            Some(Value::Object(variable)) => {
                let text = |key: &str| {
                    variable
                        .get(key)
                        .and_then(Value::as_str)
                        .filter(|text| !text.is_empty())
                };
                text("id").or_else(|| text("name")).unwrap_or_default()
            }
            _ => "",
        };
        // Elsa does nothing when no variable was chosen; a typo deserves to be seen, an empty choice does not.
        if !variable.is_empty() {
            let value = context.input("Value").clone();
            context.set_variable(variable, value);
        }
        Ok(Step::Done)
    }
}
