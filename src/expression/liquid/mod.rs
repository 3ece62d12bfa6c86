//! Liquid as one of the languages: parsed templates are kept, and long renderings run beside others.
//!
//! - **It does not block others.** A rendering that has not ended within [`INLINE_STEPS`] is abandoned and begins again
//!   on a thread of its own, with a time limit; the first attempt is not observable. The rendering stops when its
//!   caller drops it.
//!
//! # Layout
//! - `rendering`: one template; `cache`: parsed templates; `template_view`: what a template sees.

mod cache;
mod rendering;
mod template_view;
#[cfg(test)]
mod tests;

use mainspring_liquid::Template;

use super::language::{KnownNames, Language, LanguageFacts, ScriptRun, UnknownName};
use super::script::{ScriptError, ScriptText};
use super::script_view::ScriptView;
use super::session::ScriptSession;
#[cfg(doc)]
use rendering::INLINE_STEPS;
use rendering::{error, render};

/// Templates, whose value is a text.
#[derive(Debug)]
pub(crate) struct Liquid;

impl Language for Liquid {
    fn facts(&self) -> &'static LanguageFacts {
        &LanguageFacts {
            name: "Liquid",
            display_name: "Liquid",
            editor: "liquid",
            chooses_by: None,
            is_script: false,
            code_prefix: "template",
            refusal: " is not valid Liquid",
        }
    }

    fn check(&self, text: &str) -> Result<(), ScriptError> {
        Template::parse(text).map(|_| ()).map_err(error)
    }

    fn unknown_names(&self, text: &str, known: &KnownNames) -> Vec<UnknownName> {
        let named = Template::parse(text).map(|template| template.variables());
        let named = named.unwrap_or_default().into_iter();
        let unknown = named.filter(|(name, _)| !known.names.variables.contains_key(name));
        let unknown = unknown.take(KnownNames::MOST).map(|(name, at)| UnknownName {
            shown: format!("Variables.{name}"),
            variable: Some(name),
            place: error(at).place.unwrap_or_default(),
            becomes: "it is nil",
        });
        unknown.collect()
    }

    fn evaluate<'a>(
        &'a self,
        script: ScriptText<'a>,
        view: &'a dyn ScriptView,
        session: &'a ScriptSession,
    ) -> ScriptRun<'a> {
        render(script.text, view, session)
    }
}
