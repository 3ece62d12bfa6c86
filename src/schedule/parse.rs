//! Parsers and messages that the inputs of a schedule share.

use serde_json::Value;

/// The choice of this name; case does not matter.
pub(super) fn parse_choice<T: Copy>(given: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(given));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("{} is not one of {}", quoted(given), names.join(", "))
    })
}

/// A whole number, also as text, as editors send it.
pub(super) fn whole_number(value: &Value) -> Option<u64> {
    let number = value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|n| n.fract() == 0.0 && *n >= 0.0)
            .map(|n| n as u64)
    });
    number.or_else(|| value.as_str()?.trim().parse().ok())
}

/// A text for a message, shortened to 40 characters.
pub(super) fn quoted(text: &str) -> String {
    const MAX_LENGTH: usize = 40;
    if text.chars().count() <= MAX_LENGTH {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(MAX_LENGTH).collect();
    format!("{start:?}…")
}
