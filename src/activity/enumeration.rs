//! Values of Elsa's enumerations.

use serde_json::Value;

/// The number of a value among the names: of a name in any case, of a number as text, and of a number.
pub(super) fn number_of(names: &[&str], value: &Value) -> Option<usize> {
    let number = match value {
        Value::Number(number) => usize::try_from(number.as_u64()?).ok()?,
        value => number_of_text(names, value)?,
    };
    (number < names.len()).then_some(number)
}

/// The same without numbers that are none of text.
pub(super) fn number_of_text(names: &[&str], value: &Value) -> Option<usize> {
    let text = value.as_str()?.trim();
    let by_name = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let number = by_name.or_else(|| text.parse().ok())?;
    (number < names.len()).then_some(number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_a_name_or_a_number() {
        let names = ["WaitAll", "WaitAny"];
        for (value, number) in [
            (json!("waitany"), Some(1)),
            (json!(" WaitAll "), Some(0)),
            (json!("1"), Some(1)),
            (json!(1), Some(1)),
            (json!(2), None),
            (json!(-1), None),
            (json!("Wait"), None),
            (json!(null), None),
            (json!(true), None),
        ] {
            assert_eq!(number_of(&names, &value), number, "{value}");
        }
        assert_eq!(number_of_text(&names, &json!(1)), None);
    }
}
