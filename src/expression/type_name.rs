//! Elsa's type names: short aliases (`Int32`, `Object[]`) and .NET's own (`System.Int32, System.Private.CoreLib`).

use mainspring_language::short_type_name;

/// The types that a value can be converted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TypeName {
    /// Every other type; values are not converted.
    Any,
    /// Text.
    Text,
    /// True or false.
    Boolean,
    /// A whole number between two bounds (inclusive).
    Integer(i64, i64),
    /// A number.
    Number,
    /// A length of time, as .NET's text.
    TimeSpan,
    /// A point in time, as text of RFC 3339.
    DateTime,
    /// A list.
    List(Box<TypeName>),
}

impl TypeName {
    /// Reads a type name. An unknown type (an enum, an object of .NET) becomes [`TypeName::Any`].
    pub(crate) fn parse(text: &str, is_array: bool) -> Self {
        let inner = Self::parse_bounded(text, 8);
        if is_array { Self::List(Box::new(inner)) } else { inner }
    }

    fn parse_bounded(text: &str, levels: usize) -> Self {
        let text = text.trim();
        if levels == 0 {
            return Self::Any;
        }
        if let Some(item) = text.strip_suffix("[]") {
            return Self::List(Box::new(Self::parse_bounded(item, levels - 1)));
        }
        // `System.Collections.Generic.List`1[[System.String, …]]` and `ICollection<String>`.
        if let Some((outer, arguments)) = text.split_once("`1[[").or_else(|| text.split_once('<')) {
            let argument = arguments.split([',', ']', '>']).next().unwrap_or_default();
            let outer = short_type_name(outer);
            if outer == "Nullable" {
                return Self::parse_bounded(argument, levels - 1);
            }
            let is_list = ["List", "Collection", "Enumerable", "Set"]
                .iter()
                .any(|name| outer.ends_with(name));
            return if is_list {
                Self::List(Box::new(Self::parse_bounded(argument, levels - 1)))
            } else {
                Self::Any
            };
        }
        match short_type_name(text).trim_end_matches('?') {
            "String" | "string" => Self::Text,
            "Boolean" | "bool" => Self::Boolean,
            "Byte" => Self::Integer(0, 255),
            "SByte" => Self::Integer(-128, 127),
            "UInt16" => Self::Integer(0, u16::MAX.into()),
            "UInt32" => Self::Integer(0, u32::MAX.into()),
            "Int16" | "short" => Self::Integer(i16::MIN.into(), i16::MAX.into()),
            "Int32" | "int" => Self::Integer(i32::MIN.into(), i32::MAX.into()),
            "Int64" | "long" => Self::Integer(i64::MIN, i64::MAX),
            "Single" | "Double" | "Decimal" | "float" | "double" | "decimal" => Self::Number,
            "TimeSpan" => Self::TimeSpan,
            "DateTime" | "DateTimeOffset" => Self::DateTime,
            "ObjectList" => Self::List(Box::new(Self::Any)),
            _ => Self::Any,
        }
    }
}

/// Types of .NET whose values are never null.
const VALUE_TYPES: &[&str] = &[
    "Boolean",
    "Byte",
    "SByte",
    "Char",
    "Int16",
    "Int32",
    "Int64",
    "UInt16",
    "UInt32",
    "UInt64",
    "Single",
    "Double",
    "Decimal",
    "Guid",
    "DateTime",
    "DateTimeOffset",
    "DateOnly",
    "TimeOnly",
    "TimeSpan",
];

/// Interfaces of .NET that its lists and arrays implement.
const LIST_INTERFACES: &[&str] = &[
    "IEnumerable",
    "ICollection",
    "IList",
    "IReadOnlyCollection",
    "IReadOnlyList",
];

/// Whether null is a value of a type, by its name.
pub(crate) fn allows_null(type_name: &str) -> bool {
    !VALUE_TYPES.contains(&plain_name(type_name).as_str())
}

/// Whether a value of one type is one of another, as .NET sees it: the same type, `Object`, the nullable form of it, or an
/// interface of its lists. Numbers are not widened.
pub(crate) fn is_assignable(from: &str, to: &str) -> bool {
    let (from, to) = (plain_name(from), plain_name(to));
    if to == from || to == "Object" || to.strip_suffix('?') == Some(from.as_str()) {
        return true;
    }
    let interface = to.split_once('<').map(|(outer, _)| outer);
    let is_interface = interface.is_some_and(|outer| LIST_INTERFACES.contains(&outer));
    is_interface && item_of(&from).is_some_and(|item| item_of(&to) == Some(item))
}

/// The type of the items of a list, by a plain name.
fn item_of(plain: &str) -> Option<&str> {
    let argument = || plain.split_once('<')?.1.strip_suffix('>');
    plain.strip_suffix("[]").or_else(argument)
}

/// One name for a type in whichever form it is written: without namespace and assembly, `Int32` for `int`,
/// `List<String>` for ``System.Collections.Generic.List`1[[System.String, …]]``, `Int32?` for `Nullable<Int32>`.
fn plain_name(text: &str) -> String {
    plain_bounded(text.trim(), 8)
}

fn plain_bounded(text: &str, levels: usize) -> String {
    if levels == 0 {
        return text.to_owned();
    }
    let inner = |part: &str| plain_bounded(part.trim(), levels - 1);
    if let Some((outer, arguments)) = text.split_once("`1[[") {
        let argument = arguments.rsplit_once("]]").map_or(arguments, |(argument, _)| argument);
        return generic(outer, &inner(argument));
    }
    if let Some((outer, arguments)) = text.split_once('<') {
        let argument = arguments.rsplit_once('>').map_or(arguments, |(argument, _)| argument);
        return generic(outer, &inner(argument));
    }
    if let Some(item) = text.strip_suffix("[]") {
        return format!("{}[]", inner(item));
    }
    if let Some(value) = text.strip_suffix('?') {
        return nullable(inner(value));
    }
    let name = short_type_name(text);
    let dotnet = match name {
        "bool" => "Boolean",
        "byte" => "Byte",
        "short" => "Int16",
        "int" => "Int32",
        "long" => "Int64",
        "float" => "Single",
        "double" => "Double",
        "decimal" => "Decimal",
        "string" => "String",
        "object" => "Object",
        // `System.String[], System.Private.CoreLib` ends with the assembly.
        other if other.ends_with("[]") => return inner(other),
        other => other,
    };
    dotnet.to_owned()
}

fn generic(outer: &str, argument: &str) -> String {
    match short_type_name(outer) {
        "Nullable" => nullable(argument.to_owned()),
        outer => format!("{outer}<{argument}>"),
    }
}

/// The nullable form; types that allow null have no separate one.
fn nullable(plain: String) -> String {
    if VALUE_TYPES.contains(&plain.as_str()) {
        format!("{plain}?")
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_and_dotnet_names_mean_the_same() {
        let int = TypeName::Integer(i32::MIN.into(), i32::MAX.into());
        assert_eq!(TypeName::parse("Int32", false), int);
        assert_eq!(TypeName::parse("System.Int32, System.Private.CoreLib", false), int);
        assert_eq!(
            TypeName::parse("Object[]", false),
            TypeName::List(Box::new(TypeName::Any))
        );
        assert_eq!(
            TypeName::parse("String", true),
            TypeName::List(Box::new(TypeName::Text))
        );
        let list = "System.Collections.Generic.List`1[[System.String, System.Private.CoreLib]], System.Private.CoreLib";
        assert_eq!(TypeName::parse(list, false), TypeName::List(Box::new(TypeName::Text)));
        let mode = "Elsa.Workflows.Core.Activities.Flowchart.Models.FlowJoinMode, Elsa.Workflows.Core";
        assert_eq!(TypeName::parse(mode, false), TypeName::Any);
    }

    #[test]
    fn types_are_assignable_as_in_dotnet() {
        let nullable = "System.Nullable`1[[System.Int32, System.Private.CoreLib]], System.Private.CoreLib";
        let list = "System.Collections.Generic.List`1[[System.String, System.Private.CoreLib]], System.Private.CoreLib";
        for (from, to) in [
            ("Int32", "Object"),
            ("int", "System.Int32, System.Private.CoreLib"),
            ("Int32", "Int32?"),
            ("Int32", nullable),
            ("String", "String?"),
            ("String[]", "ICollection<String>"),
            ("System.String[], System.Private.CoreLib", "IEnumerable<string>"),
            (list, "IList<String>"),
            (list, "List<string>"),
            ("My.Company.Order, My.Company", "Order"),
        ] {
            assert!(is_assignable(from, to), "{from} to {to}");
        }
        for (from, to) in [
            ("Object", "Int32"),
            ("Int32", "Int64"),
            ("Int32?", "Int32"),
            ("String[]", "Int32[]"),
            ("String[]", "ICollection<Object>"),
            ("ICollection<String>", "String[]"),
            ("String", "Boolean"),
        ] {
            assert!(!is_assignable(from, to), "{from} to {to}");
        }
        for name in ["Object", "String", "Int32?", nullable, "My.Order", "Guid[]"] {
            assert!(allows_null(name), "{name}");
        }
        for name in ["int", "System.DateTimeOffset, System.Private.CoreLib", "Guid", "bool"] {
            assert!(!allows_null(name), "{name}");
        }
    }
}
