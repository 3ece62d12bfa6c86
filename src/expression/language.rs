//! A language of expressions, as the rest of the engine knows it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::pin::Pin;

use serde_json::Value;

use super::script::{CompiledScript, EvaluationResult, ScriptError, ScriptText};
use super::script_view::ScriptView;
use super::session::ScriptSession;
use super::type_name::TypeName;

/// A language of expressions. Its scripts are pure: the result contains what a script sets, and a script that fails
/// sets nothing.
pub(crate) trait Language: fmt::Debug + Sync {
    fn facts(&self) -> &'static LanguageFacts;

    /// Its name in definitions.
    fn name(&self) -> &'static str {
        self.facts().name
    }

    /// Whether a script may read secrets.
    fn reads_secrets(&self, _script: &str) -> bool {
        false
    }

    /// The text of an expression.
    fn text_of<'v>(&self, value: &'v Value) -> Cow<'v, str> {
        match value {
            Value::String(text) => Cow::Borrowed(text),
            Value::Null => Cow::Borrowed(""),
            other => Cow::Owned(other.to_string()),
        }
    }

    /// Checks a text when its definition is published.
    ///
    /// # Errors
    /// The first problem, with its place and what to write instead.
    fn check(&self, _text: &str) -> Result<(), ScriptError> {
        Ok(())
    }

    /// The names that a text which passes the check reads and that nothing defines, each at its first place; at most
    /// [`KnownNames::MOST`]. Only what is certain is among them, but for variables that a script sets without a declaration.
    fn unknown_names(&self, _text: &str, _known: &KnownNames) -> Vec<UnknownName> {
        Vec::new()
    }

    /// Returns the compiler for the scripts of a workflow, or `None` when a script is compiled at its evaluation.
    fn compiler(&self, _names: &dyn Fn() -> DeclaredNames) -> Option<Compiler> {
        None
    }

    /// Declares the names that scripts can use, for an editor. Returns `None` when no editor reads them.
    fn declare(&self, _names: &ScriptNames) -> Option<String> {
        None
    }

    /// Evaluates a script that is not blank.
    ///
    /// Cancellation safe: a dropped future stops the script, and nothing of it remains.
    fn evaluate<'a>(
        &'a self,
        script: ScriptText<'a>,
        view: &'a dyn ScriptView,
        session: &'a ScriptSession,
    ) -> ScriptRun<'a>;
}

/// The constant facts about a language.
#[derive(Debug)]
pub(crate) struct LanguageFacts {
    /// Its name in definitions.
    pub(crate) name: &'static str,
    /// What designers show.
    pub(crate) display_name: &'static str,
    /// The language of the editor.
    pub(crate) editor: &'static str,
    /// How a script that an activity runs chooses an outcome; `None` when no activity runs scripts of the language.
    pub(crate) chooses_by: Option<&'static str>,
    /// Its texts are scripts: they can read outputs of activities, and set variables that are declared nowhere.
    pub(crate) is_script: bool,
    /// The prefix of the codes of its faults.
    pub(crate) code_prefix: &'static str,
    /// How a message describes a text that is refused when its definition is published.
    pub(crate) refusal: &'static str,
}

/// Line and column of a text, both from 1.
pub(crate) type Place = (u32, u32);

/// An evaluation. In a language that counts steps, a short one has ended when the call returns, without a future.
pub(crate) enum ScriptRun<'a> {
    Ended(EvaluationResult),
    GoesOn(Pin<Box<dyn Future<Output = EvaluationResult> + Send + 'a>>),
}

/// Compiles the scripts of one workflow. The error is the first problem, with its place and what to write instead.
pub(crate) type Compiler = Box<dyn FnMut(ScriptText<'_>) -> Result<CompiledScript, ScriptError>>;

/// What is declared in a workflow: names, Elsa's names of their types, and whether they are arrays.
#[derive(Debug, Default)]
pub(crate) struct DeclaredNames {
    /// A name may be declared more than once.
    pub(crate) variables: Vec<(String, String, bool)>,
    pub(crate) inputs: Vec<(String, String, bool)>,
    /// There may be others, which a consumer of the workflow declares.
    pub(crate) is_open: bool,
}

/// A name that a text reads and that nothing defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownName {
    /// As the text has it.
    pub(crate) shown: String,
    /// The variable that it is, if a script may set it.
    pub(crate) variable: Option<String>,
    pub(crate) place: Place,
    /// What the text has in its place.
    pub(crate) becomes: &'static str,
}

/// The names of one workflow, for the search of unknown ones.
#[derive(Debug)]
pub(crate) struct KnownNames {
    pub(super) names: ScriptNames,
    /// The ids and names of the activities.
    pub(super) activities: HashSet<String>,
    /// What JavaScript generates of all of them.
    pub(super) functions: OnceCell<HashSet<String>>,
}

impl KnownNames {
    /// The most names of one text that are searched.
    pub(crate) const MOST: usize = 100;

    /// What is declared, and the ids and names of the activities.
    pub(crate) fn new(names: ScriptNames, activities: HashSet<String>) -> Self {
        Self {
            names,
            activities,
            functions: OnceCell::new(),
        }
    }

    /// The declared names.
    pub(crate) fn declared(&self) -> &ScriptNames {
        &self.names
    }
}

/// The names of one workflow for an editor, with their types.
#[derive(Debug, Default)]
pub(crate) struct ScriptNames {
    /// Variables by name.
    pub(crate) variables: BTreeMap<String, TypeName>,
    /// Inputs of the workflow by name.
    pub(crate) inputs: BTreeMap<String, TypeName>,
    /// Outputs by name or id of the activity, and by their own name.
    pub(crate) outputs: BTreeMap<(String, String), TypeName>,
}
