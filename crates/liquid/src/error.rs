//! Why a template cannot be used or has no result.

use std::fmt;

/// The class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It is not Liquid, or names a tag or a filter that does not exist.
    Syntax,
    /// It has a meaning, but not with these values.
    Invalid,
    /// It runs longer than its limit of steps or of time.
    Timeout,
    /// Its values need more memory than its limit.
    Memory,
    /// Its text is larger than its limit.
    TooLarge,
    /// Nothing waits for it any more.
    Cancelled,
}

/// The error of a template, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// The class of it.
    pub kind: ErrorKind,
    /// What is wrong.
    pub message: String,
    /// The line, from 1; 0 if the failure has no place.
    pub line: usize,
    /// The column, in characters from 1; 0 if the failure has no place.
    pub column: usize,
}

impl TemplateError {
    pub(super) fn without_place(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            line: 0,
            column: 0,
        }
    }

    /// An error at a byte of the text.
    pub(super) fn at(text: &str, offset: usize, kind: ErrorKind, message: impl Into<String>) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            kind,
            message: message.into(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |line| line.chars().count()) + 1,
        }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}

/// A failure while a template renders; the statement that it is in gives it a place.
#[derive(Clone, Debug)]
pub(super) struct TemplateFailure {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    /// The byte of the template, once known.
    pub(super) at: Option<u32>,
}

impl TemplateFailure {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            at: None,
        }
    }

    /// A value that does not fit.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Sets the place, if it is not known more exactly.
    pub(super) fn placed(mut self, at: u32) -> Self {
        self.at.get_or_insert(at);
        self
    }
}
