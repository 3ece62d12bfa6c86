//! The form of an activity type on the wire.
//!
//! Elsa Studio reads most of these properties without a check for null, so none is ever null, and only a default value may
//! be absent.

use serde_json::{Map, Value, json};

use crate::activity::{Choice, Descriptor, InputDescriptor, OutputDescriptor, UiHint};
use crate::elsa_json::without_nulls;

/// A workflow as an activity: its inputs and outputs are those of its definition, and its workflow is not edited here.
pub(super) fn workflow(descriptor: &Descriptor) -> Value {
    let mut shown = activity(descriptor);
    for list in ["inputs", "outputs"] {
        let declared = shown.get_mut(list).and_then(Value::as_array_mut);
        for declared in declared.into_iter().flatten().filter_map(Value::as_object_mut) {
            declared.insert("isSynthetic".to_owned(), true.into());
        }
    }
    if let Some(ports) = shown.get_mut("ports").and_then(Value::as_array_mut) {
        let root = json!({"name": "Root", "displayName": "Root", "type": "Embedded", "isBrowsable": false});
        ports.insert(0, root);
    }
    shown
}

/// An activity type as designers read it.
pub(super) fn activity(descriptor: &Descriptor) -> Value {
    let (namespace, name) = descriptor
        .type_name
        .rsplit_once('.')
        .unwrap_or(("", &descriptor.type_name));
    let inputs = descriptor.inputs.iter().zip(0_u16..);
    let inputs: Vec<Value> = inputs.map(|(declared, place)| input(declared, place)).collect();
    let outputs = descriptor.outputs.iter().zip(0_u16..);
    let outputs: Vec<Value> = outputs.map(|(declared, place)| output(declared, place)).collect();
    let ports = descriptor.ports.iter().map(|name| port(name, "Embedded"));
    let outcomes = descriptor.outcomes.iter().map(|name| port(name, "Flow"));
    json!({
        "typeName": descriptor.type_name,
        "namespace": namespace,
        "name": name,
        "version": descriptor.version,
        "category": descriptor.category,
        "displayName": descriptor.display_name,
        "description": descriptor.description,
        "kind": descriptor.kind.as_str(),
        "inputs": inputs,
        "outputs": outputs,
        "ports": ports.chain(outcomes).collect::<Vec<Value>>(),
        "customProperties": descriptor.custom_properties,
        "constructionProperties": descriptor.presets,
        "isContainer": descriptor.is_container,
        "isBrowsable": !descriptor.is_hidden,
        "isStart": descriptor.is_start,
        "isTerminal": descriptor.is_terminal,
        "runAsynchronously": false,
    })
}

fn input(input: &InputDescriptor, place: u16) -> Value {
    without_nulls(json!({
        "name": input.name,
        "typeName": input.type_name,
        "displayName": input.display_name,
        "description": input.description,
        "order": input.order.unwrap_or(place.into()),
        "isBrowsable": !input.is_hidden,
        "isSynthetic": false,
        "isWrapped": !input.is_raw && !input.is_bare,
        "uiHint": input.ui_hint.as_str(),
        "category": input.category.as_deref().unwrap_or_default(),
        "defaultValue": input.default,
        "defaultSyntax": input.default_syntax,
        "isReadOnly": input.is_read_only,
        "isSensitive": input.is_sensitive,
        "isSerializable": true,
        "autoEvaluate": !input.is_lazy,
        "storageDriverType": "",
        "uiSpecifications": ui_specifications(&input.ui_hint, input.is_refreshed),
    }))
}

fn output(output: &OutputDescriptor, place: u16) -> Value {
    json!({
        "name": output.name,
        "typeName": output.type_name,
        "displayName": output.display_name,
        "description": output.description,
        "order": place,
        "isBrowsable": !output.is_hidden,
        "isSynthetic": false,
        "isSerializable": output.is_serializable,
    })
}

fn port(name: &str, kind: &str) -> Value {
    json!({"name": name, "displayName": name, "type": kind, "isBrowsable": true})
}

/// What the control of an input needs, under the control's own key.
pub(super) fn ui_specifications(hint: &UiHint, is_refreshed: bool) -> Map<String, Value> {
    let list = |choices: &[Choice]| {
        let items = choices.iter();
        let items = items.map(|choice| json!({"text": choice.text, "value": choice.value, "isChecked": false}));
        json!({"items": items.collect::<Vec<Value>>(), "isFlagsEnum": false})
    };
    let mut specifications = match hint {
        UiHint::Custom(_, specifications) => specifications.clone(),
        _ => Map::new(),
    };
    let own = match hint {
        UiHint::CheckList(choices) => Some(json!({"checkList": list(choices)})),
        UiHint::Dropdown(choices) => Some(json!({"selectList": list(choices)})),
        UiHint::RadioList(choices) => Some(json!({"radioList": list(choices)})),
        UiHint::CodeEditor(language) => Some(json!({"language": language})),
        _ => None,
    };
    if let Some(own) = own {
        specifications.insert(hint.as_str().to_owned(), own);
    }
    if let UiHint::DynamicOutcomes(fixed) = hint
        && !fixed.is_empty()
    {
        specifications.insert("DynamicOutcomesOptions".to_owned(), json!({"fixedOutcomes": fixed}));
    }
    if is_refreshed {
        specifications.insert("Refresh".to_owned(), true.into());
    }
    specifications
}
