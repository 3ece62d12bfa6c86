//! Whether the texts of inputs name variables that exist.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;

use crate::activity::{ActivityNode, NodeInput};
use crate::definition::{Problems, ValidationError};
use crate::execution::program::Program;
use crate::expression::{Place, language};
use crate::schedule::similar_names;
use crate::shortened::shortened;

/// The maximum number of bytes of scripts that are searched for the names of variables.
const MOST_SEARCHED: usize = 256 << 20;

/// What the texts of a definition can name.
pub(super) struct NamedVariables<'p> {
    program: &'p Program,
    known: OnceCell<BTreeSet<&'p str>>,
    scripts: OnceCell<Vec<&'p str>>,
    /// How many bytes of scripts may still be searched.
    left: Cell<usize>,
}

impl<'p> NamedVariables<'p> {
    pub(super) fn of(program: &'p Program) -> Self {
        Self {
            program,
            known: OnceCell::new(),
            scripts: OnceCell::new(),
            left: Cell::new(MOST_SEARCHED),
        }
    }

    /// The variables that the text of an input names but that do not exist.
    pub(super) fn errors(
        &self,
        node: &ActivityNode,
        input: &NodeInput,
        named: &[(String, Place)],
    ) -> Vec<ValidationError> {
        // What an activity gives to this input alone has a name of its own there.
        if named.is_empty() || input.name == "CorrelationIdFunction" {
            return Vec::new();
        }
        let known = self.known.get_or_init(|| self.variables());
        let unknown = named
            .iter()
            .filter(|(name, _)| !known.contains(name.as_str()) && !self.is_in_a_script(name));
        unknown
            .take(Problems::MOST)
            .map(|(name, (line, column))| {
                let near = similar_names(name, known.iter().map(|known| (*known).to_owned()));
                let name = shortened(name, 200);
                let hint = near.first().map(|meant| format!(": did you mean {meant}?"));
                let message = format!(
                    "The input {} of the activity {} names Variables.{name} in line {line}, column {column}, which is \
                     declared nowhere; declare the variable, or correct its name{}",
                    input.name,
                    node.id,
                    hint.unwrap_or_default()
                );
                ValidationError::of(&node.id, message)
            })
            .collect()
    }

    /// The names of all variables: where each of them is visible depends on the path to the activity.
    fn variables(&self) -> BTreeSet<&'p str> {
        let mut known = BTreeSet::new();
        for node in self.program.tree.iter() {
            known.extend(node.variables.iter().map(|variable| variable.name.as_str()));
            let descriptor = self.program.descriptor(node.index);
            let given = descriptor
                .into_iter()
                .flat_map(|descriptor| &descriptor.child_variables);
            known.extend(given.map(|(name, _)| name.as_str()));
        }
        known
    }

    /// A script may set variables that are declared nowhere.
    fn is_in_a_script(&self, name: &str) -> bool {
        let scripts = self.scripts.get_or_init(|| {
            let inputs = self.program.tree.iter().flat_map(|node| &node.inputs);
            let expressions = inputs.filter_map(|input| input.expression.as_ref());
            let scripts = expressions.filter(|expression| match expression.kind.as_str() {
                "Literal" | "Object" => false,
                kind => language(kind).is_none_or(|language| language.facts().is_script),
            });
            scripts.filter_map(|expression| expression.value.as_str()).collect()
        });
        // Each name is looked for in all texts. Beyond the bound none counts as undeclared, as a missing hint does no harm.
        let bytes = scripts.iter().map(|text| text.len()).sum::<usize>();
        let left = self.left.get().checked_sub(bytes.max(1));
        self.left.set(left.unwrap_or_default());
        left.is_none() || scripts.iter().any(|text| text.contains(name))
    }
}
