//! A collector of traces: it takes OTLP over HTTP, and reads the protobuf by its own reader.

use std::collections::BTreeMap;

use super::receiver::{Received, Receiver};
use super::{TIMEOUT, poll_until};

/// A span, as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectedSpan {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty of a root.
    pub(crate) parent: String,
    pub(crate) name: String,
    /// 1 internal, 2 server, 3 client.
    pub(crate) kind: u64,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The traces and spans that it links to.
    pub(crate) links: Vec<(String, String)>,
    /// 2 is an error.
    pub(crate) status: u64,
    /// Of the resource: the name of the node.
    pub(crate) node: String,
    pub(crate) service: String,
}

/// The collector. It ends with this value.
pub(crate) struct Collector {
    receiver: Receiver,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        Self {
            receiver: Receiver::start().await,
        }
    }

    /// For `--otlp-endpoint`.
    pub(crate) fn endpoint(&self) -> &str {
        self.receiver.base()
    }

    /// All spans so far.
    pub(crate) fn spans(&self) -> Vec<CollectedSpan> {
        self.receiver.received().iter().flat_map(spans_of).collect()
    }

    /// Waits until the spans are as they should be; those.
    pub(crate) async fn wait_for(&self, what: &str, are: impl Fn(&[CollectedSpan]) -> bool) -> Vec<CollectedSpan> {
        let probe = async || {
            let spans = self.spans();
            are(&spans).then_some(spans)
        };
        let waited = tokio::time::timeout(TIMEOUT, poll_until(TIMEOUT * 2, what, probe)).await;
        waited.unwrap_or_else(|_| panic!("no {what}:\n{}", drawn(&self.spans())))
    }
}

/// Spans as trees, one line each.
pub(crate) fn drawn(spans: &[CollectedSpan]) -> String {
    let mut text = String::new();
    let is_root = |span: &&CollectedSpan| !spans.iter().any(|other| other.id == span.parent);
    let mut roots: Vec<&CollectedSpan> = spans.iter().filter(is_root).collect();
    roots.sort_by_key(|span| span.began);
    for root in roots {
        draw(spans, root, root.began, 0, &mut text);
    }
    text
}

fn draw(spans: &[CollectedSpan], span: &CollectedSpan, zero: u64, depth: usize, text: &mut String) {
    let millis = |nanos: u64| nanos as f64 / 1e6;
    let (at, took) = (millis(span.began.saturating_sub(zero)), millis(span.ended - span.began));
    let links: Vec<&str> = span.links.iter().map(|(_, id)| id.as_str()).collect();
    let name = format!("{}{}", "  ".repeat(depth), span.name);
    text.push_str(&format!(
        "{name:44} {at:8.2} ms {took:8.2} ms  {} {links:?}\n",
        span.node
    ));
    let mut parts: Vec<&CollectedSpan> = spans.iter().filter(|part| part.parent == span.id).collect();
    parts.sort_by_key(|part| part.began);
    for part in parts {
        draw(spans, part, zero, depth + 1, text);
    }
}

fn spans_of(request: &Received) -> Vec<CollectedSpan> {
    assert_eq!(request.path, "/v1/traces");
    assert_eq!(request.header("content-type"), "application/x-protobuf");
    let mut found = Vec::new();
    for resource_spans in messages(&request.raw, 1) {
        let resource = messages(&resource_spans, 1).concat();
        let of_node = attributes(&resource, 1);
        for scope_spans in messages(&resource_spans, 2) {
            for span in messages(&scope_spans, 2) {
                found.push(CollectedSpan {
                    node: of_node.get("service.instance.id").cloned().unwrap_or_default(),
                    service: of_node.get("service.name").cloned().unwrap_or_default(),
                    ..span_of(&span)
                });
            }
        }
    }
    found
}

fn span_of(bytes: &[u8]) -> CollectedSpan {
    let link = |link: Vec<u8>| (hex(&link, 1), hex(&link, 2));
    let status = messages(bytes, 15).concat();
    CollectedSpan {
        trace: hex(bytes, 1),
        id: hex(bytes, 2),
        parent: hex(bytes, 4),
        name: text(bytes, 5),
        kind: number(bytes, 6),
        began: number(bytes, 7),
        ended: number(bytes, 8),
        attributes: attributes(bytes, 9),
        links: messages(bytes, 13).into_iter().map(link).collect(),
        status: number(&status, 3),
        ..CollectedSpan::default()
    }
}

fn attributes(bytes: &[u8], field: u64) -> BTreeMap<String, String> {
    let pairs = messages(bytes, field).into_iter().map(|pair| {
        let value = messages(&pair, 2).concat();
        let shown = match text(&value, 1) {
            text if text.is_empty() => number(&value, 3).to_string(),
            text => text,
        };
        (text(&pair, 1), shown)
    });
    pairs.collect()
}

/// The value of a field.
enum Wire {
    Number(u64),
    Bytes(Vec<u8>),
}

fn fields(bytes: &[u8]) -> Vec<(u64, Wire)> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let tag = varint(&mut rest);
        let value = match tag & 7 {
            0 => Wire::Number(varint(&mut rest)),
            1 => Wire::Number(u64::from_le_bytes(taken(&mut rest, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut rest) as usize;
                Wire::Bytes(taken(&mut rest, length).to_vec())
            }
            5 => Wire::Number(u64::from(u32::from_le_bytes(taken(&mut rest, 4).try_into().unwrap()))),
            other => panic!("no wire type of protobuf: {other}"),
        };
        found.push((tag >> 3, value));
    }
    found
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = taken(rest, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of protobuf has no end");
}

fn taken<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(count);
    *rest = left;
    taken
}

fn messages(bytes: &[u8], field: u64) -> Vec<Vec<u8>> {
    let of_field = fields(bytes).into_iter().filter(|(number, _)| *number == field);
    let bytes = of_field.filter_map(|(_, value)| match value {
        Wire::Bytes(bytes) => Some(bytes),
        Wire::Number(_) => None,
    });
    bytes.collect()
}

fn number(bytes: &[u8], field: u64) -> u64 {
    let found = fields(bytes).into_iter().find_map(|(number, value)| match value {
        Wire::Number(value) if number == field => Some(value),
        _ => None,
    });
    found.unwrap_or_default()
}

fn text(bytes: &[u8], field: u64) -> String {
    String::from_utf8(messages(bytes, field).concat()).unwrap()
}

fn hex(bytes: &[u8], field: u64) -> String {
    let bytes = messages(bytes, field).concat();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
