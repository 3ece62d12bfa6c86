//! The types of expressions that can be evaluated.

/// A type of expression, as definitions name it and designers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpressionType {
    /// The name in definitions.
    pub(crate) name: &'static str,
    /// Designers offer it at every input; otherwise the control of the input writes it.
    pub(crate) is_offered: bool,
    /// The language of the editor.
    pub(crate) language: Option<&'static str>,
}

impl ExpressionType {
    /// What designers show.
    pub(crate) fn display_name(&self) -> &'static str {
        match self.name {
            "CSharp" => "C#",
            name => name,
        }
    }
}

/// All of them.
pub(crate) const EXPRESSION_TYPES: [ExpressionType; 10] = [
    of_control("Literal", None),
    of_control("Object", Some("json")),
    offered("JavaScript", Some("javascript")),
    offered("Liquid", Some("liquid")),
    offered("CSharp", Some("csharp")),
    offered("Variable", None),
    offered("Input", None),
    of_control("Output", None),
    offered("Configuration", None),
    offered("Secret", None),
];

const fn offered(name: &'static str, language: Option<&'static str>) -> ExpressionType {
    ExpressionType {
        name,
        is_offered: true,
        language,
    }
}

const fn of_control(name: &'static str, language: Option<&'static str>) -> ExpressionType {
    ExpressionType {
        name,
        is_offered: false,
        language,
    }
}

/// Whether expressions of a type can be evaluated.
pub(crate) fn is_runnable(name: &str) -> bool {
    EXPRESSION_TYPES.iter().any(|known| known.name == name)
}

/// Their names, for a message.
pub(crate) fn runnable_types() -> String {
    EXPRESSION_TYPES.map(|known| known.name).join(", ")
}
