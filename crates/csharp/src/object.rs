//! Objects of classes of .NET: builders of texts, regular expressions and what they find, encodings and exceptions.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::pattern::Pattern;
use super::types::ObjectKind;

#[derive(Debug)]
pub(super) enum Object {
    Builder(RefCell<String>),
    Encoding(Encoding),
    Exception(Exception),
    Regex(Rc<Pattern>),
    Match(Found),
    Groups(Found),
    /// A group by its number.
    Group(Found, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Ascii,
    Utf8,
}

#[derive(Clone, Debug)]
pub(super) struct Exception {
    pub(super) name: Arc<str>,
    pub(super) message: Arc<str>,
}

/// What a regular expression has found in a text.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) text: Arc<str>,
    /// The bytes of each group in the order of their numbers, that of the whole first; nothing if there is no match.
    pub(super) spans: Rc<[Option<(usize, usize)>]>,
    pub(super) pattern: Rc<Pattern>,
}

impl Found {
    pub(super) fn span(&self, group: usize) -> Option<(usize, usize)> {
        self.spans.get(group).copied().flatten()
    }

    /// The text of a group; the empty one if it has found nothing.
    pub(super) fn value(&self, group: usize) -> &str {
        let found = self.span(group).and_then(|(start, end)| self.text.get(start..end));
        found.unwrap_or_default()
    }
}

impl Object {
    pub(super) fn kind(&self) -> ObjectKind {
        match self {
            Self::Builder(_) => ObjectKind::Builder,
            Self::Encoding(_) => ObjectKind::Encoding,
            Self::Exception(_) => ObjectKind::Exception,
            Self::Regex(_) => ObjectKind::Regex,
            Self::Match(_) => ObjectKind::Match,
            Self::Groups(_) => ObjectKind::Groups,
            Self::Group(..) => ObjectKind::Group,
        }
    }
}

/// The exceptions that scripts may catch, each with the one that it is derived from.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("SystemException", "Exception"),
    ("ApplicationException", "Exception"),
    ("AggregateException", "Exception"),
    ("JsonException", "Exception"),
    ("RuntimeBinderException", "Exception"),
    ("ArithmeticException", "SystemException"),
    ("DivideByZeroException", "ArithmeticException"),
    ("OverflowException", "ArithmeticException"),
    ("ArgumentException", "SystemException"),
    ("ArgumentNullException", "ArgumentException"),
    ("ArgumentOutOfRangeException", "ArgumentException"),
    ("RegexParseException", "ArgumentException"),
    ("ArrayTypeMismatchException", "SystemException"),
    ("FormatException", "SystemException"),
    ("IndexOutOfRangeException", "SystemException"),
    ("InvalidCastException", "SystemException"),
    ("InvalidOperationException", "SystemException"),
    ("SwitchExpressionException", "InvalidOperationException"),
    ("KeyNotFoundException", "SystemException"),
    ("NotImplementedException", "SystemException"),
    ("NotSupportedException", "SystemException"),
    ("NullReferenceException", "SystemException"),
    ("OutOfMemoryException", "SystemException"),
    ("RankException", "SystemException"),
    ("TimeoutException", "SystemException"),
    ("UnauthorizedAccessException", "SystemException"),
    ("OperationCanceledException", "SystemException"),
];

/// Whether there is an exception of this name.
pub(super) fn is_exception(name: &str) -> bool {
    name == "Exception" || EXCEPTIONS.iter().any(|(known, _)| *known == name)
}

/// Whether an exception of one name is also one of another.
pub(super) fn derives_from(name: &str, wanted: &str) -> bool {
    let mut name = name;
    loop {
        if name == wanted {
            return true;
        }
        match EXCEPTIONS.iter().find(|(known, _)| *known == name) {
            Some((_, base)) => name = base,
            None => return wanted == "Exception",
        }
    }
}

/// What .NET says in an exception that it throws itself, where that does not depend on values.
pub(super) fn own_message(name: &str) -> Option<&'static str> {
    Some(match name {
        "DivideByZeroException" => "Attempted to divide by zero.",
        "NullReferenceException" => "Object reference not set to an instance of an object.",
        "IndexOutOfRangeException" => "Index was outside the bounds of the array.",
        _ => return None,
    })
}
