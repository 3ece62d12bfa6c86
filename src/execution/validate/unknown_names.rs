//! Names that the texts of inputs read and that nothing defines.

use std::cell::OnceCell;
use std::collections::HashSet;

use super::shown::short;
use crate::activity::{ActivityNode, inputs_of_trigger};
use crate::definition::{Problems, ValidationError, WorkflowDefinition};
use crate::execution::program::Program;
use crate::execution::script_names;
use crate::execution::scripts::script_of;
use crate::expression::{KnownNames, ScriptNames, TypeName, UnknownName};
use crate::schedule::similar_names;

/// What the scripts of a definition may set without a declaration.
enum SetByScripts {
    /// A script makes the name of what it sets.
    Any,
    /// What stands behind `variables.`, in lower case.
    These(HashSet<String>),
}

/// What the texts of a definition can name.
pub(super) struct UnknownNames<'p> {
    program: &'p Program,
    known: KnownNames,
    /// A consumer of the definition may have further variables.
    is_usable: bool,
    set_by_scripts: OnceCell<SetByScripts>,
}

impl<'p> UnknownNames<'p> {
    pub(super) fn of(program: &'p Program, definition: &WorkflowDefinition) -> Self {
        let own = program.tree.iter().filter(|node| node.is_own());
        let activities = own.flat_map(|node| [Some(&node.id), node.name.as_ref()]);
        let mut names = script_names::of_program(program, definition);
        add_given(program, definition, &mut names);
        let known = KnownNames::new(names, activities.flatten().cloned().collect());
        Self {
            program,
            known,
            is_usable: definition.is_usable_as_activity(),
            set_by_scripts: OnceCell::new(),
        }
    }

    /// Warns of the names that the inputs of an activity read and that nothing defines.
    pub(super) fn warn(&self, node: &ActivityNode, warnings: &mut Problems) {
        for input in &node.inputs {
            // What an activity gives to this input alone has a name of its own there.
            if warnings.is_full() || input.name == "CorrelationIdFunction" {
                continue;
            }
            let Some((language, script)) = script_of(&node.type_name, input) else {
                continue;
            };
            let unknown = language.unknown_names(script.text, &self.known).into_iter();
            let unknown = unknown.filter(|name| !self.is_set_by_a_script(name));
            warnings.extend(unknown.map(|unknown| {
                let (line, column) = unknown.place;
                let names = self.known.declared();
                let similar = match &unknown.variable {
                    Some(variable) => similar_names(variable, names.variables.keys().chain(names.inputs.keys()).cloned()),
                    None => Vec::new(),
                };
                let hint = similar.first().map(|meant| format!("; did you mean {meant}?"));
                let consumer = if self.is_usable { ", unless its consumer has it" } else { "" };
                let message = format!(
                    "The input {} of the activity {} reads {} in line {line}, column {column}, which nothing defines, so {}{consumer}{}",
                    input.name,
                    node.title(),
                    short(&unknown.shown.into()),
                    unknown.becomes,
                    hint.unwrap_or_default()
                );
                ValidationError::of(&node.id, message)
            }));
        }
    }

    /// A script may set variables that are declared nowhere.
    fn is_set_by_a_script(&self, unknown: &UnknownName) -> bool {
        let Some(variable) = &unknown.variable else {
            return false;
        };
        match self.set_by_scripts.get_or_init(|| set_by_scripts(self.program)) {
            SetByScripts::Any => true,
            SetByScripts::These(names) => names.contains(&plain(variable)),
        }
    }
}

/// Adds what a definition does not declare and yet gives to its scripts: the inputs of its triggers, and the inputs and
/// outputs of a workflow as an activity as variables.
fn add_given(program: &Program, definition: &WorkflowDefinition, names: &mut ScriptNames) {
    let triggers = program.tree.iter().filter(|node| node.is_own() && node.can_start);
    for name in triggers.flat_map(|node| inputs_of_trigger(&node.type_name)) {
        names.inputs.entry((*name).to_owned()).or_insert(TypeName::Any);
    }
    if definition.is_usable_as_activity() {
        let declared = definition.declared_inputs().into_iter();
        for argument in declared.chain(definition.declared_outputs()) {
            let kind = TypeName::parse(&argument.type_name, argument.is_array);
            names.variables.entry(argument.name).or_insert(kind);
        }
    }
}

fn set_by_scripts(program: &Program) -> SetByScripts {
    let mut names = HashSet::new();
    for node in program.tree.iter() {
        let scripts = node.inputs.iter().filter_map(|input| script_of(&node.type_name, input));
        for (_, script) in scripts.filter(|(language, _)| language.facts().is_script) {
            if ["etVariable", "Variable.Set", "Variables.Set"]
                .iter()
                .any(|setter| script.text.contains(setter))
            {
                return SetByScripts::Any;
            }
            for (at, word) in script.text.match_indices("ariables") {
                let rest = script.text.get(at + word.len()..).unwrap_or_default();
                let Some(member) = rest.strip_prefix('.') else {
                    return SetByScripts::Any;
                };
                let name = member
                    .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
                    .next();
                names.extend(name.map(plain));
            }
        }
    }
    SetByScripts::These(names)
}

/// A name without its case and its separators, which generated functions do not have.
fn plain(name: &str) -> String {
    name.to_lowercase().replace('_', "")
}
