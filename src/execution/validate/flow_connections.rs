//! Connections of a flowchart that nothing follows, and what they keep from running. As in Elsa they are accepted, and only
//! warned of.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::activity::{ActivityKind, ActivityNode, CASES, UiHint, camel_case};
use crate::definition::{Connection, InputBinding, Problems, ValidationError};
use crate::execution::program::Program;

/// The outcome of an activity without other outcomes.
const DONE: &str = "Done";

/// The outcome of a switch when no case matches.
const DEFAULT: &str = "Default";

/// The most decisions of a flowchart whose joins are followed, which bounds the time.
const DECISIONS: usize = 50;

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
                    let shown = if activity.is_empty() { "nothing" } else { activity };
                    let message = format!(
                        "A connection of the flowchart {} {end} {shown}, which is not one of its activities, so it is dropped",
                        self.node.id
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
                from.id,
                target.activity,
                source.port,
                from.id,
                outcomes.join(", ")
            );
            warnings.push(ValidationError::of(&from.id, message));
        }
    }

    /// The outcomes that an activity can have; `None` where it can have any.
    fn outcomes(&self, child: &ActivityNode) -> Option<Vec<String>> {
        let descriptor = self.program.descriptor(child.index)?;
        let is_ours = ["Elsa.", "Mainspring."]
            .iter()
            .any(|prefix| child.type_name.starts_with(prefix));
        // A script sets outcomes of its own.
        if !is_ours || child.type_name.starts_with("Elsa.Run") {
            return None;
        }
        let named = descriptor.inputs.iter().find_map(|input| match &input.ui_hint {
            UiHint::DynamicOutcomes(fixed) => Some((camel_case(&input.name), fixed)),
            _ => None,
        });
        let mut outcomes = if let Some((property, fixed)) = named {
            let mut outcomes = texts(child.property(&property))?;
            outcomes.extend(fixed.iter().cloned());
            outcomes
        } else if descriptor.has_cases && descriptor.ports.is_empty() {
            let cases = child.property(CASES).and_then(Value::as_array).into_iter().flatten();
            let labels = cases.filter_map(|case| case.get("label")?.as_str());
            labels.chain([DEFAULT]).map(str::to_owned).collect()
        } else {
            descriptor.outcomes.clone()
        };
        if outcomes.is_empty() && !descriptor.is_terminal {
            outcomes.push(DONE.to_owned());
        }
        Some(outcomes)
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
                    child.id
                );
                warnings.push(ValidationError::of(&child.id, message));
            }
        }
    }

    /// Joins that wait for all of their inputs, of which each outcome of a decision leaves one out.
    fn joins(&self, warnings: &mut Problems) {
        let joins = self.children.values().filter(|child| waits_for_all(child));
        let mut joins: Vec<&ActivityNode> = joins.copied().collect();
        if joins.is_empty() {
            return;
        }
        joins.sort_by_key(|join| join.index.0);
        let decisions = self
            .node
            .activities
            .iter()
            .filter_map(|index| self.program.tree.get(*index));
        for decision in decisions.filter(|child| is_exclusive(child)).take(DECISIONS) {
            let Some(outcomes) = self.outcomes(decision) else {
                continue;
            };
            let reached: Vec<(String, HashSet<&str>)> = outcomes
                .into_iter()
                .map(|outcome| {
                    let reached = self.reached(Some((&decision.id, &outcome)));
                    (outcome, reached)
                })
                .collect();
            joins.retain(|join| {
                let inputs: Vec<&Connection> = self
                    .node
                    .connections
                    .iter()
                    .filter(|connection| connection.target.activity == join.id)
                    .filter(|connection| self.children.contains_key(connection.source.activity.as_str()))
                    .collect();
                let is_never = inputs.len() > 1
                    && reached.iter().all(|(outcome, reached)| {
                        inputs.iter().any(|Connection { source, .. }| {
                            let is_other = source.activity == decision.id && source.port != *outcome;
                            is_other || !reached.contains(source.activity.as_str())
                        })
                    })
                    // Each of them is reached by some outcome.
                    && inputs.iter().all(|Connection { source, .. }| {
                        reached.iter().any(|(_, reached)| reached.contains(source.activity.as_str()))
                    });
                if is_never {
                    let message = format!(
                        "The join {} waits for all of its inputs, but each outcome of {} leaves one of them out, so what follows the \
                         join never runs; set its mode to WaitAllActive or WaitAny",
                        join.id, decision.id
                    );
                    warnings.push(ValidationError::of(&join.id, message));
                }
                !is_never
            });
        }
    }

    /// The activities that are reached from the beginnings if this activity has this outcome alone.
    fn reached(&self, only: Option<(&str, &str)>) -> HashSet<&'p str> {
        let mut next: HashMap<&str, Vec<&'p str>> = HashMap::new();
        let mut targets: HashSet<&str> = HashSet::new();
        for Connection { source, target } in &self.node.connections {
            targets.insert(&target.activity);
            if only.is_none_or(|(activity, outcome)| source.activity != activity || source.port == outcome) {
                next.entry(&source.activity).or_default().push(&target.activity);
            }
        }
        let begins =
            |child: &&&'p ActivityNode| child.can_start || child.is_start || !targets.contains(child.id.as_str());
        let mut pending: Vec<&'p str> = self
            .children
            .values()
            .filter(begins)
            .map(|child| child.id.as_str())
            .collect();
        let mut reached: HashSet<&'p str> = pending.iter().copied().collect();
        while let Some(activity) = pending.pop() {
            for target in next.get(activity).into_iter().flatten() {
                if reached.insert(target) {
                    pending.push(target);
                }
            }
        }
        reached
    }
}

/// The texts of a list that is a literal; `None` for what is evaluated.
fn texts(property: Option<&Value>) -> Option<Vec<String>> {
    let list = |value: &Value| {
        let items = value.as_array()?.iter();
        Some(items.filter_map(Value::as_str).map(str::to_owned).collect())
    };
    let Some(property) = property.filter(|property| !property.is_null()) else {
        return Some(Vec::new());
    };
    if property.is_array() {
        return list(property);
    }
    let expression = InputBinding::parse(Some(property))?.expression?;
    match (&expression.value, expression.kind.as_str()) {
        (Value::String(text), "Object" | "Literal") => list(&serde_json::from_str(text).ok()?),
        (value, "Object" | "Literal") => list(value),
        _ => None,
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
