//! The words and signs of a script.

use crate::expression::language::Place;

/// Words after which an operand comes, so that a `/` begins a regular expression.
const BEFORE_OPERAND: &[&str] = &[
    "case",
    "delete",
    "do",
    "else",
    "in",
    "instanceof",
    "new",
    "return",
    "throw",
    "typeof",
    "void",
];

/// Words before parentheses that declare nothing, and that no operand ends.
pub(super) const BEFORE_PARENTHESES: &[&str] = &["if", "for", "while", "switch"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'s> {
    /// A name or a word.
    Name(&'s str),
    /// A sign of one or more characters.
    Sign(&'s str),
    /// A number, a text, a regular expression, a part of a template.
    Literal,
    /// The end of the part of a template that is code begins a text, and its end a part again.
    Open,
    Close,
}

/// The tokens of a text with their places; `None` when tokens alone do not say what the text means.
pub(super) fn tokens_of(script: &str) -> Option<Vec<(Token<'_>, Place)>> {
    Lexer::of(script).tokens()
}

/// The signs of more than one character that decide what stands around them.
const SIGNS: &[&str] = &[
    "...", "++", "--", "=>", "?.", "===", "!==", "==", "!=", "<=", ">=", "??=", "??", "&&=", "||=", "**=", "+=", "-=",
    "*=", "/=", "%=",
];

struct Lexer<'s> {
    rest: &'s str,
    place: Place,
    tokens: Vec<(Token<'s>, Place)>,
    /// The brackets that are open, and whether what they hold decides on a statement; a part of a template is a `$`.
    open: Vec<(char, bool)>,
    /// The last closing bracket ended a condition, behind which a statement begins.
    was_condition: bool,
}

impl<'s> Lexer<'s> {
    fn of(script: &'s str) -> Self {
        Self {
            rest: script,
            place: (1, 1),
            tokens: Vec::new(),
            open: Vec::new(),
            was_condition: false,
        }
    }

    /// `None` when the tokens alone do not say what a text means.
    fn tokens(mut self) -> Option<Vec<(Token<'s>, Place)>> {
        while let Some(first) = self.rest.chars().next() {
            let place = self.place;
            if first.is_whitespace() || first == '\u{feff}' {
                self.skip(first.len_utf8());
            } else if self.rest.starts_with("//") {
                let length = self.rest.find(['\n', '\r', '\u{2028}', '\u{2029}']);
                self.skip(length.unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let length = self.rest.get(2..)?.find("*/")?;
                self.skip(length + 4);
            } else if self.rest.starts_with("<!--") || self.rest.starts_with("-->") {
                return None;
            } else if is_name_start(first) {
                let length = self.rest.find(|c| !is_name_part(c)).unwrap_or(self.rest.len());
                let name = self.skip(length);
                self.tokens.push((Token::Name(name), place));
            } else if first.is_ascii_digit() || (first == '.' && self.second().is_some_and(|c| c.is_ascii_digit())) {
                self.number();
                self.tokens.push((Token::Literal, place));
            } else if first == '\'' || first == '"' {
                self.quoted(first)?;
                self.tokens.push((Token::Literal, place));
            } else if first == '`' {
                self.skip(1);
                self.template(place)?;
            } else if first == '/' && !self.is_division()? {
                self.pattern()?;
                self.tokens.push((Token::Literal, place));
            } else if first == '}' && self.open.last().is_some_and(|(open, _)| *open == '$') {
                self.open.pop();
                self.tokens.push((Token::Close, place));
                self.skip(1);
                self.template(place)?;
            } else {
                self.sign(first)?;
            }
        }
        self.open.is_empty().then_some(self.tokens)
    }

    fn second(&self) -> Option<char> {
        self.rest.chars().nth(1)
    }

    /// Takes this many bytes.
    fn skip(&mut self, bytes: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        for c in taken.chars() {
            self.place = match c {
                '\n' => (self.place.0.saturating_add(1), 1),
                _ => (self.place.0, self.place.1.saturating_add(1)),
            };
        }
        taken
    }

    /// Also with an exponent that has a sign.
    fn number(&mut self) {
        loop {
            let length = self
                .rest
                .find(|c: char| !(is_name_part(c) || c == '.'))
                .unwrap_or(self.rest.len());
            let taken = self.skip(length);
            let is_exponent =
                taken.ends_with(['e', 'E']) && !taken.starts_with("0x") && self.rest.starts_with(['+', '-']);
            if !is_exponent {
                return;
            }
            self.skip(1);
        }
    }

    fn quoted(&mut self, quote: char) -> Option<()> {
        let mut is_escaped = true;
        let mut end = None;
        for (at, c) in self.rest.char_indices() {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '\n' => return None,
                c if c == quote => {
                    end = Some(at + 1);
                    break;
                }
                _ => {}
            }
        }
        self.skip(end?);
        Some(())
    }

    /// The text of a template up to its end or its next part.
    fn template(&mut self, place: Place) -> Option<()> {
        let mut is_escaped = false;
        for (at, c) in self.rest.char_indices() {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '`' => {
                    self.skip(at + 1);
                    self.tokens.push((Token::Literal, place));
                    return Some(());
                }
                '$' if self.rest.get(at + 1..).is_some_and(|rest| rest.starts_with('{')) => {
                    self.skip(at + 2);
                    self.open.push(('$', false));
                    self.tokens.push((Token::Open, place));
                    return Some(());
                }
                _ => {}
            }
        }
        None
    }

    /// Whether a `/` divides. `None` where that depends on more than tokens, as behind a `}`, which ends an operand or a statement.
    fn is_division(&self) -> Option<bool> {
        let mut last = self.tokens.iter().rev().map(|(token, _)| token);
        match last.next() {
            None | Some(Token::Open) => Some(false),
            Some(Token::Literal) => Some(true),
            Some(Token::Name(_)) if matches!(last.next(), Some(Token::Sign("." | "?."))) => Some(true),
            Some(Token::Name("await" | "of" | "yield")) => None,
            Some(Token::Name(name)) => Some(!BEFORE_OPERAND.contains(name)),
            Some(Token::Sign("}" | "++" | "--") | Token::Close) => None,
            Some(Token::Sign(")")) if self.was_condition => None,
            Some(Token::Sign(sign)) => Some(matches!(*sign, ")" | "]")),
        }
    }

    fn pattern(&mut self) -> Option<()> {
        let (mut is_escaped, mut in_class, mut end) = (false, false, None);
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                '\n' => return None,
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => {
                    end = Some(at + 1);
                    break;
                }
                _ => {}
            }
        }
        self.skip(end?);
        let flags = self.rest.find(|c: char| !is_name_part(c)).unwrap_or(self.rest.len());
        self.skip(flags);
        Some(())
    }

    fn sign(&mut self, first: char) -> Option<()> {
        let place = self.place;
        match first {
            '(' | '[' | '{' => {
                let before = self.tokens.last().map(|(token, _)| *token);
                // The names in its block may be members of its object.
                if first == '(' && before == Some(Token::Name("with")) {
                    return None;
                }
                let is_condition = matches!(before, Some(Token::Name(word)) if BEFORE_PARENTHESES.contains(&word));
                self.open.push((first, is_condition));
            }
            ')' | ']' | '}' => {
                let (open, is_condition) = self.open.pop()?;
                if !matches!((open, first), ('(', ')') | ('[', ']') | ('{', '}')) {
                    return None;
                }
                self.was_condition = is_condition;
            }
            // An escape in a name, a decorator, a private member.
            '\\' | '@' | '#' => return None,
            _ => {}
        }
        let known = SIGNS.iter().find(|sign| self.rest.starts_with(**sign));
        // `a?.5:1` has no member.
        let is_member = !self.rest.starts_with("?.")
            || !self
                .rest
                .get(2..)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let length = known.filter(|_| is_member).map_or(first.len_utf8(), |sign| sign.len());
        let sign = self.skip(length);
        self.tokens.push((Token::Sign(sign), place));
        Some(())
    }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '$' || (!c.is_ascii() && !c.is_whitespace())
}

fn is_name_part(c: char) -> bool {
    is_name_start(c) || c.is_ascii_digit()
}
