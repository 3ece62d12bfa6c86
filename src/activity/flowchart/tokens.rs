//! A flowchart with tokens.
//!
//! When a child completes, each of its connections whose port is among the outcomes gets a *token*, and the tokens that
//! led to the child are consumed. Then the merge mode of each target decides whether it is due. A *block* on a
//! connection consumes its next token, because the target has run for another one. An activity that can no longer
//! become due (a merge that misses a path) does not keep the flowchart open: it ends when no child is left.
//!
//! Tokens and blocks are counts by connection in the flowchart's properties, `{"tokens": {connection: count}, "blocks": {…}}`,
//! so that they are bounded by the definition. They are moved out and back for each call, never copied.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::graph::{FlowConnection, FlowGraph};
use super::modes::MergeMode;
use super::nodes::{JOIN, JoinMode};
use super::scope::{put, taken};
use crate::activity::{ActivityContext, ChildStatus, Fault, NodeIndex};

/// The property that holds the tokens. A flowchart that has it runs with tokens until its end, whatever the setting of
/// the node on which it continues.
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
    let mut tokens = Tokens::take(context, graph);
    if is_race {
        // What was scheduled before the race was won has begun in the meantime.
        cancel_ancestors(context, graph, child);
        clear_inbound_blocks(context, graph, child, &mut tokens);
    }
    let mut passed = Vec::new();
    for (_, connection) in graph.at(graph.outbound(child)) {
        if outcomes.contains(&connection.port) {
            tokens.add(connection);
            passed.push(connection);
        }
    }
    for (_, connection) in graph.at(graph.all_inbound(child)) {
        tokens.consume(connection);
    }
    // Two connections from one source are one arrival, except in a cascade.
    let mut scheduled: HashSet<NodeIndex> = HashSet::new();
    for connection in passed {
        let target = connection.target;
        let mode = merge_mode(context, target).await?;
        if mode != MergeMode::Cascade && scheduled.contains(&target) {
            continue;
        }
        if is_due(context, graph, &mut tokens, mode, connection) {
            context.schedule(target);
            scheduled.insert(target);
        }
    }
    tokens.write(context);
    Ok(())
}

/// Removes the tokens from and to a cancelled child: what waits for it is no longer held up by it.
pub(super) fn child_cancelled(context: &mut ActivityContext<'_>, graph: &FlowGraph, child: NodeIndex) {
    let mut tokens = Tokens::take(context, graph);
    for (_, connection) in graph.at(graph.outbound(child)) {
        tokens.consume(connection);
        tokens.clear_blocks(connection);
    }
    for (_, connection) in graph.at(graph.all_inbound(child)) {
        tokens.consume(connection);
    }
    clear_inbound_blocks(context, graph, child, &mut tokens);
    tokens.write(context);
}

/// When nothing is left that could come late to a child that ran, its next round is a race of its own.
fn clear_inbound_blocks(context: &ActivityContext<'_>, graph: &FlowGraph, child: NodeIndex, tokens: &mut Tokens) {
    let scheduled = context
        .children()
        .filter(|other| other.status == ChildStatus::Scheduled);
    let scheduled: HashSet<NodeIndex> = scheduled.map(|other| other.index).collect();
    if scheduled.is_empty() || graph.ancestors(child).is_disjoint(&scheduled) {
        for (_, connection) in graph.at(graph.all_inbound(child)) {
            tokens.clear_blocks(connection);
        }
    }
}

fn is_due(
    context: &mut ActivityContext<'_>,
    graph: &FlowGraph,
    tokens: &mut Tokens,
    mode: MergeMode,
    passed: &FlowConnection,
) -> bool {
    let (from, target) = (passed.source, passed.target);
    let all_have = |tokens: &Tokens, positions: &[usize]| {
        // With a single connection, the first token is all of them.
        positions.len() <= 1 || graph.at(positions).all(|(_, connection)| tokens.has(connection))
    };
    match mode {
        MergeMode::Stream => {
            let mut sources = graph.at(graph.inbound(target)).map(|(_, connection)| connection.source);
            let leads_here = |source| {
                graph
                    .at(graph.all_inbound(source))
                    .any(|(_, before)| tokens.has(before))
            };
            !sources.any(leads_here)
        }
        MergeMode::Merge => all_have(tokens, graph.inbound(target)),
        MergeMode::Converge => all_have(tokens, graph.all_inbound(target)),
        MergeMode::Cascade | MergeMode::Race => {
            if mode == MergeMode::Race {
                cancel_ancestors(context, graph, target);
            }
            if tokens.unblock(passed) {
                tokens.consume_one(passed);
                return false;
            }
            for (_, other) in graph.at(graph.inbound(target)) {
                if other.source != from {
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

/// Cancels what is open before an activity. A child that has faulted could be retried, which is useless after a lost
/// race.
fn cancel_ancestors(context: &mut ActivityContext<'_>, graph: &FlowGraph, activity: NodeIndex) {
    let open = context
        .children()
        .filter(|child| child.status != ChildStatus::Scheduled);
    let open: Vec<NodeIndex> = open.map(|child| child.index).collect();
    if open.is_empty() {
        return;
    }
    let ancestors = graph.ancestors(activity);
    for child in open.into_iter().filter(|child| ancestors.contains(child)) {
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
    fn take(context: &mut ActivityContext<'_>, graph: &FlowGraph) -> Self {
        let Some(Value::Object(mut fields)) = context.properties.get_mut(TOKENS).map(Value::take) else {
            return Self::default();
        };
        // As they were written before: by places in the definition.
        if fields.contains_key("t") || fields.contains_key("b") {
            return Self {
                free: graph.by_key(taken(&mut fields, "t")),
                blocks: graph.by_key(taken(&mut fields, "b")),
            };
        }
        Self {
            free: taken(&mut fields, "tokens"),
            blocks: taken(&mut fields, "blocks"),
        }
    }

    fn write(self, context: &mut ActivityContext<'_>) {
        // The macro `json!` would copy them.
        let fields = [("tokens", self.free), ("blocks", self.blocks)];
        let written = fields.map(|(name, counts)| (name.to_owned(), Value::Object(counts)));
        context
            .properties
            .insert(TOKENS.to_owned(), Value::Object(Map::from_iter(written)));
    }

    fn has(&self, connection: &FlowConnection) -> bool {
        !self.free.is_empty() && self.free.contains_key(&connection.key)
    }

    fn add(&mut self, connection: &FlowConnection) {
        increase(&mut self.free, connection);
    }

    fn consume(&mut self, connection: &FlowConnection) {
        if !self.free.is_empty() {
            self.free.swap_remove(&connection.key);
        }
    }

    fn consume_one(&mut self, connection: &FlowConnection) {
        decrease(&mut self.free, connection);
    }

    fn block(&mut self, connection: &FlowConnection) {
        increase(&mut self.blocks, connection);
    }

    /// Takes a block away, if there is one.
    fn unblock(&mut self, connection: &FlowConnection) -> bool {
        decrease(&mut self.blocks, connection)
    }

    fn clear_blocks(&mut self, connection: &FlowConnection) {
        if !self.blocks.is_empty() {
            self.blocks.swap_remove(&connection.key);
        }
    }
}

fn increase(counts: &mut Map<String, Value>, connection: &FlowConnection) {
    let more = counts
        .get(&connection.key)
        .and_then(Value::as_u64)
        .unwrap_or(0)
        .saturating_add(1);
    put(counts, &connection.key, more.into());
}

fn decrease(counts: &mut Map<String, Value>, connection: &FlowConnection) -> bool {
    let Some(count) = counts.get_mut(&connection.key) else {
        return false;
    };
    match count.as_u64() {
        Some(more) if more > 1 => *count = (more - 1).into(),
        _ => drop(counts.swap_remove(&connection.key)),
    }
    true
}
