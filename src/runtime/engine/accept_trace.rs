//! The trace of what a caller sets off: it begins where that is accepted, and its numbers travel in the accepted row.

use super::Engine;
use crate::id::InstanceId;
use crate::runtime::context::node_context::NodeContext;
use crate::trace::{OpenSpan, SpanKind, TraceContext};

/// The acceptance of one row, or of several by an event. Its span ends with it.
pub(super) struct AcceptTrace {
    /// What the row names; `None` where the bursts decide for themselves whether they are sampled.
    pub(super) context: Option<TraceContext>,
    _span: Option<OpenSpan>,
}

impl Engine {
    /// The same engine for one request that belongs to a trace, which the header `traceparent` of the request names: what it
    /// starts and resumes continues that, at whichever node it runs.
    #[must_use]
    pub fn continuing(&self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self.clone() }
    }

    /// Begins to accept something. `instance`: what it is for, if that is known.
    pub(super) fn begin_accept(&self, node: &NodeContext, instance: Option<&InstanceId>) -> AcceptTrace {
        let caller = self.trace;
        let samples = |traces: &crate::trace::Traces| {
            instance.is_some_and(|instance| traces.samples(&(self.tenant.clone(), instance.clone())))
        };
        let Some(traces) = node.traces.as_ref() else {
            return AcceptTrace::of_caller(caller);
        };
        let context = match caller {
            Some(caller) if caller.is_sampled() => caller.another(),
            None if samples(traces) => TraceContext::root(true),
            caller => return AcceptTrace::of_caller(caller),
        };
        let mut span = traces.begin(context, caller, "accept", SpanKind::Server);
        span.set_database(node.database.schema.as_str(), "accept work");
        if let Some(instance) = instance {
            span.set("mainspring.instance.id", instance.as_str());
        }
        AcceptTrace {
            context: Some(context),
            _span: Some(span),
        }
    }
}

impl AcceptTrace {
    fn of_caller(caller: Option<TraceContext>) -> Self {
        Self {
            context: caller,
            _span: None,
        }
    }
}
