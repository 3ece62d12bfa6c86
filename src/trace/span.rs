//! A part of a run, with when it was and what it was about.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use super::{TraceContext, Traces};

/// Which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A part of what the node does.
    Internal,
    /// The node answers a request.
    Server,
    /// The node waits for the database.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SpanValue {
    Text(String),
    Number(i64),
}

impl From<&str> for SpanValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for SpanValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// A span that has ended.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "otlp"), allow(dead_code, reason = "an exporter reads it"))]
pub(crate) struct Span {
    pub(crate) context: TraceContext,
    /// The span that it is a part of.
    pub(crate) parent: Option<TraceContext>,
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    /// By the clock of the node; how long it took is measured by one that never jumps.
    pub(crate) began: SystemTime,
    pub(crate) took: Duration,
    pub(crate) attributes: Vec<(&'static str, SpanValue)>,
    /// Spans that it continues without being a part of them.
    pub(crate) links: Vec<TraceContext>,
    /// Why it has failed.
    pub(crate) failure: Option<String>,
}

/// A span that has begun, and ends when it is dropped.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    /// `None` once it was sent.
    span: Option<Box<Span>>,
    began: Instant,
    traces: Traces,
}

impl OpenSpan {
    pub(super) fn new(span: Span, traces: Traces) -> Self {
        Self {
            span: Some(Box::new(span)),
            began: Instant::now(),
            traces,
        }
    }

    /// What its parts have as their parent.
    pub(crate) fn context(&self) -> Option<TraceContext> {
        self.span.as_ref().map(|span| span.context)
    }

    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<SpanValue>) {
        if let Some(span) = &mut self.span {
            span.attributes.push((name, value.into()));
        }
    }

    /// It waits for the database: the attributes that the standard names.
    pub(crate) fn set_database(&mut self, schema: &str, what: &str) {
        self.set("db.system.name", "postgresql");
        self.set("db.namespace", schema);
        self.set("db.query.summary", what);
    }

    /// Continues another span, which is no part of its trace.
    pub(crate) fn link(&mut self, to: TraceContext) {
        if let Some(span) = &mut self.span {
            span.links.push(to);
        }
    }

    pub(crate) fn fail(&mut self, why: impl Into<String>) {
        if let Some(span) = &mut self.span {
            span.failure = Some(why.into());
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            span.took = self.began.elapsed();
            self.traces.send(*span);
        }
    }
}
