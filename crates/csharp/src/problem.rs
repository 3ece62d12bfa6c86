//! What is wrong with a script, and where: before it runs, or while it runs.

use std::fmt;

use mainspring_language::shortened;

/// In bytes: the longest message, as messages quote names of any length.
const MAX_MESSAGE: usize = 1_000;

/// A place in the text of a script, counted from 1 as editors do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a script cannot be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is.
    pub at: Position,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Problem {
    pub(super) fn new(at: Position, message: impl Into<String>) -> Self {
        Self {
            at,
            message: shortened(&message.into(), MAX_MESSAGE).into_owned(),
        }
    }
}

impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

pub(super) type Checked<T> = Result<T, Problem>;

/// Why a script that runs has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
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
pub struct Stop {
    /// The class of it.
    pub kind: StopKind,
    /// Where the script was, if that is known.
    pub at: Option<Position>,
    /// For an exception its name and message.
    pub message: String,
    /// The script has thrown it itself.
    pub(super) is_of_script: bool,
}

impl Stop {
    pub(super) fn new(kind: StopKind, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            kind,
            at: None,
            message: message.into(),
            is_of_script: false,
        })
    }

    /// An exception of .NET, by its name.
    pub(super) fn thrown(exception: &str, message: impl fmt::Display) -> Box<Self> {
        Self::new(StopKind::Thrown, format!("{exception}: {message}"))
    }
}

impl std::error::Error for Stop {}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{at}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

pub(super) type Evaluated<T> = Result<T, Box<Stop>>;
