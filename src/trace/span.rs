//! A part of a run, with when it was and what it was about.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use super::TraceContext;

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
