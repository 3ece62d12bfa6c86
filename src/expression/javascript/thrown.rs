//! What a script has thrown: its name, its message, and its place in the script.

use rquickjs::Value as JsValue;

const MAX_MESSAGE: usize = 2_000;

/// The number of stack frames in which the place of an error is searched.
const MAX_FRAMES: usize = 32;

/// The name that QuickJS gives to the text of an `eval`, before line and column.
const SCRIPT_FRAME: &str = "<input>:";

/// Name and message of a thrown value. Getters may run here, under the same deadline.
pub(super) fn describe(thrown: &JsValue<'_>) -> (String, String) {
    let Some(object) = thrown.as_object() else {
        let what = if thrown.is_undefined() {
            "undefined".to_owned()
        } else {
            short_text(thrown)
        };
        return (String::new(), format!("the script threw {what}"));
    };
    let name = object
        .get::<_, JsValue<'_>>("name")
        .map(|name| short_text(&name))
        .unwrap_or_default();
    let message = object
        .get::<_, JsValue<'_>>("message")
        .map(|message| short_text(&message))
        .unwrap_or_default();
    if name.is_empty() && message.is_empty() {
        return (String::new(), "the script threw an object without a message".to_owned());
    }
    (name, message)
}

/// The place in the script where an error was created, from the innermost stack frame in the script.
pub(super) fn place_of(thrown: &JsValue<'_>, indent: u32, script: &str) -> Option<(u32, u32)> {
    let stack = thrown.as_object()?.get::<_, JsValue<'_>>("stack").ok()?;
    let stack = stack.as_string()?.to_string().ok()?;
    let frame = |line: &str| {
        let (_, place) = line.rsplit_once(SCRIPT_FRAME)?;
        let (line, column) = place.trim_end_matches(')').split_once(':')?;
        let (line, column) = (line.parse::<u32>().ok()?, column.parse::<u32>().ok()?);
        let column = if line == 1 { column.checked_sub(indent)? } else { column };
        let lines = u32::try_from(script.lines().count()).unwrap_or(u32::MAX);
        ((1..=lines.max(1)).contains(&line) && column > 0).then_some((line, column))
    };
    stack.lines().take(MAX_FRAMES).find_map(frame)
}

/// A primitive as a short text that can be shown and stored.
fn short_text(value: &JsValue<'_>) -> String {
    let text = if let Some(text) = value.as_string() {
        text.to_string()
            .unwrap_or_else(|_| "a text with a lone surrogate".to_owned())
    } else if let Some(number) = value.as_number() {
        number.to_string()
    } else if let Some(flag) = value.as_bool() {
        flag.to_string()
    } else if value.is_undefined() || value.is_object() {
        String::new()
    } else {
        value.type_name().to_owned()
    };
    text.chars().filter(|c| *c != '\0').take(MAX_MESSAGE).collect()
}
