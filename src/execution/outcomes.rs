//! The outcomes of an activity, as its type and its properties give them before it runs.

use std::fmt::{self, Formatter};

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::Value;

use crate::activity::{AddedOutcomes, CASES, Descriptor, InputDescriptor, UiHint, camel_case};
use crate::definition::InputBinding;

/// The outcome of an activity without other outcomes.
pub(super) const DONE: &str = "Done";

/// The outcome of a switch when no case matches.
const DEFAULT: &str = "Default";

/// The most outcomes that a list names.
const MOST_NAMED: usize = 1_000;

/// What reads the properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutcomeReader {
    /// This engine, which evaluates an expression when the activity runs.
    Engine,
    /// A designer, which has no value for an expression. It reads the text of a list as JSON, whatever type the
    /// expression has, and takes the default where it is shown none ([`readable_by_designers`]).
    Designer,
}

/// The outcomes of an activity of a type; `property` gives its properties, by their names in camel case. None if an
/// expression names some.
pub(super) fn outcomes<'a>(
    descriptor: &Descriptor,
    property: impl Fn(&str) -> Option<&'a Value>,
    reader: OutcomeReader,
) -> Option<Vec<String>> {
    let value = |input: &InputDescriptor| property(&camel_case(&input.name)).filter(|value| !value.is_null());
    let naming = descriptor.inputs.iter().find(|input| names_outcomes(input));
    let mut known = match naming {
        Some(input) => named(input, value(input), reader)?,
        None => Vec::new(),
    };
    match naming.map(|input| &input.ui_hint) {
        Some(UiHint::DynamicOutcomes(fixed)) => known.extend(fixed.iter().cloned()),
        _ if descriptor.has_cases && descriptor.ports.is_empty() => {
            let cases = property(CASES).and_then(Value::as_array).into_iter().flatten();
            let labels = cases.filter_map(|case| case.get("label")?.as_str());
            known.extend(labels.chain([DEFAULT]).map(str::to_owned));
        }
        _ => known.extend(descriptor.outcomes.iter().cloned()),
    }
    if known.is_empty() && !descriptor.is_terminal {
        known.push(DONE.to_owned());
    }
    for input in &descriptor.inputs {
        if let Some(AddedOutcomes::WhereSet(outcome)) = &input.adds_outcomes {
            let is_added = match (value(input).map_or(Some(false), flag), reader) {
                (Some(is_set), _) => is_set,
                (None, OutcomeReader::Engine) => true,
                (None, OutcomeReader::Designer) => false,
            };
            known.extend(is_added.then(|| outcome.clone()));
        }
    }
    Some(known)
}

/// What the list of an input names; none if that is not known.
fn named(input: &InputDescriptor, value: Option<&Value>, reader: OutcomeReader) -> Option<Vec<String>> {
    let default = || {
        let items = input.default.as_ref().and_then(Value::as_array).cloned();
        names(input, items.unwrap_or_default())
    };
    match (value, reader) {
        (None, _) => default(),
        (Some(value), OutcomeReader::Engine) => names(input, list_of_engine(value)?),
        (Some(value), OutcomeReader::Designer) => list_of_designer(value)
            .and_then(|items| names(input, items))
            .or_else(default),
    }
}

/// Whether designers read outcomes from the value of an input.
pub(super) fn decides_outcomes(input: &InputDescriptor) -> bool {
    names_outcomes(input) || input.adds_outcomes.is_some()
}

/// The value of an input that decides outcomes in a form that designers can read; none where there is no such form.
pub(super) fn readable_by_designers(input: &InputDescriptor, value: &Value) -> Option<Value> {
    if names_outcomes(input) {
        let named = list_of_designer(value).and_then(|items| names(input, items));
        return named.map(|_| value.clone());
    }
    flag(value).map(Value::Bool)
}

/// Whether each item of a list is an outcome.
fn names_outcomes(input: &InputDescriptor) -> bool {
    matches!(input.ui_hint, UiHint::DynamicOutcomes(_)) || input.adds_outcomes == Some(AddedOutcomes::EachNumber)
}

/// The outcomes that the items of a list name; none if one of them names none, or if they are too many.
fn names(input: &InputDescriptor, items: Vec<Value>) -> Option<Vec<String>> {
    let is_of_numbers = input.adds_outcomes == Some(AddedOutcomes::EachNumber);
    let name = |item: Value| match item {
        Value::String(text) if is_of_numbers => text.trim().parse::<i32>().ok().map(|number| number.to_string()),
        Value::String(text) => Some(text),
        Value::Number(number) if is_of_numbers => {
            let number = i32::try_from(number.as_i64()?).ok()?;
            Some(number.to_string())
        }
        _ => None,
    };
    (items.len() <= MOST_NAMED).then_some(())?;
    items.into_iter().map(name).collect()
}

/// The items of a list that is JSON text: texts and whole numbers, at most [`MOST_NAMED`]. What is no such list takes no more
/// memory than that.
fn parsed(text: &str) -> Option<Vec<Value>> {
    serde_json::from_str::<NamedOutcomes>(text).ok().map(|list| list.0)
}

struct NamedOutcomes(Vec<Value>);

impl<'de> Deserialize<'de> for NamedOutcomes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor).map(Self)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Vec<Value>;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MOST_NAMED} texts and whole numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(OutcomeName(item)) = items.next_element()? {
            if list.len() == MOST_NAMED {
                return Err(de::Error::invalid_length(MOST_NAMED + 1, &self));
            }
            list.push(item);
        }
        Ok(list)
    }
}

/// An item of such a list.
struct OutcomeName(Value);

impl<'de> Deserialize<'de> for OutcomeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameVisitor).map(Self)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text or a whole number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }
}

/// The items of a list that is a literal.
fn list_of_engine(value: &Value) -> Option<Vec<Value>> {
    match literal(value)? {
        Value::String(text) => parsed(&text),
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// The items of a list in the form that designers read, which may be written as JSON text.
fn list_of_designer(value: &Value) -> Option<Vec<Value>> {
    let is_text = |value: Option<&Value>| value.is_none_or(|value| value.is_string() || value.is_null());
    let expression = value.get("expression")?;
    if !is_text(value.get("typeName")) || !is_text(expression.get("type")) {
        return None;
    }
    match expression.get("value")? {
        Value::String(text) => parsed(text),
        Value::Array(items) => Some(items.clone()),
        _ => None,
    }
}

/// Whether a flag is set; none where an expression says it, or where it is no flag.
fn flag(value: &Value) -> Option<bool> {
    match literal(value)? {
        Value::Null => Some(false),
        Value::Bool(is_set) => Some(is_set),
        Value::String(text) => text.trim().to_ascii_lowercase().parse().ok(),
        _ => None,
    }
}

/// The value of an input that is a literal.
fn literal(value: &Value) -> Option<Value> {
    let expression = InputBinding::parse(Some(value))?.expression?;
    ["Object", "Literal"]
        .contains(&expression.kind.as_str())
        .then_some(expression.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_list_is_read_within_bounds() {
        assert_eq!(parsed(" [200, \"404\", -1] ").unwrap().len(), 3);
        let many = |count: usize| serde_json::to_string(&vec![200; count]).unwrap();
        assert_eq!(parsed(&many(MOST_NAMED)).unwrap().len(), MOST_NAMED);
        let deep = "[".repeat(100_000);
        for text in [
            many(MOST_NAMED + 1),
            deep,
            "[[1]]".into(),
            "[{}]".into(),
            "[1.5]".into(),
            "7".into(),
        ] {
            assert!(parsed(&text).is_none(), "{}", &text[..text.len().min(20)]);
        }
        let items = vec![Value::from("a"); MOST_NAMED + 1];
        let input = InputDescriptor::new("Names", "String[]");
        assert_eq!(names(&input, items[1..].to_vec()).unwrap().len(), MOST_NAMED);
        assert!(names(&input, items).is_none());
    }
}
