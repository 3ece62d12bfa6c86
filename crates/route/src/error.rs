//! Why a template is none.

use std::fmt;

/// The error of a template, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// What is wrong, and what to write instead.
    pub message: String,
    /// Where it is, in characters from 1.
    pub column: usize,
}

impl TemplateError {
    pub(crate) fn new(column: usize, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            column,
        }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for TemplateError {}
