//! What is wrong with a script, and where: before it runs, or while it does.

use std::fmt;

use crate::shortened::shortened;

/// In bytes: the longest message, as messages quote names of any length.
const MAX_MESSAGE: usize = 1_000;

/// A place in the text of a script, counted from 1 as editors do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a script cannot be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) at: Position,
    pub(crate) message: String,
}

impl Problem {
    pub(super) fn new(at: Position, message: impl Into<String>) -> Self {
        Self {
            at,
            message: shortened(&message.into(), MAX_MESSAGE).into_owned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

pub(super) type Checked<T> = Result<T, Problem>;

/// Why a script that runs has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopKind {
    /// An exception of .NET.
    Thrown,
    /// Its steps are spent.
    Steps,
    /// Its time is spent.
    Time,
    /// It has made more than it may hold.
    Memory,
    /// A text that cannot be stored.
    InvalidText,
    /// Its result is too large.
    TooLarge,
    /// Nothing waits for it any more.
    Cancelled,
}

/// The end of a script without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) kind: StopKind,
    pub(crate) at: Option<Position>,
    pub(crate) message: String,
}

impl Stop {
    pub(super) fn new(kind: StopKind, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            kind,
            at: None,
            message: message.into(),
        })
    }

    /// Nothing waits for it any more.
    pub(crate) fn cancelled() -> Box<Self> {
        Self::new(StopKind::Cancelled, "the script was cancelled")
    }

    /// An exception of .NET, by its name.
    pub(super) fn thrown(exception: &str, message: impl fmt::Display) -> Box<Self> {
        Self::new(StopKind::Thrown, format!("{exception}: {message}"))
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{at}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

pub(super) type Evaluated<T> = Result<T, Box<Stop>>;
