//! The numbers that name a span, as they travel between programs (W3C Trace Context, the header `traceparent`).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The length of the header in its version 00.
const LENGTH: usize = 55;

/// A span of a trace, and whether the trace is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    is_sampled: bool,
}

impl TraceContext {
    /// Reads the value of a header `traceparent`; `None` if it is none, which then counts as absent.
    pub fn parse(header: &str) -> Option<Self> {
        let is_valid = |text: &str| {
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            text.bytes().all(|byte| is_hex(byte) || byte == b'-')
        };
        let known = header.get(..LENGTH).filter(|known| is_valid(known))?;
        let mut parts = known.split('-');
        let mut next = |length: usize| parts.next().filter(|part| part.len() == length);
        let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
        // A later version may have more parts, this one has not.
        let rest = header.get(LENGTH..).unwrap_or_default();
        if version == "ff" || !rest.is_empty() && (version == "00" || !rest.starts_with('-')) {
            return None;
        }
        let (trace, span) = (
            u128::from_str_radix(trace, 16).ok()?,
            u64::from_str_radix(span, 16).ok()?,
        );
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (trace != 0 && span != 0).then_some(Self {
            trace,
            span,
            is_sampled: flags & 1 == 1,
        })
    }

    /// The first span of a new trace.
    pub(crate) fn root(is_sampled: bool) -> Self {
        Self {
            trace: rand::random_range(1..=u128::MAX),
            span: random_span(),
            is_sampled,
        }
    }

    /// Another span of the same trace.
    pub(crate) fn another(self) -> Self {
        Self {
            span: random_span(),
            ..self
        }
    }

    /// Whether what runs in this trace is told of.
    pub fn is_sampled(self) -> bool {
        self.is_sampled
    }

    #[cfg(feature = "otlp")]
    pub(crate) fn trace(self) -> u128 {
        self.trace
    }

    #[cfg(feature = "otlp")]
    pub(crate) fn span(self) -> u64 {
        self.span
    }

    pub(crate) fn is_of_trace_of(self, other: Self) -> bool {
        self.trace == other.trace
    }
}

fn random_span() -> u64 {
    rand::random_range(1..=u64::MAX)
}

/// As the header has it.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("it is no traceparent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_the_standard_says() {
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = TraceContext::parse(header).unwrap();
        assert!(read.is_sampled());
        assert_eq!(read.to_string(), header);
        let unsampled = TraceContext::parse(&header.replace("-01", "-00")).unwrap();
        assert!(!unsampled.is_sampled());
        // Of a later version what is known is read, and no flag but the first.
        let later = format!("{}-more", header.replacen("00-", "cc-", 1).replace("-01", "-03"));
        assert_eq!(TraceContext::parse(&later), Some(read));
        for bad in [
            "",
            "00",
            &header[..54],
            &format!("{header}-more"),
            &format!("{header}x"),
            &header.replacen("00-", "ff-", 1),
            &header.replacen("00-", "cc-", 1).replace("-01", "-01x"),
            &header.to_uppercase(),
            &header.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &header.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &header.replace('f', "g"),
            &header.replace("a3ce", "a-ce"),
            &"ä".repeat(40),
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_span_of_a_trace_is_another_one_and_travels_as_text() {
        let root = TraceContext::root(true);
        let child = root.another();
        assert!(child.is_of_trace_of(root) && child != root && child.is_sampled());
        assert!(!TraceContext::root(true).is_of_trace_of(root));
        let json = serde_json::to_value(child).unwrap();
        assert_eq!(json, child.to_string());
        assert_eq!(serde_json::from_value::<TraceContext>(json).unwrap(), child);
        assert!(serde_json::from_str::<TraceContext>("\"00-1\"").is_err());
    }
}
