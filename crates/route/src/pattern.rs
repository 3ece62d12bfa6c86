//! The regular expression of a constraint: one of .NET, whose work for each value is bounded when the template is parsed.

use std::sync::Arc;

use mainspring_language::{PatternSize, TranslatedPattern};
use regex::{Regex, RegexBuilder};

/// In bytes: the compiled regular expressions of one template.
pub(crate) const BUDGET: usize = 1 << 20;

/// In bytes: what a compiled one is tried with first.
const LIGHTEST: usize = 16 << 10;

/// The most work for a byte of a value, in places of the pattern.
const MOST_WORK: usize = 1 << 10;

/// The most classes whose characters are searched in both cases: each takes a third of a ms to compile.
const MOST_CLASSES: usize = 32;

/// In bytes: the longest value that is compared. A longer one does not match; this one takes some 6 ms at most.
pub(crate) const LONGEST_VALUE: usize = 1 << 10;

const TOO_LARGE: &str = "it is too large; repeat fewer parts, or write [A-Za-z0-9_] for \\w and [0-9] for \\d";

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) source: Arc<str>,
    regex: Regex,
    /// In bytes: what the compiled expression takes at most.
    pub(crate) weight: usize,
    /// It asks for the end of the text, before which .NET allows a line break.
    asks_end: bool,
}

impl Pattern {
    /// Compiles a pattern. What it takes is subtracted from the bytes that its template has left.
    pub(crate) fn compile(source: &str, left: &mut usize) -> Result<Self, String> {
        let translated = TranslatedPattern::of(source, false).map_err(|problem| problem.to_string())?;
        let size = PatternSize::of(&translated.text);
        if size.work() > MOST_WORK || size.classes() > MOST_CLASSES {
            return Err(TOO_LARGE.into());
        }
        let mut weight = LIGHTEST.min(*left);
        let regex = loop {
            let built = RegexBuilder::new(&translated.text)
                .case_insensitive(true)
                .size_limit(weight)
                .dfa_size_limit(weight)
                .nest_limit(50)
                .build();
            match built {
                Ok(regex) => break regex,
                Err(regex::Error::CompiledTooBig(_)) if weight < *left => {
                    weight = weight.saturating_mul(4).min(*left);
                }
                Err(regex::Error::CompiledTooBig(_)) => return Err(TOO_LARGE.into()),
                Err(error) => {
                    let message = error.to_string();
                    let last = message.lines().last().unwrap_or_default();
                    return Err(last.strip_prefix("error: ").unwrap_or(last).chars().take(200).collect());
                }
            }
        };
        *left = left.saturating_sub(weight);
        Ok(Self {
            source: source.into(),
            regex,
            weight,
            asks_end: translated.asks_end,
        })
    }

    pub(crate) fn is_match(&self, value: &str) -> bool {
        if value.len() > LONGEST_VALUE {
            return false;
        }
        let shorter = value.strip_suffix('\n').filter(|_| self.asks_end);
        self.regex.is_match(value) || shorter.is_some_and(|value| self.regex.is_match(value))
    }
}
