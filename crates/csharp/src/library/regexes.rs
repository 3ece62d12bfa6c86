//! `Regex`, and the matches and groups that it finds.

use std::rc::Rc;
use std::sync::Arc;

use super::arguments::Arguments;
use super::count;
use crate::object::{Found, Object};
use crate::pattern::Pattern;
use crate::problem::Evaluated;
use crate::run::Meter;
use crate::text::{length, text_of};
use crate::types::{EnumKind, ListKind, ObjectKind, Ty};
use crate::value::Value;

/// `Regex.Name(text, pattern, …)`.
pub(super) fn call_static(name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    if name == "Escape" {
        return escaped(&arguments.text(0)?, arguments.meter()).map(Some);
    }
    let options = (2..arguments.len()).find_map(|number| match arguments.optional(number) {
        Some(Value::Enum(EnumKind::RegexOptions, options)) => Some(*options),
        _ => None,
    });
    let pattern = arguments.pattern(&arguments.text(1)?, options.unwrap_or(0))?;
    search(&pattern, name, &arguments.text(0)?, 2, arguments)
}

/// Members of a `Regex`.
pub(super) fn call(pattern: &Rc<Pattern>, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    if name == "ToString" {
        return Ok(Some(Value::text(pattern.source())));
    }
    search(pattern, name, &arguments.text(0)?, 1, arguments)
}

/// `by` is the number of the argument that replaces.
fn search(
    pattern: &Rc<Pattern>,
    name: &str,
    text: &Arc<str>,
    by: usize,
    arguments: &Arguments<'_, '_>,
) -> Evaluated<Option<Value>> {
    let meter = arguments.meter();
    Ok(Some(match name {
        "IsMatch" => Value::Bool(pattern.find(text, 0, true, meter)?.is_some()),
        "Match" => {
            let found = pattern.find(text, 0, true, meter)?;
            Value::object(Object::Match(found.unwrap_or_else(|| pattern.nothing())))
        }
        "Matches" => {
            let all = pattern.all(text, usize::MAX, meter)?;
            meter.hold(80 + 40 * all.len())?;
            let all = all.into_iter().map(|found| Value::object(Object::Match(found)));
            Value::list(ListKind::List, Ty::Object(ObjectKind::Match), all.collect())
        }
        "Count" => count(pattern.all(text, usize::MAX, meter)?.len()),
        "Replace" => replace(pattern, text, by, arguments)?,
        "Split" => split(pattern, text, meter)?,
        _ => return Ok(None),
    }))
}

fn replace(pattern: &Rc<Pattern>, text: &Arc<str>, by: usize, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let meter = arguments.meter();
    let (mut out, mut at) = (String::new(), 0);
    let lambda = arguments.optional_lambda(by);
    let replacement = if lambda.is_some() {
        "".into()
    } else {
        arguments.text(by)?
    };
    let pieces = pieces(&replacement, pattern, meter)?;
    for found in pattern.all(text, usize::MAX, meter)? {
        let Some((start, end)) = found.span(0) else {
            continue;
        };
        push(&mut out, text.get(at..start).unwrap_or_default(), meter)?;
        at = end;
        if let Some(lambda) = lambda {
            let value = arguments.call(lambda, &[Value::object(Object::Match(found))])?;
            push(&mut out, &text_of(&value), meter)?;
            continue;
        }
        for piece in &pieces {
            meter.step()?;
            match piece {
                Piece::Text(text) => push(&mut out, text, meter)?,
                Piece::Group(group) => push(&mut out, found.value(*group), meter)?,
            }
        }
    }
    push(&mut out, text.get(at..).unwrap_or_default(), meter)?;
    Ok(Value::text(out))
}

/// A part of a replacement.
enum Piece<'t> {
    Text(&'t str),
    Group(usize),
}

/// Adds to a text that is made, and counts it before.
fn push(out: &mut String, text: &str, meter: &Meter<'_>) -> Evaluated<()> {
    meter.hold(text.len())?;
    out.push_str(text);
    Ok(())
}

/// A replacement: `$1`, `${name}`, `$0`, `$&` and `$$`.
fn pieces<'t>(replacement: &'t str, pattern: &Pattern, meter: &Meter<'_>) -> Evaluated<Vec<Piece<'t>>> {
    let mut pieces = Vec::new();
    let mut rest = replacement;
    while let Some(place) = rest.find('$') {
        meter.hold(2 * size_of::<Piece<'_>>())?;
        let after = rest.get(place + 1..).unwrap_or_default();
        let digits = after.bytes().take_while(u8::is_ascii_digit).count().min(4);
        // As many digits as there is a group for.
        let numbered = (1..=digits).rev().find_map(|count| {
            let number: usize = after.get(..count)?.parse().ok()?;
            (number < pattern.names().len()).then_some((count, number))
        });
        let (used, group) = match (numbered, name_of(after)) {
            (Some((count, number)), _) => (count, Some(number)),
            (None, Some(name)) => (name.len() + 2, pattern.group(name)),
            (None, None) if after.starts_with('&') => (1, Some(0)),
            (None, None) => (0, None),
        };
        // `$$` is one of them; what names no group stays.
        let is_escaped = numbered.is_none() && after.starts_with('$');
        let kept = if group.is_some() { place } else { place + 1 + used };
        pieces.push(Piece::Text(rest.get(..kept).unwrap_or_default()));
        pieces.extend(group.map(Piece::Group));
        rest = after.get(used + usize::from(is_escaped)..).unwrap_or_default();
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

/// The name in braces with which a text begins.
fn name_of(text: &str) -> Option<&str> {
    /// In bytes: no name is longer, as no pattern is.
    const LONGEST: usize = 4 << 10;
    let inner = text.strip_prefix('{')?;
    let end = inner.bytes().take(LONGEST).position(|byte| byte == b'}')?;
    inner.get(..end)
}

/// The parts between matches, with what the groups of each match have found.
fn split(pattern: &Rc<Pattern>, text: &Arc<str>, meter: &Meter<'_>) -> Evaluated<Value> {
    let (mut parts, mut at) = (Vec::new(), 0);
    let part = |text: &str| -> Evaluated<Value> {
        meter.hold(80 + text.len())?;
        Ok(Value::text(text))
    };
    for found in pattern.all(text, usize::MAX, meter)? {
        let Some((start, end)) = found.span(0) else {
            continue;
        };
        parts.push(part(text.get(at..start).unwrap_or_default())?);
        for group in (1..found.spans.len()).filter(|group| found.span(*group).is_some()) {
            parts.push(part(found.value(group))?);
        }
        at = end;
    }
    parts.push(part(text.get(at..).unwrap_or_default())?);
    Ok(Value::list(ListKind::Array, Ty::Text, parts))
}

fn escaped(text: &str, meter: &Meter<'_>) -> Evaluated<Value> {
    meter.hold(2 * text.len())?;
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            other => {
                if "\\*+?|{[()^$.# ".contains(other) {
                    out.push('\\');
                }
                out.push(other);
            }
        }
    }
    Ok(Value::text(out))
}

/// Members of a match, its groups and one of them.
pub(super) fn property(object: &Object, name: &str, meter: &Meter<'_>) -> Evaluated<Option<Value>> {
    let (found, group) = match object {
        Object::Match(found) => (found, 0),
        Object::Group(found, group) => (found, *group),
        Object::Groups(found) => {
            return Ok(Some(match name {
                "Count" => count(found.pattern.names().len()),
                "Values" => Value::list(ListKind::List, Ty::Object(ObjectKind::Group), groups(found, meter)?),
                _ => return Ok(None),
            }));
        }
        _ => return Ok(None),
    };
    let span = found.span(group);
    let units = |text: Option<&str>| -> Evaluated<Value> {
        let text = text.unwrap_or_default();
        meter.steps(text.len() / 64)?;
        Ok(count(length(text)))
    };
    Ok(Some(match name {
        "Groups" if matches!(object, Object::Match(_)) => Value::object(Object::Groups(found.clone())),
        "Success" => Value::Bool(span.is_some()),
        "Value" => {
            meter.hold(found.value(group).len())?;
            Value::text(found.value(group))
        }
        "Index" => units(span.and_then(|(start, _)| found.text.get(..start)))?,
        "Length" => units(Some(found.value(group)))?,
        "Name" => found
            .pattern
            .names()
            .get(group)
            .map_or(Value::Null, |name| Value::Text(Arc::clone(name))),
        _ => return Ok(None),
    }))
}

/// The groups of a match, that of the whole first.
pub(super) fn groups(found: &Found, meter: &Meter<'_>) -> Evaluated<Vec<Value>> {
    let total = found.pattern.names().len();
    meter.hold(160 * total)?;
    let groups = (0..total).map(|group| Value::object(Object::Group(found.clone(), group)));
    Ok(groups.collect())
}

/// `match.Groups[index]`; one that does not exist has found nothing.
pub(super) fn group_at(found: &Found, index: &Value, meter: &Meter<'_>) -> Evaluated<Value> {
    meter.hold(80)?;
    let group = match index {
        Value::Text(name) => found.pattern.group(name),
        other => other.as_i64().and_then(|number| usize::try_from(number).ok()),
    };
    Ok(Value::object(Object::Group(found.clone(), group.unwrap_or(usize::MAX))))
}

/// `match.NextMatch()`.
pub(super) fn next_match(found: &Found, meter: &Meter<'_>) -> Evaluated<Value> {
    let next = found.pattern.next(found, meter)?;
    Ok(Value::object(Object::Match(
        next.unwrap_or_else(|| found.pattern.nothing()),
    )))
}
