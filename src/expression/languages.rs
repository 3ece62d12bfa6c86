//! The languages of this build, and the types of expressions that can be evaluated.

#[cfg(feature = "csharp")]
use super::csharp::CSharp;
use super::javascript::JavaScript;
use super::language::Language;
#[cfg(feature = "liquid")]
use super::liquid::Liquid;

/// All languages, in the order in which designers show them.
pub(crate) const LANGUAGES: &[&dyn Language] = &[
    &JavaScript,
    #[cfg(feature = "liquid")]
    &Liquid,
    #[cfg(feature = "csharp")]
    &CSharp,
];

/// The languages that a build may omit, each with its feature.
const OPTIONAL: [(&str, &str); 2] = [("CSharp", "csharp"), ("Liquid", "liquid")];

/// The prefix of the types of activities that run a script, before the name of its language.
const RUN: &str = "Elsa.Run";

/// The language of this name.
pub(crate) fn language(name: &str) -> Option<&'static dyn Language> {
    LANGUAGES.iter().copied().find(|language| language.name() == name)
}

/// The types of the activities that run scripts, each with its language.
pub(crate) fn script_activities() -> impl Iterator<Item = (String, &'static dyn Language)> {
    let all = LANGUAGES
        .iter()
        .filter(|language| language.facts().chooses_by.is_some());
    all.map(|language| (format!("{RUN}{}", language.name()), *language))
}

/// The language whose scripts an activity of this type runs.
pub(crate) fn language_of_activity(type_name: &str) -> Option<&'static dyn Language> {
    language(type_name.strip_prefix(RUN)?).filter(|language| language.facts().chooses_by.is_some())
}

/// Why this build cannot evaluate expressions of a language, or run activities of a type, if it omits the language.
pub(crate) fn missing_language(name: &str) -> Option<String> {
    let name = name.strip_prefix(RUN).unwrap_or(name);
    let (_, feature) = OPTIONAL.iter().find(|(optional, _)| *optional == name)?;
    language(name).is_none().then(|| {
        format!(
            "this build of Mainspring is without {name}: build it with the feature {feature}, or use JavaScript instead"
        )
    })
}

/// What a node must have to evaluate expressions of this type: a language that builds may omit.
pub(crate) fn language_requirement(name: &str) -> Option<String> {
    let is_optional = OPTIONAL.iter().any(|(optional, _)| *optional == name);
    is_optional.then(|| format!("language:{name}"))
}

/// The languages of that kind that this build has.
pub(crate) fn language_requirements() -> impl Iterator<Item = String> {
    LANGUAGES
        .iter()
        .filter_map(|language| language_requirement(language.name()))
}

/// The languages in which anything can be written, for a message.
pub(crate) fn script_languages() -> String {
    let scripts = LANGUAGES.iter().filter(|language| language.facts().is_script);
    scripts.map(|language| language.name()).collect::<Vec<_>>().join(" or ")
}

/// A type of expression, as definitions name it and designers show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpressionType {
    /// The name in definitions.
    pub(crate) name: &'static str,
    /// What designers show.
    pub(crate) display_name: &'static str,
    /// Designers offer it at every input; otherwise the control of the input writes it.
    pub(crate) is_offered: bool,
    /// The language of the editor.
    pub(crate) editor: Option<&'static str>,
}

/// The types of expressions that this build evaluates.
pub(crate) fn expression_types() -> impl Iterator<Item = ExpressionType> {
    let value = |(name, is_offered, editor)| ExpressionType {
        name,
        display_name: name,
        is_offered,
        editor,
    };
    let languages = LANGUAGES.iter().map(|language| ExpressionType {
        name: language.name(),
        display_name: language.facts().display_name,
        is_offered: true,
        editor: Some(language.facts().editor),
    });
    let before = [("Literal", false, None), ("Object", false, Some("json"))];
    let after = [
        ("Variable", true, None),
        ("Input", true, None),
        ("Output", false, None),
        ("Configuration", true, None),
        ("Secret", true, None),
    ];
    before
        .into_iter()
        .map(value)
        .chain(languages)
        .chain(after.into_iter().map(value))
}

/// Whether expressions of a type can be evaluated.
pub(crate) fn is_runnable(name: &str) -> bool {
    expression_types().any(|known| known.name == name)
}

/// Their names, for a message.
pub(crate) fn runnable_types() -> String {
    let names: Vec<&str> = expression_types().map(|known| known.name).collect();
    names.join(", ")
}
