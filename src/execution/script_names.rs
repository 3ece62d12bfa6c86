//! The names that the scripts of a definition can use: variables, inputs, and outputs of its activities.

use super::composition::Composition;
use super::program::{self, Program};
use crate::activity::{ActivityTree, Catalogue, Descriptor, NodeIndex};
use crate::definition::{Argument, Variable, WorkflowDefinition};
use crate::expression::{DeclaredNames, ScriptNames, TypeName};

/// The names of a definition, finished or not. Variables of all containers are among them: an editor asks once for the
/// whole workflow.
pub(super) fn of(catalogue: &Catalogue, definition: &WorkflowDefinition, composition: &Composition) -> ScriptNames {
    match program::compile(catalogue, definition, composition) {
        Ok(program) => of_program(&program, definition),
        // Without a root there is nothing more.
        Err(_) => declared(definition),
    }
}

/// The same of a compiled definition.
pub(super) fn of_program(program: &Program, definition: &WorkflowDefinition) -> ScriptNames {
    let mut names = declared(definition);
    let own = || program.tree.iter().filter(|node| node.is_own());
    for variable in own().flat_map(|node| &node.variables) {
        add(variable, &mut names);
    }
    for node in own() {
        let Some(descriptor) = program.descriptor(node.index) else {
            continue;
        };
        for (name, type_name) in &descriptor.child_variables {
            let kind = TypeName::parse(type_name, false);
            names.variables.entry(name.clone()).or_insert(kind);
        }
        let activity = node.name.as_deref().unwrap_or(&node.id);
        for output in &descriptor.outputs {
            let key = (activity.to_owned(), output.name.clone());
            names.outputs.insert(key, TypeName::parse(&output.type_name, false));
        }
    }
    names
}

/// What is declared in one workflow of a program. What an activity gives to its children has any type.
pub(super) fn declared_in<'p>(
    tree: &ActivityTree,
    workflow: NodeIndex,
    descriptor: impl Fn(NodeIndex) -> Option<&'p Descriptor>,
    inputs: &[Argument],
) -> DeclaredNames {
    let mut names = DeclaredNames::default();
    for node in tree.of_workflow(workflow) {
        let declared = node.variables.iter();
        names
            .variables
            .extend(declared.map(|it| (it.name.clone(), it.type_name.clone(), it.is_array)));
        let given = descriptor(node.index).into_iter().flat_map(|it| &it.child_variables);
        let untyped = given.map(|(name, _)| (name.clone(), "Object".to_owned(), false));
        names.variables.extend(untyped);
    }
    let inputs = inputs.iter();
    names
        .inputs
        .extend(inputs.map(|it| (it.name.clone(), it.type_name.clone(), it.is_array)));
    names
}

fn declared(definition: &WorkflowDefinition) -> ScriptNames {
    let mut names = ScriptNames::default();
    for input in definition.declared_inputs() {
        let kind = TypeName::parse(&input.type_name, input.is_array);
        names.inputs.insert(input.name, kind);
    }
    for variable in definition.declared_variables() {
        add(&variable, &mut names);
    }
    names
}

fn add(variable: &Variable, names: &mut ScriptNames) {
    let kind = TypeName::parse(&variable.type_name, variable.is_array);
    names.variables.insert(variable.name.clone(), kind);
}
