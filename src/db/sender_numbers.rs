//! The numbers of the messages of each sender: a gap says that some were lost.

use std::collections::HashMap;

/// Senders whose numbers are remembered. When there are more, all are forgotten, as after a gap.
const SENDERS: usize = 1024;

/// The number of the last message of each sender.
#[derive(Default)]
pub(crate) struct SenderNumbers(HashMap<String, u64>);

impl SenderNumbers {
    /// Whether messages of this sender are missing before this one. Before the first of a sender none is missing: a new
    /// subscriber reads by itself what it must know.
    pub(crate) fn has_gap(&mut self, from: &str, no: u64) -> bool {
        let forgot = self.0.len() >= SENDERS && !self.0.contains_key(from);
        if forgot {
            self.0.clear();
        }
        let before = self.0.insert(from.to_owned(), no);
        forgot || before.is_some_and(|before| before.checked_add(1) != Some(no))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_seen_and_the_senders_are_bounded() {
        let mut last = SenderNumbers::default();
        assert!(!last.has_gap("a", 5));
        assert!(!last.has_gap("a", 6));
        assert!(last.has_gap("a", 8));
        assert!(!last.has_gap("b", 1));
        assert!(!last.has_gap("a", 9));
        assert!(!last.has_gap("c", u64::MAX));
        assert!(last.has_gap("c", 1));
        let forgotten = (0..SENDERS).filter(|n| last.has_gap(&n.to_string(), 1)).count();
        assert_eq!(forgotten, 1);
        assert!(last.0.len() <= SENDERS);
    }
}
