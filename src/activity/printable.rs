//! Text that others wrote, made fit for one line of a terminal or of a log.

use std::borrow::Cow;

/// The text with every character escaped that would end the line, move the cursor or turn the direction of writing: control
/// characters but the tab, line and paragraph separators, and marks of direction. What is plain stays as it is.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    // Nearly all text is plain ASCII, and each line that a workflow writes comes by here.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) || !text.chars().any(moves) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if moves(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

fn moves(character: char) -> bool {
    let direction =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    direction || character.is_control() && character != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_line_or_moves_the_cursor() {
        for (text, safe) in [
            ("", ""),
            ("plain\ttext \\n", "plain\ttext \\n"),
            ("Grüße, 世界 🙂", "Grüße, 世界 🙂"),
            ("a\nb\r\nc", "a\\nb\\r\\nc"),
            ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
            ("ü\u{9b}31m\u{7f}", "ü\\u{9b}31m\\u{7f}"),
            ("\u{2028}x\u{202e}y\u{2066}", "\\u{2028}x\\u{202e}y\\u{2066}"),
            ("\0", "\\u{0}"),
        ] {
            assert_eq!(printable(text), safe);
        }
    }
}
