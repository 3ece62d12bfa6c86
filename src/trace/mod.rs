//! Traces: what a request sets off, from node to node.
//!
//! A trace is that of a *run*: what an instance does until it waits. It continues the trace of the caller, if that sends the
//! header `traceparent`; a run that a timer, a schedule or a retry begins has a trace of its own, with a link to the run before.
//! Spans are made only where a run is sampled and this node sends its spans somewhere: otherwise a run has at most the numbers of
//! its trace, which travel on to other servers.
//!
//! # Layout
//!
//! - `context`: the numbers that name a span, and the header.
//! - `span`: what is told of a part of a run; `traces`: which runs are sampled, spans that have begun, and where they go.

mod context;
mod span;
mod traces;

pub use context::TraceContext;
pub(crate) use span::SpanKind;
#[cfg(feature = "otlp")]
pub(crate) use span::{Span, SpanValue};
pub use traces::CurrentTrace;
pub(crate) use traces::{ClaimTime, OpenSpan, Traces};
