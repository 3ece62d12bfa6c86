//! Hash slots: a cluster keeps a key where its slot is, and a script may only use keys of one slot.

use std::sync::LazyLock;

/// How many hash slots a cluster has.
pub(super) const HASH_SLOTS: u16 = 16_384;

/// The hash slot of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HashSlot(pub(super) u16);

/// For each hash slot the smallest number whose text is in it.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; usize::from(HASH_SLOTS)];
    let mut missing = tags.len();
    let mut number = 0;
    while missing > 0 {
        let slot = HashSlot::of(&number.to_string());
        if let Some(tag) = tags.get_mut(slot.place()).filter(|tag| tag.is_none()) {
            *tag = Some(number);
            missing -= 1;
        }
        number += 1;
    }
    tags.into_iter().flatten().collect()
});

impl HashSlot {
    /// By the rule of Redis: what stands between the first `{` and the next `}` decides, unless it is empty; else the whole key.
    pub(crate) fn of(key: &str) -> Self {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        let hashed = tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key);
        Self(crc16(hashed.as_bytes()) % HASH_SLOTS)
    }

    /// The slot that a redirection names.
    pub(crate) fn numbered(number: u16) -> Self {
        Self(number % HASH_SLOTS)
    }

    /// A text that leads another key to this slot when it stands there in braces, as the first ones. The key itself cannot do that
    /// if it has braces.
    pub(crate) fn tag(self) -> u32 {
        TAGS.get(self.place()).copied().unwrap_or_default()
    }

    pub(super) fn place(self) -> usize {
        usize::from(self.0)
    }
}

impl std::fmt::Display for HashSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, from zero.
fn crc16(bytes: &[u8]) -> u16 {
    static TABLE: LazyLock<[u16; 256]> = LazyLock::new(|| {
        std::array::from_fn(|byte| {
            let first = u16::try_from(byte).unwrap_or_default() << 8;
            (0..8).fold(first, |crc, _| (crc << 1) ^ (0x1021 * (crc >> 15)))
        })
    });
    bytes.iter().fold(0, |crc, byte| {
        let index = usize::from((crc >> 8) ^ u16::from(*byte));
        (crc << 8) ^ TABLE.get(index).copied().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As `CLUSTER KEYSLOT` of Redis 7.0 computes them.
        for (key, slot) in [
            ("", 0),
            ("123456789", 12_739),
            ("foo", 12_182),
            ("bar", 5_061),
            ("hello", 866),
            ("{user1000}.following", 3_443),
            ("foo{}{bar}", 8_363),
            ("workflow:0f8fad5b-d9cb-469f-a165-70867728950e", 2_376),
            ("größe", 9_425),
        ] {
            assert_eq!(HashSlot::of(key), HashSlot(slot), "{key}");
        }
        for (key, like) in [
            ("a{user1000}.following", "user1000"),
            ("foo{bar}{zap}", "bar"),
            ("foo{{bar}}zap", "{bar"),
        ] {
            assert_eq!(
                HashSlot::of(key),
                HashSlot(crc16(like.as_bytes()) % HASH_SLOTS),
                "{key}"
            );
        }
        for whole in ["foo{}{bar}", "foo}bar{", "foo{bar", "", "a}b"] {
            assert_eq!(
                HashSlot::of(whole),
                HashSlot(crc16(whole.as_bytes()) % HASH_SLOTS),
                "{whole}"
            );
        }
    }

    #[test]
    fn each_slot_has_a_tag_that_leads_to_it() {
        for slot in (0..HASH_SLOTS).map(HashSlot) {
            let key = format!("beside:{{{}}}:a{{b}}c", slot.tag());
            assert_eq!(HashSlot::of(&key), slot);
        }
    }
}
