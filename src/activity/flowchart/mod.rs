//! `Elsa.Flowchart`: activities joined by connections.
//!
//! It runs with counts, which are here, or with [`tokens`]; the workflow or the engine says which ([`FlowchartMode`]).
//!
//! With counts: when a child completes, each of its outbound connections is *passed*: followed, if its port is among the
//! outcomes, or not followed. Then the target of each forward connection is decided: due, skipped (all its inbound connections
//! passed and none followed; its outbound connections are passed in turn, not followed), or not yet decided. A back connection
//! that is followed schedules its target at once. Invariants, tested with random graphs:
//!
//! - Without a loop no activity runs twice.
//! - The flowchart completes when no child is running, scheduled or about to report, so every run ends or waits.
//!
//! Skipping uses a list instead of recursion: a chain of ten thousand activities needs no stack.

mod directions;
mod graph;
mod modes;
mod nodes;
mod scope;
mod tokens;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use directions::Direction;
use graph::{FlowConnection, FlowConnections, FlowGraph};
pub use modes::FlowchartMode;
pub(crate) use modes::MergeMode;
pub(super) use nodes::{End, FlowDecision, FlowFork, FlowJoin, FlowNode, Start};
use nodes::{JOIN, JoinMode};
use scope::{FlowScope, FlowTarget};

use super::{Activity, ActivityContext, ChildStatus, Descriptor, EndedChild, Fault, NodeIndex, Step};
use crate::shortened::shortened;

const SCOPE: &str = "FlowScope";

/// What is derived from the definition of a flowchart, once.
#[derive(Debug)]
struct Chart {
    /// Its activities, by id.
    by_id: HashMap<String, NodeIndex>,
    /// Where it begins unless a trigger has started the instance.
    start: Option<NodeIndex>,
    connections: Arc<FlowConnections>,
    /// Its graphs by start: a trigger makes its own activity the start.
    graphs: Mutex<BTreeMap<NodeIndex, Arc<FlowGraph>>>,
}

/// How many inputs the entry of a skipped join names.
const NAMED: usize = 10;

/// The most characters of a port in such an entry.
const LONGEST_PORT: usize = 80;

/// The maximum number of graphs that are kept of one flowchart.
const MOST_GRAPHS: usize = 16;

#[derive(Debug)]
pub(super) struct Flowchart;

impl Activity for Flowchart {
    fn descriptor(&self) -> Descriptor {
        Descriptor::new("Elsa.Flowchart")
            .describe("Flow", "Activities and the connections between them.")
            .container()
    }

    async fn execute(&self, context: &mut ActivityContext<'_>) -> Result<Step, Fault> {
        match chart_of(context).start_of(context) {
            Some(start) => {
                if context.flowchart_mode == FlowchartMode::Token {
                    tokens::begin(context);
                }
                context.schedule(start);
                Ok(Step::Wait)
            }
            None => Ok(Step::Done),
        }
    }

    async fn child_completed(&self, context: &mut ActivityContext<'_>, child: EndedChild) -> Result<Step, Fault> {
        let Some(node) = context.find(child.index) else {
            return Ok(Step::Done);
        };
        if node.is_terminal || context.is_breaking() {
            return Ok(Step::Done);
        }
        let graph = graph_of(context);
        if tokens::is_in_use(context) {
            tokens::child_completed(context, &graph, child.index, &child.outcomes).await?;
            return Ok(done_or_waiting(context));
        }
        if node.type_name == JOIN {
            // Ancestors that are still running are cancelled: the join did not wait for them. After a join that waits
            // there are none.
            cancel_ancestors(context, &graph, child.index);
        }
        let is_loop_back = child
            .tag
            .as_ref()
            .is_some_and(|tag| tag.get("back") == Some(&Value::Bool(true)));
        propagate(context, &graph, child.index, &child.outcomes, is_loop_back).await?;
        Ok(done_or_waiting(context))
    }

    async fn child_cancelled(&self, context: &mut ActivityContext<'_>, child: EndedChild) -> Result<Step, Fault> {
        let graph = graph_of(context);
        if tokens::is_in_use(context) {
            tokens::child_cancelled(context, &graph, child.index);
            return Ok(done_or_waiting(context));
        }
        // A cancelled activity counts as skipped, so that later joins do not wait for it.
        if graph.is_reachable(child.index) {
            propagate(context, &graph, child.index, &[], false).await?;
        }
        Ok(done_or_waiting(context))
    }
}

fn done_or_waiting(context: &ActivityContext<'_>) -> Step {
    // A faulted child keeps the flowchart open, because it can be retried.
    let is_busy = context.children().next().is_some() || context.pending_notifications > 0;
    if is_busy { Step::Wait } else { Step::Done }
}

/// Passes the outbound connections of an activity, and those of each activity that is skipped because of it.
async fn propagate(
    context: &mut ActivityContext<'_>,
    graph: &FlowGraph,
    from: NodeIndex,
    outcomes: &[String],
    is_loop_back: bool,
) -> Result<(), Fault> {
    if !graph.is_reachable(from) {
        return Err(Fault::new(format!(
            "The activity {} cannot be reached from the start of the flowchart",
            title_of(context, from)
        )));
    }
    let mut scope = FlowScope::take(context, graph, SCOPE);
    // An execution through a back connection does not count as a visit, or later connections would seem late.
    if !is_loop_back {
        scope.visit(target_of(context, from).id);
    }
    // Connections to pass, the next one last. Only those of the completed activity can be followed.
    let mut pending: Vec<(usize, bool)> = Vec::new();
    pass_outbound(&mut pending, graph, from, true);
    while let Some((position, may_be_followed)) = pending.pop() {
        let Some(connection) = graph.connection(position) else {
            continue;
        };
        let followed = may_be_followed && outcomes.contains(&connection.port);
        scope.pass(connection, followed);
        let target = target_of(context, connection.target);
        match graph.direction(position) {
            Direction::Forward => match decide_join(context, graph, &scope, (position, connection), target).await? {
                JoinDecision::Due { cancel } => {
                    context.schedule(target.index);
                    if cancel {
                        cancel_ancestors(context, graph, target.index);
                    }
                }
                JoinDecision::Skip => {
                    if scope.any_followed(graph, target) {
                        // The run ends before what stands behind it.
                        context.skip(target.index, reason_of_skip(context, graph, &scope, target));
                    }
                    scope.visit(target.id);
                    pass_outbound(&mut pending, graph, target.index, false);
                }
                JoinDecision::NotYet => {}
            },
            Direction::Back if followed => {
                context.schedule_with(target.index, serde_json::Map::new(), Some(json!({"back": true})));
            }
            Direction::InvalidBack if followed => {
                return Err(Fault::new(format!(
                    "The connection from {} back to {} enters a loop in its middle: every path from the start to the \
                     former must pass through the latter",
                    title_of(context, connection.source),
                    title_of(context, target.index)
                )));
            }
            Direction::Back | Direction::InvalidBack | Direction::Unreachable => {}
        }
    }
    context.properties.insert(SCOPE.to_owned(), scope.write());
    Ok(())
}

/// Which inputs of a join did not arrive, a few of them by name.
fn reason_of_skip(
    context: &ActivityContext<'_>,
    graph: &FlowGraph,
    scope: &FlowScope,
    target: FlowTarget<'_>,
) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut others = 0;
    for (connection, has_another) in scope.missing(graph, target) {
        let source = title_of(context, connection.source);
        let name = if has_another {
            format!("the port {} of {source}", shortened(&connection.port, LONGEST_PORT))
        } else {
            source
        };
        if names.len() < NAMED {
            if !names.contains(&name) {
                names.push(name);
            }
        } else {
            others += 1;
        }
    }
    let more = if others > 0 {
        format!(" and {others} more connections")
    } else {
        String::new()
    };
    format!(
        "It waits for all of its inputs, and nothing came from {}{more}",
        names.join(", ")
    )
}

fn target_of<'a>(context: &ActivityContext<'a>, index: NodeIndex) -> FlowTarget<'a> {
    let id = context.find(index).map_or("", super::ActivityNode::id);
    FlowTarget { index, id }
}

/// How a message names an activity of the flowchart, which is not the one that the message belongs to.
fn title_of(context: &ActivityContext<'_>, index: NodeIndex) -> String {
    let node = context.find(index);
    node.map(|node| node.title().with_id().to_string()).unwrap_or_default()
}

fn pass_outbound(pending: &mut Vec<(usize, bool)>, graph: &FlowGraph, source: NodeIndex, may_be_followed: bool) {
    pending.extend(
        graph
            .outbound(source)
            .iter()
            .rev()
            .map(|position| (*position, may_be_followed)),
    );
}

enum JoinDecision {
    Due { cancel: bool },
    Skip,
    NotYet,
}

async fn decide_join(
    context: &mut ActivityContext<'_>,
    graph: &FlowGraph,
    scope: &FlowScope,
    (position, connection): (usize, &FlowConnection),
    target: FlowTarget<'_>,
) -> Result<JoinDecision, Fault> {
    let mode = match context.find(target.index) {
        Some(node) if node.type_name == JOIN => JoinMode::read(&context.evaluate_input_of(node, "Mode").await?)?,
        _ => JoinMode::AllActive,
    };
    let decision = match mode {
        JoinMode::All if !scope.all_passed(graph, target, position) => JoinDecision::NotYet,
        JoinMode::All if scope.all_followed(graph, target) => JoinDecision::Due { cancel: false },
        JoinMode::AllActive if !scope.all_passed(graph, target, position) => JoinDecision::NotYet,
        JoinMode::AllActive if scope.any_followed(graph, target) => JoinDecision::Due { cancel: false },
        JoinMode::All | JoinMode::AllActive => JoinDecision::Skip,
        JoinMode::Any => {
            // Scheduled, running or already executed in this round: a late connection changes nothing.
            let is_open = context
                .children()
                .any(|child| child.index == target.index && child.status != ChildStatus::Faulted);
            if is_open || scope.is_late(connection, target) {
                JoinDecision::NotYet
            } else if scope.any_followed(graph, target) {
                JoinDecision::Due { cancel: true }
            } else if scope.all_passed(graph, target, position) {
                JoinDecision::Skip
            } else {
                JoinDecision::NotYet
            }
        }
    };
    Ok(decision)
}

fn cancel_ancestors(context: &mut ActivityContext<'_>, graph: &FlowGraph, activity: NodeIndex) {
    let running = context.children().filter(|child| child.status == ChildStatus::Running);
    let running: Vec<NodeIndex> = running.map(|child| child.index).collect();
    if running.is_empty() {
        return;
    }
    let ancestors = graph.ancestors(activity);
    for child in running.into_iter().filter(|child| ancestors.contains(child)) {
        context.cancel(child);
    }
}

fn graph_of(context: &ActivityContext<'_>) -> Arc<FlowGraph> {
    let chart = chart_of(context);
    // A flowchart without activities schedules no child, so its graph is never used.
    let start = chart.start_of(context).unwrap_or(context.node().index());
    let graphs = || chart.graphs.lock().unwrap_or_else(PoisonError::into_inner);
    let found = graphs().get(&start).map(Arc::clone);
    if let Some(graph) = found {
        return graph;
    }
    // Outside of the lock, which the bursts of all instances take.
    let graph = Arc::new(FlowGraph::new(Arc::clone(&chart.connections), start));
    let mut graphs = graphs();
    if graphs.len() >= MOST_GRAPHS {
        graphs.clear();
    }
    Arc::clone(graphs.entry(start).or_insert(graph))
}

fn chart_of(context: &ActivityContext<'_>) -> Arc<Chart> {
    context.node().cached(|| Chart::of(context))
}

impl Chart {
    fn of(context: &ActivityContext<'_>) -> Self {
        // Reversed, so that the first of two activities with one id is found.
        let activities = context.activities().iter().rev();
        let by_id = activities.filter_map(|index| Some((context.find(*index)?.id().to_owned(), *index)));
        let by_id: HashMap<String, NodeIndex> = by_id.collect();
        let end = |id: &str| by_id.get(id).copied();
        let connections = context.node().connections().iter().filter_map(|connection| {
            let (source, target) = (end(&connection.source.activity)?, end(&connection.target.activity)?);
            Some((source, target, connection))
        });
        Self {
            connections: Arc::new(FlowConnections::of(connections)),
            start: default_start(context, &by_id),
            by_id,
            graphs: Mutex::default(),
        }
    }

    /// Where the flowchart begins: the activity that started the instance, if it is one of its own.
    fn start_of(&self, context: &ActivityContext<'_>) -> Option<NodeIndex> {
        let trigger = context.trigger_activity_id.and_then(|id| self.by_id.get(id));
        trigger.copied().or(self.start)
    }
}

/// Where a flowchart begins otherwise: the activity named `start`, an `Elsa.Start`, one that can start workflows, one without
/// an inbound connection, the first.
fn default_start(context: &ActivityContext<'_>, by_id: &HashMap<String, NodeIndex>) -> Option<NodeIndex> {
    let activities = context.activities();
    let first = |accepts: &dyn Fn(&super::ActivityNode) -> bool| {
        let mut activities = activities.iter().copied();
        activities.find(|index| context.find(*index).is_some_and(accepts))
    };
    let named = match context.node().property("start") {
        Some(Value::String(id)) => Some(id.as_str()),
        Some(Value::Object(activity)) => activity.get("id").and_then(Value::as_str),
        _ => None,
    };
    let without_inbound = || {
        let connections = context.node().connections().iter();
        let targets: HashSet<&str> = connections
            .map(|connection| connection.target.activity.as_str())
            .collect();
        first(&|node| !targets.contains(node.id()))
    };
    named
        .and_then(|id| by_id.get(id).copied())
        .or_else(|| first(&|node| node.is_start))
        .or_else(|| first(&|node| node.can_start))
        .or_else(without_inbound)
        .or_else(|| activities.first().copied())
}
