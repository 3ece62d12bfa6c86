//! Whether the templates of an activity can be rendered.

use serde_json::Value;

use crate::activity::{ActivityNode, NodeInput};
use crate::definition::ValidationError;
use crate::expression::TEMPLATES;

/// What is wrong with the template of an input, and where.
pub(super) fn error(node: &ActivityNode, input: &NodeInput, template: &Value) -> Option<ValidationError> {
    let text = template.as_str()?;
    let problem = TEMPLATES.check(text).err()?;
    let message = format!(
        "The input {} of the activity {} is no valid Liquid: {problem}",
        input.name, node.id
    );
    Some(ValidationError::of(&node.id, message))
}
