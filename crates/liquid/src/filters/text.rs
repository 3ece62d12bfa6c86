//! Filters for texts. Lengths and positions count UTF-16, as in .NET.

use super::{Call, Filter, Filtered, filter, with};
use crate::budget::{Builder, TemplateBudget};
use crate::error::TemplateFailure;
use crate::value::{ITEM_BYTES, Kind, Text, Value};

pub(super) static FILTERS: [Filter; 20] = [
    filter("append", |call| {
        let mut text = call.builder();
        text.push_str(&call.text()?)?;
        text.push_str(&call.argument_text(0)?)?;
        call.made(text)
    }),
    filter("prepend", |call| {
        let mut text = call.builder();
        text.push_str(&call.argument_text(0)?)?;
        text.push_str(&call.text()?)?;
        call.made(text)
    }),
    filter("capitalize", capitalize),
    filter("downcase", |call| mapped(&call, lower)),
    filter("upcase", |call| mapped(&call, upper)),
    filter("lstrip", |call| cut(&call, str::trim_start)),
    filter("rstrip", |call| cut(&call, str::trim_end)),
    filter("strip", |call| cut(&call, str::trim)),
    filter("strip_newlines", |call| {
        let text = call.text()?;
        call.made_of(text.replace(['\r', '\n'], ""))
    }),
    filter("newline_to_br", |call| {
        let text = call.text()?;
        let mut lines = call.builder();
        let mut rest = &*text;
        while let Some((line, after)) = rest.split_once('\n') {
            call.budget.spend(1)?;
            lines.push_str(line.strip_suffix('\r').unwrap_or(line))?;
            lines.push_str("<br />")?;
            rest = after;
        }
        lines.push_str(rest)?;
        call.made(lines)
    }),
    filter("remove", |call| replaced(&call, "", Which::All)),
    filter("remove_first", |call| replaced(&call, "", Which::First)),
    filter("remove_last", |call| replaced(&call, "", Which::Last)),
    filter("replace", |call| replaced(&call, &call.argument_text(1)?, Which::All)),
    filter("replace_first", |call| {
        replaced(&call, &call.argument_text(1)?, Which::First)
    }),
    filter("replace_last", |call| {
        replaced(&call, &call.argument_text(1)?, Which::Last)
    }),
    with("slice", 1, "slice: 0, 3", slice),
    filter("split", split),
    filter("truncate", truncate),
    filter("truncatewords", truncatewords),
];

/// The upper case of a character, if that is one character: .NET's invariant culture knows no others.
pub(super) fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => c,
    }
}

/// The same of the lower case.
pub(super) fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => c,
    }
}

fn mapped<'a>(call: &Call<'a, '_>, map: fn(char) -> char) -> Filtered<'a> {
    let text = call.text()?;
    call.made_of(text.chars().map(map).collect())
}

fn cut<'a>(call: &Call<'a, '_>, trim: fn(&str) -> &str) -> Filtered<'a> {
    let text = call.text()?;
    if let Text::Borrowed(text) = text {
        return Ok(Value::Text(Text::Borrowed(trim(text))));
    }
    call.made_of(trim(&text).to_owned())
}

/// The first letter of each word is in upper case: after white space, a dash or a dot.
fn capitalize<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let text = call.text()?;
    let mut begins = true;
    let capitalized = text.chars().map(|c| {
        let shown = if begins { upper(c) } else { c };
        begins = shown.is_whitespace() || shown == '-' || shown == '.';
        shown
    });
    call.made_of(capitalized.collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    First,
    Last,
}

fn replaced<'a>(call: &Call<'a, '_>, by: &str, which: Which) -> Filtered<'a> {
    let text = call.text()?;
    let part = call.argument_text(0)?;
    if which == Which::All {
        if part.is_empty() {
            if by.is_empty() {
                return Ok(Value::Text(text));
            }
            return Err(TemplateFailure::invalid(
                "the text to replace is empty; give it one character or more",
            ));
        }
        let mut result = call.builder();
        let mut rest = &*text;
        while let Some((before, after)) = rest.split_once(&*part) {
            call.budget.spend(1)?;
            result.push_str(before)?;
            result.push_str(by)?;
            rest = after;
        }
        result.push_str(rest)?;
        return call.made(result);
    }
    let found = match which {
        Which::Last => text.rfind(&*part),
        _ => text.find(&*part),
    };
    let Some(at) = found else {
        return Ok(call.input.clone());
    };
    let mut result = call.builder();
    result.push_str(text.get(..at).unwrap_or_default())?;
    result.push_str(by)?;
    result.push_str(text.get(at + part.len()..).unwrap_or_default())?;
    call.made(result)
}

/// The part of a text, in UTF-16. Half of a pair of surrogates is a replacement character.
pub(super) fn utf16_part(
    text: &str,
    start: usize,
    length: usize,
    budget: &TemplateBudget<'_>,
) -> Result<String, TemplateFailure> {
    budget.spend_bytes(text.len())?;
    if text.is_ascii() {
        let end = start.saturating_add(length).min(text.len());
        return Ok(text.get(start.min(end)..end).unwrap_or_default().to_owned());
    }
    budget.check_memory(text.len().saturating_mul(2))?;
    let units: Vec<u16> = text.encode_utf16().skip(start).take(length).collect();
    Ok(String::from_utf16_lossy(&units))
}

fn slice<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let (first, second) = (call.argument(0), call.given(1));
    if !is_integer(&first, &call)? {
        return Err(TemplateFailure::invalid("the offset is not an integer"));
    }
    if let Some(second) = second
        && !is_integer(second, &call)?
    {
        return Err(TemplateFailure::invalid("the length is not an integer"));
    }
    let start = first.integer("the offset", call.budget)?;
    let length = call.argument_integer(1, 1)?;
    let is_list = call.input.kind() == Kind::List;
    let text = if is_list { Text::of("") } else { call.text()? };
    let size = if is_list { call.input.len() } else { text.utf16_len() };
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    if length <= 0 || start < -size {
        return if is_list {
            Value::list(Vec::new(), call.budget)
        } else {
            Ok(Value::Blank)
        };
    }
    let start = if start < 0 {
        (size + start).max(0)
    } else {
        start.min(size)
    };
    let length = length.min(size - start);
    let place = |number: i64| usize::try_from(number).unwrap_or(0);
    if !is_list {
        return call.made_of(utf16_part(&text, place(start), place(length), call.budget)?);
    }
    call.budget.check_memory(place(length).saturating_mul(ITEM_BYTES))?;
    let mut items = Vec::new();
    for index in place(start)..place(start + length) {
        call.budget.spend(1)?;
        items.extend(call.input.item(index)?);
    }
    Value::list(items, call.budget)
}

fn is_integer<'a>(value: &Value<'a>, call: &Call<'a, '_>) -> Result<bool, TemplateFailure> {
    Ok(match value.kind() {
        Kind::Number => value.number(call.budget)?.scale() == 0,
        Kind::Nil | Kind::Empty => false,
        _ => call.text_of(value)?.trim().parse::<i32>().is_ok(),
    })
}

/// The parts of a text; empty ones are left out. Without a separator, its characters.
fn split<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let text = call.text()?;
    let separator = call.argument_text(0)?;
    let mut parts = Vec::new();
    let mut add = |part: &str, budget: &TemplateBudget<'_>| {
        budget.spend(1)?;
        if parts.len() == parts.capacity() {
            budget.check_memory(parts.len().saturating_mul(2 * ITEM_BYTES))?;
        }
        parts.push(Value::made(part.to_owned(), budget)?);
        Ok::<(), TemplateFailure>(())
    };
    if separator.is_empty() {
        for c in text.chars() {
            add(c.encode_utf8(&mut [0; 4]), call.budget)?;
        }
    } else {
        for part in text.split(&*separator).filter(|part| !part.is_empty()) {
            add(part, call.budget)?;
        }
    }
    Value::list(parts, call.budget)
}

fn truncate<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    if call.input.is_nil() {
        return Ok(Value::Text(Text::of("")));
    }
    let text = call.text()?;
    let length = usize::try_from(call.argument_integer(0, 50)?).unwrap_or(0);
    if text.utf16_len() <= length {
        return Ok(call.input);
    }
    let ellipsis = ellipsis(&call)?;
    let kept = length.saturating_sub(ellipsis.utf16_len());
    let mut result = call.builder();
    result.push_str(&utf16_part(&text, 0, kept, call.budget)?)?;
    result.push_str(&ellipsis)?;
    call.made(result)
}

fn ellipsis<'a>(call: &Call<'a, '_>) -> Result<Text<'a>, TemplateFailure> {
    match call.given(1) {
        Some(given) if !given.is_nil() => call.text_of(given),
        _ => Ok(Text::of("...")),
    }
}

/// The first words, one space between them.
fn truncatewords<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let text = call.text()?;
    let size = usize::try_from(call.argument_integer(0, 15)?).unwrap_or(0).max(1);
    let ellipsis = ellipsis(&call)?;
    let mut result: Builder<'_, '_> = call.builder();
    let mut words = 0;
    for word in text.split_whitespace().take(size) {
        call.budget.spend(1)?;
        if words > 0 {
            result.push(' ')?;
        }
        result.push_str(word)?;
        words += 1;
    }
    if words >= size {
        result.push_str(&ellipsis)?;
    }
    call.made(result)
}
