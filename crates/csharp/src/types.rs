//! The types of values, where the checker knows them.
//!
//! `object`, `dynamic` and JSON objects are one type here, [`Ty::Dynamic`]: their members are found when the script runs.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The enumerations of .NET that methods take or return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnumKind {
    DayOfWeek,
    DateTimeKind,
    StringComparison,
    MidpointRounding,
    StringSplitOptions,
    RegexOptions,
}

impl EnumKind {
    const ALL: [Self; 6] = [
        Self::DayOfWeek,
        Self::DateTimeKind,
        Self::StringComparison,
        Self::MidpointRounding,
        Self::StringSplitOptions,
        Self::RegexOptions,
    ];

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DayOfWeek => "DayOfWeek",
            Self::DateTimeKind => "DateTimeKind",
            Self::StringComparison => "StringComparison",
            Self::MidpointRounding => "MidpointRounding",
            Self::StringSplitOptions => "StringSplitOptions",
            Self::RegexOptions => "RegexOptions",
        }
    }

    /// The number of a value of that name.
    pub(crate) fn number(self, name: &str) -> Option<i32> {
        let place = i32::try_from(self.members().iter().position(|member| *member == name)?).ok()?;
        Some(match self {
            Self::RegexOptions if place > 0 => 1 << (place - 1),
            _ => place,
        })
    }

    /// The name of a value of that number.
    pub(crate) fn member(self, number: i32) -> Option<&'static str> {
        let members = self.members().iter().copied();
        members
            .filter(|name| !name.is_empty())
            .find(|name| self.number(name) == Some(number))
    }

    /// The names of its values, which count from 0; those of `RegexOptions` are bits, of which one has no name.
    pub(crate) fn members(self) -> &'static [&'static str] {
        match self {
            Self::DayOfWeek => &[
                "Sunday",
                "Monday",
                "Tuesday",
                "Wednesday",
                "Thursday",
                "Friday",
                "Saturday",
            ],
            Self::DateTimeKind => &["Unspecified", "Utc", "Local"],
            Self::StringComparison => &[
                "CurrentCulture",
                "CurrentCultureIgnoreCase",
                "InvariantCulture",
                "InvariantCultureIgnoreCase",
                "Ordinal",
                "OrdinalIgnoreCase",
            ],
            Self::MidpointRounding => &[
                "ToEven",
                "AwayFromZero",
                "ToZero",
                "ToNegativeInfinity",
                "ToPositiveInfinity",
            ],
            Self::StringSplitOptions => &["None", "RemoveEmptyEntries", "TrimEntries"],
            Self::RegexOptions => &[
                "None",
                "IgnoreCase",
                "Multiline",
                "ExplicitCapture",
                "Compiled",
                "Singleline",
                "IgnorePatternWhitespace",
                "RightToLeft",
                "",
                "ECMAScript",
                "CultureInvariant",
                "NonBacktracking",
            ],
        }
    }
}

/// What kind of list a value is: they differ in what can be done with them, and in what `is` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Array,
    List,
    /// `HashSet<T>`.
    Set,
    /// `IEnumerable<T>`, the result of LINQ. It is made at once here.
    Sequence,
}

/// The classes of .NET whose values are objects with members of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Builder,
    Encoding,
    Exception,
    Regex,
    Match,
    Groups,
    Group,
}

impl ObjectKind {
    /// As C# names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Builder => "StringBuilder",
            Self::Encoding => "Encoding",
            Self::Exception => "Exception",
            Self::Regex => "Regex",
            Self::Match => "Match",
            Self::Groups => "GroupCollection",
            Self::Group => "Group",
        }
    }
}

/// The type of a function: `Func<…>`, or `Action<…>` where the result is `void`.
#[derive(Debug, PartialEq)]
pub(crate) struct FunctionTy {
    pub(crate) parameters: Vec<Ty>,
    pub(crate) result: Ty,
}

/// How large a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) parts: u32,
    pub(super) levels: u32,
}

impl Size {
    /// The most types that one of a script may be made of.
    pub(super) const MOST_PARTS: u32 = 256;

    /// The most levels of a type of a script.
    pub(super) const MOST_LEVELS: u32 = 64;

    /// The most of a type that values make while a script runs.
    const MOST_OF_VALUES: u32 = 4_096;

    /// Whether a script may have a type like this.
    pub(super) fn is_allowed(self) -> bool {
        self.parts <= Self::MOST_PARTS && self.levels <= Self::MOST_LEVELS
    }
}

/// A type inside another one. It is shared and knows its size, so a type is copied and measured in constant time, and what
/// compares or prints one has an end.
#[derive(Clone, Debug)]
pub(crate) struct SharedTy(Arc<(Ty, Size)>);

impl SharedTy {
    /// One that is larger than the checker allows comes only from values that nest while a script runs: `object` stands for it.
    pub(super) fn new(ty: Ty) -> Self {
        let size = ty.size();
        if size.parts > Size::MOST_OF_VALUES || size.levels > 2 * Size::MOST_LEVELS {
            return Self::new(Ty::Dynamic);
        }
        Self(Arc::new((ty, size)))
    }

    fn size(&self) -> Size {
        self.0.1
    }
}

impl Deref for SharedTy {
    type Target = Ty;

    fn deref(&self) -> &Ty {
        &self.0.0
    }
}

impl fmt::Display for SharedTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for SharedTy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.size() == other.size() && **self == **other)
    }
}

/// The type that a definition declares for a variable or an input; `object` by default, whose members are found when a script
/// runs.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredType(pub(crate) Ty);

impl Default for DeclaredType {
    fn default() -> Self {
        Self(Ty::Dynamic)
    }
}

/// As C# names it.
impl fmt::Display for DeclaredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    Dynamic,
    /// That of `null`.
    Null,
    Void,
    Bool,
    Int,
    Long,
    Double,
    Decimal,
    Char,
    Text,
    Date,
    Offset,
    Span,
    Guid,
    Enum(EnumKind),
    Nullable(SharedTy),
    List(ListKind, SharedTy),
    Map(SharedTy, SharedTy),
    Pair(SharedTy, SharedTy),
    Group(SharedTy, SharedTy),
    /// An anonymous object or a tuple: names and types.
    Record(Arc<Vec<(Arc<str>, Ty)>>),
    /// A lambda that is the argument of a method, or a value that throws instead.
    Lambda,
    /// A byte of an array; its value is that of an int.
    Byte,
    Object(ObjectKind),
    Function(Arc<FunctionTy>),
}

impl Ty {
    pub(crate) fn list(kind: ListKind, item: Self) -> Self {
        Self::List(kind, SharedTy::new(item))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(SharedTy::new(key), SharedTy::new(value))
    }

    /// Of how many types it is made, and how deep they are nested.
    pub(super) fn size(&self) -> Size {
        let (parts, levels) = match self {
            Self::Nullable(inner) | Self::List(_, inner) => (inner.size().parts, inner.size().levels),
            Self::Map(a, b) | Self::Pair(a, b) | Self::Group(a, b) => {
                let (a, b) = (a.size(), b.size());
                (a.parts.saturating_add(b.parts), a.levels.max(b.levels))
            }
            Self::Record(fields) => fields.iter().fold((0, 0), |(parts, levels): (u32, u32), (_, ty)| {
                let size = ty.size();
                (parts.saturating_add(size.parts), levels.max(size.levels))
            }),
            Self::Function(function) => {
                let all = function.parameters.iter().chain([&function.result]);
                all.fold((0, 0), |(parts, levels): (u32, u32), ty| {
                    let size = ty.size();
                    (parts.saturating_add(size.parts), levels.max(size.levels))
                })
            }
            _ => (0, 0),
        };
        Size {
            parts: parts.saturating_add(1),
            levels: levels.saturating_add(1),
        }
    }

    /// `T?`; a reference type stays as it is.
    pub(crate) fn nullable(self) -> Self {
        if self.is_value() {
            Self::Nullable(SharedTy::new(self))
        } else {
            self
        }
    }

    /// `T` of `T?`.
    pub(crate) fn plain(&self) -> &Self {
        match self {
            Self::Nullable(inner) => inner,
            other => other,
        }
    }

    /// A type of .NET that is never null.
    pub(crate) fn is_value(&self) -> bool {
        matches!(
            self,
            Self::Bool
                | Self::Byte
                | Self::Int
                | Self::Long
                | Self::Double
                | Self::Decimal
                | Self::Char
                | Self::Date
                | Self::Offset
                | Self::Span
                | Self::Guid
                | Self::Enum(_)
                | Self::Pair(..)
        )
    }

    pub(crate) fn is_number(&self) -> bool {
        self.rank().is_some()
    }

    /// The order in which numbers widen; a char counts as the smallest.
    pub(crate) fn rank(&self) -> Option<u8> {
        match self {
            Self::Char | Self::Byte => Some(0),
            Self::Int => Some(1),
            Self::Long => Some(2),
            Self::Double => Some(3),
            Self::Decimal => Some(4),
            _ => None,
        }
    }

    /// Whether nothing is known of it before the script runs.
    pub(crate) fn is_dynamic(&self) -> bool {
        *self == Self::Dynamic
    }

    /// The type of the items of what can be enumerated.
    pub(crate) fn item(&self) -> Option<Self> {
        match self {
            Self::List(_, item) | Self::Group(_, item) => Some((**item).clone()),
            Self::Text => Some(Self::Char),
            Self::Map(key, value) => Some(Self::Pair(key.clone(), value.clone())),
            Self::Dynamic => Some(Self::Dynamic),
            Self::Object(ObjectKind::Groups) => Some(Self::Object(ObjectKind::Group)),
            _ => None,
        }
    }

    /// Whether a value of this type is one of `to` without a cast.
    pub(crate) fn converts_to(&self, to: &Self) -> bool {
        match (self, to) {
            (_, Self::Dynamic) | (Self::Dynamic, _) => *self != Self::Void && *self != Self::Lambda,
            (Self::Null, other) => !other.is_value(),
            (Self::Nullable(from), Self::Nullable(to)) => from.converts_to(to),
            (from, Self::Nullable(to)) => from.converts_to(to),
            (Self::Decimal, Self::Double) | (Self::Double, Self::Decimal) | (_, Self::Char | Self::Byte) => self == to,
            (Self::Function(from), Self::Function(to)) => {
                from.parameters.len() == to.parameters.len()
                    && (from.result == Self::Void) == (to.result == Self::Void)
                    && from.result.converts_to(&to.result)
            }
            // A list of values of one type is none of another, as int and double have other bytes in .NET.
            (Self::List(_, from), Self::List(ListKind::Sequence, to)) if from.is_value() => {
                from == to || to.is_dynamic()
            }
            (Self::List(_, from), Self::List(ListKind::Sequence, to)) => from.converts_to(to) || from == to,
            (Self::Group(_, from), Self::List(ListKind::Sequence, to)) => from.converts_to(to),
            (Self::List(from_kind, from), Self::List(to_kind, to)) => {
                from_kind == to_kind && (from == to || from.is_dynamic() || to.is_dynamic())
            }
            (Self::Map(..), Self::Map(..)) | (Self::Map(..) | Self::Text, Self::List(ListKind::Sequence, _)) => true,
            (Self::Record(from), Self::Record(to)) => from.len() == to.len(),
            (Self::Pair(..), Self::Pair(..)) | (Self::Date, Self::Offset) => true,
            (from, to) => from == to || matches!((from.rank(), to.rank()), (Some(from), Some(to)) if from <= to),
        }
    }

    /// The type of what is one or the other.
    pub(crate) fn common(&self, other: &Self) -> Option<Self> {
        if self == other {
            return Some(self.clone());
        }
        match (self, other) {
            (Self::Void | Self::Lambda, _) | (_, Self::Void | Self::Lambda) => None,
            (Self::Dynamic, _) | (_, Self::Dynamic) => Some(Self::Dynamic),
            (Self::Null, known) | (known, Self::Null) => Some(known.clone().nullable()),
            (Self::Nullable(a), b) | (b, Self::Nullable(a)) => Some(a.common(b.plain())?.nullable()),
            (a, b) if a.converts_to(b) => Some(b.clone()),
            (a, b) if b.converts_to(a) => Some(a.clone()),
            (Self::List(_, a), Self::List(_, b)) => Some(Self::list(ListKind::Sequence, a.common(b)?)),
            _ => None,
        }
    }
}

/// As C# names it.
impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Dynamic => "object",
            Self::Null => "null",
            Self::Void => "void",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Long => "long",
            Self::Double => "double",
            Self::Decimal => "decimal",
            Self::Char => "char",
            Self::Text => "string",
            Self::Date => "DateTime",
            Self::Offset => "DateTimeOffset",
            Self::Span => "TimeSpan",
            Self::Guid => "Guid",
            Self::Enum(kind) => kind.name(),
            Self::Nullable(inner) => return write!(f, "{inner}?"),
            Self::List(ListKind::Array, item) => return write!(f, "{item}[]"),
            Self::List(ListKind::List, item) => return write!(f, "List<{item}>"),
            Self::List(ListKind::Set, item) => return write!(f, "HashSet<{item}>"),
            Self::List(ListKind::Sequence, item) => return write!(f, "IEnumerable<{item}>"),
            Self::Map(key, value) => return write!(f, "Dictionary<{key}, {value}>"),
            Self::Pair(key, value) => return write!(f, "KeyValuePair<{key}, {value}>"),
            Self::Group(key, item) => return write!(f, "IGrouping<{key}, {item}>"),
            Self::Record(_) => "an anonymous object",
            Self::Lambda => "a lambda",
            Self::Byte => "byte",
            Self::Object(kind) => kind.name(),
            Self::Function(function) => return write_function(f, function),
        };
        f.write_str(name)
    }
}

fn write_function(f: &mut fmt::Formatter<'_>, function: &FunctionTy) -> fmt::Result {
    let is_action = function.result == Ty::Void;
    f.write_str(if is_action { "Action" } else { "Func" })?;
    let result = (!is_action).then_some(&function.result);
    for (number, ty) in function.parameters.iter().chain(result).enumerate() {
        write!(f, "{}{ty}", if number == 0 { "<" } else { ", " })?;
    }
    let has_types = !is_action || !function.parameters.is_empty();
    f.write_str(if has_types { ">" } else { "" })
}
