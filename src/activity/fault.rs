//! The failure of an activity.

use std::fmt;

/// A failure of an activity. It becomes an incident of the instance, which the incident strategy handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Classifies faults for programs. As in Elsa, the default is `0`.
    pub code: String,
    /// `General`, `HTTP`, `Script`, …
    pub category: String,
    /// `System`, `Business`, `Integration`, …
    pub fault_type: String,
    /// A message for a reader who can act on it.
    pub message: String,
    /// For the fault of an expression, line and column of its text, both from 1.
    pub(crate) place: Option<(u32, u32)>,
    /// The message quotes no value, so it is kept where a secret was read.
    pub(crate) quotes_nothing: bool,
}

impl Fault {
    /// A failure with a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: "0".to_owned(),
            category: "General".to_owned(),
            fault_type: "System".to_owned(),
            message: message.into(),
            place: None,
            quotes_nothing: false,
        }
    }

    /// Keeps the message where a secret was read.
    pub(crate) fn quoting_nothing(mut self, quotes_nothing: bool) -> Self {
        self.quotes_nothing = quotes_nothing;
        self
    }

    /// Sets the place in the text of an expression.
    pub(crate) fn at(mut self, place: Option<(u32, u32)>) -> Self {
        self.place = place;
        self
    }

    /// Sets the code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// Sets the category.
    #[must_use]
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.category = category.into();
        self
    }

    /// Sets the type.
    #[must_use]
    pub fn fault_type(mut self, fault_type: impl Into<String>) -> Self {
        self.fault_type = fault_type.into();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Converts the error of any library, so that `?` works in an activity.
impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            message.push_str(": ");
            message.push_str(&inner.to_string());
            cause = inner.source();
        }
        Self::new(message)
    }
}
