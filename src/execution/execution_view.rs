//! What a script sees of an instance in one execution.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::program::Program;
use super::scope;
use super::state::InstanceState;
use crate::activity::ActivityNode;
use crate::definition::Argument;
use crate::expression::{
    CompiledScript, DeclaredKind, DeclaredKinds, LinkSource, ScriptError, ScriptScope, ScriptText, ScriptView,
    WorkflowFacts,
};

/// The state of an instance, as one execution sees it.
pub(super) struct ExecutionView<'a> {
    program: &'a Program,
    state: &'a InstanceState,
    context: u64,
    arguments: Option<&'a Map<String, Value>>,
    hides_secrets: bool,
    /// From what the links of its scripts are derived.
    links: Option<LinkSource>,
    /// The executions whose variables are visible, innermost first.
    levels: OnceLock<Vec<scope::Level>>,
    inputs: OnceLock<Cow<'a, Map<String, Value>>>,
    inputs_from_inside: OnceLock<HashSet<String>>,
    facts: OnceLock<WorkflowFacts>,
}

impl<'a> ExecutionView<'a> {
    /// The arguments are variables besides those of the scope; secrets may be refused.
    pub(super) fn of(
        program: &'a Program,
        state: &'a InstanceState,
        context: u64,
        arguments: Option<&'a Map<String, Value>>,
        hides_secrets: bool,
        links: Option<LinkSource>,
    ) -> Self {
        Self {
            program,
            state,
            context,
            arguments,
            hides_secrets,
            links,
            levels: OnceLock::new(),
            inputs: OnceLock::new(),
            inputs_from_inside: OnceLock::new(),
            facts: OnceLock::new(),
        }
    }
}

impl ExecutionView<'_> {
    fn levels(&self) -> &[scope::Level] {
        let levels = || scope::levels(self.program, self.state, self.context);
        self.levels.get_or_init(levels)
    }

    fn kinds_of_variables(&self) -> Vec<(String, (DeclaredKind, bool))> {
        let mut kinds = scope::kinds(self.levels(), self.program, self.state);
        if let Some(arguments) = self.arguments {
            kinds.retain(|(name, ..)| !arguments.contains_key(name));
        }
        kinds
    }

    /// Under the names that the given inputs have.
    fn kinds_of_inputs(&self) -> Vec<(String, (DeclaredKind, bool))> {
        let kind = |input: &Argument| {
            Some((
                input.name.to_ascii_lowercase(),
                DeclaredKind::of(&input.type_name, input.is_array)?,
            ))
        };
        let declared: HashMap<String, _> = self.program.inputs.iter().filter_map(kind).collect();
        if declared.is_empty() {
            return Vec::new();
        }
        let given = self.inputs().keys();
        let given = given.filter_map(|name| Some((name.clone(), *declared.get(&name.to_ascii_lowercase())?)));
        given.filter(|(name, _)| self.is_of_instance(name)).collect()
    }
}

impl ExecutionView<'_> {
    /// The names of the inputs whose functions variables cover: as in Elsa, those that are not declared, and inside a workflow
    /// as an activity all, as its own are variables there.
    fn covered_inputs(&self) -> HashSet<String> {
        let is_nested = self.levels().iter().any(scope::Level::is_use);
        let declared = self.program.inputs.iter().filter(|_| !is_nested);
        let declared: HashSet<String> = declared.map(|input| input.name.to_ascii_lowercase()).collect();
        let names = self.inputs().keys();
        let covered = names.filter(|name| !declared.contains(&name.to_ascii_lowercase()));
        covered.cloned().collect()
    }

    /// Only the inputs of the instance have declared types: those of a workflow as an activity have the types of its
    /// definition, which this program does not keep.
    fn is_of_instance(&self, input: &str) -> bool {
        let inside = || scope::inputs_from_inside(self.levels(), self.state);
        let inside = self.inputs_from_inside.get_or_init(inside);
        !inside.contains(&input.to_ascii_lowercase())
    }
}

impl ScriptView for ExecutionView<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        let given = self.arguments.and_then(|arguments| arguments.get(name));
        given.or_else(|| {
            let mut levels = self.levels().iter();
            levels.find_map(|level| level.variable(self.program, self.state, name))
        })
    }

    fn variable_names(&self) -> Vec<String> {
        let all = scope::visible(self.levels(), self.program, self.state);
        all.into_iter().map(|(name, _)| name).collect()
    }

    fn variable_type(&self, name: &str) -> Option<(&str, bool)> {
        let declared = scope::find_among(self.levels(), self.program, self.state, name)?.declared?;
        Some((&declared.type_name, declared.is_array))
    }

    fn input_type(&self, name: &str) -> Option<(&str, bool)> {
        let mut declared = self.program.inputs.iter();
        let input = declared.find(|input| input.name.eq_ignore_ascii_case(name))?;
        let is_typed = self.is_of_instance(name);
        is_typed.then_some((&input.type_name, input.is_array))
    }

    fn inputs(&self) -> &Map<String, Value> {
        self.inputs.get_or_init(|| scope::inputs(self.levels(), self.state))
    }

    fn output(&self, activity: &str, output: &str) -> Option<&Value> {
        let of = |is_meant: &dyn Fn(&ActivityNode) -> bool| {
            let beside = scope::written_beside(self.program, self.state, self.context);
            let mut meant = beside.filter(|node| is_meant(node));
            meant.find_map(|node| self.state.activity_outputs.get(&node.node_id))
        };
        // An id takes precedence over an equal name.
        let by_id = of(&|node| node.id == activity);
        let outputs = by_id.or_else(|| of(&|node| node.name.as_deref() == Some(activity)));
        outputs?.get(output)
    }

    fn last_result(&self) -> Option<&Value> {
        self.state.last_result.as_ref()
    }

    fn facts(&self) -> &WorkflowFacts {
        self.facts.get_or_init(|| facts_of(self.state, self.links))
    }

    fn scope(&self) -> ScriptScope {
        let (program, state, context) = (self.program, self.state, self.context);
        let mut outputs = Map::new();
        if program.needs_outputs {
            let mut by_id = Map::new();
            for node in scope::written_beside(program, state, context) {
                let Some(values) = state.activity_outputs.get(&node.node_id) else {
                    continue;
                };
                if let Some(name) = &node.name {
                    outputs.insert(name.clone(), values.clone());
                }
                by_id.insert(node.id.clone(), values.clone());
            }
            // Ids are unique, names need not be: an id takes precedence over an equal name.
            outputs.extend(by_id);
        }
        let mut variables = scope::visible(self.levels(), program, state);
        let arguments = self.arguments.into_iter().flatten();
        variables.extend(arguments.map(|(name, value)| (name.clone(), value.clone())));
        ScriptScope {
            covered_inputs: self.covered_inputs(),
            variables,
            inputs: self.inputs().clone(),
            outputs,
            activities: Arc::clone(&program.activity_names),
            kinds: DeclaredKinds::new(self.kinds_of_variables(), self.kinds_of_inputs()),
            last_result: state.last_result.clone(),
            hides_secrets: self.hides_secrets,
            workflow: facts_of(state, self.links),
        }
    }

    fn compiled(&self, language: &'static str, script: ScriptText<'_>) -> Option<&Result<CompiledScript, ScriptError>> {
        let workflow = scope::workflow_node(self.program, self.state, self.context);
        self.program.scripts.find(workflow, language, script)
    }
}

fn facts_of(state: &InstanceState, links: Option<LinkSource>) -> WorkflowFacts {
    WorkflowFacts {
        instance_id: state.instance_id.to_string(),
        definition_id: state.definition_id.to_string(),
        definition_version_id: state.version_id.to_string(),
        definition_version: state.version,
        correlation_id: state.correlation_id.clone(),
        name: state.name.clone(),
        links,
    }
}
