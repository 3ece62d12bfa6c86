//! Whether converters of outputs are known, stand between types that they convert, and have settings that they accept.

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::activity::{ActivityNode, Catalogue, NodeIndex, OutputDescriptor};
use crate::definition::{Argument, ConverterReference, Problems, ValidationError, Variable};
use crate::execution::program::Program;
use crate::expression::is_assignable;

/// The targets that outputs of a definition can have.
pub(super) struct Targets<'p> {
    program: &'p Program,
    parents: HashMap<NodeIndex, NodeIndex>,
    variables: OnceCell<Variables<'p>>,
}

/// The variables by the activity that declares them, and their id or name; the first of equal ones counts.
#[derive(Default)]
struct Variables<'p> {
    by_id: HashMap<(NodeIndex, &'p str), &'p Variable>,
    by_name: HashMap<(NodeIndex, &'p str), &'p Variable>,
}

impl<'p> Variables<'p> {
    fn of(program: &'p Program) -> Self {
        let mut all = Self::default();
        for node in program.tree.iter() {
            for variable in &node.variables {
                all.by_id.entry((node.index, &variable.id)).or_insert(variable);
                all.by_name.entry((node.index, &variable.name)).or_insert(variable);
            }
        }
        all
    }
}

impl<'p> Targets<'p> {
    pub(super) fn of(program: &'p Program) -> Self {
        let mut parents = HashMap::new();
        for node in program.tree.iter() {
            let children = node.ports.iter().map(|(_, child)| child).chain(&node.activities);
            parents.extend(children.map(|child| (*child, node.index)));
        }
        Self {
            program,
            parents,
            variables: OnceCell::new(),
        }
    }

    /// The type of a variable in scope or, if there is none, of an output of the workflow.
    fn type_of(&self, node: &ActivityNode, key: &str) -> Option<String> {
        let mut next = Some(node.index);
        let mut by_name = None;
        let variables = self.variables.get_or_init(|| Variables::of(self.program));
        while let Some(index) = next {
            if let Some(variable) = variables.by_id.get(&(index, key)) {
                return Some(variable.full_type_name().into_owned());
            }
            by_name = by_name.or_else(|| variables.by_name.get(&(index, key)).copied());
            next = self.parents.get(&index).copied();
        }
        let output = || self.program.outputs.iter().find(|output| output.name == key);
        let variable = by_name.map(|variable| variable.full_type_name());
        let found = variable.or_else(|| output().map(Argument::full_type_name));
        found.map(std::borrow::Cow::into_owned)
    }
}

pub(super) fn check(catalogue: &Catalogue, targets: &Targets<'_>, node: &ActivityNode, errors: &mut Problems) {
    let descriptor = targets.program.descriptor(node.index);
    let Some(descriptor) = descriptor else { return };
    for bound in &node.outputs {
        let Some(reference) = &bound.converter else { continue };
        let Some(output) = descriptor.outputs.iter().find(|output| output.name == bound.name) else {
            continue;
        };
        let target = targets.type_of(node, &bound.target);
        for problem in problems(catalogue, reference, output, target) {
            errors.push(ValidationError::of(
                &node.id,
                format!(
                    "The output {} of the activity {} has a converter: {problem}",
                    bound.name,
                    node.title()
                ),
            ));
        }
    }
}

fn problems(
    catalogue: &Catalogue,
    reference: &ConverterReference,
    output: &OutputDescriptor,
    target: Option<String>,
) -> Vec<String> {
    let id = &reference.id;
    if id.trim().is_empty() {
        return vec!["it has no id; choose a converter, or remove it".to_owned()];
    }
    let Some(target) = target else {
        return vec![format!(
            "{id} converts for a variable or an output of the workflow; bind the output to one"
        )];
    };
    let Some(converter) = catalogue.converter(id) else {
        return vec![format!(
            "{id} is not known; a program registers converters; the known ones are: {}",
            match catalogue
                .converters()
                .map(|known| known.id.as_str())
                .collect::<Vec<_>>()
            {
                known if known.is_empty() => "none".to_owned(),
                known => known.join(", "),
            }
        )];
    };
    let mut problems = Vec::new();
    let descriptor = &converter.descriptor;
    if !is_assignable(&output.type_name, &descriptor.source_type) {
        problems.push(format!(
            "{id} accepts {}, and the output is {}",
            descriptor.source_type, output.type_name
        ));
    }
    if !is_assignable(&descriptor.result_type, &target) {
        problems.push(format!(
            "{id} returns {}, which is not a value of its target, {target}",
            descriptor.result_type
        ));
    }
    let of_settings = converter.problems_of(reference.settings.as_ref());
    problems.extend(
        of_settings
            .into_iter()
            .map(|problem| format!("the settings of {id}: {problem}")),
    );
    problems
}
