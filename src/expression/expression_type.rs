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
const ALL: [ExpressionType; 10] = [
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

/// Those that this build evaluates.
pub(crate) fn expression_types() -> impl Iterator<Item = &'static ExpressionType> {
    ALL.iter().filter(|known| missing_language(known.name).is_none())
}

/// Whether expressions of a type can be evaluated.
pub(crate) fn is_runnable(name: &str) -> bool {
    expression_types().any(|known| known.name == name)
}

/// Why expressions of a language cannot be evaluated here, if it is one that this build is without.
pub(crate) fn missing_language(name: &str) -> Option<String> {
    let feature = match name {
        "CSharp" if !cfg!(feature = "csharp") => "csharp",
        "Liquid" if !cfg!(feature = "liquid") => "liquid",
        _ => return None,
    };
    Some(format!(
        "this build of Mainspring is without {name}: build it with the feature {feature}, or use JavaScript instead"
    ))
}

/// Their names, for a message.
pub(crate) fn runnable_types() -> String {
    let names: Vec<&str> = expression_types().map(|known| known.name).collect();
    names.join(", ")
}
