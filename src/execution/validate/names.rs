//! Names and ids within the bounds that an instance has for them: a longer one would fault it, or could never be matched.
//! The ids of activities have bounds of their own, which a save checks.

use serde_json::Value;

use super::shown::short;
use crate::activity::{ActivityNode, NodeInput};
use crate::definition::{Problems, ValidationError};
use crate::execution::bounds::name_problem;
use crate::execution::evaluate::object;
use crate::expression::coerce;
use crate::id::LONGEST_DEFINITION_ID;

/// What a name must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// As long as an instance keeps names.
    Short,
    /// Without control characters, which no event has.
    Plain,
    /// Both.
    ShortAndPlain,
    /// The id of a definition.
    DefinitionId,
    /// An object whose keys are short.
    Keys,
}

/// The inputs that are names: the activity type, the input, the rule.
const NAMES: [(&str, &str, Rule); 14] = [
    ("Elsa.Event", "EventName", Rule::Plain),
    ("Elsa.PublishEvent", "EventName", Rule::ShortAndPlain),
    ("Elsa.PublishEvent", "CorrelationId", Rule::ShortAndPlain),
    ("Elsa.Correlate", "CorrelationId", Rule::Short),
    ("Elsa.SetName", "Value", Rule::Short),
    ("Elsa.DispatchWorkflow", "WorkflowDefinitionId", Rule::DefinitionId),
    ("Elsa.DispatchWorkflow", "CorrelationId", Rule::Short),
    ("Elsa.DispatchWorkflow", "Input", Rule::Keys),
    ("Elsa.ExecuteWorkflow", "WorkflowDefinitionId", Rule::DefinitionId),
    ("Elsa.ExecuteWorkflow", "CorrelationId", Rule::Short),
    ("Elsa.ExecuteWorkflow", "Input", Rule::Keys),
    ("Elsa.BulkDispatchWorkflows", "WorkflowDefinitionId", Rule::DefinitionId),
    ("Elsa.BulkDispatchWorkflows", "CorrelationIdFunction", Rule::Short),
    ("Elsa.BulkDispatchWorkflows", "Input", Rule::Keys),
];

/// Reports the literal inputs of an activity that are no names for what they name.
pub(super) fn check(node: &ActivityNode, errors: &mut Problems) {
    let names = NAMES.iter().filter(|(of, ..)| *of == node.type_name);
    for (_, name, rule) in names {
        // Nothing can be published to such a name, but what waits there can be resumed by its bookmark.
        if *rule == Rule::Plain && !node.can_start {
            continue;
        }
        let value = node.inputs.iter().find(|input| input.name == *name).and_then(literal);
        if let Some(problem) = value.and_then(|value| problem_of(&value, *rule)) {
            let message = format!("The input {name} of the activity {} {problem}", node.title());
            errors.push(ValidationError::of(&node.id, message));
        }
    }
}

/// The value of an input that is not computed.
fn literal(input: &NodeInput) -> Option<Value> {
    let expression = input.expression.as_ref()?;
    let value = match expression.kind.as_str() {
        "Literal" => expression.value.clone(),
        "Object" => object(&expression.value, &input.convert_to).ok()?,
        _ => return None,
    };
    coerce(value, &input.convert_to).ok()
}

fn problem_of(value: &Value, rule: Rule) -> Option<String> {
    if rule == Rule::Keys {
        // A text is read as JSON when the activity runs.
        let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let fields = parsed.as_ref().unwrap_or(value).as_object()?;
        let mut problems = fields.keys().filter_map(|key| Some((key, name_problem(key)?)));
        let (key, problem) = problems.next()?;
        return Some(format!("has the name {}, which {problem}", short(&key.as_str().into())));
    }
    let text = value.as_str()?;
    let is_plain = !text.chars().any(char::is_control);
    let problem = match rule {
        Rule::Plain | Rule::ShortAndPlain if !is_plain => "has control characters, which no event has".to_owned(),
        Rule::DefinitionId if text.len() > LONGEST_DEFINITION_ID => format!(
            "has {} bytes, and the id of a workflow has at most {LONGEST_DEFINITION_ID}; name a workflow that exists",
            text.len()
        ),
        Rule::DefinitionId if !is_plain => "has control characters, which no id of a workflow has".to_owned(),
        Rule::Short | Rule::ShortAndPlain => name_problem(text)?,
        _ => return None,
    };
    Some(format!("is {}: it {problem}", short(value)))
}

/// Reports the name of a variable or an input of a workflow that is too long.
pub(super) fn declared(what: &str, name: &str) -> Option<String> {
    let problem = name_problem(name)?;
    let shown = short(&name.into());
    Some(format!("The {what} {shown} has a name that {problem}"))
}
