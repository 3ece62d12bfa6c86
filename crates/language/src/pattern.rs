//! Regular expressions of .NET, translated for an engine whose work is linear in the text.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

/// A pattern for the crate `regex` that means what its source means in .NET.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranslatedPattern {
    /// The pattern.
    pub text: String,
    /// It asks for the end of the text, before which .NET allows a line break.
    pub asks_end: bool,
}

/// Why a regular expression of .NET is not translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternProblem {
    /// It is a regular expression, and the engine lacks what is named.
    Lacking(&'static str),
    /// It is no regular expression.
    Invalid(&'static str),
}

impl fmt::Display for PatternProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacking(what) => write!(f, "{what} is not supported"),
            Self::Invalid(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for PatternProblem {}

type Translated<T> = Result<T, PatternProblem>;

impl TranslatedPattern {
    /// Translates a pattern. `is_explicit` is `RegexOptions.ExplicitCapture`: only groups with a name capture.
    ///
    /// What the engine lacks is refused by its name: looking around, references to groups, atomic groups and conditions.
    pub fn of(source: &str, is_explicit: bool) -> Result<Self, PatternProblem> {
        let mut out = Self::default();
        translate(source, is_explicit, &mut out)?;
        Ok(out)
    }
}

fn translate(source: &str, is_explicit: bool, out: &mut TranslatedPattern) -> Translated<()> {
    let mut chars = source.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '\\' => escape(&mut chars, false, out)?,
            '[' => class(&mut chars, out)?,
            '(' => group(&mut chars, is_explicit, out)?,
            '$' => {
                out.asks_end = true;
                out.text.push('$');
            }
            '{' if !is_count(chars.clone()) => out.text.push_str("\\{"),
            // The rest of a count.
            '{' => {
                out.text.push('{');
                for part in chars.by_ref() {
                    out.text.push(part);
                    if part == '}' {
                        break;
                    }
                }
            }
            '}' | ']' => out.text.extend(['\\', next]),
            other => out.text.push(other),
        }
    }
    Ok(())
}

/// Whether `{` begins a count: `{2}`, `{2,}` or `{2,4}`.
fn is_count(chars: Peekable<Chars<'_>>) -> bool {
    let inner: String = chars.take_while(|c| *c != '}').take(24).collect();
    let (least, most) = inner.split_once(',').unwrap_or((&inner, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most) && inner.len() < 24
}

fn escape(chars: &mut Peekable<Chars<'_>>, in_class: bool, out: &mut TranslatedPattern) -> Translated<()> {
    let Some(next) = chars.next() else {
        return Err(PatternProblem::Invalid("it ends with a backslash"));
    };
    match next {
        '1'..='9' | 'k' => return Err(PatternProblem::Lacking("a reference to a group (\\1 or \\k<name>)")),
        'G' => return Err(PatternProblem::Lacking("\\G")),
        'c' => return Err(PatternProblem::Lacking("\\c")),
        'Z' if !in_class => {
            out.asks_end = true;
            out.text.push_str("\\z");
        }
        'b' if in_class => out.text.push_str("\\x08"),
        'a' => out.text.push_str("\\x07"),
        'e' => out.text.push_str("\\x1B"),
        '0' => {
            let mut code = 0;
            for _ in 0..2 {
                let digit = chars.next_if(|c| ('0'..='7').contains(c)).and_then(|c| c.to_digit(8));
                let Some(digit) = digit else { break };
                code = code * 8 + digit;
            }
            out.text.push_str(&format!("\\x{{{code:x}}}"));
        }
        letter if letter.is_ascii_alphabetic() => out.text.extend(['\\', letter]),
        other => {
            match other {
                // A blank means itself, also where blanks are ignored.
                ' ' => out.text.push_str("\\x20"),
                _ if other.is_ascii_punctuation() && !matches!(other, '<' | '>') => out.text.extend(['\\', other]),
                _ => out.text.push(other),
            }
        }
    }
    Ok(())
}

/// A class in brackets, whose signs mean less in .NET.
fn class(chars: &mut Peekable<Chars<'_>>, out: &mut TranslatedPattern) -> Translated<()> {
    out.text.push('[');
    if chars.next_if_eq(&'^').is_some() {
        out.text.push('^');
    }
    let mut is_first = true;
    loop {
        let Some(next) = chars.next() else {
            return Err(PatternProblem::Invalid("a [ is not closed by ]"));
        };
        match next {
            ']' if !is_first => {
                out.text.push(']');
                return Ok(());
            }
            '\\' => escape(chars, true, out)?,
            '-' if chars.peek() == Some(&'[') => {
                return Err(PatternProblem::Lacking("the subtraction of a class ([a-z-[aeiou]])"));
            }
            '-' if is_first || chars.peek() == Some(&'-') || chars.peek() == Some(&']') => out.text.push_str("\\-"),
            '[' | ']' | '&' | '~' => out.text.extend(['\\', next]),
            ' ' => out.text.push_str("\\x20"),
            '#' => out.text.push_str("\\x23"),
            other => out.text.push(other),
        }
        is_first = false;
    }
}

/// What follows `(`.
fn group(chars: &mut Peekable<Chars<'_>>, is_explicit: bool, out: &mut TranslatedPattern) -> Translated<()> {
    if chars.next_if_eq(&'?').is_none() {
        out.text.push_str(if is_explicit { "(?:" } else { "(" });
        return Ok(());
    }
    let around = || PatternProblem::Lacking("looking around ((?=…), (?!…), (?<=…), (?<!…))");
    match chars.next() {
        Some('=' | '!') => Err(around()),
        Some('>') => Err(PatternProblem::Lacking("an atomic group ((?>…))")),
        Some('(') => Err(PatternProblem::Lacking("a condition ((?(…)…))")),
        Some('#') => {
            chars.by_ref().take_while(|c| *c != ')').for_each(drop);
            Ok(())
        }
        Some(open @ ('<' | '\'')) => {
            if open == '<' && matches!(chars.peek(), Some('=' | '!')) {
                return Err(around());
            }
            let close = if open == '<' { '>' } else { '\'' };
            let name: String = chars.by_ref().take_while(|c| *c != close).collect();
            if name.starts_with(|c: char| c.is_ascii_digit()) || name.contains('-') {
                return Err(PatternProblem::Lacking("a group with a number or two names"));
            }
            out.text.push_str(&format!("(?P<{name}>"));
            Ok(())
        }
        Some('n') => Err(PatternProblem::Lacking("the option n")),
        Some(other) => {
            out.text.extend(['(', '?', other]);
            Ok(())
        }
        None => Err(PatternProblem::Invalid("a ( is not closed by )")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_dotnet_are_translated() {
        for (source, text) in [
            (r"^\d{3}$", r"^\d{3}$"),
            ("a{b}", r"a\{b\}"),
            (r"(?<year>\d+)\Z", r"(?P<year>\d+)\z"),
            (r"[a[&~]", r"[a\[\&\~]"),
            (r"\/\ \<", r"\/\x20<"),
            (r"\x41\e\012", r"\x41\x1B\x{a}"),
        ] {
            let translated = TranslatedPattern::of(source, false);
            assert_eq!(translated.map(|pattern| pattern.text).as_deref(), Ok(text), "{source}");
        }
        let explicit = TranslatedPattern::of("(a)(?<b>c)", true).map(|pattern| pattern.text);
        assert_eq!(explicit.as_deref(), Ok("(?:a)(?P<b>c)"));
        for source in ["(?=a)", "(?<!a)", r"(a)\1", "(?>a)", "(?(a)b|c)", "[a-z-[x]]"] {
            assert!(
                matches!(TranslatedPattern::of(source, false), Err(PatternProblem::Lacking(_))),
                "{source}"
            );
        }
        for source in ["[a", "\\", "(?"] {
            assert!(
                matches!(TranslatedPattern::of(source, false), Err(PatternProblem::Invalid(_))),
                "{source}"
            );
        }
    }

    #[test]
    fn a_pattern_that_asks_for_the_end_says_so() {
        for (source, asks) in [
            ("a$", true),
            (r"a\Z", true),
            (r"a\z", false),
            (r"a\$", false),
            ("[$]", false),
        ] {
            let translated = TranslatedPattern::of(source, false);
            assert_eq!(translated.map(|pattern| pattern.asks_end), Ok(asks), "{source}");
        }
    }
}
