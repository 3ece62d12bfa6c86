//! What nodes tell each other about locks: `want KEY,KEY…` and `free KEY,KEY…`, keys in hexadecimal.

use std::fmt::Write;

use super::super::key::LockKey;

/// Postgres takes less than 8,000 bytes; a key and its comma are 17.
const KEYS: usize = 450;

/// Keys that somebody waits for, or that were given back for somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    Want,
    Free,
}

impl Hint {
    fn word(self) -> &'static str {
        match self {
            Self::Want => "want",
            Self::Free => "free",
        }
    }

    /// As few payloads as hold them all.
    pub(super) fn payloads(self, keys: &[LockKey]) -> impl Iterator<Item = String> + '_ {
        keys.chunks(KEYS).map(move |chunk| {
            let mut payload = self.word().to_owned();
            for (at, key) in chunk.iter().enumerate() {
                let separator = if at == 0 { ' ' } else { ',' };
                // Writing to a string cannot fail.
                let _ = write!(payload, "{separator}{key}");
            }
            payload
        })
    }

    /// What another node, of whatever version, has sent. What cannot be read is no hint.
    pub(super) fn read(payload: &str) -> Option<(Self, impl Iterator<Item = LockKey> + '_)> {
        let (word, keys) = payload.split_once(' ')?;
        let hint = [Self::Want, Self::Free].into_iter().find(|hint| hint.word() == word)?;
        Some((hint, keys.split(',').filter_map(LockKey::from_hex)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_as_they_were_written() {
        let keys: Vec<LockKey> = (-500..500).map(|key| LockKey(key * 0x1234_5678_9abc)).collect();
        let payloads: Vec<String> = Hint::Want.payloads(&keys).collect();
        assert!(payloads.iter().all(|payload| payload.len() < 8000) && payloads.len() == 3);
        let read = payloads.iter().flat_map(|payload| {
            let (hint, keys) = Hint::read(payload).unwrap();
            assert_eq!(hint, Hint::Want);
            keys
        });
        assert_eq!(read.collect::<Vec<_>>(), keys);
        assert!(
            Hint::Free
                .payloads(&[LockKey(1)])
                .all(|payload| payload == "free 0000000000000001")
        );
        for bad in ["", "want", "keep 1", "\u{0}"] {
            assert!(Hint::read(bad).is_none());
        }
        assert_eq!(Hint::read("free zz,,1").unwrap().1.collect::<Vec<_>>(), [LockKey(1)]);
    }
}
