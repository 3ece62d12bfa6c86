//! Elsa's type names: short aliases (`Int32`, `Object[]`) and .NET's own (`System.Int32, System.Private.CoreLib`).

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

/// `System.Int32, System.Private.CoreLib` is `Int32`.
pub(crate) fn short_type_name(text: &str) -> &str {
    let full = text.split(',').next().unwrap_or_default().trim();
    full.rsplit('.').next().unwrap_or_default()
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
}
