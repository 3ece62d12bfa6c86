//! A flowchart with tokens.
//!
//! When a child completes, each of its connections whose port is among the outcomes gets a *token*, and the tokens that led
//! to the child are consumed. Then the merge mode of each target decides whether it is due. A *block* on a connection lets
//! its next token end there, because the target has run for another one. What nothing can complete any more (a merge that
//! misses a path) does not keep the flowchart open: it ends when no child is left.
//!
//! Tokens and blocks are counts by connection in the flowchart's properties, `{"t": {connection: count}, "b": {…}}`, so that
//! they are bounded by the definition. They are moved out and back for each call, never copied.

use serde_json::{Map, Value};

use super::graph::FlowGraph;
use super::modes::MergeMode;
use super::nodes::{JOIN, JoinMode};
use crate::activity::{ActivityContext, Child, ChildStatus, Fault, NodeIndex};

/// The property that holds the tokens. A flowchart that has it runs with tokens until its end, whatever the setting of the
/// node that it goes on at.
const TOKENS: &str = "FlowTokens";

/// Makes a flowchart that begins run with tokens.
pub(super) fn begin(context: &mut ActivityContext<'_>) {
    Tokens::default().write(context);
}

/// Whether a flowchart runs with tokens.
pub(super) fn is_in_use(context: &ActivityContext<'_>) -> bool {
    context.properties.contains_key(TOKENS)
}

/// Moves the tokens after a child has completed, and schedules what is due.
pub(super) async fn child_completed(
    context: &mut ActivityContext<'_>,
    graph: &FlowGraph,
    child: NodeIndex,
    outcomes: &[String],
) -> Result<(), Fault> {
    let is_race = merge_mode(context, child).await? == MergeMode::Race;
    let mut tokens = Tokens::read(context);
    if is_race {
        // What was scheduled before the race was won has begun in the meantime.
        cancel_ancestors(context, graph, child);
        // With nothing left that could come late, the next round is a race of its own.
        let ancestors = graph.ancestors(child);
        let is_late = |other: Child| other.status == ChildStatus::Scheduled && ancestors.contains(&other.index);
        if !context.children().any(is_late) {
            for position in graph.inbound(child) {
                tokens.clear_blocks(*position);
            }
        }
    }
    let mut passed = Vec::new();
    for (position, connection) in graph.at(graph.outbound(child)) {
        if outcomes.contains(&connection.port) {
            tokens.add(position);
            passed.push((position, connection.target));
        }
    }
    for position in graph.all_inbound(child) {
        tokens.consume(*position);
    }
    // Two connections from one source are one arrival, except in a cascade.
    let mut scheduled: Vec<NodeIndex> = Vec::new();
    for (position, target) in passed {
        let mode = merge_mode(context, target).await?;
        if mode != MergeMode::Cascade && scheduled.contains(&target) {
            continue;
        }
        if is_due(context, graph, &mut tokens, mode, position, child, target) {
            context.schedule(target);
            scheduled.push(target);
        }
    }
    tokens.write(context);
    Ok(())
}

/// Removes the tokens from and to a cancelled child: what waits for it is no longer held up by it.
pub(super) fn child_cancelled(context: &mut ActivityContext<'_>, graph: &FlowGraph, child: NodeIndex) {
    let mut tokens = Tokens::read(context);
    for position in graph.outbound(child).iter().chain(graph.all_inbound(child)) {
        tokens.clear(*position);
    }
    tokens.write(context);
}

fn is_due(
    context: &mut ActivityContext<'_>,
    graph: &FlowGraph,
    tokens: &mut Tokens,
    mode: MergeMode,
    position: usize,
    from: NodeIndex,
    target: NodeIndex,
) -> bool {
    match mode {
        MergeMode::Stream => {
            let mut sources = graph.at(graph.inbound(target)).map(|(_, connection)| connection.source);
            !sources.any(|source| graph.all_inbound(source).iter().any(|position| tokens.has(*position)))
        }
        // With a single connection, the first token is all of them.
        MergeMode::Merge => {
            let all = graph.inbound(target);
            all.len() <= 1 || all.iter().all(|position| tokens.has(*position))
        }
        MergeMode::Converge => {
            let all = graph.all_inbound(target);
            all.len() <= 1 || all.iter().all(|position| tokens.has(*position))
        }
        MergeMode::Cascade | MergeMode::Race => {
            if mode == MergeMode::Race {
                cancel_ancestors(context, graph, target);
            }
            if tokens.unblock(position) {
                tokens.consume_one(position);
                return false;
            }
            for (other, connection) in graph.at(graph.inbound(target)) {
                if connection.source != from {
                    tokens.block(other);
                }
            }
            true
        }
    }
}

/// The merge mode of an activity; that of a join follows from its own mode.
async fn merge_mode(context: &mut ActivityContext<'_>, activity: NodeIndex) -> Result<MergeMode, Fault> {
    let Some(node) = context.find(activity) else {
        return Ok(MergeMode::Stream);
    };
    if node.type_name == JOIN {
        return match JoinMode::read(&context.evaluate_input_of(node, "Mode").await?)? {
            JoinMode::Any => Ok(MergeMode::Race),
            JoinMode::All | JoinMode::AllActive => Ok(MergeMode::Merge),
        };
    }
    let custom = node.property("customProperties");
    Ok(MergeMode::read(
        custom.and_then(|custom| custom.get(MergeMode::PROPERTY)),
    ))
}

/// Cancels what is open before an activity. A child that has faulted could be retried; after a lost race there is no use.
fn cancel_ancestors(context: &mut ActivityContext<'_>, graph: &FlowGraph, activity: NodeIndex) {
    let ancestors = graph.ancestors(activity);
    let open = context
        .children()
        .filter(|child| child.status != ChildStatus::Scheduled && ancestors.contains(&child.index));
    let open: Vec<NodeIndex> = open.map(|child| child.index).collect();
    for child in open {
        context.cancel(child);
    }
}

/// Counts by connection.
#[derive(Debug, Default)]
struct Tokens {
    free: Map<String, Value>,
    blocks: Map<String, Value>,
}

impl Tokens {
    fn read(context: &mut ActivityContext<'_>) -> Self {
        let Some(Value::Object(mut fields)) = context.properties.get_mut(TOKENS).map(Value::take) else {
            return Self::default();
        };
        let mut take = |name: &str| match fields.get_mut(name).map(Value::take) {
            Some(Value::Object(counts)) => counts,
            _ => Map::new(),
        };
        Self {
            free: take("t"),
            blocks: take("b"),
        }
    }

    fn write(self, context: &mut ActivityContext<'_>) {
        // The macro `json!` would copy them.
        let fields = [("t", self.free), ("b", self.blocks)];
        let written = fields.map(|(name, counts)| (name.to_owned(), Value::Object(counts)));
        context
            .properties
            .insert(TOKENS.to_owned(), Value::Object(Map::from_iter(written)));
    }

    fn has(&self, connection: usize) -> bool {
        !self.free.is_empty() && self.free.contains_key(&connection.to_string())
    }

    fn add(&mut self, connection: usize) {
        increase(&mut self.free, connection);
    }

    fn consume(&mut self, connection: usize) {
        if !self.free.is_empty() {
            self.free.swap_remove(&connection.to_string());
        }
    }

    fn consume_one(&mut self, connection: usize) {
        decrease(&mut self.free, connection);
    }

    fn block(&mut self, connection: usize) {
        increase(&mut self.blocks, connection);
    }

    /// Takes a block away, if there is one.
    fn unblock(&mut self, connection: usize) -> bool {
        decrease(&mut self.blocks, connection)
    }

    fn clear_blocks(&mut self, connection: usize) {
        if !self.blocks.is_empty() {
            self.blocks.swap_remove(&connection.to_string());
        }
    }

    fn clear(&mut self, connection: usize) {
        self.consume(connection);
        self.clear_blocks(connection);
    }
}

fn increase(counts: &mut Map<String, Value>, connection: usize) {
    let count = counts.entry(connection.to_string()).or_insert(Value::Null);
    *count = count.as_u64().unwrap_or(0).saturating_add(1).into();
}

fn decrease(counts: &mut Map<String, Value>, connection: usize) -> bool {
    let key = connection.to_string();
    let Some(count) = counts.get_mut(&key) else {
        return false;
    };
    match count.as_u64() {
        Some(more) if more > 1 => *count = (more - 1).into(),
        _ => drop(counts.swap_remove(&key)),
    }
    true
}
