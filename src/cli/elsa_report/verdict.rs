//! Whether a definition runs here: the checks of a publish, without a database.

use serde::Serialize;

use super::read_definition::ReadDefinition;
use super::uses::Uses;
use crate::activity::{Catalogue, describe};
use crate::definition::{ValidationError, WorkflowDefinition};
use crate::execution::{Interpreter, InterpreterOptions};
use crate::expression::ScriptOptions;
use crate::id::LONGEST_DEFINITION_ID;

/// What became of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Finding {
    /// It runs as it is.
    Runs,
    /// It runs, and does less than it seems to.
    Warnings,
    /// A publish refuses it.
    Refused,
    /// It is no definition, or cannot be read.
    Unreadable,
}

/// What the report says of one definition.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verdict {
    /// The file, or the URL.
    pub(super) source: String,
    pub(super) definition_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) version: Option<i32>,
    #[serde(rename = "outcome")]
    pub(super) finding: Finding,
    pub(super) warnings: Vec<ValidationError>,
    pub(super) errors: Vec<ValidationError>,
    /// Whether it is in the database now, if that is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) imported: Option<bool>,
}

impl Verdict {
    /// Whether it can be started here.
    pub(super) fn runs(&self) -> bool {
        matches!(self.finding, Finding::Runs | Finding::Warnings)
    }
}

/// What checks definitions.
pub(super) struct Judge<'a> {
    interpreter: Interpreter,
    read: &'a [ReadDefinition],
    definitions: Vec<Option<&'a WorkflowDefinition>>,
    uses: Uses,
}

impl<'a> Judge<'a> {
    /// Of all these definitions, which may use each other.
    pub(super) fn of(read: &'a [ReadDefinition], script: ScriptOptions) -> Self {
        let options = InterpreterOptions {
            script,
            ..InterpreterOptions::default()
        };
        let interpreter = Interpreter::new(Catalogue::standard(), options);
        let definitions: Vec<_> = read.iter().map(|one| one.definition.as_ref().ok()).collect();
        let uses = Uses::of(&interpreter, &definitions);
        Self {
            interpreter,
            read,
            definitions,
            uses,
        }
    }

    /// The places of all, each after those that it uses.
    pub(super) fn order(&self) -> Vec<usize> {
        self.uses.order()
    }

    /// The verdict of one; `runs` says whether one that it uses does.
    pub(super) async fn verdict(&self, at: usize, runs: &(dyn Fn(usize) -> bool + Sync)) -> Option<Verdict> {
        let read = self.read.get(at)?;
        let definition = match &read.definition {
            Ok(definition) => definition,
            Err(problem) => {
                return Some(Verdict {
                    source: read.source.clone(),
                    definition_id: None,
                    name: None,
                    version: None,
                    finding: Finding::Unreadable,
                    warnings: Vec::new(),
                    errors: vec![ValidationError::of("", problem.as_str())],
                    imported: None,
                });
            }
        };
        let (errors, warnings) = self.check(at, definition, runs).await;
        let finding = match (errors.is_empty(), warnings.is_empty()) {
            (false, _) => Finding::Refused,
            (true, false) => Finding::Warnings,
            (true, true) => Finding::Runs,
        };
        Some(Verdict {
            source: read.source.clone(),
            definition_id: Some(definition.definition_id.as_str().to_owned()).filter(|id| !id.is_empty()),
            name: definition.name.clone(),
            version: Some(definition.version).filter(|version| *version > 0),
            finding,
            warnings,
            errors,
            imported: None,
        })
    }

    /// The errors, and the warnings if there is none.
    async fn check(
        &self,
        at: usize,
        definition: &WorkflowDefinition,
        runs: &(dyn Fn(usize) -> bool + Sync),
    ) -> (Vec<ValidationError>, Vec<ValidationError>) {
        let mut errors = stored_problems(definition);
        let Some(root) = &definition.root else {
            errors.push(ValidationError::of("", "the workflow definition has no root activity"));
            return (errors, Vec::new());
        };
        if let Err(error) = self.interpreter.check_ids(root) {
            errors.push(ValidationError::of("", error.message()));
        }
        if let Some(path) = self.uses.cycle(at) {
            let names: Vec<String> = path.iter().map(|place| self.name_of(*place)).collect();
            let message = format!(
                "the workflow uses itself as an activity: {}; remove one of these uses",
                names.join(" → ")
            );
            errors.push(ValidationError::of("", message));
            return (errors, Vec::new());
        }
        for one in self.uses.within(at) {
            let Some(used) = one.used.filter(|used| !runs(*used)) else {
                continue;
            };
            let message = format!(
                "The activity {} uses the workflow {} as an activity, which does not run itself: see there",
                one.activity.title,
                self.name_of(used)
            );
            errors.push(ValidationError::of(&one.activity.id, message));
        }
        // What it uses is checked by itself; only with a whole of it can more be said of this one.
        if !errors.is_empty() && self.uses.reaches_cycle(at) {
            return (errors, Vec::new());
        }
        let composition = self.uses.composition(at, &self.definitions);
        if composition.used.values().any(|part| part.definition.root.is_none()) {
            return (errors, Vec::new());
        }
        let program = match self.interpreter.compile_composed(definition, &composition) {
            Ok(program) => program,
            Err(error) => {
                errors.push(ValidationError::of("", error.message()));
                return (errors, Vec::new());
            }
        };
        errors.extend(self.interpreter.validate_compiled(definition, &program));
        if errors.is_empty()
            && let Err(error) = self.interpreter.triggers(&program).await
        {
            if error.fields().is_empty() {
                errors.push(ValidationError::of("", error.message()));
            }
            let fields = error.fields().iter();
            errors.extend(fields.map(|(activity, message)| ValidationError::of(activity.as_str(), message.as_str())));
        }
        if !errors.is_empty() {
            return (errors, Vec::new());
        }
        (errors, self.interpreter.warnings(&program, definition))
    }

    /// How a message names a definition: by its id, else by its source.
    fn name_of(&self, at: usize) -> String {
        let id = self.definitions.get(at).copied().flatten();
        let id = id
            .map(|definition| definition.definition_id.as_str())
            .filter(|id| !id.is_empty());
        let source = || self.read.get(at).map(|read| read.source.as_str()).unwrap_or_default();
        id.unwrap_or_else(source).to_owned()
    }
}

/// What keeps a definition from being saved.
fn stored_problems(definition: &WorkflowDefinition) -> Vec<ValidationError> {
    let ids = [
        ("definitionId", definition.definition_id.as_str()),
        ("id", definition.id.as_str()),
    ];
    let is_bad = |text: &str| text.len() > LONGEST_DEFINITION_ID || text.chars().any(char::is_control);
    let mut errors: Vec<ValidationError> = ids
        .into_iter()
        .filter(|(_, id)| is_bad(id))
        .map(|(field, _)| {
            ValidationError::of(
                "",
                format!("{field} has at most {LONGEST_DEFINITION_ID} plain characters"),
            )
        })
        .collect();
    if definition.is_usable_as_activity() && describe(definition).type_name.len() > LONGEST_DEFINITION_ID {
        let message =
            format!("the name of a workflow that is used as an activity has at most {LONGEST_DEFINITION_ID} bytes");
        errors.push(ValidationError::of("", message));
    }
    errors
}
