//! A compiled definition.
//!
//! The tree's first node is the workflow itself, `Workflow1`, as in Elsa; the definition's root is its child. A type that
//! the catalogue does not have becomes a leaf that faults when it is executed: the rest of the workflow still runs.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::node_id::{IdMaker, WORKFLOW_ID, node_id};
use super::workflow_options::{CommitStrategy, JournalLevel};
use crate::activity::{
    ActivityNode, ActivityTree, BreakBehavior, Catalogue, Descriptor, ErasedActivity, NodeIndex, NodeInput,
    RegisteredActivity, WORKFLOW, Workflow, camel_case, requirement,
};
use crate::definition::{Argument, Connection, InputBinding, RawActivity, Variable, WorkflowDefinition};
use crate::expression::{TypeName, coerce};
use crate::id::{ActivityId, DefinitionId, VersionId};
use crate::{Error, Result};

/// A compiled definition. Shared by all bursts of its instances.
pub struct Program {
    pub(super) definition_id: DefinitionId,
    pub(super) version_id: VersionId,
    pub(super) version: i32,
    pub(super) tree: ActivityTree,
    pub(super) inputs: Vec<Argument>,
    /// Elsa's `ContinueWithIncidentsStrategy`: other branches go on after a fault.
    pub(super) continues_with_incidents: bool,
    /// When its bursts commit before their end.
    pub(super) commits: CommitStrategy,
    /// What its bursts record.
    pub(super) journal: JournalLevel,
    /// Whether an expression reads outputs of activities.
    pub(super) needs_outputs: bool,
    registered: Vec<Option<RegisteredActivity>>,
    /// The activity types that it uses, with the versions that it names.
    required_types: BTreeSet<String>,
    /// Those of them that the catalogue does not have.
    unknown_types: BTreeSet<String>,
}

impl Program {
    /// The definition.
    pub fn definition_id(&self) -> &DefinitionId {
        &self.definition_id
    }

    /// The id of its version.
    pub fn version_id(&self) -> &VersionId {
        &self.version_id
    }

    /// The number of its version.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// The errors of a start with this input and trigger: the fields, each with its message.
    pub fn start_errors(&self, input: &Map<String, Value>, trigger: Option<&ActivityId>) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        for argument in &self.inputs {
            let Some(value) = input.get(&argument.name).filter(|value| !value.is_null()) else {
                continue;
            };
            if let Err(mismatch) = coerce(value.clone(), &TypeName::parse(&argument.type_name, argument.is_array)) {
                problems.push((format!("input.{}", argument.name), mismatch.to_string()));
            }
        }
        if let Some(trigger) = trigger
            && !self.tree.iter().any(|node| node.id == trigger.as_str())
        {
            let problem = format!("the workflow has no activity with the id {trigger}");
            problems.push(("triggerActivityId".to_owned(), problem));
        }
        problems
    }

    /// The activity types that it uses, sorted; complete if none is unknown. A custom type of which the definition names a
    /// version is `Type@version`.
    pub fn activity_types(&self) -> Vec<String> {
        self.required_types.iter().cloned().collect()
    }

    /// The activity types that it uses and the catalogue does not have, or not in the version that it names; sorted. The
    /// children of an unknown activity are not included.
    pub fn unknown_activity_types(&self) -> Vec<String> {
        self.unknown_types.iter().cloned().collect()
    }

    /// All activities.
    pub fn tree(&self) -> &ActivityTree {
        &self.tree
    }

    /// An estimate of its memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        // For each node also its registration, and its entry in the index of paths.
        let overhead = size_of::<Option<RegisteredActivity>>() + 40;
        let nodes = self.tree.iter().map(|node| node.bytes() + overhead);
        size_of::<Self>() + nodes.sum::<usize>()
    }

    pub(super) fn activity(&self, index: NodeIndex) -> Option<&Arc<dyn ErasedActivity>> {
        self.registered
            .get(index.0)?
            .as_ref()
            .map(|registered| &registered.activity)
    }

    pub(super) fn descriptor(&self, index: NodeIndex) -> Option<&Descriptor> {
        self.registered
            .get(index.0)?
            .as_ref()
            .map(|registered| &*registered.descriptor)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Program({} {}, {} activities)",
            self.definition_id,
            self.version,
            self.tree.len()
        )
    }
}

/// Compiles a definition.
///
/// # Errors
/// `missing-root` when there is no root activity.
pub(super) fn compile(catalogue: &Catalogue, definition: &WorkflowDefinition) -> Result<Program> {
    let Some(root) = definition.root.as_ref() else {
        return Err(Error::invalid("missing-root", "The definition has no root activity").field("root", "is missing"));
    };
    let mut compiler = Compiler {
        catalogue,
        tree: ActivityTree::default(),
        registered: Vec::new(),
        ids: IdMaker::of(root),
        needs_outputs: false,
        required_types: BTreeSet::new(),
        unknown_types: BTreeSet::new(),
    };
    let workflow = compiler.push_workflow(definition);
    let root = compiler.push(root, workflow);
    if let (Some(root), Some(node)) = (root, compiler.tree.get_mut(workflow)) {
        node.ports.push(("Root".to_owned(), root));
    }
    let strategy = definition
        .options
        .get("incidentStrategyType")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Ok(Program {
        definition_id: definition.definition_id.clone(),
        version_id: definition.id.clone(),
        version: definition.version,
        inputs: definition.declared_inputs(),
        continues_with_incidents: strategy.contains("ContinueWithIncidents"),
        commits: CommitStrategy::of(definition),
        journal: JournalLevel::of(definition),
        needs_outputs: compiler.needs_outputs,
        tree: compiler.tree,
        registered: compiler.registered,
        required_types: compiler.required_types,
        unknown_types: compiler.unknown_types,
    })
}

struct Compiler<'a> {
    catalogue: &'a Catalogue,
    tree: ActivityTree,
    registered: Vec<Option<RegisteredActivity>>,
    ids: IdMaker,
    needs_outputs: bool,
    required_types: BTreeSet<String>,
    unknown_types: BTreeSet<String>,
}

impl Compiler<'_> {
    fn push_workflow(&mut self, definition: &WorkflowDefinition) -> NodeIndex {
        let mut own = Catalogue::empty();
        own.register(Workflow);
        let index = self.tree.next_index();
        self.registered.push(own.find(WORKFLOW, 1).cloned());
        self.required_types.insert(WORKFLOW.to_owned());
        self.tree.push(ActivityNode {
            index,
            id: WORKFLOW_ID.to_owned(),
            node_id: WORKFLOW_ID.to_owned(),
            type_name: WORKFLOW.to_owned(),
            version: definition.version,
            name: definition.name.clone(),
            properties: Map::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            ports: Vec::new(),
            activities: Vec::new(),
            variables: definition.declared_variables(),
            connections: Vec::new(),
            can_start: false,
            is_start: false,
            is_terminal: false,
            on_break: BreakBehavior::Ignore,
            cache: OnceLock::new(),
        });
        index
    }

    /// Adds an activity and its children. The recursion is as deep as the JSON, which the model bounds.
    fn push(&mut self, value: &Value, parent: NodeIndex) -> Option<NodeIndex> {
        let raw = RawActivity::new(value)?;
        let version = raw.named_version().unwrap_or(0);
        let registered = self.catalogue.find(raw.type_name(), version).cloned();
        let required = requirement(raw.type_name(), version);
        if registered.is_none() {
            self.unknown_types.insert(required.clone());
        }
        self.required_types.insert(required);
        let descriptor = registered.as_ref().map(|registered| Arc::clone(&registered.descriptor));
        let descriptor = descriptor.as_deref();
        let id = if raw.id().is_empty() {
            self.ids.make(raw.type_name())
        } else {
            raw.id().to_owned()
        };
        let parent_path = self
            .tree
            .get(parent)
            .map(|node| node.node_id.clone())
            .unwrap_or_default();
        let index = self.tree.next_index();
        let ports: Vec<(String, String)> = descriptor
            .iter()
            .flat_map(|d| &d.ports)
            .map(|port| (port.clone(), camel_case(port)))
            .collect();
        let is_container = descriptor.is_some_and(|descriptor| descriptor.is_container);
        let is_child = |name: &str| (is_container && name == "activities") || ports.iter().any(|(_, key)| key == name);
        let own = raw
            .fields()
            .iter()
            .filter(|(name, _)| !is_child(name) && name.as_str() != "metadata");
        let properties: Map<String, Value> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        let inputs = descriptor
            .map(|descriptor| inputs(descriptor, &properties))
            .unwrap_or_default();
        self.needs_outputs |= inputs.iter().any(may_read_outputs);
        let outputs = descriptor
            .map(|descriptor| outputs(descriptor, &properties))
            .unwrap_or_default();
        self.registered.push(registered.clone());
        self.tree.push(ActivityNode {
            index,
            node_id: node_id(&parent_path, &id),
            id,
            type_name: raw.type_name().to_owned(),
            version: raw.version(),
            name: raw.name().map(str::to_owned),
            inputs,
            outputs,
            ports: Vec::new(),
            activities: Vec::new(),
            variables: Variable::list(raw.get("variables")),
            connections: if is_container {
                Connection::list(raw.get("connections"))
            } else {
                Vec::new()
            },
            can_start: raw.can_start_workflow(),
            is_start: descriptor.is_some_and(|descriptor| descriptor.is_start),
            is_terminal: descriptor.is_some_and(|descriptor| descriptor.is_terminal),
            on_break: descriptor.map(|descriptor| descriptor.on_break).unwrap_or_default(),
            properties,
            cache: OnceLock::new(),
        });
        for (port, key) in ports {
            let child = raw.get(&key).and_then(|value| self.push(value, index));
            if let (Some(child), Some(node)) = (child, self.tree.get_mut(index)) {
                node.ports.push((port, child));
            }
        }
        if is_container {
            for child in raw.get("activities").and_then(Value::as_array).into_iter().flatten() {
                let child = self.push(child, index);
                if let (Some(child), Some(node)) = (child, self.tree.get_mut(index)) {
                    node.activities.push(child);
                }
            }
        }
        Some(index)
    }
}

fn inputs(descriptor: &Descriptor, properties: &Map<String, Value>) -> Vec<NodeInput> {
    let expressions = descriptor.inputs.iter().filter(|input| !input.is_raw);
    expressions
        .map(|input| {
            let binding = InputBinding::parse(property(properties, &input.name)).unwrap_or_default();
            // The activity type decides; the definition only where the activity type accepts anything.
            let convert_to = match TypeName::parse(&input.type_name, false) {
                _ if input.is_as_given => TypeName::Any,
                TypeName::Any => TypeName::parse(&binding.type_name, false),
                known => known,
            };
            NodeInput {
                name: input.name.clone(),
                expression: binding.expression,
                memory_reference: binding.memory_reference,
                convert_to,
                default: input.default.clone(),
                is_lazy: input.is_lazy,
                is_required: input.is_required,
            }
        })
        .collect()
}

fn outputs(descriptor: &Descriptor, properties: &Map<String, Value>) -> Vec<(String, String)> {
    let bound = descriptor.outputs.iter().filter_map(|output| {
        let binding = InputBinding::parse(property(properties, &output.name))?;
        Some((output.name.clone(), binding.memory_reference?))
    });
    bound.collect()
}

pub(super) fn property<'a>(properties: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    properties.get(&camel_case(name)).or_else(|| properties.get(name))
}

/// Whether an input may read outputs: `getOutputFrom(…)`, `getLastResult()`, `getTextFromWriteLine1()`. May be true for
/// other scripts, too.
fn may_read_outputs(input: &NodeInput) -> bool {
    input
        .expression
        .as_ref()
        .is_some_and(|expression| match expression.kind.as_str() {
            "Output" => true,
            "JavaScript" => {
                let script = expression.value.as_str().unwrap_or_default();
                script.contains("From") || script.contains("LastResult")
            }
            _ => false,
        })
}
