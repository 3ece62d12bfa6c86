//! Text into tokens. An interpolated string is one token whose holes are tokens themselves.

use std::sync::Arc;

use super::number::number;
use super::token::{Lexed, Piece, Token};
use crate::problem::{Checked, Position, Problem};

/// Signs, the longest first.
const SIGNS: &[&str] = &[
    "??=", "<<=", ">>=", "...", "?.", "??", "=>", "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "<<", "..", "->", "::", "{", "}", "[", "]", "(", ")", ".", ",", ":", ";", "+", "-",
    "*", "/", "%", "&", "|", "^", "!", "~", "=", "<", ">", "?", "@",
];

/// The deepest nesting of interpolated strings.
const DEEPEST: usize = 20;

/// The tokens of a script, with one for its end.
pub(crate) fn lex(text: &str) -> Checked<Vec<Lexed>> {
    let mut lexer = Lexer {
        rest: text,
        at: Position { line: 1, column: 1 },
        depth: 0,
    };
    let mut tokens = Vec::new();
    loop {
        let next = lexer.next()?;
        let is_end = next.token == Token::End;
        tokens.push(next);
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    at: Position,
    depth: usize,
}

impl<'a> Lexer<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        if next == '\n' {
            self.at = Position {
                line: self.at.line + 1,
                column: 1,
            };
        } else {
            self.at.column += 1;
        }
        Some(next)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest.starts_with(text);
        if found {
            for _ in text.chars() {
                self.bump();
            }
        }
        found
    }

    fn take_while(&mut self, test: impl Fn(char) -> bool) -> &'a str {
        let start = self.rest;
        while self.peek().is_some_and(&test) {
            self.bump();
        }
        start.get(..start.len() - self.rest.len()).unwrap_or_default()
    }

    fn skip_blanks(&mut self) -> Checked<()> {
        loop {
            let at = self.at;
            if self.peek().is_some_and(char::is_whitespace) || self.peek() == Some('\u{feff}') {
                self.bump();
            } else if self.eat("//") {
                self.take_while(|c| c != '\n');
            } else if self.eat("/*") {
                while !self.eat("*/") {
                    if self.bump().is_none() {
                        return Err(Problem::new(at, "this comment has no end; close it with */"));
                    }
                }
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Checked<Lexed> {
        self.skip_blanks()?;
        let at = self.at;
        let token = self.token(at)?;
        Ok(Lexed { token, at })
    }

    fn token(&mut self, at: Position) -> Checked<Token> {
        let Some(first) = self.peek() else {
            return Ok(Token::End);
        };
        if self.rest.starts_with("\"\"\"") || self.rest.starts_with("$\"\"\"") || self.rest.starts_with("$$") {
            return Err(Problem::new(
                at,
                "raw strings (\"\"\") are not supported; write a verbatim string: @\"…\"",
            ));
        }
        if self.eat("$@\"") || self.eat("@$\"") {
            return self.interpolated(at, true);
        }
        if self.eat("$\"") {
            return self.interpolated(at, false);
        }
        if self.eat("@\"") {
            return self.verbatim(at);
        }
        if self.eat("\"") {
            return self.text(at);
        }
        if self.eat("'") {
            return self.character(at);
        }
        if is_name_start(first) {
            return Ok(Token::Word(self.take_while(is_name_part).into()));
        }
        let mut following = self.rest.chars().skip(1);
        let second = following.next();
        if first == '@' && second.is_some_and(is_name_start) {
            self.bump();
            return Ok(Token::EscapedName(self.take_while(is_name_part).into()));
        }
        if first.is_ascii_digit() || (first == '.' && second.is_some_and(|c| c.is_ascii_digit())) {
            return self.number(at);
        }
        if first == '#' {
            return Err(Problem::new(at, "directives (#) are not supported; remove the line"));
        }
        for sign in SIGNS.iter().copied() {
            // `a ?.5 : b` is a condition.
            let is_condition = sign == "?." && self.rest.chars().nth(2).is_some_and(|c| c.is_ascii_digit());
            if !is_condition && self.eat(sign) {
                return Ok(Token::Sign(sign));
            }
        }
        Err(Problem::new(at, format!("the character {first} has no meaning here")))
    }

    fn number(&mut self, at: Position) -> Checked<Token> {
        let start = self.rest;
        let is_based = ["0x", "0X", "0b", "0B"].iter().any(|prefix| start.starts_with(prefix));
        let mut has_point = false;
        loop {
            let before = self.rest;
            self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            let word = before.get(..before.len() - self.rest.len()).unwrap_or_default();
            let exponent = !is_based && word.ends_with(['e', 'E']);
            let after_point = self.rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
            let is_signed = exponent && self.peek().is_some_and(|c| c == '+' || c == '-');
            let is_point = !is_based && !has_point && self.peek() == Some('.');
            if !after_point || !(is_signed || is_point) {
                break;
            }
            has_point |= is_point;
            self.bump();
        }
        let text = start.get(..start.len() - self.rest.len()).unwrap_or_default();
        let shown: String = text.chars().take(60).collect();
        number(text).map_err(|message| Problem::new(at, message.replace(text, &shown)))
    }

    fn unclosed(at: Position) -> Problem {
        Problem::new(
            at,
            "this string is not closed; end it with \" on the same line, or write a verbatim string: @\"…\"",
        )
    }

    fn text(&mut self, at: Position) -> Checked<Token> {
        let mut units = Vec::new();
        loop {
            match self.peek() {
                None | Some('\n' | '\r') => return Err(Self::unclosed(at)),
                Some('"') => {
                    self.bump();
                    return Ok(Token::Text(joined(&units, at)?));
                }
                Some('\\') => self.escape(&mut units)?,
                Some(other) => {
                    self.bump();
                    push(&mut units, other);
                }
            }
        }
    }

    fn verbatim(&mut self, at: Position) -> Checked<Token> {
        let mut text = String::new();
        loop {
            match self.bump() {
                None => return Err(Problem::new(at, "this string is not closed; end it with \"")),
                Some('"') if self.eat("\"") => text.push('"'),
                Some('"') => return Ok(Token::Text(text.into())),
                Some(other) => text.push(other),
            }
        }
    }

    fn character(&mut self, at: Position) -> Checked<Token> {
        let problem = || Problem::new(at, "a char literal is one character, as in 'a'; write a text in \"…\"");
        let mut units = Vec::new();
        match self.peek() {
            None | Some('\n' | '\'') => return Err(problem()),
            Some('\\') => self.escape(&mut units)?,
            Some(other) => {
                self.bump();
                push(&mut units, other);
            }
        }
        match (units.as_slice(), self.eat("'")) {
            ([unit], true) => Ok(Token::Char(*unit)),
            _ => Err(problem()),
        }
    }

    /// An escape, as UTF-16: C# writes a pair of surrogates as two of them.
    fn escape(&mut self, units: &mut Vec<u16>) -> Checked<()> {
        let at = self.at;
        self.bump();
        let unknown = || Problem::new(at, "this escape is unknown; a backslash itself is \\\\");
        let simple = match self.bump().ok_or_else(unknown)? {
            '\'' => '\'',
            '"' => '"',
            '\\' => '\\',
            '0' => '\0',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            kind @ ('u' | 'U' | 'x') => {
                let most = if kind == 'U' { 8 } else { 4 };
                let mut digits = String::new();
                while digits.len() < most && self.peek().is_some_and(|c| c.is_ascii_hexdigit()) {
                    digits.extend(self.bump());
                }
                if digits.is_empty() || (kind != 'x' && digits.len() < most) {
                    return Err(unknown());
                }
                let code = u32::from_str_radix(&digits, 16).map_err(|_| unknown())?;
                match (u16::try_from(code), char::from_u32(code)) {
                    (Ok(unit), _) => units.push(unit),
                    (_, Some(character)) => push(units, character),
                    _ => return Err(unknown()),
                }
                return Ok(());
            }
            _ => return Err(unknown()),
        };
        push(units, simple);
        Ok(())
    }

    fn interpolated(&mut self, at: Position, is_verbatim: bool) -> Checked<Token> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Problem::new(
                at,
                format!("strings are nested more than {DEEPEST} levels deep"),
            ));
        }
        let mut pieces = Vec::new();
        let mut units: Vec<u16> = Vec::new();
        loop {
            let place = self.at;
            match self.peek() {
                None => return Err(Self::unclosed(at)),
                Some('\n' | '\r') if !is_verbatim => return Err(Self::unclosed(at)),
                Some('\\') if !is_verbatim => self.escape(&mut units)?,
                Some('"') => {
                    self.bump();
                    if is_verbatim && self.eat("\"") {
                        units.push(u16::from(b'"'));
                        continue;
                    }
                    if !units.is_empty() {
                        pieces.push(Piece::Text(joined(&units, at)?));
                    }
                    self.depth -= 1;
                    return Ok(Token::Interpolated(pieces));
                }
                Some(brace @ ('{' | '}')) => {
                    self.bump();
                    if self.peek() == Some(brace) {
                        self.bump();
                        push(&mut units, brace);
                    } else if brace == '}' {
                        return Err(Problem::new(place, "a } in an interpolated string is written as }}"));
                    } else {
                        if !units.is_empty() {
                            pieces.push(Piece::Text(joined(&units, at)?));
                            units.clear();
                        }
                        pieces.push(self.hole(place, is_verbatim)?);
                    }
                }
                Some(other) => {
                    self.bump();
                    push(&mut units, other);
                }
            }
        }
    }

    fn hole(&mut self, at: Position, is_verbatim: bool) -> Checked<Piece> {
        let mut tokens = Vec::new();
        let mut open = 0usize;
        let (mut alignment, mut format) = (None, None);
        loop {
            let next = self.next()?;
            match next.token {
                Token::End => return Err(Problem::new(at, "this { of an interpolated string is not closed by }")),
                Token::Sign("(" | "[" | "{") => open += 1,
                Token::Sign("}") if open == 0 => break,
                Token::Sign(")" | "]" | "}") => open = open.saturating_sub(1),
                Token::Sign(",") if open == 0 => {
                    alignment = Some(self.alignment()?);
                    if self.eat(":") {
                        format = Some(self.format(at, is_verbatim)?);
                    }
                    self.eat("}");
                    break;
                }
                Token::Sign(":") if open == 0 => {
                    format = Some(self.format(at, is_verbatim)?);
                    self.eat("}");
                    break;
                }
                _ => {}
            }
            tokens.push(next);
        }
        if tokens.is_empty() {
            return Err(Problem::new(
                at,
                "{} in an interpolated string holds nothing; write an expression in it, or {{}}",
            ));
        }
        tokens.push(Lexed {
            token: Token::End,
            at: self.at,
        });
        Ok(Piece::Hole {
            tokens,
            alignment,
            format,
        })
    }

    fn alignment(&mut self) -> Checked<i32> {
        self.skip_blanks()?;
        let at = self.at;
        let text = self.take_while(|c| c == '-' || c.is_ascii_digit());
        let width = text.parse::<i32>().ok().filter(|width| width.unsigned_abs() <= 1_000);
        self.skip_blanks()?;
        match (width, self.peek()) {
            (Some(width), Some(':' | '}')) => Ok(width),
            _ => Err(Problem::new(
                at,
                "the width of an interpolation is a whole number of at most 1000, as in {n,10} or {n,-10}",
            )),
        }
    }

    /// Up to the brace that ends the hole. Its escapes are those of the string around it.
    fn format(&mut self, at: Position, is_verbatim: bool) -> Checked<Arc<str>> {
        let mut units = Vec::new();
        loop {
            match self.peek() {
                Some('\\') if !is_verbatim => self.escape(&mut units)?,
                Some('"') if is_verbatim && self.eat("\"\"") => push(&mut units, '"'),
                Some('}') if !units.is_empty() => return joined(&units, at),
                None | Some('}' | '"' | '\n') => {
                    let message = "the format of an interpolation is not closed by }, or is empty";
                    return Err(Problem::new(at, message));
                }
                Some(other) => {
                    self.bump();
                    push(&mut units, other);
                }
            }
        }
    }
}

fn push(units: &mut Vec<u16>, character: char) {
    units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
}

fn joined(units: &[u16], at: Position) -> Checked<Arc<str>> {
    String::from_utf16(units)
        .map(Arc::from)
        .map_err(|_| Problem::new(at, "this string holds half a surrogate pair, which cannot be stored"))
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
