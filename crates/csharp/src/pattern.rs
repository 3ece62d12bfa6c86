//! A compiled regular expression.

use std::sync::Arc;

use regex::Regex;

#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) source: Arc<str>,
    pub(super) regex: Regex,
    /// The work that a byte of text is.
    pub(super) work: usize,
    /// The groups of the engine in the order of .NET: those without a name first.
    pub(super) order: Vec<usize>,
    pub(super) names: Vec<Arc<str>>,
    /// It asks for the end of the text, before which .NET allows a line break.
    pub(super) asks_end: bool,
}

impl Pattern {
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The number of a group by its name or number as text.
    pub(super) fn group(&self, name: &str) -> Option<usize> {
        let named = self.names.iter().position(|known| **known == *name);
        named.or_else(|| name.parse().ok().filter(|number| *number < self.order.len()))
    }
}
