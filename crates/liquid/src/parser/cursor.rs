//! The position in the text that is read next.

pub(super) struct Cursor<'t> {
    text: &'t str,
    /// The byte, between two characters.
    pub(super) at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn skip_white_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// White space up to the end of the line.
    pub(super) fn skip_spaces(&mut self) {
        let rest = self.rest();
        let after = rest.trim_start_matches(|c: char| c.is_whitespace() && c != '\n' && c != '\r');
        self.at += rest.len() - after.len();
    }

    /// Takes `part`, if it is what follows.
    pub(super) fn eat(&mut self, part: &str) -> bool {
        let follows = self.rest().starts_with(part);
        if follows {
            self.at += part.len();
        }
        follows
    }

    /// The same after white space.
    pub(super) fn eat_after_space(&mut self, part: &str) -> bool {
        let start = self.at;
        self.skip_white_space();
        let eaten = self.eat(part);
        if !eaten {
            self.at = start;
        }
        eaten
    }

    /// Takes a word, if it follows after white space and ends there.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let start = self.at;
        self.skip_white_space();
        let is_word = self.eat(word) && !self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_word {
            self.at = start;
        }
        is_word
    }

    /// Whether a tag ends here.
    pub(super) fn is_at_tag_end(&self) -> bool {
        let rest = self.rest();
        rest.starts_with("%}") || rest.starts_with("-%}") || rest.is_empty()
    }

    /// A name: letters, digits, `_` and `-`, of which not all are digits. A dash that ends a tag is none of it.
    pub(super) fn name(&mut self) -> Option<&'t str> {
        let start = self.at;
        self.skip_white_space();
        let rest = self.rest();
        let begins = rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let mut end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            .unwrap_or(rest.len());
        let next = rest.as_bytes().get(end);
        if rest.get(..end).is_some_and(|name| name.ends_with('-')) && matches!(next, Some(b'%' | b'}')) {
            end -= 1;
        }
        let name = rest.get(..end).unwrap_or_default();
        if !begins || name.bytes().all(|byte| byte.is_ascii_digit()) {
            self.at = start;
            return None;
        }
        self.at += end;
        Some(name)
    }

    /// Digits without a sign.
    pub(super) fn digits(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }
}
