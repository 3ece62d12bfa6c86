//! The spans of activities, where the burst belongs to a trace that is sampled here.

use super::{ActivityCall, BurstRun};
use crate::activity::Fault;
use crate::execution::state::InstanceState;
use crate::trace::{OpenSpan, SpanKind, TraceContext};

impl BurstRun<'_> {
    /// What a child, or a request to another server, continues.
    pub(super) fn current_trace(&self) -> Option<TraceContext> {
        let of_call = self.call_span.as_ref().and_then(OpenSpan::context);
        of_call.or_else(|| Some(self.trace.as_ref()?.context))
    }

    /// Begins the span of a call. That a container hears of its children is none.
    pub(super) fn begin_call_span(&mut self, number: u64, call: &ActivityCall) {
        let (ActivityCall::Execute | ActivityCall::Resume(_)) = call else {
            return;
        };
        let Some(context) = self.state.contexts.get(&number) else {
            return;
        };
        let (Some(trace), Some(node)) = (&self.trace, self.program.tree.find(&context.node_id)) else {
            return;
        };
        let span = trace.begin(|| format!("activity {}", node.type_name), SpanKind::Internal);
        self.call_span = span.map(|mut span| {
            span.set("mainspring.activity.id", node.id.as_str());
            span.set("mainspring.activity.type", node.type_name.as_str());
            span.set("mainspring.activity.execution_id", context.id.as_str());
            span
        });
    }

    /// The message of a fault may quote values: it is in the incident, and not in the trace.
    pub(super) fn fail_call_span(&mut self, fault: &Fault) {
        if let Some(span) = &mut self.call_span {
            span.fail(format!("fault {} ({})", fault.code, fault.category));
        }
    }
}

impl InstanceState {
    /// The last burst of which there is a span.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        self.trace
    }

    /// Notes the span of a burst, if there is one.
    pub(crate) fn remember_trace(&mut self, trace: Option<TraceContext>) {
        self.trace = trace.or(self.trace);
    }
}
