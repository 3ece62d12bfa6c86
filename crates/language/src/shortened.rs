//! Texts of any length, shortened for messages.

use std::borrow::Cow;

/// A text of at most so many bytes; `…` stands for the rest of a longer one.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let room = most.saturating_sub('…'.len_utf8());
    let end = (0..=room).rev().find(|end| text.is_char_boundary(*end));
    let kept = text.get(..end.unwrap_or(0)).unwrap_or_default();
    Cow::Owned(format!("{kept}…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_long_text_is_kept() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("longer", 5), "lo…");
        assert_eq!(shortened("ééééé", 8), "éé…");
        assert_eq!(shortened("ab", 0), "…");
    }
}
