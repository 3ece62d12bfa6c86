//! The inputs and outputs of a node, as its definition binds them.

use serde_json::{Map, Value};

use crate::activity::{
    CASES, Descriptor, NodeInput, NodeOutput, TRANSITIONS, camel_case, case_condition, transition_condition,
};
use crate::definition::{Expression, InputBinding, OutputBinding};
use crate::expression::TypeName;

/// The conditions of a switch: inputs that it evaluates one after the other.
fn conditions(cases: Option<&Value>) -> impl Iterator<Item = NodeInput> {
    let cases = cases.and_then(Value::as_array).into_iter().flatten();
    cases
        .enumerate()
        .map(|(number, case)| condition(case_condition(number), case.get("condition")))
}

/// The conditions of the transitions that have one.
fn transition_conditions(transitions: Option<&Value>) -> impl Iterator<Item = NodeInput> {
    let transitions = transitions.and_then(Value::as_array).into_iter().flatten();
    let conditions = transitions
        .enumerate()
        .map(|(number, transition)| condition(transition_condition(number), transition.get("condition")));
    conditions.filter(|input| input.expression.is_some() || input.memory_reference.is_some())
}

fn condition(name: String, given: Option<&Value>) -> NodeInput {
    let plain = given.and_then(Value::as_object).filter(|it| it.contains_key("type"));
    let (expression, memory_reference) = match plain {
        Some(plain) => {
            let kind = match plain.get("type").and_then(Value::as_str) {
                Some(kind) if !kind.is_empty() => kind.to_owned(),
                _ => "Literal".to_owned(),
            };
            let value = plain.get("value").cloned().unwrap_or_default();
            (Some(Expression { kind, value }), None)
        }
        None => {
            let binding = InputBinding::parse(given).unwrap_or_default();
            (binding.expression, binding.memory_reference)
        }
    };
    NodeInput {
        name,
        expression,
        memory_reference,
        convert_to: TypeName::Boolean,
        default: Some(false.into()),
        is_lazy: true,
        is_required: false,
    }
}

pub(super) fn inputs(descriptor: &Descriptor, properties: &Map<String, Value>) -> Vec<NodeInput> {
    let expressions = descriptor.inputs.iter().filter(|input| !input.is_raw);
    let cases = descriptor.has_cases.then(|| properties.get(CASES)).flatten();
    let has_transitions = descriptor
        .item_children
        .iter()
        .any(|(property, _)| *property == TRANSITIONS);
    let transitions = has_transitions.then(|| properties.get(TRANSITIONS)).flatten();
    expressions
        .map(|input| {
            let binding = InputBinding::parse(property(properties, &input.name)).unwrap_or_default();
            // The activity type decides; the definition only where the activity type accepts anything.
            let convert_to = match TypeName::parse(&input.type_name, false) {
                _ if input.is_as_given => TypeName::Any,
                TypeName::Any | TypeName::Own => TypeName::parse(&binding.type_name, false),
                known => known,
            };
            NodeInput {
                name: input.name.clone(),
                expression: binding.expression,
                memory_reference: binding.memory_reference,
                convert_to,
                default: input.default.clone(),
                is_lazy: input.is_lazy,
                is_required: input.is_required,
            }
        })
        .chain(conditions(cases))
        .chain(transition_conditions(transitions))
        .collect()
}

pub(super) fn outputs(descriptor: &Descriptor, properties: &Map<String, Value>) -> Vec<NodeOutput> {
    let bound = descriptor.outputs.iter().filter_map(|output| {
        let OutputBinding { target, converter } = OutputBinding::parse(property(properties, &output.name))?;
        Some(NodeOutput {
            name: output.name.clone(),
            target,
            converter,
        })
    });
    bound.collect()
}

pub(super) fn property<'a>(properties: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    properties.get(&camel_case(name)).or_else(|| properties.get(name))
}

/// A list of items, without the children in these properties of them.
pub(super) fn without_children(items: &Value, children: &[&str]) -> Value {
    let Value::Array(items) = items else {
        return items.clone();
    };
    let own = items.iter().map(|item| match item {
        Value::Object(fields) => {
            let own = fields.iter().filter(|(name, _)| !children.contains(&name.as_str()));
            Value::Object(own.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        other => other.clone(),
    });
    Value::Array(own.collect())
}
