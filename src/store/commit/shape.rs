//! The statement of a batch in the shapes that it comes in: without the parts for which a batch has no rows, as a lone burst
//! would pay for all of them.

use super::{Claim, CommitRequest};
use crate::store::parts::with_parts;

/// What a batch has rows for, besides starts that come to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bursts that were born of more or else than one row of work, burn a bookmark, are rare, or may hold something. Without,
    /// the batch is plain.
    pub(super) several: bool,
    /// Instances that were there before.
    pub(super) standing: bool,
    /// Those that a timer resumed.
    pub(super) timed: bool,
    /// Those for which a bookmark is burned.
    pub(super) burned: bool,
    /// What instances wait for from now on, stimuli that nothing waits for, and the keys of both.
    pub(super) waiting: bool,
    /// Bursts that go on.
    pub(super) going: bool,
    /// Plain ones of these, to be told whether something else waits for their instance; others are always told.
    pub(super) asking: bool,
    /// Those of them that have no row to go on under.
    pub(super) renewed: bool,
    /// Claims that met nothing, and what counts by correlation id.
    pub(super) rare: bool,
}

impl Shape {
    /// How many there could be; a connection prepares those that it meets.
    pub(super) const COUNT: usize = 512;

    /// That with all parts but those of plain ones.
    pub(crate) const WHOLE: Self = Self {
        several: true,
        standing: true,
        timed: true,
        burned: true,
        waiting: true,
        going: true,
        asking: false,
        renewed: true,
        rare: true,
    };

    /// All that a batch can have.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let shapes = (0..Self::COUNT).map(|place| Self {
            standing: place & 1 > 0,
            waiting: place & 2 > 0,
            rare: place & 4 > 0,
            going: place & 8 > 0,
            timed: place & 16 > 0,
            burned: place & 32 > 0,
            renewed: place & 64 > 0,
            several: place & 128 > 0,
            asking: place & 256 > 0,
        });
        shapes.filter(|shape| {
            (shape.standing || !(shape.timed || shape.burned))
                && (shape.going || !shape.renewed)
                && (!shape.asking || shape.going && !shape.several)
                && (shape.several || !(shape.timed || shape.burned || shape.renewed || shape.rare))
        })
    }

    /// By which a plain one must find its rows.
    #[cfg(test)]
    pub(crate) fn own_indexes(self) -> &'static str {
        match (self.several, self.standing) {
            (true, _) => "",
            (false, true) => "work_pkey, instance_pkey",
            (false, false) => "work_pkey",
        }
    }

    pub(super) fn place(self) -> usize {
        usize::from(self.standing)
            + 2 * usize::from(self.waiting)
            + 4 * usize::from(self.rare)
            + 8 * usize::from(self.going)
            + 16 * usize::from(self.timed)
            + 32 * usize::from(self.burned)
            + 64 * usize::from(self.renewed)
            + 128 * usize::from(self.several)
            + 256 * usize::from(self.asking && !self.several)
    }

    pub(super) fn take_in(&mut self, request: &CommitRequest) {
        let effects = &request.effects;
        let is_timer = |claim: &Claim| matches!(claim, Claim::Timer(..));
        self.timed |= request.claims.iter().any(is_timer);
        self.burned |= !effects.bookmarks_burned.is_empty();
        self.standing |= request.expected.is_some() || self.timed || self.burned;
        self.waiting |= !effects.bookmarks_made.is_empty()
            || !effects.dues.is_empty()
            || !effects.stimuli.is_empty()
            || !effects.rematched.is_empty();
        self.going |= effects.continues;
        self.asking |= effects.continues && effects.asks;
        self.renewed |= effects.continues && request.kept().is_none();
        self.rare |=
            !effects.unmet.is_empty() || (effects.status == super::RUNNING && effects.correlation_id.is_some());
        let is_plain = matches!(&*request.claims, [Claim::Work(..)]);
        self.several |= !is_plain || self.burned || self.rare;
    }

    /// The text without the parts that this shape has not.
    pub(crate) fn of(self, whole: &str) -> String {
        let has_all = |part: &str| part.split(" and ").all(|name| self.has(name));
        with_parts(whole, |part| part.split(" or ").any(has_all))
    }

    fn has(self, part: &str) -> bool {
        match part {
            "plain" => !self.several,
            "several" => self.several,
            "standing" => self.standing,
            "timed" => self.timed,
            "burned" => self.burned,
            "waiting" => self.waiting,
            "going" => self.going,
            "asking" => self.going && (self.several || self.asking),
            "renewed" => self.renewed,
            _ => self.rare,
        }
    }
}
