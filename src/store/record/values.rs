//! The table of a body's texts and values. What occurs again, as most of a burst does, is written once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use serde::Serialize;

use crate::{Error, Result};

/// The bytes of the longest value that two places share. A read writes a value out for each place that names it, so a small
/// record must not become a large answer.
pub(super) const MAX_SHARED: usize = 256;

/// A table that grows.
#[derive(Default)]
pub(super) struct Values {
    /// The elements of a JSON array.
    text: Vec<u8>,
    count: i64,
    /// The first value with a hash: its bytes and its place. A second one with the same hash is not shared.
    known: BTreeMap<u64, (Range<usize>, i64)>,
    hasher: RandomState,
}

impl Values {
    /// The place of a value, which may be that of an equal one.
    pub(super) fn place<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<i64> {
        let end = self.text.len();
        if self.count > 0 {
            self.text.push(b',');
        }
        let begin = self.text.len();
        serde_json::to_writer(&mut self.text, value)
            .map_err(|error| Error::internal("the record of a burst cannot be written").caused_by(error))?;
        let bytes = self.text.get(begin..).unwrap_or_default();
        if bytes.len() <= MAX_SHARED {
            let range = begin..self.text.len();
            match self.known.entry(self.hasher.hash_one(bytes)) {
                Slot::Occupied(known) => {
                    let (first, place) = known.get();
                    if self.text.get(first.clone()) == Some(bytes) {
                        self.text.truncate(end);
                        return Ok(*place);
                    }
                }
                Slot::Vacant(new) => _ = new.insert((range, self.count)),
            }
        }
        self.count += 1;
        Ok(self.count - 1)
    }

    /// The elements of a JSON array.
    pub(super) fn into_json(self) -> Result<String> {
        String::from_utf8(self.text)
            .map_err(|error| Error::internal("the record of a burst cannot be written").caused_by(error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_equal_value_is_written_once_unless_it_is_long() {
        let mut values = Values::default();
        let long = "x".repeat(MAX_SHARED - 1);
        let all = [
            json!({}),
            json!("a"),
            json!({}),
            json!(long[1..]),
            json!(long[1..]),
            json!(long),
            json!(long),
            json!("a"),
        ];
        let places: Vec<i64> = all.iter().map(|value| values.place(value).unwrap()).collect();
        assert_eq!(places, [0, 1, 0, 2, 2, 3, 4, 1]);
        let table: Vec<Value> = serde_json::from_str(&format!("[{}]", values.into_json().unwrap())).unwrap();
        assert!(
            all.iter()
                .zip(places)
                .all(|(value, place)| table[place as usize] == *value)
        );
    }
}
