//! A published workflow as an activity: its descriptor, and how it runs inside its consumer.
//!
//! The activity evaluates its inputs in its consumer, and executes the nested workflow: one child, the workflow itself, whose
//! child is the root of its definition. So the scope of the nested workflow begins at an execution of its own.

use serde_json::Map;

use super::{
    Activity, ActivityContext, Descriptor, EndedChild, Fault, InputDescriptor, OutputDescriptor, Step, UiHint,
};
use crate::definition::WorkflowDefinition;

/// The port with the nested workflow.
pub(crate) const ROOT: &str = "Root";

/// Properties that every activity, or this one, has itself: an input with such a name is written with a leading `_`, as
/// in Elsa.
const RESERVED: [&str; 20] = [
    "CanStartWorkflow",
    "CommitStrategy",
    "CustomProperties",
    "Id",
    "LatestAvailablePublishedVersion",
    "LatestAvailablePublishedVersionId",
    "Line",
    "Metadata",
    "Name",
    "NodeId",
    "Root",
    "RunAsynchronously",
    "Source",
    "SyntheticProperties",
    "Type",
    "Variables",
    "Version",
    "WorkflowDefinitionId",
    "WorkflowDefinitionVersionId",
    "ResultVariable",
];

/// The activity type that a definition is, as Elsa describes it.
pub(crate) fn describe(definition: &WorkflowDefinition) -> Descriptor {
    let name = definition.name.as_deref().unwrap_or_default();
    let mut descriptor = Descriptor::new(nested_type_name(definition))
        .version(definition.version)
        .display_name(name)
        .describe(
            definition
                .options
                .get("activityCategory")
                .and_then(serde_json::Value::as_str)
                .filter(|category| !category.trim().is_empty())
                .unwrap_or("Workflows"),
            definition.description.clone().unwrap_or_default(),
        )
        .custom_property("RootType", "WorkflowDefinitionActivity")
        .custom_property("WorkflowDefinitionId", definition.definition_id.as_str())
        .custom_property("WorkflowDefinitionVersionId", definition.id.as_str())
        .preset("workflowDefinitionId", definition.definition_id.as_str())
        .preset("workflowDefinitionVersionId", definition.id.as_str())
        .preset("version", definition.version);
    for (argument, entry) in definition
        .declared_inputs()
        .into_iter()
        .zip(definition.inputs.iter().filter(|entry| {
            entry
                .get("name")
                .is_some_and(|name| name.as_str().is_some_and(|it| !it.is_empty()))
        }))
    {
        let text = |key: &str| {
            entry
                .get(key)
                .and_then(serde_json::Value::as_str)
                .filter(|it| !it.is_empty())
        };
        let mut input = InputDescriptor::new(
            safe_name(&argument.name),
            array_of(&argument.type_name, argument.is_array),
        )
        .display_name(text("displayName").unwrap_or(&argument.name))
        .describe(text("description").unwrap_or_default());
        if let Some(category) = text("category") {
            input = input.category(category);
        }
        if let Some(hint) = text("uiHint") {
            input = input.hint(UiHint::Custom(hint.to_owned(), Map::new()));
        }
        if let Some(default) = argument.default {
            input = input.default(default);
        }
        descriptor = descriptor.input(input);
    }
    for argument in definition.declared_outputs() {
        let entry = definition
            .outputs
            .iter()
            .find(|entry| entry.get("name").and_then(serde_json::Value::as_str) == Some(argument.name.as_str()));
        let text = |key: &str| {
            entry
                .and_then(|entry| entry.get(key)?.as_str())
                .filter(|it| !it.is_empty())
        };
        let output = OutputDescriptor::new(
            safe_name(&argument.name),
            array_of(&argument.type_name, argument.is_array),
        )
        .display_name(text("displayName").unwrap_or(&argument.name))
        .describe(text("description").unwrap_or_default());
        descriptor = descriptor.output(output);
    }
    for outcome in &definition.outcomes {
        descriptor = descriptor.outcome(outcome);
    }
    descriptor
}

fn array_of(type_name: &str, is_array: bool) -> String {
    match (type_name, is_array) {
        ("", false) => "Object".to_owned(),
        ("", true) => "Object[]".to_owned(),
        (name, false) => name.to_owned(),
        (name, true) => format!("{name}[]"),
    }
}

/// The name of the property of an input or output.
pub(crate) fn safe_name(name: &str) -> String {
    if RESERVED.contains(&name) {
        format!("_{name}")
    } else {
        name.to_owned()
    }
}

/// The name of the input or output of a property, see [`safe_name`].
pub(crate) fn plain_name(property: &str) -> &str {
    let plain = property.strip_prefix('_').filter(|plain| RESERVED.contains(plain));
    plain.unwrap_or(property)
}

/// The name of the activity type that a definition is: the name of the definition in Pascal case.
fn nested_type_name(definition: &WorkflowDefinition) -> String {
    pascal_case(definition.name.as_deref().unwrap_or_default())
}

/// `Sub-workflow test` becomes `SubWorkflowTest`: a letter at the beginning or after blanks, `_` and `-` becomes upper
/// case and these are removed; before anything else they stay, as in Elsa.
fn pascal_case(name: &str) -> String {
    let is_separator = |c: char| matches!(c, ' ' | '_' | '-');
    let mut pascal = String::with_capacity(name.len());
    let mut rest = name;
    let mut begins = true;
    while let Some(first) = rest.chars().next() {
        let behind = rest.trim_start_matches(is_separator);
        let skipped = rest.len() - behind.len();
        match behind.chars().next() {
            Some(letter) if (begins || skipped > 0) && letter.is_ascii_alphabetic() => {
                pascal.push(letter.to_ascii_uppercase());
                rest = behind.get(1..).unwrap_or_default();
            }
            _ => {
                pascal.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
        begins = false;
    }
    pascal
}

/// A workflow as an activity.
#[derive(Debug)]
pub(crate) struct WorkflowAsActivity(pub(crate) Descriptor);

impl Activity for WorkflowAsActivity {
    fn descriptor(&self) -> Descriptor {
        self.0.clone()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(execute_root(context))
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, child: EndedChild) -> Result<Step, Fault> {
        // As in Elsa, an output is a variable inside, too.
        for (output, value) in context.evaluator.outputs_set_as_variables() {
            context.set_output(output, value);
        }
        Ok(Step::Outcomes(child.outcomes))
    }
}

/// The workflow inside it. It ends with `Done`, unless an `Elsa.Complete` inside gives other outcomes.
#[derive(Debug)]
pub(crate) struct NestedWorkflow;

impl Activity for NestedWorkflow {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new(super::WORKFLOW)
            .describe("Workflows", "A workflow.")
            .port(ROOT)
            .hidden()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        Ok(execute_root(context))
    }

    async fn child_completed(&self, _context: &mut ActivityContext<'_>, _child: EndedChild) -> Result<Step, Fault> {
        Ok(Step::Done)
    }
}

fn execute_root(context: &mut ActivityContext<'_>) -> Step {
    match context.port(ROOT) {
        Some(root) => {
            context.schedule(root);
            Step::Wait
        }
        None => Step::Done,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_is_described_as_in_elsa() {
        for (name, expected) in [
            ("Subworkflow test", "SubworkflowTest"),
            ("provider", "Provider"),
            ("my_own-flow 2", "MyOwnFlow 2"),
            ("  two", "Two"),
            ("Ärger x", "ÄrgerX"),
            ("", ""),
        ] {
            assert_eq!(pascal_case(name), expected, "{name}");
        }
        let definition = WorkflowDefinition::from_value(json!({
            "id": "v", "definitionId": "d", "name": "Send invoice", "version": 3, "outcomes": ["Sent", "Held"],
            "options": {"usableAsActivity": true, "activityCategory": "Shop"},
            "inputs": [{"name": "Amounts", "type": "Decimal", "isArray": true, "displayName": "The amounts"},
                {"name": "Name", "type": "String", "defaultValue": "x"}],
            "outputs": [{"name": "Number", "type": "String"}],
        }))
        .unwrap();
        let found = describe(&definition);
        assert_eq!(
            (found.type_name.as_str(), found.version, found.category.as_str()),
            ("SendInvoice", 3, "Shop")
        );
        assert_eq!(found.inputs[0].type_name, "Decimal[]");
        assert_eq!(
            (found.inputs[1].name.as_str(), found.inputs[1].default.clone()),
            ("_Name", Some(json!("x")))
        );
        assert_eq!(found.outcomes, ["Sent", "Held"]);
        assert_eq!(found.custom_properties["WorkflowDefinitionVersionId"], "v");
        assert_eq!(found.presets["workflowDefinitionId"], "d");
    }
}
