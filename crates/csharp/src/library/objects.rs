//! Members of values that are objects of a class: builders, encodings, regular expressions and exceptions.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::arguments::Arguments;
use super::{builders, regexes};
use crate::object::Object;
use crate::problem::{Evaluated, Stop};
use crate::run::{Machine, Meter};
use crate::types::{EnumKind, ObjectKind};
use crate::value::Value;

pub(super) fn call(object: &Rc<Object>, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    match &**object {
        Object::Builder(text) => builders::call(object, text, name, arguments),
        Object::Encoding(encoding) => builders::of_encoding(*encoding, name, arguments),
        Object::Regex(pattern) => regexes::call(pattern, name, arguments),
        Object::Match(found) if name == "NextMatch" => regexes::next_match(found, arguments.meter()).map(Some),
        _ => Ok(None),
    }
}

pub(super) fn property(object: &Object, name: &str, meter: &Meter<'_>) -> Evaluated<Option<Value>> {
    match object {
        Object::Builder(text) if name == "Length" => builders::length_of(text, meter).map(Some),
        Object::Exception(exception) if name == "Message" => Ok(Some(Value::Text(Arc::clone(&exception.message)))),
        _ => regexes::property(object, name, meter),
    }
}

/// `object.Name = value`.
pub(crate) fn set_object_property(object: &Object, name: &str, value: &Value, meter: &Meter<'_>) -> Evaluated<()> {
    match object {
        Object::Builder(text) if name == "Length" => builders::set_length(text, value, meter),
        _ => Err(Stop::thrown(
            "RuntimeBinderException",
            format!("{name} of a {} cannot be set", object.kind().name()),
        )),
    }
}

/// `new Class(…)`.
pub(crate) fn new_object(machine: &Machine<'_>, kind: ObjectKind, values: &[Value]) -> Evaluated<Value> {
    let text = |number: usize| match values.get(number) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    };
    match kind {
        ObjectKind::Builder => {
            let text = text(0).map(|text| text.to_string()).unwrap_or_default();
            machine.meter.hold(120 + text.len())?;
            Ok(Value::object(Object::Builder(RefCell::new(text))))
        }
        ObjectKind::Regex => {
            let source = text(0).ok_or_else(|| Stop::thrown("ArgumentNullException", "the pattern is null"))?;
            let options = match values.get(1) {
                Some(Value::Enum(EnumKind::RegexOptions, options)) => *options,
                _ => 0,
            };
            machine.meter.hold(80)?;
            Ok(Value::object(Object::Regex(machine.pattern(source, options)?)))
        }
        _ => Err(Stop::thrown(
            "MissingMethodException",
            format!("{} cannot be made by new", kind.name()),
        )),
    }
}
