//! As much of Rust's grammar as the rules need: what is code, what is a string, what is only there for tests.

/// A file of Rust, taken apart.
pub(super) struct Source {
    /// The code, with comments and the contents of literals blanked out; lines stay where they are.
    code: String,
    /// The string literals.
    pub(super) strings: Vec<Literal>,
    /// The lines (from, to) of items under `#[cfg(test)]`.
    tests: Vec<(usize, usize)>,
}

/// A string literal, as it stands in the source.
pub(super) struct Literal {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) in_test: bool,
}

/// An identifier or keyword.
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
    /// Where it ends in the code.
    pub(super) end: usize,
    start: usize,
    code: &'a str,
}

/// A word, `::`, or one other character.
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: usize,
}

impl Word<'_> {
    /// Whether the word before this one is `word`, with nothing but blanks between.
    pub(super) fn after(&self, word: &str) -> bool {
        let before = self.code[..self.start].trim_end();
        before.strip_suffix(word).is_some_and(|rest| !rest.ends_with(is_word))
    }
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let (code, mut strings) = blank(text);
        let tests = test_items(&code);
        for string in &mut strings {
            string.in_test = tests.iter().any(|(from, to)| (*from..=*to).contains(&string.line));
        }
        Self { code, strings, tests }
    }

    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// All words of the code.
    pub(super) fn words(&self) -> impl Iterator<Item = Word<'_>> {
        let code = self.code.as_str();
        let (mut at, mut line) = (0, 1);
        std::iter::from_fn(move || {
            let start = at + code[at..].find(is_word)?;
            let end = start + code[start..].find(|c| !is_word(c)).unwrap_or(code.len() - start);
            line += code[at..start].matches('\n').count();
            at = end;
            let text = &code[start..end];
            Some(Word {
                text,
                line,
                end,
                start,
                code,
            })
        })
    }

    /// The words that are not under `#[cfg(test)]`.
    pub(super) fn production_words(&self) -> impl Iterator<Item = Word<'_>> {
        self.words().filter(|word| !self.in_test(word.line))
    }

    /// The tokens that are not under `#[cfg(test)]`.
    pub(super) fn production_tokens(&self) -> impl Iterator<Item = Token<'_>> {
        self.tokens().filter(|token| !self.in_test(token.line))
    }

    /// All tokens.
    pub(super) fn tokens(&self) -> impl Iterator<Item = Token<'_>> {
        let code = self.code.as_str();
        let (mut at, mut line) = (0, 1);
        std::iter::from_fn(move || {
            let start = at + code[at..].find(|c: char| !c.is_whitespace())?;
            line += code[at..start].matches('\n').count();
            let rest = &code[start..];
            let length = match rest.chars().next()? {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            at = start + length;
            let text = &code[start..at];
            Some(Token { text, line })
        })
    }

    fn in_test(&self, line: usize) -> bool {
        self.tests.iter().any(|(from, to)| (*from..=*to).contains(&line))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Blanks out comments and the contents of literals, and collects the strings.
fn blank(text: &str) -> (String, Vec<Literal>) {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut strings = Vec::new();
    let mut line = 1;
    let mut at = 0;
    // Skips to `end`, and leaves blanks.
    let skip = |code: &mut String, line: &mut usize, from: usize, end: usize| {
        for c in &chars[from..end] {
            *line += usize::from(*c == '\n');
            code.push(if *c == '\n' { '\n' } else { ' ' });
        }
    };
    while at < chars.len() {
        let next = |ahead: usize| chars.get(at + ahead).copied().unwrap_or('\0');
        let in_word = at > 0 && is_word(chars[at - 1]);
        let end = match chars[at] {
            '/' if next(1) == '/' => (at..chars.len()).find(|i| chars[*i] == '\n').unwrap_or(chars.len()),
            '/' if next(1) == '*' => comment_end(&chars, at),
            'r' | 'b' | 'c' if !in_word && raw_start(&chars, at).is_some() => {
                let (open, hashes) = raw_start(&chars, at).unwrap();
                let close: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
                let close: Vec<char> = close.chars().collect();
                let end = (open..chars.len())
                    .find(|i| chars[*i..].starts_with(&close))
                    .unwrap_or(chars.len());
                strings.push(literal(line, &chars[open..end]));
                (end + close.len()).min(chars.len())
            }
            '"' => {
                let end = quote_end(&chars, at, '"');
                strings.push(literal(line, &chars[at + 1..end - 1]));
                end
            }
            // A character, not a lifetime.
            '\'' if next(1) == '\\' || next(2) == '\'' => quote_end(&chars, at, '\''),
            c => {
                line += usize::from(c == '\n');
                code.push(c);
                at += 1;
                continue;
            }
        };
        skip(&mut code, &mut line, at, end);
        at = end;
    }
    (code, strings)
}

fn literal(line: usize, text: &[char]) -> Literal {
    // A backslash at the end of a line joins it with the next.
    let text = text.iter().collect::<String>().replace("\\\n", " ").replace("\\n", " ");
    Literal {
        line,
        text,
        in_test: false,
    }
}

/// `r"`, `r#"`, `br"`, `cr"`: where the contents begin, and the number of `#`.
fn raw_start(chars: &[char], at: usize) -> Option<(usize, usize)> {
    let r = if chars[at] == 'r' { at } else { at + 1 };
    if chars.get(r) != Some(&'r') {
        return None;
    }
    let hashes = chars[r + 1..].iter().take_while(|c| **c == '#').count();
    (chars.get(r + 1 + hashes) == Some(&'"')).then_some((r + 2 + hashes, hashes))
}

fn quote_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut at = at + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn comment_end(chars: &[char], at: usize) -> usize {
    let (mut at, mut depth) = (at, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

/// The lines of every item that stands under `#[cfg(test)]`: up to its `;`, or to the end of its braces.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let line_of = |at: usize| code[..at].matches('\n').count() + 1;
    let attribute = "#[cfg(test)]";
    code.match_indices(attribute)
        .map(|(start, _)| {
            let mut depth = 0;
            let after = start + attribute.len();
            let end = code[after..].char_indices().find_map(|(at, c)| {
                match c {
                    '{' | '(' | '[' => depth += 1,
                    '}' | ')' | ']' => depth -= 1,
                    _ => {}
                }
                (depth == 0 && (c == '}' || c == ';')).then_some(after + at)
            });
            (line_of(start), end.map_or(usize::MAX, line_of))
        })
        .collect()
}

#[test]
fn code_strings_and_comments_are_distinguished() {
    let source = Source::read(
        "let a = \"in \\\" one\"; // not \"this\"\n/* nor /* nested */ \"that\" */ let c = '\"'; let b = br#\"raw \"x\" \"#;\nfn f<'a>(x: &'a str) {}",
    );
    let strings: Vec<&str> = source.strings.iter().map(|string| string.text.as_str()).collect();
    assert_eq!(strings, ["in \\\" one", "raw \"x\" "]);
    let words: Vec<(&str, usize)> = source.words().map(|word| (word.text, word.line)).collect();
    let third: Vec<&str> = words
        .iter()
        .filter(|(_, line)| *line == 3)
        .map(|(word, _)| *word)
        .collect();
    assert_eq!(third, ["fn", "f", "a", "x", "a", "str"]);
    assert!(
        !words
            .iter()
            .any(|(word, _)| ["not", "nor", "nested", "raw", "one"].contains(word))
    );
}

#[test]
fn items_for_tests_are_distinguished() {
    let source =
        Source::read("#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod more {\n fn b() { }\n}\nfn c() {}");
    let words: Vec<&str> = source.production_words().map(|word| word.text).collect();
    assert_eq!(words, ["fn", "a", "fn", "c"]);
}
