//! Which runs are sampled, and where their spans go.

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc;

use super::TraceContext;
use super::span::{Span, SpanKind, SpanValue};

/// Spans that wait to be sent. Beyond that they are dropped: a collector that is slow or away costs no workflow anything.
#[cfg(any(feature = "otlp", test))]
const QUEUE: usize = 8_192;

/// Takes the spans of a node. Clones share it.
#[derive(Clone)]
pub(crate) struct Traces(Arc<Collecting>);

struct Collecting {
    sender: mpsc::Sender<Span>,
    /// Of 2^64 hashes of instances so many are sampled.
    threshold: u64,
    is_all: bool,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

/// How long a claim took, and when it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimTime {
    began: SystemTime,
    took: Duration,
}

impl ClaimTime {
    /// A claim that began so long ago, and has ended now.
    pub(crate) fn since(began: Instant) -> Self {
        let took = began.elapsed();
        Self {
            began: SystemTime::now().checked_sub(took).unwrap_or(SystemTime::UNIX_EPOCH),
            took,
        }
    }
}

impl Traces {
    /// Samples this part of all instances whose callers have not decided it, and gives their spans to the receiver.
    #[cfg(any(feature = "otlp", test))]
    pub(crate) fn new(ratio: f64) -> (Self, mpsc::Receiver<Span>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let ratio = ratio.clamp(0.0, 1.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let threshold = (ratio * u64::MAX as f64) as u64;
        let collecting = Collecting {
            sender,
            threshold,
            is_all: ratio >= 1.0,
        };
        (Self(Arc::new(collecting)), receiver)
    }

    /// Whether the runs of an instance are sampled, unless what sets them off says otherwise. All nodes decide it alike.
    pub(crate) fn samples(&self, instance: &impl Hash) -> bool {
        if self.0.is_all || self.0.threshold == 0 {
            return self.0.is_all;
        }
        // Its keys are fixed.
        let mut hasher = DefaultHasher::new();
        instance.hash(&mut hasher);
        hasher.finish() < self.0.threshold
    }

    /// Begins a span of a sampled trace.
    pub(crate) fn begin(
        &self,
        context: TraceContext,
        parent: Option<TraceContext>,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
    ) -> OpenSpan {
        let span = Span {
            context,
            parent,
            name: name.into(),
            kind,
            began: SystemTime::now(),
            took: Duration::ZERO,
            attributes: Vec::new(),
            links: Vec::new(),
            failure: None,
        };
        OpenSpan::new(span, self.clone())
    }

    /// A claim that has ended, as a part of a span.
    pub(crate) fn claimed(&self, parent: TraceContext, claim: ClaimTime, schema: &str) {
        let attributes: [(&'static str, &str); 3] = [
            ("db.system.name", "postgresql"),
            ("db.namespace", schema),
            ("db.query.summary", "claim work"),
        ];
        self.send(Span {
            context: parent.another(),
            parent: Some(parent),
            name: "claim".into(),
            kind: SpanKind::Client,
            began: claim.began,
            took: claim.took,
            attributes: attributes.map(|(name, value)| (name, value.into())).to_vec(),
            links: Vec::new(),
            failure: None,
        });
    }

    fn send(&self, span: Span) {
        if self.0.sender.try_send(span).is_err() {
            metrics::counter!("mainspring_trace_spans_dropped_total").increment(1);
        }
    }
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
    fn new(span: Span, traces: Traces) -> Self {
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

/// What runs now: its span, and where spans of its parts go.
#[derive(Clone, Debug)]
pub struct CurrentTrace {
    pub(crate) context: TraceContext,
    /// `None` where no spans are made.
    pub(crate) traces: Option<Traces>,
}

impl CurrentTrace {
    /// Spans are made where the trace is sampled and the node sends them.
    pub(crate) fn new(context: TraceContext, traces: Option<&Traces>) -> Self {
        Self {
            context,
            traces: traces.filter(|_| context.is_sampled()).cloned(),
        }
    }

    /// Begins a part of what runs now; `None` where no spans are made. The name is made only then.
    pub(crate) fn begin<N: Into<Cow<'static, str>>>(
        &self,
        name: impl FnOnce() -> N,
        kind: SpanKind,
    ) -> Option<OpenSpan> {
        let traces = self.traces.as_ref()?;
        Some(traces.begin(self.context.another(), Some(self.context), name(), kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_instances_is_sampled_and_always_the_same() {
        for (ratio, least, most) in [(0.0, 0, 0), (0.25, 2_200, 2_800), (1.0, 10_000, 10_000)] {
            let (traces, _receiver) = Traces::new(ratio);
            let sampled = |n: &u32| traces.samples(&("tenant", format!("instance {n}")));
            let found: Vec<u32> = (0..10_000).filter(sampled).collect();
            assert!((least..=most).contains(&found.len()), "{ratio}: {}", found.len());
            let (other, _receiver) = Traces::new(ratio);
            assert!(
                found
                    .iter()
                    .all(|n| other.samples(&("tenant", format!("instance {n}"))))
            );
        }
    }

    #[test]
    fn a_span_is_sent_when_it_ends_and_dropped_where_too_many_wait() {
        let (traces, mut receiver) = Traces::new(1.0);
        let root = TraceContext::root(true);
        let current = CurrentTrace::new(root, Some(&traces));
        let mut open = current.begin(|| "part", SpanKind::Internal).unwrap();
        open.set("n", 7);
        open.fail("it broke");
        assert!(receiver.try_recv().is_err());
        let context = open.context();
        drop(open);
        let span = receiver.try_recv().unwrap();
        assert_eq!((Some(span.context), span.parent), (context, Some(root)));
        assert_eq!(
            (span.name.as_ref(), span.failure.as_deref()),
            ("part", Some("it broke"))
        );
        for _ in 0..QUEUE + 10 {
            drop(current.begin(|| "part", SpanKind::Internal));
        }
        assert_eq!(receiver.len(), QUEUE);

        let unsampled = CurrentTrace::new(TraceContext::root(false), Some(&traces));
        let made = || -> &'static str { panic!("no name is needed") };
        assert!(unsampled.begin(made, SpanKind::Internal).is_none());
        assert!(CurrentTrace::new(root, None).begin(made, SpanKind::Internal).is_none());
    }
}
