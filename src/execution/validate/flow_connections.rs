//! Connections of a flowchart that nothing follows, and what they keep from running. As in Elsa they are accepted, and only
//! warned of.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;

use crate::activity::{ActivityKind, ActivityNode, Catalogue, Descriptor};
use crate::definition::{Connection, InputBinding, Problems, ValidationError};
use crate::execution::id_bounds::short;
use crate::execution::outcomes::{OutcomeReader, outcomes};
use crate::execution::program::Program;

/// How many connections are followed for the joins of a flowchart, which bounds the time.
const MOST_STEPS: usize = 5_000_000;

/// The types of this engine, as they are without a program's own.
static STANDARD: LazyLock<Catalogue> = LazyLock::new(Catalogue::standard);

/// Whether two types of one name have their outcomes from the same facts: a designer may see other texts of each.
fn has_same_outcomes(one: &Descriptor, other: &Descriptor) -> bool {
    let names = |it: &Descriptor| {
        it.inputs
            .iter()
            .map(|input| input.name.clone())
            .collect::<Vec<String>>()
    };
    one.outcomes == other.outcomes && one.ports == other.ports && names(one) == names(other)
}

pub(super) fn warn(program: &Program, node: &ActivityNode, warnings: &mut Problems) {
    let children = node.activities.iter().filter_map(|index| program.tree.get(*index));
    let chart = Chart {
        program,
        node,
        children: children.map(|child| (child.id.as_str(), child)).collect(),
    };
    chart.ends(warnings);
    if node.connections.is_empty() {
        return;
    }
    chart.ports(warnings);
    chart.triggers(warnings);
    chart.joins(warnings);
}

struct Chart<'p> {
    program: &'p Program,
    node: &'p ActivityNode,
    children: HashMap<&'p str, &'p ActivityNode>,
}

impl<'p> Chart<'p> {
    /// Connections to or from what is not in the flowchart: Elsa drops them, too.
    fn ends(&self, warnings: &mut Problems) {
        for Connection { source, target } in &self.node.connections {
            for (end, activity) in [("comes from", &source.activity), ("leads to", &target.activity)] {
                if warnings.is_full() {
                    return;
                }
                if !self.children.contains_key(activity.as_str()) {
                    let shown = if activity.is_empty() {
                        "nothing".into()
                    } else {
                        short(activity)
                    };
                    let message = format!(
                        "A connection of the flowchart {} {end} {shown}, which is not one of its activities, so it is dropped",
                        self.node.title()
                    );
                    warnings.push(ValidationError::of(&self.node.id, message));
                }
            }
        }
    }

    /// Connections from a port that the activity does not have.
    fn ports(&self, warnings: &mut Problems) {
        let mut known: HashMap<&str, Option<Vec<String>>> = HashMap::new();
        for Connection { source, target } in &self.node.connections {
            if warnings.is_full() {
                return;
            }
            let Some(from) = self.children.get(source.activity.as_str()) else {
                continue;
            };
            let outcomes = known.entry(from.id.as_str()).or_insert_with(|| self.outcomes(from));
            let Some(outcomes) = outcomes.as_ref().filter(|outcomes| !outcomes.contains(&source.port)) else {
                continue;
            };
            let message = format!(
                "The connection from {} to {} begins at the port {}, which {} does not have, so nothing follows it; its ports are {}",
                from.title(),
                self.children
                    .get(target.activity.as_str())
                    .map_or_else(|| short(&target.activity), |to| to.title().with_id().to_string()),
                source.port,
                from.title().without_type(),
                outcomes.join(", ")
            );
            warnings.push(ValidationError::of(&from.id, message));
        }
    }

    /// The outcomes that an activity can have; `None` where it can have any.
    fn outcomes(&self, child: &ActivityNode) -> Option<Vec<String>> {
        let descriptor = self.program.descriptor(child.index)?;
        // An activity of a program may have outcomes that it does not declare, a script sets its own, and the workflow itself
        // has those of its root.
        let standard = STANDARD.descriptor(&child.type_name, child.version);
        let is_ours = standard.is_some_and(|standard| has_same_outcomes(standard, descriptor));
        if !is_ours || child.type_name.starts_with("Elsa.Run") || child.type_name == "Elsa.Workflow" {
            return None;
        }
        outcomes(descriptor, |name| child.property(name), OutcomeReader::Engine)
    }

    /// Triggers from which no connection leads: an instance that begins there does nothing else.
    fn triggers(&self, warnings: &mut Problems) {
        if self.children.len() < 2 {
            return;
        }
        let sources = self
            .node
            .connections
            .iter()
            .map(|connection| connection.source.activity.as_str());
        let sources: HashSet<&str> = sources.collect();
        for index in &self.node.activities {
            let Some(child) = self.program.tree.get(*index).filter(|child| child.can_start) else {
                continue;
            };
            let descriptor = self.program.descriptor(child.index);
            let is_trigger = descriptor.is_some_and(|descriptor| descriptor.kind == ActivityKind::Trigger);
            if is_trigger && !sources.contains(child.id.as_str()) && !warnings.is_full() {
                let message = format!(
                    "The trigger {} starts instances, but no connection leads from it, so they do nothing else; connect it, or \
                     clear canStartWorkflow",
                    child.title()
                );
                warnings.push(ValidationError::of(&child.id, message));
            }
        }
    }

    /// Joins that wait for all of their inputs, of which each outcome of a decision leaves one out. Ways back do not count: a join
    /// does not wait for them, and a decision that runs again may have another outcome.
    fn joins(&self, warnings: &mut Problems) {
        let mut joins: Vec<usize> = Vec::new();
        let activities: Vec<&ActivityNode> = self.own_activities().collect();
        joins.extend((0..activities.len()).filter(|at| activities.get(*at).is_some_and(|child| waits_for_all(child))));
        if joins.is_empty() {
            return;
        }
        let edges = Edges::of(&activities, &self.node.connections);
        let mut budget = MOST_STEPS;
        for (at, decision) in activities.iter().enumerate().filter(|(_, child)| is_exclusive(child)) {
            let Some(outcomes) = self.outcomes(decision) else {
                continue;
            };
            let cost = (outcomes.len() + 1) * (activities.len() + edges.all.len()) + joins.len() * edges.all.len();
            let Some(left) = budget.checked_sub(cost) else { return };
            budget = left;
            let is_repeated = edges.inbound(at).count() > 1 || edges.reached([at], None).get(at) == Some(&true);
            if is_repeated {
                continue;
            }
            let begins = edges.begins(&activities);
            let reached: Vec<(String, Vec<bool>)> = outcomes
                .into_iter()
                .map(|outcome| {
                    let reached = edges.reached(begins.iter().copied(), Some((at, &outcome)));
                    (outcome, reached)
                })
                .collect();
            joins.retain(|join| {
                let behind = edges.reached([*join], None);
                let inputs: Vec<&Edge<'_>> = edges
                    .inbound(*join)
                    .filter(|edge| edge.source != *join && behind.get(edge.source) != Some(&true))
                    .collect();
                let comes = |edge: &Edge<'_>, outcome: &str, reached: &[bool]| {
                    reached.get(edge.source) == Some(&true) && (edge.source != at || edge.port == outcome)
                };
                let is_never = inputs.len() > 1
                    && reached.iter().all(|(outcome, reached)| !inputs.iter().all(|edge| comes(edge, outcome, reached)))
                    && inputs.iter().all(|edge| reached.iter().any(|(outcome, reached)| comes(edge, outcome, reached)));
                if let Some(join) = activities.get(*join).filter(|_| is_never) {
                    let message = format!(
                        "The join {} waits for all of its inputs, but each outcome of {} leaves one of them out, so what follows the \
                         join never runs; set its mode to WaitAllActive or WaitAny",
                        join.title(),
                        decision.title().with_id()
                    );
                    warnings.push(ValidationError::of(&join.id, message));
                }
                !is_never
            });
        }
    }

    fn own_activities(&self) -> impl Iterator<Item = &'p ActivityNode> {
        let (tree, activities) = (&self.program.tree, &self.node.activities);
        activities.iter().filter_map(|index| tree.get(*index))
    }
}

/// A connection between two activities, by their places in the flowchart.
struct Edge<'p> {
    source: usize,
    port: &'p str,
    target: usize,
}

/// The connections of a flowchart.
struct Edges<'p> {
    all: Vec<Edge<'p>>,
    from: Vec<Vec<usize>>,
    to: Vec<Vec<usize>>,
}

impl<'p> Edges<'p> {
    fn of(activities: &[&ActivityNode], connections: &'p [Connection]) -> Self {
        let places = activities.iter().enumerate().rev();
        let places: HashMap<&str, usize> = places.map(|(at, child)| (child.id.as_str(), at)).collect();
        let mut edges = Self {
            all: Vec::with_capacity(connections.len()),
            from: vec![Vec::new(); activities.len()],
            to: vec![Vec::new(); activities.len()],
        };
        for Connection { source, target } in connections {
            let ends = (
                places.get(source.activity.as_str()),
                places.get(target.activity.as_str()),
            );
            let (Some(from), Some(to)) = ends else { continue };
            let number = edges.all.len();
            if let (Some(outbound), Some(inbound)) = (edges.from.get_mut(*from), edges.to.get_mut(*to)) {
                outbound.push(number);
                inbound.push(number);
            }
            edges.all.push(Edge {
                source: *from,
                port: &source.port,
                target: *to,
            });
        }
        edges
    }

    fn inbound(&self, at: usize) -> impl Iterator<Item = &Edge<'p>> {
        self.to
            .get(at)
            .into_iter()
            .flatten()
            .filter_map(|number| self.all.get(*number))
    }

    /// Where a run can begin.
    fn begins(&self, activities: &[&ActivityNode]) -> Vec<usize> {
        let begins = |(at, child): &(usize, &&ActivityNode)| {
            child.can_start || child.is_start || self.to.get(*at).is_some_and(Vec::is_empty)
        };
        activities.iter().enumerate().filter(begins).map(|(at, _)| at).collect()
    }

    /// What can be reached from these, over one connection at least or as one that begins, if this activity has this outcome alone.
    fn reached(&self, from: impl IntoIterator<Item = usize>, only: Option<(usize, &str)>) -> Vec<bool> {
        let mut reached = vec![false; self.from.len()];
        let mut pending: Vec<usize> = from.into_iter().collect();
        if only.is_some() {
            for at in &pending {
                if let Some(reached) = reached.get_mut(*at) {
                    *reached = true;
                }
            }
        }
        while let Some(at) = pending.pop() {
            for edge in self
                .from
                .get(at)
                .into_iter()
                .flatten()
                .filter_map(|number| self.all.get(*number))
            {
                if only.is_some_and(|(activity, outcome)| edge.source == activity && edge.port != outcome) {
                    continue;
                }
                if let Some(reached) = reached.get_mut(edge.target)
                    && !std::mem::replace(reached, true)
                {
                    pending.push(edge.target);
                }
            }
        }
        reached
    }
}

/// The literal value of an input, as the words and numbers of a mode are written.
fn mode(node: &ActivityNode) -> Option<Value> {
    InputBinding::parse(node.property("mode"))?
        .expression
        .map(|expression| expression.value)
}

fn waits_for_all(node: &ActivityNode) -> bool {
    node.type_name == "Elsa.FlowJoin"
        && mode(node)
            .is_some_and(|mode| mode == 0 || mode.as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("WaitAll")))
}

/// Whether it has one outcome of several.
fn is_exclusive(node: &ActivityNode) -> bool {
    match node.type_name.as_str() {
        "Elsa.FlowDecision" => true,
        "Elsa.FlowSwitch" => mode(node).is_none_or(|mode| mode != 1 && mode != "MatchAny"),
        _ => false,
    }
}
