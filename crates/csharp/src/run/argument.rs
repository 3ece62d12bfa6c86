//! What the evaluator passes to the members of .NET's types.

use crate::syntax::Lambda;
use crate::text::units;
use crate::types::Ty;
use crate::value::{RecordKind, RecordValue, Value};

/// An argument of a method.
pub(crate) enum Argument<'e> {
    Value(Value),
    Lambda(&'e Lambda),
    /// The local that receives a value, and its type.
    Out(Option<usize>, Ty),
}

/// A part of a record by its name, or by its number in a tuple.
pub(crate) fn field<'r>(record: &'r RecordValue, name: &str) -> Option<&'r Value> {
    let named = record.fields.iter().find(|(known, _)| **known == *name);
    let place = || name.strip_prefix("Item")?.parse::<usize>().ok()?.checked_sub(1);
    match named {
        Some((_, value)) => Some(value),
        None if record.kind == RecordKind::Tuple => record.fields.get(place()?).map(|(_, value)| value),
        None => None,
    }
}

/// The text in UTF-16 of a value that is text.
pub(crate) fn units_of(value: &Value) -> Option<Vec<u16>> {
    match value {
        Value::Text(text) => Some(units(text)),
        _ => None,
    }
}
