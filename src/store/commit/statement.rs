//! The statement of a batch in the shapes that it comes in: without the parts for which a batch has no rows, as a lone burst
//! would pay for all of them.

use super::{Claim, CommitRequest};
use crate::store::parts::with_parts;

/// What a batch has rows for, besides starts that come to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StatementShape {
    /// Bursts that were born of more or else than one row of work, burn a bookmark, are rare, or hold something. Without,
    /// the batch is plain.
    pub(super) several: bool,
    /// Plain ones, while any instance holds something by an activation strategy: those that end are looked up.
    pub(super) strict: bool,
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

impl StatementShape {
    /// That with all parts but those of plain ones.
    pub(crate) const WHOLE: Self = Self {
        several: true,
        strict: false,
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
        let shapes = (0..1 << 10).map(|bits| Self {
            standing: bits & 1 > 0,
            waiting: bits & 2 > 0,
            rare: bits & 4 > 0,
            going: bits & 8 > 0,
            timed: bits & 16 > 0,
            burned: bits & 32 > 0,
            renewed: bits & 64 > 0,
            several: bits & 128 > 0,
            asking: bits & 256 > 0,
            strict: bits & 512 > 0,
        });
        shapes.filter(|shape| {
            (shape.standing || !(shape.timed || shape.burned))
                && (shape.going || !shape.renewed)
                && (!shape.asking || shape.going && !shape.several)
                && !(shape.strict && shape.several)
                && (shape.several || !(shape.timed || shape.burned || shape.renewed || shape.rare))
        })
    }

    /// By which a plain one must find its rows.
    #[cfg(test)]
    pub(crate) fn own_indexes(self) -> &'static str {
        match (self.several, self.standing, self.strict) {
            (true, _, _) => "",
            (false, true, false) => "work_pkey, instance_pkey",
            (false, true, true) => "work_pkey, instance_pkey, activation_instance",
            (false, false, false) => "work_pkey",
            (false, false, true) => "work_pkey, activation_instance",
        }
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
        self.several |= !is_plain || self.burned || self.rare || request.holds;
    }

    /// That of a batch of one.
    pub(super) fn of_one(request: &CommitRequest) -> Self {
        let mut shape = Self::default();
        shape.take_in(request);
        shape
    }

    /// Whether a statement of this shape writes to all that one of the other shape writes to.
    pub(super) fn covers(self, other: Self) -> bool {
        let covers = |ours: bool, theirs: bool| ours || !theirs;
        covers(self.several, other.several)
            && covers(self.standing, other.standing)
            && covers(self.timed, other.timed)
            && covers(self.burned, other.burned)
            && covers(self.waiting, other.waiting)
            && covers(self.going, other.going)
            && covers(self.renewed, other.renewed)
            && covers(self.rare, other.rare)
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
            "strict" => self.strict && !self.several,
            "free" => !self.strict && !self.several,
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
