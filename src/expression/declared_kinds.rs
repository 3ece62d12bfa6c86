//! What a script sees of a text whose declared type is more than text: a date, a length of time, bytes, a long decimal.

use std::collections::HashMap;

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
    /// A decimal, as text if it has more digits than a number of JSON.
    Decimal = 4,
}

impl DeclaredKind {
    /// The kind of a declared type or of the items of a list of it, and whether it is a list.
    pub(crate) fn of(type_name: &str, is_array: bool) -> Option<(Self, bool)> {
        // Most types are none of these: the name is read in whole only if it may be one.
        if !["Date", "TimeSpan", "yte", "ecimal"]
            .iter()
            .any(|part| type_name.contains(part))
        {
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
            TypeName::Decimal => Some(Self::Decimal),
            _ => None,
        }
    }
}

/// The variables and inputs of a script whose texts are more than text.
#[derive(Clone, Debug, Default)]
pub struct DeclaredKinds {
    variables: HashMap<String, (DeclaredKind, bool)>,
    inputs: HashMap<String, (DeclaredKind, bool)>,
}

impl DeclaredKinds {
    /// Of the visible variables, innermost first, and of the inputs; whether each is a list of its kind.
    pub(crate) fn new(
        variables: impl IntoIterator<Item = (String, (DeclaredKind, bool))>,
        inputs: impl IntoIterator<Item = (String, (DeclaredKind, bool))>,
    ) -> Self {
        let mut kinds = Self {
            variables: HashMap::new(),
            inputs: inputs.into_iter().collect(),
        };
        for (name, kind) in variables {
            kinds.variables.entry(name).or_insert(kind);
        }
        kinds
    }

    /// The kind of a variable, and whether it is a list of it.
    pub(crate) fn variable(&self, name: &str) -> Option<(DeclaredKind, bool)> {
        self.variables.get(name).copied()
    }

    /// The kind of an input, and whether it is a list of it.
    pub(crate) fn input(&self, name: &str) -> Option<(DeclaredKind, bool)> {
        self.inputs.get(name).copied()
    }
}
