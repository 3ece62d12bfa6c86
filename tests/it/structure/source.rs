//! A file of Rust as its tokens, by the lexer of `syn`: what is code, what is a string, what exists for tests only. A syntax
//! tree would leave out what is inside of macros.

use std::ops::Range;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A file of Rust, taken apart.
#[derive(Default)]
pub(super) struct Source {
    /// Without comments and without literals other than numbers.
    tokens: Vec<(String, usize)>,
    /// The string literals.
    pub(super) strings: Vec<Literal>,
    /// The tokens of items under `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
}

/// A string literal, as it is written in the source.
pub(super) struct Literal {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) in_test: bool,
    /// The number of tokens before it.
    at: usize,
}

/// A word, `::`, or one other character.
#[derive(Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
    before: &'a str,
}

impl Token<'_> {
    /// Whether the token before this one is `word`.
    pub(super) fn after(&self, word: &str) -> bool {
        self.before == word
    }
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let mut source = Self::default();
        let stream: TokenStream = text.parse().unwrap_or_else(|error| panic!("{error} in\n{text}"));
        source.take(stream);
        source.tests = test_items(&source.tokens);
        for string in &mut source.strings {
            string.in_test = source.tests.iter().any(|items| items.contains(&string.at));
        }
        source
    }

    fn take(&mut self, stream: TokenStream) {
        let mut colon = false;
        for tree in stream {
            let line = tree.span().start().line;
            let is_joint = std::mem::take(&mut colon);
            match tree {
                TokenTree::Group(group) if self.is_doc_comment(&group) => {
                    while self
                        .tokens
                        .pop_if(|(text, _)| ["#", "!"].contains(&text.as_str()))
                        .is_some()
                    {}
                }
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Brace => ("{", "}"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::None => ("", ""),
                    };
                    self.tokens.push((open.to_owned(), line));
                    self.take(group.stream());
                    self.tokens.push((close.to_owned(), group.span_close().start().line));
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && is_joint => {
                    if let Some((text, _)) = self.tokens.last_mut() {
                        text.push(':');
                    }
                }
                TokenTree::Punct(punct) => {
                    colon = punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                    self.tokens.push((punct.to_string(), line));
                }
                TokenTree::Ident(ident) => self.tokens.push((ident.to_string(), line)),
                TokenTree::Literal(literal) => self.literal(&literal.to_string(), line),
            }
        }
    }

    /// Whether a group is that of the attribute as which the lexer gives a comment of documentation.
    fn is_doc_comment(&self, group: &proc_macro2::Group) -> bool {
        let mut inside = group.stream().into_iter();
        let is_attribute = self
            .tokens
            .last()
            .is_some_and(|(text, _)| ["#", "!"].contains(&text.as_str()));
        is_attribute
            && matches!(inside.next(), Some(TokenTree::Ident(name)) if name == "doc")
            && matches!(inside.next(), Some(TokenTree::Punct(equals)) if equals.as_char() == '=')
            && matches!(inside.next(), Some(TokenTree::Literal(_)))
    }

    fn literal(&mut self, written: &str, line: usize) {
        let prefix = written.find(['"', '\'']);
        match prefix.filter(|start| written[*start..].starts_with('"')) {
            Some(start) => {
                let hashes = written[..start].matches('#').count();
                let text = &written[start + 1..written.len() - 1 - hashes];
                self.strings.push(Literal {
                    line,
                    // A backslash at the end of a line joins it with the next.
                    text: text.replace("\\\n", " ").replace("\\n", " "),
                    in_test: false,
                    at: self.tokens.len(),
                });
            }
            None if prefix.is_none() => self.tokens.push((written.to_owned(), line)),
            None => {}
        }
    }

    /// All tokens.
    pub(super) fn tokens(&self) -> impl Iterator<Item = Token<'_>> {
        (0..self.tokens.len()).map(|at| self.token(at))
    }

    /// The tokens that are not under `#[cfg(test)]`.
    pub(super) fn production_tokens(&self) -> impl Iterator<Item = Token<'_>> {
        let in_test = |at: &usize| self.tests.iter().any(|items| items.contains(at));
        (0..self.tokens.len())
            .filter(move |at| !in_test(at))
            .map(|at| self.token(at))
    }

    fn token(&self, at: usize) -> Token<'_> {
        let (text, line) = &self.tokens[at];
        Token {
            text,
            line: *line,
            before: at.checked_sub(1).map_or("", |before| &self.tokens[before].0),
        }
    }
}

/// The tokens of every item under `#[cfg(test)]`: up to its `;`, or to the end of its braces.
fn test_items(tokens: &[(String, usize)]) -> Vec<Range<usize>> {
    let attribute = ["#", "[", "cfg", "(", "test", ")", "]"];
    let starts = tokens.windows(attribute.len()).enumerate();
    starts
        .filter(|(_, window)| window.iter().map(|(text, _)| text.as_str()).eq(attribute))
        .map(|(start, window)| {
            let mut depth = 0;
            let after = start + window.len();
            let end = tokens[after..].iter().position(|(text, _)| {
                match text.as_str() {
                    "{" | "(" | "[" => depth += 1,
                    "}" | ")" | "]" => depth -= 1,
                    _ => {}
                }
                depth == 0 && (text == "}" || text == ";")
            });
            start..end.map_or(tokens.len(), |end| after + end + 1)
        })
        .collect()
}

#[test]
fn code_strings_and_comments_are_distinguished() {
    let source = Source::read(
        "/// No \"string\".\nlet a = \"in \\\" one\"; // not \"this\"\n/* nor /* nested */ \"that\" */ let c = '\"'; let b = br#\"raw \"x\" \"#;\nfn f<'a>(x: &'a a::b) -> [u8; 2] {}",
    );
    let strings: Vec<&str> = source.strings.iter().map(|string| string.text.as_str()).collect();
    assert_eq!(strings, ["in \\\" one", "raw \"x\" "]);
    let on = |line: usize| {
        let tokens = source.tokens().filter(|token| token.line == line);
        tokens.map(|token| token.text).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(on(2), "let a = ;");
    assert_eq!(on(3), "let c = ; let b = ;");
    assert_eq!(on(4), "fn f < ' a > ( x : & ' a a :: b ) - > [ u8 ; 2 ] { }");
}

#[test]
fn items_for_tests_are_distinguished() {
    let source = Source::read(
        "#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod more {\n fn b() { \"x\" }\n}\nfn c() { \"y\" }",
    );
    let named = source.production_tokens().filter(|token| token.after("fn"));
    assert_eq!(named.map(|token| token.text).collect::<Vec<_>>(), ["a", "c"]);
    let strings = source
        .strings
        .iter()
        .map(|string| (string.text.as_str(), string.in_test));
    assert_eq!(strings.collect::<Vec<_>>(), [("x", true), ("y", false)]);
}
