//! The trace of a run, burst by burst.
//!
//! A row that a caller of a sampled or unsampled trace has set off names that trace; so does the start of a child. Any node that
//! claims the row continues it. Without such a row a burst that follows a yield continues the trace of its instance, and any
//! other one begins a trace, with a link to the last one that was sampled: the state has that, and nothing of others.

use crate::execution::InstanceState;
use crate::runtime::context::node_context::NodeContext;
use crate::store::claim::{ClaimedRow, InstanceKey};
use crate::store::code::WorkKind;
use crate::store::commit::DefinitionRef;
use crate::trace::{ClaimTime, CurrentTrace, OpenSpan, SpanKind, TraceContext};

/// What the rows of a burst say of traces.
pub(super) struct TraceOfRows {
    /// The first one that a row names.
    parent: Option<TraceContext>,
    others: Vec<TraceContext>,
    continues: bool,
}

impl TraceOfRows {
    /// Reads them while the rows have their bodies.
    pub(super) fn read(rows: &[ClaimedRow]) -> Self {
        let mut named = rows.iter().filter_map(trace_of_row);
        let is_continue = |row: &ClaimedRow| matches!(row.instruction, Some((WorkKind::Continue, _)));
        Self {
            parent: named.next(),
            others: named.collect(),
            continues: rows.iter().any(is_continue),
        }
    }
}

fn trace_of_row(row: &ClaimedRow) -> Option<TraceContext> {
    let (_, body) = row.instruction.as_ref()?;
    TraceContext::parse(body.get("trace")?.as_str()?)
}

/// One burst in its trace.
pub(super) struct RunTrace {
    current: CurrentTrace,
    /// What the bursts of the run are parts of; `None` of the first one of a trace.
    parent: Option<TraceContext>,
    /// `None` where no spans are made.
    span: Option<OpenSpan>,
}

/// What a burst is about.
pub(super) struct BurstFacts<'a> {
    pub(super) key: &'a InstanceKey,
    pub(super) definition: &'a DefinitionRef,
    pub(super) attempt: u32,
}

impl RunTrace {
    /// Begins the span of the first burst of a claim. `None` where the node sends no spans and no row names a trace.
    pub(super) fn begin(
        node: &NodeContext,
        facts: &BurstFacts<'_>,
        rows: TraceOfRows,
        state: Option<&InstanceState>,
        claim: Option<ClaimTime>,
    ) -> Option<Self> {
        let last = state.and_then(InstanceState::trace);
        let parent = rows.parent.or(last.filter(|_| rows.continues));
        let is_sampled = match (parent, &node.traces) {
            (Some(parent), _) => parent.is_sampled(),
            (None, Some(traces)) => last.is_some() || traces.samples(facts.key),
            (None, None) => return None,
        };
        let mut begun = Self::of_parent(node, facts, parent, is_sampled);
        if let Some(span) = &mut begun.span {
            for other in last.into_iter().chain(rows.others) {
                if !parent.is_some_and(|parent| parent.is_of_trace_of(other)) {
                    span.link(other);
                }
            }
        }
        if let (Some(traces), Some(claim)) = (&begun.current.traces, claim) {
            let of_claim = parent.unwrap_or(begun.current.context);
            traces.claimed(of_claim, claim, node.database.schema.as_str());
        }
        Some(begun)
    }

    /// The burst of a child within the burst of its parent, of an activity with this trace.
    pub(super) fn of_child(node: &NodeContext, facts: &BurstFacts<'_>, parent: Option<TraceContext>) -> Option<Self> {
        let parent = parent?;
        Some(Self::of_parent(node, facts, Some(parent), parent.is_sampled()))
    }

    /// The burst that follows this one after a yield.
    pub(super) fn next(&self, node: &NodeContext, facts: &BurstFacts<'_>) -> Self {
        let parent = self.parent.unwrap_or(self.current.context);
        Self::of_parent(node, facts, Some(parent), parent.is_sampled())
    }

    fn of_parent(node: &NodeContext, facts: &BurstFacts<'_>, parent: Option<TraceContext>, is_sampled: bool) -> Self {
        let context = parent.map_or_else(|| TraceContext::root(is_sampled), TraceContext::another);
        let current = CurrentTrace::new(context, node.traces.as_ref());
        let traces = current.traces.as_ref();
        let span = traces.map(|traces| {
            let mut span = traces.begin(context, parent, "burst", SpanKind::Internal);
            span.set("mainspring.instance.id", facts.key.1.as_str());
            span.set("mainspring.definition.id", facts.definition.definition_id.as_str());
            span.set("mainspring.definition.version", i64::from(facts.definition.version));
            span.set("mainspring.attempt", i64::from(facts.attempt));
            if !facts.key.0.as_str().is_empty() {
                span.set("mainspring.tenant.id", facts.key.0.as_str());
            }
            span
        });
        Self { current, parent, span }
    }

    /// What the activities of the burst are parts of.
    pub(super) fn current(&self) -> CurrentTrace {
        self.current.clone()
    }

    /// What the state is to remember: the next run has a link to it. `None` where no spans are made.
    pub(super) fn to_remember(&self) -> Option<TraceContext> {
        self.span.as_ref().and_then(OpenSpan::context)
    }

    /// Begins the span of the commit.
    pub(super) fn begin_commit(&self, node: &NodeContext) -> Option<OpenSpan> {
        let mut span = self.current.begin(|| "commit", SpanKind::Client)?;
        span.set_database(node.database.schema.as_str(), "commit burst");
        Some(span)
    }
}
