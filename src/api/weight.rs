//! What JSON text weighs once it is parsed, told from the text alone: a tree of tiny values takes sixty times its text.

/// What a byte of text takes beside the values: names and strings are copied.
const TEXT: usize = 1;
/// An object with anything in it: room for four fields, and their index.
const OBJECT: usize = 480;
/// A list with anything in it: room for four values.
const LIST: usize = 288;
/// Each further field of an object. Tables double, so half of one may be empty.
const FIELD: usize = 256;
/// Each further value of a list.
const ITEM: usize = 144;

/// How many bytes the value of this text takes, or would if it were JSON. An upper bound but for the allocator's rounding.
pub(super) fn of(text: &[u8]) -> usize {
    let mut weight = text.len().saturating_mul(TEXT);
    // One bit for each level: whether it is an object. What is deeper is refused before it is built.
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
        // What is empty takes nothing: an object or list counts with the first byte inside.
        if let Some(size) = opened.take()
            && !matches!(byte, b'}' | b']')
        {
            weight = weight.saturating_add(size);
        }
        match byte {
            b'"' => in_string = true,
            b'{' => {
                levels = levels << 1 | 1;
                opened = Some(OBJECT);
            }
            b'[' => {
                levels <<= 1;
                opened = Some(LIST);
            }
            b'}' | b']' => levels >>= 1,
            b',' => weight = weight.saturating_add(if levels & 1 == 1 { FIELD } else { ITEM }),
            _ => {}
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn tiny_values_weigh_more_than_their_text() {
        assert_eq!(of(b""), 0);
        assert_eq!(of(b"{}"), 2);
        assert_eq!(of(b"[ [], {} ]"), 10 + LIST + ITEM);
        assert_eq!(of(b"{\"a\": 1, \"b\": [2,3]}"), 20 + OBJECT + FIELD + LIST + ITEM);
        // What stands in a string is text.
        assert_eq!(of(br#"["{[,\",{"]"#), 11 + LIST);
        assert_eq!(of(&b"[".repeat(10_000)), 10_000 + LIST * 9_999);
    }

    /// What its lists and tables take, by their capacities.
    fn taken(value: &Value) -> usize {
        let size = size_of::<Value>();
        match value {
            Value::String(text) => text.capacity(),
            Value::Array(items) => items.capacity() * size + items.iter().map(taken).sum::<usize>(),
            Value::Object(fields) => {
                // A bucket has the name, the value and their hash; the index a word for each, at most 7 of 8 in use.
                let room = fields.len().next_power_of_two().max(4);
                let buckets = if fields.is_empty() {
                    0
                } else {
                    room * (size + 32) + room * 2 * 9
                };
                let inside = fields.iter().map(|(name, value)| name.capacity() + taken(value));
                buckets + inside.sum::<usize>()
            }
            _ => 0,
        }
    }

    #[test]
    fn the_weight_is_no_less_than_what_a_value_takes() {
        let objects = format!("[{}]", vec!["{\"\":0}"; 1000].join(","));
        let numbers = format!("[{}0]", "0,".repeat(1025));
        let lists = format!("[{}]", vec!["[0]"; 700].join(","));
        let fields: Vec<String> = (0..1025).map(|n| format!("\"k{n}\":0")).collect();
        let table = format!("{{{}}}", fields.join(","));
        let texts = format!("[{}]", vec!["\"x\""; 129].join(","));
        for text in [objects, numbers, lists, table, texts] {
            let value: Value = serde_json::from_str(&text).unwrap();
            let (weight, taken) = (of(text.as_bytes()), taken(&value));
            assert!(weight >= taken, "{weight} < {taken}: {}", &text[..20]);
            assert!(weight < taken * 4, "{weight}, {taken}: {}", &text[..20]);
        }
    }
}
