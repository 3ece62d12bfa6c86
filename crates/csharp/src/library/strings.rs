//! Methods of strings. Positions count UTF-16; an ASCII text, as most are, is not converted for that.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use super::arguments::{Arguments, Comparison};
use crate::problem::{Evaluated, Stop};
use crate::run::Meter;
use crate::text::{collate, length, lower, of_units, text_of, units, upper};
use crate::types::{EnumKind, ListKind, Ty};
use crate::value::Value;

fn whole(place: usize) -> Value {
    Value::Int(i32::try_from(place).unwrap_or(i32::MAX))
}

/// A text as it is compared.
fn compared(text: &str, comparison: Comparison) -> String {
    match comparison {
        Comparison::Ordinal => text.to_owned(),
        Comparison::IgnoreCase => upper(text),
    }
}

fn out_of_range() -> Box<Stop> {
    Stop::thrown(
        "ArgumentOutOfRangeException",
        "the index or the length is outside of the string",
    )
}

pub(super) fn call(text: &Arc<str>, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    let meter = arguments.meter();
    // To read a text is work; what is made of it is counted where it is made.
    meter.steps(text.len() / 256)?;
    let made = |text: String| -> Evaluated<Option<Value>> {
        meter.hold(text.len())?;
        Ok(Some(Value::text(text)))
    };
    Ok(Some(match name {
        "Contains" | "StartsWith" | "EndsWith" => {
            // `Contains` of what is no text is that of the chars.
            let comparison = arguments.comparison(1);
            let (text, part) = (
                compared(text, comparison),
                compared(&arguments.text_or_char(0)?, comparison),
            );
            Value::Bool(match name {
                "Contains" => text.contains(&part),
                "StartsWith" => text.starts_with(&part),
                _ => text.ends_with(&part),
            })
        }
        "IndexOfAny" => {
            let wanted = chars(arguments)?;
            let found = text.find(|c| wanted.contains(&c));
            found.map_or(Value::Int(-1), |at| whole(length(text.get(..at).unwrap_or_default())))
        }
        "IndexOf" | "LastIndexOf" => index_of(text, name, arguments)?,
        "ToUpper" | "ToUpperInvariant" => return made(upper(text)),
        "ToLower" | "ToLowerInvariant" => return made(lower(text)),
        "Trim" | "TrimStart" | "TrimEnd" => return made(trim(text, name, arguments)?),
        "Split" => split(text, arguments)?,
        "Replace" => {
            let (old, new) = (arguments.text_or_char(0)?, replacement(arguments)?);
            if old.is_empty() {
                return Err(Stop::thrown("ArgumentException", "the replaced string is empty"));
            }
            return made(match arguments.comparison(2) {
                Comparison::Ordinal => {
                    let count = text.matches(&*old).count();
                    meter.hold(count.saturating_mul(new.len()))?;
                    text.replace(&*old, &new)
                }
                Comparison::IgnoreCase => replace_folded(text, &old, &new, meter)?,
            });
        }
        "Substring" => {
            let start = arguments.place(0)?;
            let count = if arguments.len() > 1 {
                Some(arguments.place(1)?)
            } else {
                None
            };
            let part = slice(text, start, count)?;
            meter.hold(part.len())?;
            Value::Text(part)
        }
        "Remove" => {
            let start = arguments.place(0)?;
            let count = match arguments.len() {
                1 => length(text).checked_sub(start).ok_or_else(out_of_range)?,
                _ => arguments.place(1)?,
            };
            let end = start.checked_add(count).ok_or_else(out_of_range)?;
            return made(format!("{}{}", slice(text, 0, Some(start))?, slice(text, end, None)?));
        }
        "Insert" => {
            let at = arguments.place(0)?;
            let (before, after) = (slice(text, 0, Some(at))?, slice(text, at, None)?);
            return made(format!("{before}{}{after}", arguments.text(1)?));
        }
        "PadLeft" | "PadRight" => {
            let width = arguments.place(0)?;
            let fill = match arguments.optional(1) {
                Some(_) => arguments.text_or_char(1)?,
                None => " ".into(),
            };
            let missing = width.saturating_sub(length(text));
            meter.hold(missing.saturating_mul(fill.len()))?;
            let padding = fill.repeat(missing);
            return made(if name == "PadLeft" {
                format!("{padding}{text}")
            } else {
                format!("{text}{padding}")
            });
        }
        "ToCharArray" => {
            let units = units(text);
            meter.hold(40 * units.len())?;
            Value::list(ListKind::Array, Ty::Char, units.into_iter().map(Value::Char).collect())
        }
        "Equals" => match arguments.value(0)? {
            Value::Text(other) => {
                arguments.read(other)?;
                let comparison = arguments.comparison(1);
                Value::Bool(compared(text, comparison) == compared(other, comparison))
            }
            _ => Value::Bool(false),
        },
        "CompareTo" => match arguments.value(0)? {
            Value::Null => Value::Int(1),
            _ => Value::Int(collate(text, &arguments.text(0)?, arguments.meter())? as i32),
        },
        "ToString" => Value::Text(Arc::clone(text)),
        _ => return Ok(None),
    }))
}

fn replacement(arguments: &Arguments<'_, '_>) -> Evaluated<Arc<str>> {
    match arguments.optional(1) {
        Some(Value::Null) => Ok("".into()),
        _ => arguments.text_or_char(1),
    }
}

/// Folding keeps the number of characters: those of the text are as many as those of the folded one.
fn replace_folded(text: &str, old: &str, new: &str, meter: &Meter<'_>) -> Evaluated<String> {
    let (whole, old) = (upper(text), upper(old));
    let length = old.chars().count();
    let (mut out, mut chars, mut at) = (String::new(), text.chars(), 0);
    for (found, _) in whole.match_indices(&old) {
        let before = whole.get(at..found).unwrap_or_default().chars().count();
        out.extend(chars.by_ref().take(before));
        chars.by_ref().take(length).for_each(drop);
        meter.hold(new.len())?;
        out.push_str(new);
        at = found + old.len();
    }
    out.push_str(chars.as_str());
    Ok(out)
}

/// A part by its place and length in UTF-16.
pub(super) fn slice(text: &str, start: usize, count: Option<usize>) -> Evaluated<Arc<str>> {
    if text.is_ascii() {
        let end = match count {
            Some(count) => start.checked_add(count).ok_or_else(out_of_range)?,
            None => text.len(),
        };
        return text.get(start..end).map(Arc::from).ok_or_else(out_of_range);
    }
    let units = units(text);
    let end = match count {
        Some(count) => start.checked_add(count).ok_or_else(out_of_range)?,
        None => units.len(),
    };
    of_units(units.get(start..end).ok_or_else(out_of_range)?)
}

fn index_of(text: &str, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let comparison = arguments.comparison(1);
    let part = compared(&arguments.text_or_char(0)?, comparison);
    let text = compared(text, comparison);
    let start = match arguments.optional(1) {
        Some(Value::Int(_)) => arguments.place(1)?,
        _ => 0,
    };
    if name == "LastIndexOf" {
        let found = text.rfind(&part);
        return Ok(found.map_or(Value::Int(-1), |at| whole(length(text.get(..at).unwrap_or_default()))));
    }
    if start > length(&text) {
        return Err(out_of_range());
    }
    let tail = slice(&text, start, None)?;
    let tail = match arguments.optional(2) {
        Some(Value::Int(_)) => slice(&tail, 0, Some(arguments.place(2)?))?,
        _ => tail,
    };
    let found = tail.find(&part);
    Ok(found.map_or(Value::Int(-1), |at| {
        whole(start + length(tail.get(..at).unwrap_or_default()))
    }))
}

/// The chars that are given, as chars or in an array.
fn chars(arguments: &Arguments<'_, '_>) -> Evaluated<HashSet<char>> {
    let mut all = HashSet::new();
    for number in 0..arguments.len() {
        for text in texts(arguments, number)? {
            arguments.meter().hold(4 * text.len())?;
            all.extend(text.chars());
        }
    }
    Ok(all)
}

/// The texts of an argument: those of the items of a list, or that of a value.
fn texts(arguments: &Arguments<'_, '_>, number: usize) -> Evaluated<Vec<Arc<str>>> {
    let meter = arguments.meter();
    match arguments.value(number)? {
        Value::List(list) => {
            let items = list.items.borrow();
            meter.hold(24 * items.len())?;
            let texts = items.iter().map(|item| {
                let text = text_of(item);
                // A text is shared, the text of another value is made.
                meter.hold(if matches!(item, Value::Text(_)) { 0 } else { text.len() })?;
                Ok(text)
            });
            texts.collect()
        }
        Value::Null => Ok(Vec::new()),
        other => Ok(vec![text_of(other)]),
    }
}

fn trim(text: &str, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<String> {
    let chars = chars(arguments)?;
    if !chars.is_empty() {
        arguments.meter().steps(text.len() / 64)?;
    }
    let is_cut = |c: char| {
        if chars.is_empty() {
            c.is_whitespace()
        } else {
            chars.contains(&c)
        }
    };
    Ok(match name {
        "Trim" => text.trim_matches(is_cut),
        "TrimStart" => text.trim_start_matches(is_cut),
        _ => text.trim_end_matches(is_cut),
    }
    .to_owned())
}

/// By chars, by a text, or by one of several texts; with a count and options.
fn split(text: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Value> {
    let (mut by, mut most, mut options) = (Vec::new(), usize::MAX, 0);
    for number in 0..arguments.len() {
        match arguments.value(number)? {
            Value::Enum(EnumKind::StringSplitOptions, flags) => options = *flags,
            Value::Int(_) => most = arguments.place(number)?,
            _ => by.extend(texts(arguments, number)?),
        }
    }
    by.retain(|part| !part.is_empty());
    let has_separators = arguments.len() == 0 || !by.is_empty() || matches!(arguments.optional(0), Some(Value::Null));
    let (drops_empty, trims) = (options & 1 != 0, options & 2 != 0);
    let mut parts = Vec::new();
    let mut rest = text;
    let meter = arguments.meter();
    while has_separators && parts.len() + 1 < most {
        meter.hold(40)?;
        let next = if by.is_empty() {
            meter.steps(rest.len() / 256)?;
            rest.char_indices()
                .find(|(_, c)| c.is_whitespace())
                .map(|(at, c)| (at, Reverse(c.len_utf8())))
        } else {
            let mut first = None;
            for part in &by {
                // Before each search: all of them together may take longer than the script has.
                meter.steps(1 + (part.len() + rest.len()) / 256)?;
                let found = rest.find(&**part).map(|at| (at, Reverse(part.len())));
                first = first.into_iter().chain(found).min();
            }
            first
        };
        let Some((at, Reverse(length))) = next else { break };
        keep(&mut parts, rest.get(..at).unwrap_or_default(), drops_empty, trims);
        rest = rest.get(at + length..).unwrap_or_default();
    }
    if most > 0 {
        keep(&mut parts, rest, drops_empty, trims);
    }
    meter.hold(text.len())?;
    Ok(Value::list(ListKind::Array, Ty::Text, parts))
}

fn keep(parts: &mut Vec<Value>, part: &str, drops_empty: bool, trims: bool) {
    let part = if trims { part.trim() } else { part };
    if !(drops_empty && part.is_empty()) {
        parts.push(Value::text(part));
    }
}

/// Static methods of `string` and `char`.
pub(super) fn call_static(owner: &str, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    if owner == "char" {
        return of_char(name, arguments);
    }
    let meter = arguments.meter();
    Ok(Some(match name {
        "IsNullOrEmpty" => Value::Bool(match arguments.value(0)? {
            Value::Null => true,
            _ => arguments.text(0)?.is_empty(),
        }),
        "IsNullOrWhiteSpace" => Value::Bool(match arguments.value(0)? {
            Value::Null => true,
            _ => arguments.text(0)?.trim().is_empty(),
        }),
        "Join" => {
            let separator = match arguments.value(0)? {
                Value::Null => "".into(),
                _ => arguments.text_or_char(0)?,
            };
            Value::text(joined(&separator, &all(arguments, 1)?, arguments)?)
        }
        "Concat" => Value::text(joined("", &all(arguments, 0)?, arguments)?),
        "Format" => {
            let first = usize::from(matches!(arguments.value(0)?, Value::Null));
            let format = arguments.text(first)?;
            let values = all(arguments, first + 1)?;
            let text = composite(&format, &values, arguments)?;
            meter.hold(text.len())?;
            Value::text(text)
        }
        "Compare" | "CompareOrdinal" => {
            let texts = (arguments.value(0)?, arguments.value(1)?);
            let order = match texts {
                (Value::Null, Value::Null) => 0,
                (Value::Null, _) => -1,
                (_, Value::Null) => 1,
                _ => {
                    let (a, b) = (arguments.text(0)?, arguments.text(1)?);
                    meter.steps((a.len() + b.len()) / 256)?;
                    compare(&a, &b, name, arguments)?
                }
            };
            Value::Int(order)
        }
        "Equals" => {
            let comparison = arguments.comparison(2);
            Value::Bool(match (arguments.value(0)?, arguments.value(1)?) {
                (Value::Text(a), Value::Text(b)) => {
                    arguments.read(a)?;
                    arguments.read(b)?;
                    compared(a, comparison) == compared(b, comparison)
                }
                (a, b) => a.is_null() && b.is_null(),
            })
        }
        _ => return Ok(None),
    }))
}

fn compare(a: &str, b: &str, name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<i32> {
    let is_ordinal = name == "CompareOrdinal"
        || matches!(
            arguments.optional(2),
            Some(Value::Enum(EnumKind::StringComparison, 4 | 5))
        );
    let ignores = arguments.comparison(2) == Comparison::IgnoreCase;
    let order = match (is_ordinal, ignores) {
        (true, false) => a.encode_utf16().cmp(b.encode_utf16()),
        (true, true) => upper(a).encode_utf16().cmp(upper(b).encode_utf16()),
        (false, false) => collate(a, b, arguments.meter())?,
        (false, true) => collate(&upper(a), &upper(b), arguments.meter())?,
    };
    Ok(order as i32)
}

/// The arguments from one on; a single list is its items.
pub(super) fn all(arguments: &Arguments<'_, '_>, from: usize) -> Evaluated<Vec<Value>> {
    if arguments.len() == from + 1
        && let Value::List(list) = arguments.value(from)?
    {
        let items = list.items.borrow();
        arguments.meter().steps(items.len() / 8)?;
        return Ok(items.clone());
    }
    (from..arguments.len())
        .map(|number| arguments.value(number).cloned())
        .collect()
}

pub(super) fn joined(separator: &str, values: &[Value], arguments: &Arguments<'_, '_>) -> Evaluated<String> {
    let mut out = String::new();
    for (number, value) in values.iter().enumerate() {
        let text = text_of(value);
        arguments.meter().hold(8 + text.len() + separator.len())?;
        if number > 0 {
            out.push_str(separator);
        }
        out.push_str(&text);
    }
    Ok(out)
}

/// `{0}`, `{1,10}` and `{2:N2}`.
pub(super) fn composite(format: &str, values: &[Value], arguments: &Arguments<'_, '_>) -> Evaluated<String> {
    use crate::text::{aligned, formatted};
    let invalid = || {
        Stop::thrown(
            "FormatException",
            "the format string is invalid; a place is {0}, {0,10} or {0:N2}, a brace {{",
        )
    };
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '{' if chars.next_if_eq(&'{').is_some() => out.push('{'),
            '}' if chars.next_if_eq(&'}').is_some() => out.push('}'),
            '}' => return Err(invalid()),
            '{' => {
                let mut hole = String::new();
                loop {
                    match chars.next() {
                        Some('}') => break,
                        Some(other) => hole.push(other),
                        None => return Err(invalid()),
                    }
                }
                let (head, pattern) = hole
                    .split_once(':')
                    .map_or((hole.as_str(), ""), |(head, pattern)| (head, pattern));
                let (place, width) = head
                    .split_once(',')
                    .map_or((head, "0"), |(place, width)| (place, width));
                let place: usize = place.trim().parse().map_err(|_| invalid())?;
                let width: i32 = width.trim().parse().map_err(|_| invalid())?;
                let value = values.get(place).ok_or_else(invalid)?;
                if width.unsigned_abs() > 100_000 {
                    return Err(invalid());
                }
                arguments
                    .meter()
                    .hold(64 + usize::try_from(width.unsigned_abs()).unwrap_or(0))?;
                let text = formatted(value, pattern)?;
                arguments.meter().hold(text.len())?;
                out.push_str(&aligned(&text, width));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

fn of_char(name: &str, arguments: &Arguments<'_, '_>) -> Evaluated<Option<Value>> {
    use crate::text::{lower_char, upper_char};
    let Value::Char(unit) = arguments.value(0)? else {
        return Err(Stop::thrown("ArgumentException", format!("{name} takes a char")));
    };
    let c = char::from_u32(u32::from(*unit)).unwrap_or('\u{fffd}');
    let of = |c: char| {
        let mut units = [0; 2];
        Value::Char(c.encode_utf16(&mut units).first().copied().unwrap_or(0))
    };
    Ok(Some(match name {
        "IsDigit" => Value::Bool(c.is_ascii_digit()),
        "IsLetter" => Value::Bool(c.is_alphabetic()),
        "IsLetterOrDigit" => Value::Bool(c.is_alphanumeric()),
        "IsWhiteSpace" => Value::Bool(c.is_whitespace()),
        "IsUpper" => Value::Bool(c.is_uppercase()),
        "IsLower" => Value::Bool(c.is_lowercase()),
        "IsPunctuation" => Value::Bool(c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c)),
        "ToUpper" | "ToUpperInvariant" => of(upper_char(c)),
        "ToLower" | "ToLowerInvariant" => of(lower_char(c)),
        "GetNumericValue" => Value::Double(c.to_digit(10).map_or(-1.0, f64::from)),
        "ToString" => Value::Text(of_units(&[*unit])?),
        _ => return Ok(None),
    }))
}
