//! The statement of a batch in the shapes that it comes in: without the parts for which a batch has no rows, as a lone burst
//! would pay for all of them.

use super::CommitRequest;
use crate::store::parts::with_parts;

/// What a batch has rows for, besides starts that come to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Instances that were there before, with what they waited for.
    pub(super) standing: bool,
    /// What instances wait for from now on, stimuli that nothing waits for, and the keys of both.
    pub(super) waiting: bool,
    /// Bursts that go on.
    pub(super) going: bool,
    /// Claims that met nothing, and what counts by correlation id.
    pub(super) rare: bool,
}

impl Shape {
    /// How many there are.
    pub(super) const COUNT: usize = 16;

    #[cfg(test)]
    pub(crate) const ALL: [Self; Self::COUNT] = {
        let mut all = [Self {
            standing: false,
            waiting: false,
            going: false,
            rare: false,
        }; Self::COUNT];
        let mut place = 0;
        while place < Self::COUNT {
            all[place] = Self {
                standing: place & 1 > 0,
                waiting: place & 2 > 0,
                rare: place & 4 > 0,
                going: place & 8 > 0,
            };
            place += 1;
        }
        all
    };

    pub(super) fn place(self) -> usize {
        usize::from(self.standing)
            + 2 * usize::from(self.waiting)
            + 4 * usize::from(self.rare)
            + 8 * usize::from(self.going)
    }

    pub(super) fn take_in(&mut self, request: &CommitRequest) {
        let effects = &request.effects;
        self.standing |= request.expected.is_some()
            || !effects.bookmarks_burned.is_empty()
            || request
                .claims
                .iter()
                .any(|claim| matches!(claim, super::Claim::Timer(..)));
        self.waiting |= !effects.bookmarks_made.is_empty()
            || !effects.dues.is_empty()
            || !effects.stimuli.is_empty()
            || !effects.rematched.is_empty();
        self.going |= effects.continues;
        self.rare |=
            !effects.unmet.is_empty() || (effects.status == super::RUNNING && effects.correlation_id.is_some());
    }

    /// The text without the parts that this shape has not.
    pub(crate) fn of(self, whole: &str) -> String {
        with_parts(whole, |part| match part {
            "standing" => self.standing,
            "waiting" => self.waiting,
            "going" => self.going,
            _ => self.rare,
        })
    }
}
