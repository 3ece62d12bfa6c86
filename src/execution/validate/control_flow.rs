//! What forks, joins, switches and loops need besides their structure: modes that exist, cases, a step.

use serde_json::{Map, Value};

use super::shown::short;
use crate::activity::{CASES, Descriptor};
use crate::definition::{ActivityTitle, InputBinding, Problems, ValidationError};

/// How many items of a parallel loop run at once.
const DEGREE: &str = "mainspringDegreeOfParallelism";

/// The modes of an activity type: its property, and the words for it.
const MODES: [(&str, &str, &[&str]); 4] = [
    ("Elsa.FlowJoin", "mode", &["WaitAll", "WaitAllActive", "WaitAny"]),
    ("Elsa.Fork", "joinMode", &["WaitAll", "WaitAny"]),
    ("Elsa.Switch", "mode", &["MatchFirst", "MatchAny"]),
    ("Elsa.FlowSwitch", "mode", &["MatchFirst", "MatchAny"]),
];

pub(super) fn check(
    descriptor: &Descriptor,
    fields: &Map<String, Value>,
    whose: ActivityTitle<'_>,
    errors: &mut Problems,
) {
    let type_name = descriptor.type_name.as_str();
    for (_, property, known) in MODES.iter().filter(|(of, ..)| *of == type_name) {
        if let Some(Value::String(mode)) = literal(fields, property)
            && !known.iter().any(|known| known.eq_ignore_ascii_case(&mode))
        {
            let message = format!(
                "The {property} {mode} of the activity {whose} is unknown; use {}",
                alternatives(known)
            );
            errors.push(ValidationError::of(whose.id(), message));
        }
    }
    if descriptor.has_cases {
        cases(type_name, fields, whose, errors);
    }
    if type_name == "Elsa.ParallelForEach"
        && let Some(degree) = literal(fields, DEGREE)
        && number(&degree).is_some_and(|degree| degree < 1)
    {
        let message = format!(
            "The {DEGREE} of the activity {whose} is {}; use a number from 1 on, or leave it empty for all items at once",
            short(&degree)
        );
        errors.push(ValidationError::of(whose.id(), message));
    }
    if type_name == "Elsa.For" && literal(fields, "step").is_some_and(|step| number(&step) == Some(0)) {
        let message = format!(
            "The step of the activity {whose} is 0, so the loop would never end; use a positive or a negative number"
        );
        errors.push(ValidationError::of(whose.id(), message));
    }
}

fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// The literal value of an input, or of a property that is not an input.
fn literal(fields: &Map<String, Value>, property: &str) -> Option<Value> {
    let expression = InputBinding::parse(fields.get(property))?.expression?;
    (expression.kind == "Literal").then_some(expression.value)
}

/// `A, B or C`.
fn alternatives(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// The cases of a switch. Anything but a list of objects is reported with the structure.
fn cases(type_name: &str, fields: &Map<String, Value>, whose: ActivityTitle<'_>, errors: &mut Problems) {
    let cases = match fields.get(CASES) {
        None | Some(Value::Null) => &[],
        Some(Value::Array(cases)) => cases.as_slice(),
        Some(_) => return,
    };
    for (number, case) in cases.iter().enumerate().filter(|(_, case)| case.is_object()) {
        // The label of a case in a flowchart is the outcome to connect; elsewhere it is only shown.
        let label = case.get("label").unwrap_or(&Value::Null);
        let is_missing = label.as_str().is_none_or(|label| label.trim().is_empty());
        let is_wrong = !label.is_string() && !label.is_null();
        if is_wrong || (is_missing && type_name == "Elsa.FlowSwitch") {
            let message = format!(
                "cases[{number}] of the activity {whose} has the label {}; give it a text, which is its outcome",
                short(label)
            );
            errors.push(ValidationError::of(whose.id(), message));
        }
    }
}
