//! The shapes of the batch statement, without the parts for which a batch has no rows, because a lone request would pay for
//! all of them.

use super::{Claim, CommitRequest};
use crate::store::parts::with_parts;

/// What a batch has rows for, besides starts that finish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct StatementShape {
    /// Multi-claim: requests with other claims than one row of work, that burn a bookmark, hold something or have a rare
    /// effect. Otherwise the statement is a single-claim one.
    pub(super) multi: bool,
    /// Instances that exist.
    pub(super) existing: bool,
    /// Instances that a timer resumes.
    pub(super) timed: bool,
    /// Burned bookmarks.
    pub(super) burned: bool,
    /// New bookmarks, stimuli for the inbox, and the keys of both.
    pub(super) waiting: bool,
    /// Bursts that continue.
    pub(super) continuing: bool,
    /// Single-claim ones of these that read whether other work waits for their instance; multi-claim ones always do.
    pub(super) reports_pending: bool,
    /// Those that need a new row of work to continue under.
    pub(super) new_row: bool,
    /// Events, kept answers, claims that matched nothing, running instances with a correlation id or without a start, and bookmarks that follow a
    /// changed correlation id.
    pub(super) rare: bool,
    /// Children: new ones, the end of some, those to wait for; and a cancel, which reaches them. Multi-claim only.
    pub(super) family: bool,
    /// Children that ran in the burst of their parent. Multi-claim only.
    pub(super) nested: bool,
    /// Instances whose faulted activities are executed again. Only with `existing`, `waiting`, `rare` and `family`.
    pub(super) retried: bool,
    /// Events for the sinks of webhooks.
    pub(super) delivering: bool,
}

impl StatementShape {
    /// With all parts but those of single-claim statements.
    pub(crate) const WHOLE: Self = Self {
        multi: true,
        existing: true,
        timed: true,
        burned: true,
        waiting: true,
        continuing: true,
        reports_pending: false,
        new_row: true,
        rare: true,
        family: true,
        nested: true,
        retried: true,
        delivering: true,
    };

    /// All shapes that a batch can have. Deliveries look only at what has won, so beside whole statements they are in those of lone
    /// starts alone.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let shapes = (0..1 << 12).map(|bits| Self {
            existing: bits & 1 > 0,
            waiting: bits & 2 > 0,
            rare: bits & 4 > 0,
            continuing: bits & 8 > 0,
            timed: bits & 16 > 0,
            burned: bits & 32 > 0,
            new_row: bits & 64 > 0,
            multi: bits & 128 > 0,
            reports_pending: bits & 256 > 0,
            family: bits & 512 > 0,
            nested: bits & 1024 > 0,
            retried: bits & 2048 > 0,
            delivering: false,
        });
        let shapes = shapes.filter(|shape| {
            (shape.existing || !(shape.timed || shape.burned))
                && (!shape.retried || shape.existing && shape.waiting && shape.rare && shape.family)
                && (shape.continuing || !shape.new_row)
                && (!shape.reports_pending || shape.continuing && !shape.multi)
                && (shape.multi
                    || !(shape.timed || shape.burned || shape.new_row || shape.rare || shape.family || shape.nested))
        });
        let delivering = Self {
            delivering: true,
            ..Self::default()
        };
        shapes.chain([delivering, Self::WHOLE])
    }

    /// The indexes by which a single-claim statement must find its rows.
    #[cfg(test)]
    pub(crate) fn own_indexes(self) -> &'static str {
        match (self.multi, self.existing) {
            (true, _) => "",
            (false, true) => "work_pkey, instance_pkey, activation_instance",
            (false, false) => "work_pkey, activation_instance",
        }
    }

    /// Adds the parts that a request needs.
    pub(super) fn include(&mut self, request: &CommitRequest) {
        let effects = &request.effects;
        let is_timer = |claim: &Claim| matches!(claim, Claim::Timer(..));
        self.timed |= request.claims.iter().any(is_timer);
        self.burned |= !effects.bookmarks_burned.is_empty();
        self.existing |= request.expected.is_some() || self.timed || self.burned;
        self.waiting |= !effects.bookmarks_made.is_empty()
            || !effects.dues.is_empty()
            || !effects.stimuli.is_empty()
            || !effects.rematched.is_empty();
        self.continuing |= effects.continues;
        self.reports_pending |= effects.continues && effects.reads_pending_work;
        self.new_row |= effects.continues && request.continuation().is_none();
        self.rare |= !effects.unmet.is_empty()
            || !effects.events.is_empty()
            || !effects.rematched.is_empty()
            || !effects.answers.is_empty()
            || (effects.status == super::RUNNING && (effects.correlation_id.is_some() || !request.was_accepted()));
        self.family |= !effects.children.is_empty()
            || effects.child_end.is_some()
            || !effects.awaited.is_empty()
            || effects.cancels_children;
        self.nested |= request.nested.is_some();
        self.delivering |= !effects.deliveries.is_empty();
        if effects.retried {
            // With all that it may have, as few batches have any.
            (self.retried, self.waiting, self.rare, self.family) = (true, true, true, true);
        }
        let is_single = matches!(&*request.claims, [Claim::Work(..)]);
        self.multi |=
            !is_single || self.burned || self.rare || self.family || self.nested || self.retried || request.holds;
    }

    /// The shape of a batch of one.
    pub(super) fn of_one(request: &CommitRequest) -> Self {
        let mut shape = Self::default();
        shape.include(request);
        shape
    }

    /// Whether a statement of this shape writes all that one of the other shape writes.
    pub(super) fn covers(self, other: Self) -> bool {
        let covers = |this: bool, other: bool| this || !other;
        covers(self.multi, other.multi)
            && covers(self.existing, other.existing)
            && covers(self.timed, other.timed)
            && covers(self.burned, other.burned)
            && covers(self.waiting, other.waiting)
            && covers(self.continuing, other.continuing)
            && covers(self.new_row, other.new_row)
            && covers(self.rare, other.rare)
            && covers(self.family, other.family)
            && covers(self.nested, other.nested)
            && covers(self.retried, other.retried)
            && covers(self.delivering, other.delivering)
    }

    /// The text of the statement in this shape.
    pub(crate) fn text(self, whole: &str) -> String {
        let has_all = |part: &str| part.split(" and ").all(|name| self.has(name));
        with_parts(whole, |part| part.split(" or ").any(has_all))
    }

    fn has(self, part: &str) -> bool {
        match part {
            "single" => !self.multi,
            "multi" => self.multi,
            "existing" => self.existing,
            "timed" => self.timed,
            "burned" => self.burned,
            "waiting" => self.waiting,
            "continuing" => self.continuing,
            "reports_pending" => self.continuing && (self.multi || self.reports_pending),
            "new_row" => self.new_row,
            "family" => self.family,
            "nested" => self.nested,
            "retried" => self.retried,
            "delivering" => self.delivering,
            "new" => !self.existing,
            _ => self.rare,
        }
    }
}
