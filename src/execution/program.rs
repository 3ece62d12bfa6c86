//! A compiled definition.
//!
//! The tree's first node is the workflow itself, `Workflow1`, as in Elsa; the definition's root is its child. A type that
//! the catalogue does not have becomes a leaf that faults when it is executed: the rest of the workflow still runs.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::bindings::{inputs, outputs, without_children};
use super::composition::{Composition, MOST_LEVELS, WorkflowReference};
use super::id_bounds::{LONGEST_PATH, short, too_many_bytes};
use super::incident_strategy::IncidentStrategy;
use super::log_persistence::LogPersistence;
use super::node_id::{IdMaker, MOST_BYTES, WORKFLOW_ID, node_id};
use super::script_names;
use super::scripts::ProgramScripts;
use super::state::InstanceState;
use super::workflow_options::{CommitStrategy, JournalLevel};
use crate::activity::{
    ActivityNode, ActivityTree, BreakBehavior, CASE_ACTIVITY, CASES, Catalogue, ChildProperty, Descriptor,
    ErasedActivity, FlowchartMode, NestedWorkflow, NodeIndex, NodeInput, RegisteredActivity, RegisteredConverter,
    WORKFLOW, Workflow, WorkflowAsActivity, case_port, converter_requirement, describe, item_port, requirement,
};
use crate::definition::{ActivityTitle, Argument, Connection, RawActivity, Variable, WorkflowDefinition};
use crate::expression::{DeclaredNames, language, language_requirement};
use crate::id::{DefinitionId, InstanceId, VersionId};
use crate::shortened::shortened;
use crate::{Error, Result, weight};

/// A compiled definition. Shared by all bursts of its instances.
pub struct Program {
    pub(super) definition_id: DefinitionId,
    pub(super) version_id: VersionId,
    pub(super) version: i32,
    pub(super) tree: ActivityTree,
    pub(super) inputs: Vec<Argument>,
    /// What other branches do after a fault, unless an activity has a strategy of its own.
    pub(super) incident_strategy: IncidentStrategy,
    /// When its bursts commit before their end.
    pub(super) commits: CommitStrategy,
    /// How flowcharts run, for each workflow that sets it.
    flowchart_modes: HashMap<NodeIndex, FlowchartMode>,
    /// What its bursts record.
    pub(super) journal: JournalLevel,
    /// What of the values of its activities is recorded.
    pub(super) log_persistence: LogPersistence,
    /// The declared outputs of the workflow.
    pub(super) outputs: Vec<Argument>,
    /// Whether an expression reads outputs of activities, and then the ids and names of all.
    pub(super) needs_outputs: bool,
    /// Whether an expression may read inputs of the workflow.
    pub(super) reads_inputs: bool,
    pub(super) activity_names: Arc<HashSet<String>>,
    /// Its scripts, in the languages that compile them.
    pub(super) scripts: ProgramScripts,
    registered: Vec<Option<RegisteredActivity>>,
    /// The converters of its outputs, by id.
    converters: HashMap<String, RegisteredConverter>,
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

    /// The activity types that it uses, sorted; complete if none is unknown. A custom type with a version in the
    /// definition is `Type@version`, a converter of outputs is `converter:id`, and a language that builds may omit is
    /// `language:name`.
    pub fn activity_types(&self) -> Vec<String> {
        self.required_types.iter().cloned().collect()
    }

    /// The activity types that it uses and the catalogue does not have, or not in the version that it names; sorted. The
    /// children of an unknown activity are not included.
    pub fn missing_activity_types(&self) -> Vec<String> {
        self.unknown_types.iter().cloned().collect()
    }

    /// The name of the definition.
    #[cfg(feature = "http")]
    pub(crate) fn name(&self) -> Option<&str> {
        self.tree.iter().next()?.name.as_deref()
    }

    /// The state of an instance before its first burst.
    pub(crate) fn new_state(&self, instance: &InstanceId) -> InstanceState {
        let (definition, version) = (self.definition_id.clone(), self.version_id.clone());
        InstanceState::new(instance.clone(), definition, version, self.version)
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

    /// How a flowchart runs, if the workflow that it is in sets it.
    pub(super) fn flowchart_mode(&self, node: &ActivityNode) -> Option<FlowchartMode> {
        self.flowchart_modes.get(&node.workflow).copied()
    }

    pub(super) fn activity(&self, index: NodeIndex) -> Option<&Arc<dyn ErasedActivity>> {
        self.registered
            .get(index.0)?
            .as_ref()
            .map(|registered| &registered.activity)
    }

    pub(super) fn converter(&self, id: &str) -> Option<&RegisteredConverter> {
        self.converters.get(id)
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

/// How many activities all workflows as activities have together: a definition may use another one nine times, and be
/// used nine times itself.
const MOST_NESTED: usize = 20_000;

/// The maximum number of bytes of all workflows as activities together: each use copies the workflow.
const MOST_COPIED: usize = 128 << 20;

/// Compiles a definition, with the workflows that it uses as activities.
/// Errors: `missing-root` when there is no root activity, `definition-too-large`, `composition-too-large`.
pub(super) fn compile(
    catalogue: &Catalogue,
    definition: &WorkflowDefinition,
    composition: &Composition,
) -> Result<Program> {
    let Some(root) = definition.root.as_ref() else {
        return Err(Error::invalid("missing-root", "The definition has no root activity").field("root", "is missing"));
    };
    let mut compiler = Compiler {
        catalogue,
        tree: ActivityTree::default(),
        registered: Vec::new(),
        composition,
        within: None,
        level: 0,
        nested: VecDeque::new(),
        workflow: NodeIndex(0),
        ids: IdMaker::of(root),
        flowchart_modes: HashMap::new(),
        needs_outputs: false,
        inputs: HashMap::new(),
        converters: HashMap::new(),
        required_types: BTreeSet::new(),
        unknown_types: BTreeSet::new(),
        types: HashMap::new(),
        path_bytes: 0,
        copied: 0,
        problem: None,
    };
    compiler.push_workflow(definition, None, root);
    compiler.push_nested()?;
    if let Some(problem) = compiler.problem {
        return Err(problem);
    }
    let reads_inputs = compiler
        .tree
        .iter()
        .any(|node| node.inputs.iter().any(NodeInput::may_read_inputs));
    let activities = compiler.tree.iter().filter(|_| compiler.needs_outputs);
    let names = activities.flat_map(|node| [Some(&node.id), node.name.as_ref()]);
    let activity_names = Arc::new(names.flatten().cloned().collect());
    Ok(Program {
        scripts: ProgramScripts::of(&compiler.tree, |workflow| DeclaredNames {
            is_open: workflow != NodeIndex(0) || definition.is_usable_as_activity(),
            ..script_names::declared_in(
                &compiler.tree,
                workflow,
                |node| Some(&*compiler.registered.get(node.0)?.as_ref()?.descriptor),
                compiler.inputs.get(&workflow).map(Vec::as_slice).unwrap_or_default(),
            )
        }),
        definition_id: definition.definition_id.clone(),
        version_id: definition.id.clone(),
        version: definition.version,
        inputs: definition.declared_inputs(),
        incident_strategy: IncidentStrategy::of(definition).unwrap_or_default(),
        commits: CommitStrategy::of(definition),
        flowchart_modes: compiler.flowchart_modes,
        journal: JournalLevel::of(definition),
        log_persistence: LogPersistence::of(definition, &compiler.tree),
        outputs: definition.declared_outputs(),
        needs_outputs: compiler.needs_outputs,
        reads_inputs,
        activity_names,
        tree: compiler.tree,
        registered: compiler.registered,
        converters: compiler.converters,
        required_types: compiler.required_types,
        unknown_types: compiler.unknown_types,
    })
}

struct Compiler<'a> {
    catalogue: &'a Catalogue,
    tree: ActivityTree,
    registered: Vec<Option<RegisteredActivity>>,
    composition: &'a Composition,
    /// The version that is compiled; `None` for the definition itself.
    within: Option<&'a VersionId>,
    /// How many workflows as activities it is inside.
    level: usize,
    /// Workflows as activities whose definitions are not compiled yet.
    nested: VecDeque<Nested<'a>>,
    workflow: NodeIndex,
    ids: IdMaker,
    flowchart_modes: HashMap<NodeIndex, FlowchartMode>,
    needs_outputs: bool,
    /// The declared inputs of each workflow.
    inputs: HashMap<NodeIndex, Vec<Argument>>,
    converters: HashMap<String, RegisteredConverter>,
    required_types: BTreeSet<String>,
    unknown_types: BTreeSet<String>,
    /// The types of the workflows as activities, with the bytes that each use takes: of the type, and of the workflow.
    types: HashMap<&'a VersionId, NestedType>,
    /// The bytes of the node ids in the definition itself.
    path_bytes: usize,
    copied: usize,
    /// Why compiling has failed. From then on nothing is added.
    problem: Option<Error>,
}

struct NestedType {
    registered: RegisteredActivity,
    input_bytes: usize,
    bytes: usize,
}

impl NestedType {
    fn of(definition: &WorkflowDefinition) -> Self {
        let registered = registered(WorkflowAsActivity(describe(definition)));
        let inputs = registered.descriptor.inputs.iter().map(|input| {
            let default = input.default.as_ref().map_or(0, weight::json);
            size_of::<NodeInput>() + weight::text(&input.name) + default
        });
        let lists = [&definition.variables, &definition.inputs, &definition.outputs]
            .into_iter()
            .flatten();
        let root = definition.root.as_ref().map_or(0, weight::json);
        Self {
            input_bytes: inputs.sum(),
            bytes: root + lists.map(weight::json).sum::<usize>(),
            registered,
        }
    }
}

/// A workflow as an activity whose definition is not compiled yet.
struct Nested<'a> {
    activity: NodeIndex,
    version: &'a VersionId,
    level: usize,
}

impl<'a> Compiler<'a> {
    /// Compiles the workflows as activities, those of the definition first, then those inside them: so the recursion is as
    /// deep as one definition, and the nodes of one definition follow each other.
    fn push_nested(&mut self) -> Result<()> {
        while let Some(Nested {
            activity,
            version,
            level,
        }) = self.nested.pop_front().filter(|_| self.problem.is_none())
        {
            let Some(part) = self.composition.used.get(version) else {
                continue;
            };
            let Some(node) = self.tree.get(activity) else {
                continue;
            };
            let path = &node.node_id;
            let too_large = |problem: String| too_large(path, node.title(), &part.definition.definition_id, &problem);
            self.copied = self
                .copied
                .saturating_add(self.types.get(version).map_or(0, |it| it.bytes));
            if self.copied > MOST_COPIED {
                return Err(too_large(copied_too_much()));
            }
            if level > MOST_LEVELS {
                return Err(too_large(format!(
                    "workflows are nested more than {MOST_LEVELS} levels deep"
                )));
            }
            if path.len() > LONGEST_PATH {
                return Err(too_large(format!("its path has more than {LONGEST_PATH} bytes")));
            }
            if self.tree.len() > MOST_NESTED {
                return Err(too_large(format!(
                    "together they have more than {MOST_NESTED} activities"
                )));
            }
            let Some(root) = part.definition.root.as_ref() else {
                return Err(too_large("it has no root activity".to_owned()));
            };
            (self.within, self.level) = (Some(version), level);
            self.ids = IdMaker::of(root);
            self.push_workflow(&part.definition, Some(activity), root);
        }
        Ok(())
    }

    fn push_workflow(&mut self, definition: &WorkflowDefinition, parent: Option<NodeIndex>, root: &'a Value) {
        let index = self.tree.next_index();
        self.workflow = index;
        self.inputs.insert(index, definition.declared_inputs());
        if let Some(mode) = FlowchartMode::read(definition.custom_properties.get(FlowchartMode::PROPERTY)) {
            self.flowchart_modes.insert(index, mode);
        }
        let registered = match parent {
            None => registered(Workflow),
            Some(_) => registered(NestedWorkflow),
        };
        self.registered.push(Some(registered));
        self.required_types.insert(WORKFLOW.to_owned());
        let outer = parent.and_then(|parent| self.tree.get(parent));
        let path = outer.map_or_else(|| WORKFLOW_ID.to_owned(), |outer| node_id(&outer.node_id, WORKFLOW_ID));
        self.tree.push(ActivityNode {
            index,
            workflow: index,
            id: WORKFLOW_ID.to_owned(),
            node_id: path,
            type_name: WORKFLOW.to_owned(),
            version: definition.version,
            name: definition.name.clone(),
            display_text: None,
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
            is_guard: false,
            cache: OnceLock::new(),
        });
        if let Some(outer) = parent.and_then(|parent| self.tree.get_mut(parent)) {
            outer.ports.push(("Root".to_owned(), index));
        }
        let root = self.push(root, index);
        if let (Some(root), Some(node)) = (root, self.tree.get_mut(index)) {
            node.ports.push(("Root".to_owned(), root));
        }
    }

    /// The workflow that an activity uses, as its type.
    fn nested_type(&mut self, raw: RawActivity<'_>) -> Option<(&'a VersionId, RegisteredActivity)> {
        let reference = WorkflowReference::of(self.catalogue, raw)?;
        let composition: &'a Composition = self.composition;
        let part = composition.find(self.within, &reference)?;
        let (version, _) = composition.used.get_key_value(&part.definition.id)?;
        let found = self
            .types
            .entry(version)
            .or_insert_with(|| NestedType::of(&part.definition));
        self.copied = self.copied.saturating_add(found.input_bytes);
        if self.copied > MOST_COPIED && self.problem.is_none() {
            self.problem = Some(too_large(
                raw.id(),
                ActivityTitle::of(raw, raw.id()),
                &part.definition.definition_id,
                &copied_too_much(),
            ));
        }
        Some((version, found.registered.clone()))
    }

    /// The node id of an activity; none if there is no room for it.
    fn path(&mut self, parent: NodeIndex, id: &str, raw: RawActivity<'_>) -> Option<String> {
        let title = ActivityTitle::of(raw, id).with_id();
        let around = self.tree.get(parent).map_or("", |node| &node.node_id);
        let bytes = around.len() + 1 + id.len();
        if self.within.is_none() {
            self.path_bytes += bytes;
            if self.path_bytes > MOST_BYTES {
                let problem = too_many_bytes(&format!("{title} in {}", short(around)));
                self.problem = Some(Error::invalid("definition-too-large", problem.clone()).field("root", problem));
                return None;
            }
        } else {
            self.copied = self.copied.saturating_add(bytes);
            if self.copied > MOST_COPIED {
                let message = format!("the activity {title} in {}: {}", short(around), copied_too_much());
                self.problem = Some(Error::invalid("composition-too-large", message.clone()).field("root", message));
                return None;
            }
        }
        Some(node_id(around, id))
    }

    /// Adds an activity and its children. The recursion is as deep as the JSON, which the model bounds.
    fn push(&mut self, value: &'a Value, parent: NodeIndex) -> Option<NodeIndex> {
        let raw = RawActivity::new(value).filter(|_| self.problem.is_none())?;
        let version = raw.named_version().unwrap_or(0);
        let mut registered = self.catalogue.find(raw.type_name(), version).cloned();
        let mut nested = None;
        if registered.is_none()
            && let Some((version, found)) = self.nested_type(raw)
        {
            nested = Some(version);
            registered = Some(found);
        } else {
            let required = requirement(raw.type_name(), version);
            if registered.is_none() {
                self.unknown_types.insert(required.clone());
            }
            self.required_types.insert(required);
        }
        let descriptor = registered.as_ref().map(|registered| Arc::clone(&registered.descriptor));
        let descriptor = descriptor.as_deref();
        let id = if raw.id().is_empty() {
            self.ids.make(raw.type_name())
        } else {
            raw.id().to_owned()
        };
        let path = self.path(parent, &id, raw)?;
        let index = self.tree.next_index();
        let places = descriptor.map(ChildProperty::of).unwrap_or_default();
        let is_container = descriptor.is_some_and(|descriptor| descriptor.is_container);
        let own = raw.fields().iter().filter(|(name, _)| name.as_str() != "metadata");
        let own = own.filter_map(|(name, value)| {
            let value = match places.iter().find(|place| place.property() == name) {
                None => value.clone(),
                Some(ChildProperty::Cases) => without_children(value, &[CASE_ACTIVITY]),
                Some(ChildProperty::ItemChildren((_, names))) => without_children(value, names),
                Some(ChildProperty::One(..) | ChildProperty::List(..)) => return None,
            };
            Some((name.clone(), value))
        });
        let properties: Map<String, Value> = own.collect();
        let inputs = descriptor
            .map(|descriptor| inputs(descriptor, &properties))
            .unwrap_or_default();
        self.needs_outputs |= inputs.iter().any(NodeInput::may_read_outputs);
        for expression in inputs.iter().filter_map(|input| input.expression.as_ref()) {
            let Some(required) = language_requirement(&expression.kind) else {
                continue;
            };
            if language(&expression.kind).is_none() {
                self.unknown_types.insert(required.clone());
            }
            self.required_types.insert(required);
        }
        let outputs = descriptor
            .map(|descriptor| outputs(descriptor, &properties))
            .unwrap_or_default();
        let converters = outputs.iter().filter_map(|output| output.converter.as_ref());
        for converter in converters.filter(|converter| !converter.id.is_empty()) {
            let required = converter_requirement(&converter.id);
            match self.catalogue.converter(&converter.id) {
                Some(found) => drop(self.converters.insert(converter.id.clone(), found.clone())),
                None => drop(self.unknown_types.insert(required.clone())),
            }
            self.required_types.insert(required);
        }
        self.registered.push(registered.clone());
        self.tree.push(ActivityNode {
            index,
            workflow: self.workflow,
            node_id: path,
            id,
            type_name: raw.type_name().to_owned(),
            version: raw.version(),
            name: raw.name().map(str::to_owned),
            display_text: raw.display_text().map(|text| shortened(text, 400).into_owned()),
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
            is_guard: descriptor.is_some_and(|descriptor| descriptor.is_guard),
            properties,
            cache: OnceLock::new(),
        });
        for place in &places {
            self.push_children(place, raw, index);
        }
        if let Some(version) = nested {
            let level = self.level + 1;
            self.nested.push_back(Nested {
                activity: index,
                version,
                level,
            });
        }
        Some(index)
    }

    fn push_children(&mut self, place: &ChildProperty, raw: RawActivity<'a>, parent: NodeIndex) {
        let cases = raw.get(CASES).and_then(Value::as_array);
        let cases = cases.into_iter().flatten().enumerate();
        let children: Vec<(String, &'a Value)> = match place {
            ChildProperty::One(..) | ChildProperty::List(..) => place.children(raw.fields()),
            ChildProperty::Cases => cases
                .filter_map(|(number, case)| Some((case_port(number), case.get(CASE_ACTIVITY)?)))
                .collect(),
            ChildProperty::ItemChildren((property, names)) => {
                let items = raw
                    .get(property)
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .enumerate();
                let of_item = |(number, item): (usize, &'a Value)| {
                    let children = names.iter().filter_map(move |name| Some((*name, item.get(name)?)));
                    children.map(move |(name, child)| (item_port(property, number, name), child))
                };
                items.flat_map(of_item).collect()
            }
        };
        for (port, child) in children {
            let child = self.push(child, parent);
            if let (Some(child), Some(node)) = (child, self.tree.get_mut(parent)) {
                match place {
                    ChildProperty::One(..) | ChildProperty::Cases | ChildProperty::ItemChildren(..) => {
                        node.ports.push((port, child));
                    }
                    ChildProperty::List(..) => node.activities.push(child),
                }
            }
        }
    }
}

fn too_large(path: &str, title: ActivityTitle<'_>, used: &DefinitionId, problem: &str) -> Error {
    let message = format!("the activity {title} nests the workflow {used}: {problem}");
    Error::invalid("composition-too-large", message.clone()).field(path, message)
}

fn copied_too_much() -> String {
    format!(
        "what workflows as activities have, for each use, is more than {} MiB together",
        MOST_COPIED >> 20
    )
}

fn registered(activity: impl crate::activity::Activity) -> RegisteredActivity {
    RegisteredActivity {
        descriptor: Arc::new(activity.descriptor()),
        activity: Arc::new(activity),
    }
}
