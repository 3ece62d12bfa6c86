//! Estimates the memory of parsed JSON from its text: a tree of tiny values takes sixty times the size of its text.

/// Per byte of text: names and strings are copied.
const TEXT_BYTES: usize = 1;
/// Per object that is not empty: capacity for four fields, and their index.
const OBJECT_BYTES: usize = 480;
/// Per list that is not empty: capacity for four values.
const LIST_BYTES: usize = 288;
/// Per further field of an object. Tables double, so half of one may be empty.
const FIELD_BYTES: usize = 256;
/// Per further value of a list.
const ITEM_BYTES: usize = 144;

/// The memory in bytes of the value that this text parses to, whether or not it is JSON. It is an upper bound, except for
/// the allocator's rounding.
pub(super) fn estimate(text: &[u8]) -> usize {
    let mut bytes = text.len().saturating_mul(TEXT_BYTES);
    // One bit per level: whether it is an object. Deeper JSON is rejected before it is built.
    let (mut levels, mut in_string, mut escaped) = (0u128, false, false);
    let mut opened = None;
    for &byte in text {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        // An empty object or list takes no memory: each counts with the first byte inside.
        if let Some(size) = opened.take()
            && !matches!(byte, b'}' | b']')
        {
            bytes = bytes.saturating_add(size);
        }
        match byte {
            b'"' => in_string = true,
            b'{' => {
                levels = levels << 1 | 1;
                opened = Some(OBJECT_BYTES);
            }
            b'[' => {
                levels <<= 1;
                opened = Some(LIST_BYTES);
            }
            b'}' | b']' => levels >>= 1,
            b',' => bytes = bytes.saturating_add(if levels & 1 == 1 { FIELD_BYTES } else { ITEM_BYTES }),
            _ => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn tiny_values_take_more_memory_than_their_text() {
        assert_eq!(estimate(b""), 0);
        assert_eq!(estimate(b"{}"), 2);
        assert_eq!(estimate(b"[ [], {} ]"), 10 + LIST_BYTES + ITEM_BYTES);
        assert_eq!(
            estimate(b"{\"a\": 1, \"b\": [2,3]}"),
            20 + OBJECT_BYTES + FIELD_BYTES + LIST_BYTES + ITEM_BYTES
        );
        // Brackets in a string are text.
        assert_eq!(estimate(br#"["{[,\",{"]"#), 11 + LIST_BYTES);
        assert_eq!(estimate(&b"[".repeat(10_000)), 10_000 + LIST_BYTES * 9_999);
    }

    /// The memory of its lists and tables, by their capacities.
    fn allocated(value: &Value) -> usize {
        let size = size_of::<Value>();
        match value {
            Value::String(text) => text.capacity(),
            Value::Array(items) => items.capacity() * size + items.iter().map(allocated).sum::<usize>(),
            Value::Object(fields) => {
                // A bucket has the name, the value and their hash; the index a word for each, at most 7 of 8 in use.
                let room = fields.len().next_power_of_two().max(4);
                let buckets = if fields.is_empty() {
                    0
                } else {
                    room * (size + 32) + room * 2 * 9
                };
                let inside = fields.iter().map(|(name, value)| name.capacity() + allocated(value));
                buckets + inside.sum::<usize>()
            }
            _ => 0,
        }
    }

    #[test]
    fn the_estimate_is_an_upper_bound_of_the_memory_of_a_value() {
        let objects = format!("[{}]", vec!["{\"\":0}"; 1000].join(","));
        let numbers = format!("[{}0]", "0,".repeat(1025));
        let lists = format!("[{}]", vec!["[0]"; 700].join(","));
        let fields: Vec<String> = (0..1025).map(|n| format!("\"k{n}\":0")).collect();
        let table = format!("{{{}}}", fields.join(","));
        let texts = format!("[{}]", vec!["\"x\""; 129].join(","));
        for text in [objects, numbers, lists, table, texts] {
            let value: Value = serde_json::from_str(&text).unwrap();
            let (bytes, allocated) = (estimate(text.as_bytes()), allocated(&value));
            assert!(bytes >= allocated, "{bytes} < {allocated}: {}", &text[..20]);
            assert!(bytes < allocated * 4, "{bytes}, {allocated}: {}", &text[..20]);
        }
    }
}
