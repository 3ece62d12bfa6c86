//! JavaScript as one of the languages.

use super::declarations::declarations;
use super::syntax::syntax_error;
use super::unknown_names::unknown_names;
use crate::expression::language::{KnownNames, Language, LanguageFacts, ScriptNames, ScriptRun, UnknownName};
use crate::expression::script::{ScriptError, ScriptErrorKind, ScriptText, too_long_script};
use crate::expression::script_view::ScriptView;
use crate::expression::session::ScriptSession;

/// The language that every build has.
#[derive(Debug)]
pub(crate) struct JavaScript;

impl Language for JavaScript {
    fn facts(&self) -> &'static LanguageFacts {
        &LanguageFacts {
            name: "JavaScript",
            display_name: "JavaScript",
            editor: "javascript",
            chooses_by: Some("setOutcome(name)"),
            is_script: true,
            code_prefix: "script",
            refusal: "",
        }
    }

    fn reads_secrets(&self, script: &str) -> bool {
        script.contains("getSecret")
    }

    /// Parses the text, and does not run it.
    fn check(&self, text: &str) -> Result<(), ScriptError> {
        let too_long = too_long_script(text).map(|problem| ScriptError::new(ScriptErrorKind::Syntax, problem));
        match too_long.or_else(|| syntax_error(text)) {
            Some(problem) => Err(problem),
            None => Ok(()),
        }
    }

    fn unknown_names(&self, text: &str, known: &KnownNames) -> Vec<UnknownName> {
        unknown_names(text, known)
    }

    fn declare(&self, names: &ScriptNames) -> Option<String> {
        Some(declarations(names))
    }

    fn evaluate<'a>(
        &'a self,
        script: ScriptText<'a>,
        view: &'a dyn ScriptView,
        session: &'a ScriptSession,
    ) -> ScriptRun<'a> {
        ScriptRun::GoesOn(Box::pin(session.evaluate(script.text, view.scope())))
    }
}
