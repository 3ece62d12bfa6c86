//! Values that a definition derives from a secret and stores explicitly: a publish names them.

use crate::activity::{ActivityNode, NodeInput};
use crate::definition::{Expression, ValidationError};
use crate::expression::{LANGUAGES, Language, language};

/// What activities store: the type, the input, and what it becomes.
const STORED: [(&str, &str, &str); 18] = [
    ("Elsa.SetVariable", "Value", "a variable"),
    ("Elsa.SetOutput", "OutputValue", "an output of the workflow"),
    ("Elsa.Correlate", "CorrelationId", "the correlation id"),
    ("Elsa.SetName", "Value", "the name of the instance"),
    ("Elsa.Event", "EventName", "the name of an event"),
    ("Elsa.PublishEvent", "EventName", "the name of an event"),
    ("Elsa.PublishEvent", "CorrelationId", "the correlation id of an event"),
    ("Elsa.PublishEvent", "Payload", "the payload of an event"),
    (
        "Elsa.DispatchWorkflow",
        "CorrelationId",
        "the correlation id of another instance",
    ),
    ("Elsa.DispatchWorkflow", "Input", "the input of another instance"),
    (
        "Elsa.ExecuteWorkflow",
        "CorrelationId",
        "the correlation id of another instance",
    ),
    ("Elsa.ExecuteWorkflow", "Input", "the input of another instance"),
    ("Elsa.BulkDispatchWorkflows", "Items", "the inputs of other instances"),
    ("Elsa.BulkDispatchWorkflows", "Input", "the input of other instances"),
    (
        "Elsa.BulkDispatchWorkflows",
        "CorrelationIdFunction",
        "the correlation ids of other instances",
    ),
    ("Elsa.RunTask", "TaskName", "the name of a task"),
    ("Elsa.RunTask", "Payload", "the payload of a task"),
    ("Elsa.Complete", "Outcomes", "outcomes of the workflow"),
];

/// Warnings about values that an activity stores and that are derived from a secret, as far as the text of the
/// expression shows it.
pub(super) fn stored(node: &ActivityNode) -> Vec<ValidationError> {
    let secret = node.inputs.iter().filter(|input| is_made_of_secret(input));
    let messages = secret.filter_map(|input| {
        let mut stored = STORED.iter();
        let found = stored.find(|(kind, name, _)| *kind == node.type_name && *name == input.name);
        let what = match found {
            Some((_, _, what)) => *what,
            None if is_script(input) && node.outputs.iter().any(|output| output.name == "Result") => "its result",
            None => return None,
        };
        Some(format!(
            "The input {} of the activity {} is derived from a secret and is stored, readable, as {what}; read the secret where it \
             is used instead",
            input.name,
            node.title()
        ))
    });
    messages.map(|message| ValidationError::of(&node.id, message)).collect()
}

/// Whether the input is a script that the activity runs.
fn is_script(input: &NodeInput) -> bool {
    let kind = input.expression.as_ref().map(|expression| expression.kind.as_str());
    input.name == "Script" && kind == Some("Literal")
}

fn is_made_of_secret(input: &NodeInput) -> bool {
    let Some(expression) = &input.expression else {
        return false;
    };
    match expression.kind.as_str() {
        "Secret" => true,
        "Literal" => is_script(input) && LANGUAGES.iter().any(|language| reads_secrets(*language, expression)),
        kind => language(kind).is_some_and(|language| reads_secrets(language, expression)),
    }
}

fn reads_secrets(language: &dyn Language, expression: &Expression) -> bool {
    expression
        .value
        .as_str()
        .is_some_and(|text| language.reads_secrets(text))
}
