//! What a script sees of a text whose declared type is more than text: a date, a length of time, bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use mainspring_language::{TimeSpan, parse_date_text};
use serde_json::Value;

use super::type_name::TypeName;

/// A kind of value that JSON writes as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeclaredKind {
    /// A moment.
    Date = 0,
    /// A moment with its offset.
    DateWithOffset = 1,
    /// A length of time.
    TimeSpan = 2,
    /// Bytes, as Base64.
    Bytes = 3,
}

impl DeclaredKind {
    /// The kind of a declared type or of the items of a list of it, and whether it is a list.
    pub(crate) fn of(type_name: &str, is_array: bool) -> Option<(Self, bool)> {
        // Most types are none of these: the name is read in whole only if it may be one.
        if !["Date", "TimeSpan", "yte"].iter().any(|part| type_name.contains(part)) {
            return None;
        }
        match TypeName::parse(type_name, is_array) {
            TypeName::List(item) => Some((Self::of_one(&item)?, true)),
            one => Some((Self::of_one(&one)?, false)),
        }
    }

    fn of_one(type_name: &TypeName) -> Option<Self> {
        match type_name {
            TypeName::DateTime => Some(Self::Date),
            TypeName::DateTimeOffset => Some(Self::DateWithOffset),
            TypeName::TimeSpan => Some(Self::TimeSpan),
            TypeName::Bytes => Some(Self::Bytes),
            _ => None,
        }
    }

    /// Whether two texts are the same value to a script, whose dates have milliseconds.
    pub(crate) fn is_same(self, left: &Value, right: &Value) -> bool {
        match (left, right) {
            (Value::Array(left), Value::Array(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| self.is_same(left, right))
            }
            (Value::String(left), Value::String(right)) => left == right || self.is_same_text(left, right),
            _ => left == right,
        }
    }

    fn is_same_text(self, left: &str, right: &str) -> bool {
        fn both<T: PartialEq>(read: impl Fn(&str) -> Option<T>, left: &str, right: &str) -> bool {
            read(left).is_some_and(|value| read(right) == Some(value))
        }
        match self {
            Self::Date => both(|text| Some(moment(text)?.0), left, right),
            Self::DateWithOffset => both(moment, left, right),
            Self::TimeSpan => both(TimeSpan::parse, left, right),
            Self::Bytes => both(|text| STANDARD.decode(text).ok(), left, right),
        }
    }
}

/// The milliseconds since 1970, and the seconds of the offset.
fn moment(text: &str) -> Option<(i64, i32)> {
    let read = parse_date_text(text, DateTime::<Utc>::UNIX_EPOCH)?;
    let offset = read.offset.map_or(0, |offset| offset.local_minus_utc());
    Some((read.or_utc().timestamp_millis(), offset))
}

/// The variables and inputs of a script whose texts are more than text.
#[derive(Clone, Debug, Default)]
pub struct DeclaredKinds {
    variables: Vec<(String, DeclaredKind, bool)>,
    inputs: Vec<(String, DeclaredKind, bool)>,
}

impl DeclaredKinds {
    /// Of the visible variables, and of the inputs.
    pub(crate) fn new(variables: Vec<(String, DeclaredKind, bool)>, inputs: Vec<(String, DeclaredKind, bool)>) -> Self {
        Self { variables, inputs }
    }

    /// The kind of a variable, and whether it is a list of it.
    pub(crate) fn variable(&self, name: &str) -> Option<(DeclaredKind, bool)> {
        find(&self.variables, name)
    }

    /// The kind of an input, and whether it is a list of it.
    pub(crate) fn input(&self, name: &str) -> Option<(DeclaredKind, bool)> {
        find(&self.inputs, name)
    }
}

fn find(kinds: &[(String, DeclaredKind, bool)], name: &str) -> Option<(DeclaredKind, bool)> {
    let found = kinds.iter().find(|(known, ..)| known == name)?;
    Some((found.1, found.2))
}
