//! Text that is compared without case, as .NET's `StringComparison.OrdinalIgnoreCase` compares it: character by character,
//! by their simple mappings, whatever the language is.

use std::borrow::Cow;

/// The one form of a text and of all that differ from it only in case.
pub(crate) fn folded(text: &str) -> Cow<'_, str> {
    if is_folded(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(folded_char).collect())
}

/// Whether a text is surely its own folded form. Only ASCII is looked at, because most paths are nothing else.
pub(crate) fn is_folded(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
}

/// .NET compares upper-case forms; this one is the lower-case form of those, where that leads back to them.
fn folded_char(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let upper = upper(c);
    let lower = only(upper.to_lowercase()).unwrap_or(upper);
    if self::upper(lower) == upper { lower } else { upper }
}

/// A mapping to several characters is none that .NET makes, and neither is one of another character to ASCII.
fn upper(c: char) -> char {
    only(c.to_uppercase())
        .filter(|upper| c.is_ascii() || !upper.is_ascii())
        .unwrap_or(c)
}

fn only(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    let first = mapped.next();
    first.filter(|_| mapped.next().is_none())
}

/// The last place of a folded text in another text, compared without case: where it begins and where it ends.
pub(crate) fn last_place(text: &str, folded_part: &str) -> Option<(usize, usize)> {
    if text.is_ascii() && folded_part.is_ascii() {
        let (text, part) = (text.as_bytes(), folded_part.as_bytes());
        let mut windows = text.windows(part.len().max(1));
        let start = windows.rposition(|window| window.eq_ignore_ascii_case(part))?;
        return Some((start, start + part.len()));
    }
    let starts = text.char_indices().rev().map(|(start, _)| start);
    starts
        .filter_map(|start| Some((start, start + prefix_length(text.get(start..)?, folded_part)?)))
        .next()
}

/// The bytes with which a text begins with a folded part.
fn prefix_length(text: &str, folded_part: &str) -> Option<usize> {
    let mut rest = text.chars();
    for expected in folded_part.chars() {
        if rest.next().map(folded_char) != Some(expected) {
            return None;
        }
    }
    Some(text.len() - rest.as_str().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_that_of_ordinal_comparison() {
        for (left, right, equal) in [
            ("Orders", "oRDERS", true),
            ("É", "é", true),
            ("Σ", "ς", true),
            ("Ⱥ", "ⱥ", true),
            ("ß", "SS", false),
            ("ß", "ẞ", false),
            ("ı", "I", false),
            ("İ", "i", false),
            ("ſ", "S", false),
            ("\u{212a}", "k", false),
        ] {
            assert_eq!(folded(left) == folded(right), equal, "{left} {right}");
        }
    }

    #[test]
    fn the_last_place_is_found_whatever_the_case_is() {
        assert_eq!(last_place("aXbxc", "x"), Some((3, 4)));
        assert_eq!(last_place("aÉbéc", "é"), Some((4, 6)));
        assert_eq!(last_place("aȺb", "ⱥ"), Some((1, 3)));
        assert_eq!(last_place("ab", "abc"), None);
        assert_eq!(last_place("", "a"), None);
    }
}
