//! Spans in the words of OpenTelemetry.

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind as Kind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::trace::{Span, SpanKind, SpanValue, TraceContext};

pub(super) fn span_data(span: Span, scope: &InstrumentationScope) -> SpanData {
    let mut links = SpanLinks::default();
    let of_link = |to: &TraceContext| Link::new(span_context(*to, true), Vec::new(), 0);
    links.links = span.links.iter().map(of_link).collect();
    let attribute = |(name, value): (&'static str, SpanValue)| KeyValue::new(name, value_of(value));
    SpanData {
        span_context: span_context(span.context, false),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| parent.span().into()),
        // What the node itself has as its parent is no request from elsewhere.
        parent_span_is_remote: span.parent.is_some() && span.kind == SpanKind::Server,
        span_kind: match span.kind {
            SpanKind::Internal => Kind::Internal,
            SpanKind::Server => Kind::Server,
            SpanKind::Client => Kind::Client,
        },
        name: span.name,
        start_time: span.began,
        end_time: span.began.checked_add(span.took).unwrap_or(span.began),
        attributes: span.attributes.into_iter().map(attribute).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: span.failure.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}

fn span_context(context: TraceContext, is_remote: bool) -> SpanContext {
    let flags = TraceFlags::default().with_sampled(context.is_sampled());
    let (trace, span) = (context.trace().into(), context.span().into());
    SpanContext::new(trace, span, flags, is_remote, TraceState::default())
}

fn value_of(value: SpanValue) -> Value {
    match value {
        SpanValue::Text(text) => text.into(),
        SpanValue::Number(number) => number.into(),
    }
}
