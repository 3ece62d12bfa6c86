//! Elsa's type names: short aliases (`Int32`, `Object[]`) and .NET's own (`System.Int32, System.Private.CoreLib`).

use mainspring_language::short_type_name;

/// The types that a value can be converted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TypeName {
    /// `Object`; values are not converted.
    Any,
    /// Text.
    Text,
    /// True or false.
    Boolean,
    /// A whole number between two bounds (inclusive).
    Integer(i128, i128),
    /// A number.
    Double,
    /// A number with the precision of a single.
    Single,
    /// A number within the bounds of a decimal.
    Decimal,
    /// A length of time, as .NET's text.
    TimeSpan,
    /// A point in time, or a clock time without an offset, as text of ISO 8601.
    DateTime,
    /// A point in time with its offset, as text of ISO 8601.
    DateTimeOffset,
    /// A date, as text of ISO 8601.
    DateOnly,
    /// A Guid, as text.
    Guid,
    /// Bytes, as Base64.
    Bytes,
    /// An object: a dictionary, an `ExpandoObject`, a `JsonObject`.
    Object,
    /// Any JSON.
    Json,
    /// A list.
    List(Box<TypeName>),
    /// Every other type (an enum, a type of a program): text that looks like JSON is JSON.
    Own,
}

impl TypeName {
    /// Reads a type name.
    pub(crate) fn parse(text: &str, is_array: bool) -> Self {
        match (Self::parse_bounded(text, 8), is_array) {
            (inner, false) => inner,
            (Self::Integer(0, 255), true) => Self::Bytes,
            (inner, true) => Self::List(Box::new(inner)),
        }
    }

    fn parse_bounded(text: &str, levels: usize) -> Self {
        let text = text.trim();
        if levels == 0 {
            return Self::Any;
        }
        if let Some(item) = text.strip_suffix("[]") {
            let is_byte = ["Byte", "byte"].contains(&short_type_name(item));
            return if is_byte {
                Self::Bytes
            } else {
                Self::List(Box::new(Self::parse_bounded(item, levels - 1)))
            };
        }
        // `System.Collections.Generic.List`1[[System.String, …]]` and `ICollection<String>`.
        let generic = ["`1[[", "`2[[", "<"].iter().find_map(|mark| text.split_once(mark));
        if let Some((outer, arguments)) = generic {
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
            } else if outer.ends_with("Dictionary") {
                Self::Object
            } else {
                Self::Own
            };
        }
        match short_type_name(text).trim_end_matches('?') {
            "" | "Object" | "object" => Self::Any,
            "String" | "string" => Self::Text,
            "Boolean" | "bool" => Self::Boolean,
            "Byte" | "byte" => Self::Integer(0, 255),
            "SByte" => Self::Integer(-128, 127),
            "UInt16" => Self::Integer(0, u16::MAX.into()),
            "UInt32" => Self::Integer(0, u32::MAX.into()),
            "UInt64" => Self::Integer(0, u64::MAX.into()),
            "Int16" | "short" => Self::Integer(i16::MIN.into(), i16::MAX.into()),
            "Int32" | "int" => Self::Integer(i32::MIN.into(), i32::MAX.into()),
            "Int64" | "long" => Self::Integer(i64::MIN.into(), i64::MAX.into()),
            "Double" | "double" => Self::Double,
            "Single" | "float" => Self::Single,
            "Decimal" | "decimal" => Self::Decimal,
            "TimeSpan" => Self::TimeSpan,
            "DateTime" => Self::DateTime,
            "DateTimeOffset" => Self::DateTimeOffset,
            "DateOnly" => Self::DateOnly,
            "Guid" => Self::Guid,
            "ByteArray" => Self::Bytes,
            "ObjectDictionary" | "StringDictionary" | "ObjectMap" | "StringMap" | "ExpandoObject" | "JSON"
            | "JsonObject" => Self::Object,
            "JsonNode" | "JsonElement" => Self::Json,
            "ObjectList" | "JsonArray" => Self::List(Box::new(Self::Any)),
            _ => Self::Own,
        }
    }

    /// Whether text that looks like JSON is read as it.
    pub(crate) fn is_of_json(&self) -> bool {
        matches!(self, Self::Object | Self::Json | Self::List(_) | Self::Own)
    }

    /// What is wanted, for a message.
    pub(crate) fn wanted(&self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::List(_) => "a list",
            _ => "a value of its type",
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
        assert_eq!(TypeName::parse(mode, false), TypeName::Own);
        assert_eq!(TypeName::parse("Byte[]", false), TypeName::Bytes);
        let dictionary = "System.Collections.Generic.IDictionary`2[[System.String, System.Private.CoreLib],[System.Object, \
                          System.Private.CoreLib]], System.Private.CoreLib";
        assert_eq!(TypeName::parse(dictionary, false), TypeName::Object);
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
