//! Filters for HTML, as .NET's `WebUtility` encodes it, and `handleize`.

use super::{Call, Filter, Filtered, filter};
use crate::budget::Builder;
use crate::error::TemplateFailure;

pub(super) static FILTERS: [Filter; 5] = [
    filter("escape", |call| {
        let text = call.text()?;
        let mut escaped = call.builder();
        escape(&text, &mut escaped)?;
        call.made(escaped)
    }),
    filter("escape_once", |call| {
        let text = call.text()?;
        let mut plain = call.builder();
        unescape(&text, &mut plain)?;
        let mut escaped = call.builder();
        escape(plain.as_str(), &mut escaped)?;
        call.made(escaped)
    }),
    filter("strip_html", |call| {
        let text = call.text()?;
        let mut inside = false;
        let outside = text.chars().filter(|c| match c {
            '<' => {
                inside = true;
                false
            }
            '>' => {
                inside = false;
                false
            }
            _ => !inside,
        });
        call.made_of(outside.collect())
    }),
    filter("handle", handleize),
    filter("handleize", handleize),
];

fn escape(text: &str, escaped: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;")?,
            '>' => escaped.push_str("&gt;")?,
            '"' => escaped.push_str("&quot;")?,
            '\'' => escaped.push_str("&#39;")?,
            '&' => escaped.push_str("&amp;")?,
            '\u{a0}'..='\u{ff}' | '\u{10000}'.. => escaped.push_str(&format!("&#{};", u32::from(c)))?,
            c => escaped.push(c)?,
        }
    }
    Ok(())
}

fn unescape(text: &str, plain: &mut Builder<'_, '_>) -> Result<(), TemplateFailure> {
    /// The longest name of an entity that is known, and of a number.
    const LONGEST: usize = 10;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before)?;
        let name_end = after.bytes().take(LONGEST).position(|byte| byte == b';');
        let name = name_end.and_then(|end| after.get(..end));
        match name.and_then(entity) {
            Some(c) => {
                plain.push(c)?;
                rest = after.get(name.map_or(0, str::len) + 1..).unwrap_or_default();
            }
            None => {
                plain.push('&')?;
                rest = after;
            }
        }
    }
    plain.push_str(rest)
}

fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return code.ok().and_then(char::from_u32);
    }
    Some(match name {
        "amp" => '&',
        "apos" => '\'',
        "copy" => '©',
        "euro" => '€',
        "gt" => '>',
        "hellip" => '…',
        "laquo" => '«',
        "ldquo" => '“',
        "lsquo" => '‘',
        "lt" => '<',
        "mdash" => '—',
        "nbsp" => '\u{a0}',
        "ndash" => '–',
        "quot" => '"',
        "raquo" => '»',
        "rdquo" => '”',
        "reg" => '®',
        "rsquo" => '’',
        "trade" => '™',
        _ => return None,
    })
}

/// A name in kebab case: letters and digits only, a dash before a capital letter that begins a word.
fn handleize<'a>(call: Call<'a, '_>) -> Filtered<'a> {
    let text = call.text()?;
    call.budget.check_memory(text.len().saturating_mul(8))?;
    let characters: Vec<char> = text.chars().collect();
    let last = characters.len().saturating_sub(1);
    let mut handle = String::with_capacity(text.len());
    for (place, &c) in characters.iter().enumerate() {
        if !c.is_alphanumeric() {
            continue;
        }
        if place == 0 || place == last {
            handle.push(c);
            continue;
        }
        let next = characters.get(place + 1).copied().unwrap_or('\0');
        if next.is_ascii_uppercase() {
            handle.push(c);
            if !c.is_ascii_uppercase() && !c.is_numeric() {
                handle.push('-');
            }
        } else {
            if c.is_ascii_uppercase() && !handle.ends_with('-') && !next.is_numeric() {
                handle.push('-');
            }
            handle.push(c);
        }
    }
    call.made_of(handle.chars().map(super::text::lower).collect())
}
