//! Realms that are shared and those for one script; which scripts need their own, because they may change the language
//! itself.
//!
//! A script does so if its text
//! - names `prototype`, other than to call a method as in `Object.prototype.hasOwnProperty.call(o, k)`; `__proto__` or
//!   `setPrototypeOf`; `__defineGetter__` or `__defineSetter__`;
//! - assigns to a member of a built-in object by its name, as in `Math.half = …`, or takes a computed one of it.
//!
//! This is no matter of safety: without such words a frozen realm stays as it is, and only what the script means to change
//! in it is not changed. Most of what the words do not show is noticed when it fails ([`failed_as_frozen`]).

use super::script::{ScriptError, ScriptErrorKind};

/// Who uses a realm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RealmKind {
    /// Instances, one after another: it is frozen.
    Shared,
    /// One script.
    Own,
}

/// Built-in objects with members that a script may mean to add or replace.
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

/// What QuickJS says of a change of a frozen object, where it says anything.
const FROZEN: &[&str] = &[
    "object is not extensible",
    "is read-only",
    "property is not configurable",
    "could not delete property",
    "no setter for property",
    "not a data descriptor",
];

/// Whether the text of a script shows that it may change the language.
pub(super) fn needs_own_realm(script: &str) -> bool {
    if ["__proto__", "setPrototypeOf", "__define"]
        .iter()
        .any(|word| script.contains(word))
    {
        return true;
    }
    let mut rest = script;
    while let Some((word, after)) = next_word(rest) {
        rest = after;
        if word == "prototype" && !is_method_call(after) {
            return true;
        }
        if OBJECTS.contains(&word) && is_changed(after) {
            return true;
        }
    }
    false
}

/// Whether a script failed because the realm is frozen.
pub(super) fn failed_as_frozen(error: &ScriptError) -> bool {
    error.kind == ScriptErrorKind::Thrown && FROZEN.iter().any(|text| error.message.contains(text))
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

/// After `prototype`: `.name.call(` and its like.
fn is_method_call(after: &str) -> bool {
    let called = member(after).and_then(|(_, after)| member(after));
    called.is_some_and(|(how, after)| matches!(how, "call" | "apply" | "bind") && after.trim_start().starts_with('('))
}

/// After the name of an object: an assignment to a member, or a computed member.
fn is_changed(after: &str) -> bool {
    if after.trim_start().starts_with('[') {
        return true;
    }
    let Some((_, after)) = member(after) else {
        return false;
    };
    let after = after.trim_start();
    let mut marks = after.chars();
    match (marks.next(), marks.next()) {
        (Some('='), next) => !matches!(next, Some('=' | '>')),
        (Some('+'), Some('+')) | (Some('-'), Some('-')) => true,
        (Some('+' | '-' | '*' | '/' | '%' | '|' | '&' | '^' | '?'), Some('=')) => true,
        (Some('?'), Some('?')) | (Some('|'), Some('|')) | (Some('&'), Some('&')) => marks.next() == Some('='),
        _ => false,
    }
}
