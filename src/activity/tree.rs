//! The compiled tree of activities, which all instances of a definition's version share.
//!
//! Nodes are in one list, in the order of a walk from the root, and refer to each other by [`NodeIndex`]. The state of an
//! instance refers to them by node id (the path of activity ids), which does not depend on that order.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::descriptor::BreakBehavior;
use crate::definition::{ActivityTitle, Connection, ConverterReference, Expression, Variable};
use crate::expression::{TypeName, language};
use crate::weight;

/// A node of an [`ActivityTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub(crate) usize);

/// An input of a node, ready to be evaluated.
#[derive(Clone, Debug)]
pub(crate) struct NodeInput {
    pub(crate) name: String,
    pub(crate) expression: Option<Expression>,
    pub(crate) memory_reference: Option<String>,
    pub(crate) convert_to: TypeName,
    pub(crate) default: Option<Value>,
    pub(crate) is_lazy: bool,
    pub(crate) is_required: bool,
}

/// The input that holds the script of an activity.
pub(crate) const SCRIPT: &str = "Script";

impl NodeInput {
    /// Whether it may read inputs of the workflow.
    pub(crate) fn may_read_inputs(&self) -> bool {
        let kind = self.expression.as_ref().map(|expression| expression.kind.as_str());
        kind.is_some_and(|kind| kind == "Input" || self.name == SCRIPT || language(kind).is_some())
    }

    /// Whether it may read outputs: `getOutputFrom(…)`, `getLastResult()`, `getTextFromWriteLine1()`, `Output.From(…)`.
    /// It may be true for other scripts, too.
    pub(crate) fn may_read_outputs(&self) -> bool {
        let Some(expression) = &self.expression else {
            return false;
        };
        match expression.kind.as_str() {
            "Output" => true,
            "Literal" if self.name != SCRIPT => false,
            kind if kind == "Literal" || language(kind).is_some_and(|language| language.facts().is_script) => {
                let script = expression.value.as_str().unwrap_or_default();
                ["From", "LastResult", "Output"]
                    .iter()
                    .any(|word| script.contains(word))
            }
            _ => false,
        }
    }
}

/// An output of a node that the definition binds.
#[derive(Clone, Debug)]
pub(crate) struct NodeOutput {
    pub(crate) name: String,
    /// The id of the variable, or the name of the workflow's output, that receives it.
    pub(crate) target: String,
    /// What converts the value for its target.
    pub(crate) converter: Option<ConverterReference>,
}

/// An activity in a definition.
pub struct ActivityNode {
    pub(crate) index: NodeIndex,
    /// The workflow in whose definition it is: the first node of the tree, or that of a workflow as an activity.
    pub(crate) workflow: NodeIndex,
    pub(crate) id: String,
    pub(crate) node_id: String,
    pub(crate) type_name: String,
    pub(crate) version: i32,
    pub(crate) name: Option<String>,
    /// What designers show instead of the name, as far as messages do.
    pub(crate) display_text: Option<String>,
    pub(crate) properties: Map<String, Value>,
    pub(crate) inputs: Vec<NodeInput>,
    pub(crate) outputs: Vec<NodeOutput>,
    pub(crate) ports: Vec<(String, NodeIndex)>,
    pub(crate) activities: Vec<NodeIndex>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) can_start: bool,
    pub(crate) is_start: bool,
    pub(crate) is_terminal: bool,
    pub(crate) on_break: BreakBehavior,
    /// It takes over what would leave it by a fault, a break or the end of the workflow.
    pub(crate) is_guard: bool,
    pub(crate) cache: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl ActivityNode {
    /// The index in the tree.
    pub fn index(&self) -> NodeIndex {
        self.index
    }

    /// Whether it is a workflow itself: the whole one, or one inside a workflow as an activity.
    pub(crate) fn is_workflow(&self) -> bool {
        self.index == self.workflow
    }

    /// Whether it is in the definition that the instance runs, and not inside a workflow as an activity.
    pub(crate) fn is_own(&self) -> bool {
        self.workflow == NodeIndex(0)
    }

    /// The activity's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The path of ids from the root, joined by colons.
    pub fn node_id(&self) -> &str {
        &self.node_id
    }

    /// The activity's type.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Whether the definition gives an input a value.
    pub(crate) fn has_input_value(&self, name: &str) -> bool {
        let mut inputs = self.inputs.iter().filter(|input| input.name == name);
        inputs.any(|input| {
            let expression = input.expression.as_ref();
            expression.is_some_and(|expression| !matches!(&expression.value, Value::Null) && expression.value != "")
        })
    }

    /// Whether an input has the same value whenever it is evaluated: one that the definition has.
    pub(crate) fn has_constant_input(&self, name: &str) -> bool {
        let mut inputs = self.inputs.iter().filter(|input| input.name == name);
        inputs.any(|input| {
            let expression = input.expression.as_ref();
            expression.is_some_and(|expression| ["Literal", "Object"].contains(&expression.kind.as_str()))
        })
    }

    /// The activity's name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// How a message names it.
    pub(crate) fn title(&self) -> ActivityTitle<'_> {
        let name = self.display_text.as_deref().or(self.name());
        ActivityTitle::new(name, &self.type_name, &self.id)
    }

    /// A property of the definition (camel case), except children.
    pub fn property(&self, name: &str) -> Option<&Value> {
        self.properties.get(name)
    }

    /// The connections of a flowchart.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// An estimate of its memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().map(|input| {
            let expression = input.expression.as_ref();
            let expression = expression.map_or(0, |it| weight::text(&it.kind) + weight::json(&it.value));
            let default = input.default.as_ref().map_or(0, weight::json);
            let referred = input.memory_reference.as_deref().map_or(0, weight::text);
            size_of::<NodeInput>() + weight::text(&input.name) + expression + default + referred
        });
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|output| {
            let converter = output.converter.as_ref();
            let settings = converter.and_then(|converter| converter.settings.as_ref());
            let converter = converter.map_or(0, |converter| weight::text(&converter.id));
            let texts = weight::text(&output.name) + weight::text(&output.target) + converter;
            size_of::<NodeOutput>() + texts + settings.map_or(0, weight::json)
        });
        let variables = self.variables.iter().map(|variable| {
            let texts = [&variable.id, &variable.name, &variable.type_name];
            let default = variable.default.as_ref().map_or(0, weight::json);
            size_of::<Variable>() + texts.map(|text| weight::text(text)).iter().sum::<usize>() + default
        });
        // Counted three times, because a flowchart derives its graph from them, and their names in the state of an instance.
        let connections = self.connections.iter().map(|connection| {
            let ends = [&connection.source, &connection.target];
            let ends = ends.map(|end| weight::text(&end.activity) + weight::text(&end.port));
            3 * (size_of::<Connection>() + ends.iter().sum::<usize>())
        });
        let ports = self.ports.iter().map(|(name, _)| 40 + weight::text(name));
        let parts = inputs.chain(outputs).chain(variables).chain(connections).chain(ports);
        let texts = [&self.id, &self.node_id, &self.node_id, &self.type_name];
        size_of::<Self>()
            + weight::map(&self.properties)
            + self.name.as_deref().map_or(0, weight::text)
            + self.display_text.as_deref().map_or(0, weight::text)
            + texts.map(|text| weight::text(text)).iter().sum::<usize>()
            + self.activities.len() * size_of::<NodeIndex>()
            + parts.sum::<usize>()
    }

    /// A value that an activity type derives from the node once and shares among all instances.
    pub(crate) fn cached<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let cached = self.cache.get_or_init(|| Arc::new(make()));
        match Arc::clone(cached).downcast::<T>() {
            Ok(found) => found,
            // A node has one activity type, so the type of the value never changes.
            Err(_) => unreachable!("the cached value of a node has the type of its activity"),
        }
    }
}

impl fmt::Debug for ActivityNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.node_id, self.type_name)
    }
}

/// All activities of a definition.
#[derive(Debug, Default)]
pub struct ActivityTree {
    nodes: Vec<ActivityNode>,
    by_node_id: HashMap<String, NodeIndex>,
}

impl ActivityTree {
    pub(crate) fn push(&mut self, node: ActivityNode) {
        // The first of two nodes with one path is found; such a definition cannot be published.
        self.by_node_id.entry(node.node_id.clone()).or_insert(node.index);
        self.nodes.push(node);
    }

    pub(crate) fn next_index(&self) -> NodeIndex {
        NodeIndex(self.nodes.len())
    }

    pub(crate) fn get_mut(&mut self, index: NodeIndex) -> Option<&mut ActivityNode> {
        self.nodes.get_mut(index.0)
    }

    /// The node at an index.
    pub fn get(&self, index: NodeIndex) -> Option<&ActivityNode> {
        self.nodes.get(index.0)
    }

    /// The node of a path of ids.
    pub fn find(&self, node_id: &str) -> Option<&ActivityNode> {
        self.by_node_id.get(node_id).and_then(|index| self.get(*index))
    }

    /// All nodes, parents before children; the nodes of one definition follow each other.
    pub fn iter(&self) -> impl Iterator<Item = &ActivityNode> {
        self.nodes.iter()
    }

    /// The nodes of one definition, by the index of its workflow.
    pub(crate) fn of_workflow(&self, workflow: NodeIndex) -> impl Iterator<Item = &ActivityNode> {
        let behind = self.nodes.get(workflow.0..).unwrap_or_default();
        behind.iter().take_while(move |node| node.workflow == workflow)
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
