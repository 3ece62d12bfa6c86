//! Detects scripts that try to change the language itself: built-in objects are shared by all scripts and frozen.
//!
//! JavaScript ignores an assignment to a member of a frozen object unless the code is strict, so a script whose text
//! shows such an assignment is refused. Safety does not depend on this check.

use crate::expression::script::{ScriptError, ScriptErrorKind};

/// What to do instead.
const REMEDY: &str = "built-in objects are shared by all scripts and cannot be changed: write a function of its own, such as \
                      `const last = (list) => list[list.length - 1]`";

/// Built-in objects whose members a script may try to add or replace.
const OBJECTS: &[&str] = &[
    "Array",
    "ArrayBuffer",
    "BigInt",
    "Boolean",
    "Date",
    "Error",
    "Function",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "Number",
    "Object",
    "Promise",
    "Proxy",
    "RangeError",
    "Reflect",
    "RegExp",
    "Set",
    "String",
    "Symbol",
    "TypeError",
    "Uint8Array",
    "WeakMap",
    "WeakSet",
];

/// Returns the first change to a built-in object that the text of a script shows, or `None` when it shows none or
/// declares the name itself.
pub(super) fn refused_change(script: &str) -> Option<ScriptError> {
    let (mut rest, mut last) = (script, "");
    while let Some((word, after)) = next_word(rest) {
        let before = rest.strip_suffix(after).and_then(|text| text.strip_suffix(word));
        let is_member = before.is_some_and(|before| before.trim_end().ends_with('.'));
        if OBJECTS.contains(&word) && !is_member {
            if ["class", "const", "function", "let", "var"].contains(&last) {
                return None;
            }
            if is_changed(after) {
                let message = format!("the script changes `{word}`; {REMEDY}");
                return Some(ScriptError::new(ScriptErrorKind::Thrown, message));
            }
        }
        (rest, last) = (after, word);
    }
    None
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The next word of a text, and what follows it.
fn next_word(text: &str) -> Option<(&str, &str)> {
    let start = text.trim_start_matches(|c| !is_part(c));
    let after = start.trim_start_matches(is_part);
    let word = start.strip_suffix(after)?;
    (!word.is_empty()).then_some((word, after))
}

/// After a member access: the name and what follows.
fn member(after: &str) -> Option<(&str, &str)> {
    let name = after.trim_start().strip_prefix('.')?.trim_start();
    next_word(name).filter(|(word, _)| name.starts_with(word))
}

/// After the name of an object: an assignment to a member, or to one of its `prototype`.
fn is_changed(after: &str) -> bool {
    let Some((first, after)) = member(after) else {
        return false;
    };
    let inner = member(after).filter(|_| first == "prototype");
    is_assignment(inner.map_or(after, |(_, after)| after).trim_start())
}

fn is_assignment(text: &str) -> bool {
    let mut marks = text.chars();
    match (marks.next(), marks.next()) {
        (Some('='), next) => !matches!(next, Some('=' | '>')),
        (Some('+'), Some('+')) | (Some('-'), Some('-')) => true,
        (Some('+' | '-' | '*' | '/' | '%' | '|' | '&' | '^' | '?'), Some('=')) => true,
        (Some('?'), Some('?')) | (Some('|'), Some('|')) | (Some('&'), Some('&')) => marks.next() == Some('='),
        _ => false,
    }
}
