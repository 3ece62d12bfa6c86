//! The tokens of a script.

use std::sync::Arc;

use crate::problem::Position;
use mainspring_language::Decimal;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A name or a keyword. `@name` is a name only.
    Word(Arc<str>),
    /// `@name`.
    EscapedName(Arc<str>),
    Int(i32),
    Long(i64),
    Double(f64),
    Decimal(Decimal),
    Char(u16),
    Text(Arc<str>),
    Interpolated(Vec<Piece>),
    Sign(&'static str),
    End,
}

/// A part of an interpolated string.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(Arc<str>),
    Hole {
        tokens: Vec<Lexed>,
        alignment: Option<i32>,
        format: Option<Arc<str>>,
    },
}

/// A token and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lexed {
    pub(crate) token: Token,
    pub(crate) at: Position,
}
