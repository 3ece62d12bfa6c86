//! The types that a script or a definition names.

use std::sync::Arc;

use super::Checker;
use crate::object::is_exception;
use crate::parse::remedy;
use crate::problem::{Checked, Position, Problem};
use crate::syntax::{Suffix, TypeName};
use crate::types::{DeclaredType, EnumKind, FunctionTy, ListKind, ObjectKind, SharedTy, Size, Ty};
use mainspring_language::short_type_name;

/// A type without arguments.
pub(super) fn simple(name: &str) -> Option<Ty> {
    Some(match name {
        "bool" | "Boolean" => Ty::Bool,
        "int" | "Int32" => Ty::Int,
        "long" | "Int64" => Ty::Long,
        "double" | "Double" => Ty::Double,
        "decimal" | "Decimal" => Ty::Decimal,
        "char" | "Char" => Ty::Char,
        "string" | "String" => Ty::Text,
        "object" | "Object" | "dynamic" | "ExpandoObject" | "JsonObject" | "JsonNode" | "JsonArray" | "JsonElement"
        | "JsonValue" => Ty::Dynamic,
        "DateTime" => Ty::Date,
        "DateTimeOffset" => Ty::Offset,
        "TimeSpan" => Ty::Span,
        "Guid" => Ty::Guid,
        "StringBuilder" => Ty::Object(ObjectKind::Builder),
        "Encoding" => Ty::Object(ObjectKind::Encoding),
        "Regex" => Ty::Object(ObjectKind::Regex),
        "Match" => Ty::Object(ObjectKind::Match),
        "Group" => Ty::Object(ObjectKind::Group),
        "GroupCollection" => Ty::Object(ObjectKind::Groups),
        other => Ty::Enum(EnumKind::of(other)?),
    })
}

fn of_one(name: &str) -> Option<ListKind> {
    match name {
        "List" | "IList" | "ICollection" | "IReadOnlyList" | "IReadOnlyCollection" | "Collection" => {
            Some(ListKind::List)
        }
        "HashSet" | "ISet" | "IReadOnlySet" => Some(ListKind::Set),
        "IEnumerable" | "IOrderedEnumerable" => Some(ListKind::Sequence),
        _ => None,
    }
}

/// `Func<…>`, `Action<…>` and `Predicate<T>`.
fn function(name: &str, arguments: &[Ty]) -> Option<Ty> {
    let (parameters, result) = match (name, arguments) {
        ("Action", all) => (all.to_vec(), Ty::Void),
        ("Predicate", [one]) => (vec![one.clone()], Ty::Bool),
        ("Func", [parameters @ .., result]) => (parameters.to_vec(), result.clone()),
        _ => return None,
    };
    Some(Ty::Function(Arc::new(FunctionTy { parameters, result })))
}

impl Checker<'_> {
    pub(super) fn resolve(&self, written: &TypeName) -> Checked<Ty> {
        let arguments = written
            .arguments
            .iter()
            .map(|argument| self.resolve(argument))
            .collect::<Checked<Vec<_>>>()?;
        let name = &*written.name;
        let unknown = || {
            let message = remedy(name).unwrap_or_else(|| {
                format!(
                    "the type {name} is unknown; known types are bool, int, long, double, decimal, char, string, object, DateTime, \
                     DateTimeOffset, TimeSpan, Guid, List<T>, IEnumerable<T>, Dictionary<K, V>, T[] and ExpandoObject"
                )
            });
            Problem::new(written.at, message)
        };
        let mut ty = match arguments.as_slice() {
            _ if matches!(name, "Func" | "Action" | "Predicate") => function(name, &arguments).ok_or_else(unknown)?,
            [] if name == "MatchCollection" => Ty::list(ListKind::List, Ty::Object(ObjectKind::Match)),
            [] if name == "byte" && written.suffixes.first() == Some(&Suffix::Array) => Ty::Byte,
            [] if is_exception(name) => Ty::Object(ObjectKind::Exception),
            [] => simple(name).ok_or_else(unknown)?,
            [item] if name == "Nullable" => item.clone().nullable(),
            [item] => Ty::list(of_one(name).ok_or_else(unknown)?, item.clone()),
            [key, value] => match name {
                "Dictionary" | "IDictionary" | "IReadOnlyDictionary" | "SortedDictionary" | "SortedList" => {
                    Ty::map(key.clone(), value.clone())
                }
                "KeyValuePair" => Ty::Pair(SharedTy::new(key.clone()), SharedTy::new(value.clone())),
                "IGrouping" => Ty::Group(SharedTy::new(key.clone()), SharedTy::new(value.clone())),
                _ => return Err(unknown()),
            },
            _ => return Err(unknown()),
        };
        for suffix in &written.suffixes {
            ty = match suffix {
                Suffix::Nullable => ty.nullable(),
                Suffix::Array => Ty::list(ListKind::Array, ty),
            };
        }
        bounded(ty, written.at)
    }
}

/// A type that is no larger than one of a script may be.
pub(super) fn bounded(ty: Ty, at: Position) -> Checked<Ty> {
    if ty.size().is_allowed() {
        return Ok(ty);
    }
    let message = format!(
        "the type of this is made of more than {} types, or nested more than {} levels deep; declare it as object",
        Size::MOST_PARTS,
        Size::MOST_LEVELS
    );
    Err(Problem::new(at, message))
}

impl DeclaredType {
    /// The type of a name as Elsa writes it: `Int32`, `List<String>`, `System.DateTime, System.Private.CoreLib`. An unknown one is
    /// `object`.
    pub fn named(type_name: &str, is_array: bool) -> Self {
        let inner = declared(type_name, 6);
        Self(if is_array {
            Ty::list(ListKind::List, inner)
        } else {
            inner
        })
    }
}

fn declared(text: &str, levels: usize) -> Ty {
    let text = text.trim();
    if levels == 0 {
        return Ty::Dynamic;
    }
    if let Some(item) = text.strip_suffix("[]") {
        return Ty::list(ListKind::Array, declared(item, levels - 1));
    }
    if let Some(plain) = text.strip_suffix('?') {
        return declared(plain, levels - 1).nullable();
    }
    if let Some((outer, arguments)) = text.split_once("`1[[").or_else(|| text.split_once('<')) {
        let argument = arguments.split([',', ']', '>']).next().unwrap_or_default();
        let outer = short_type_name(outer);
        let item = declared(argument, levels - 1);
        return match of_one(outer) {
            _ if outer == "Nullable" => item.nullable(),
            Some(kind) => Ty::list(kind, item),
            None => Ty::Dynamic,
        };
    }
    match short_type_name(text) {
        "ObjectList" => Ty::list(ListKind::List, Ty::Dynamic),
        "Single" | "float" => Ty::Double,
        "Byte" | "SByte" | "Int16" | "UInt16" | "short" => Ty::Int,
        "UInt32" => Ty::Long,
        other => simple(other)
            .filter(|ty| !matches!(ty, Ty::Object(_)))
            .unwrap_or(Ty::Dynamic),
    }
}
