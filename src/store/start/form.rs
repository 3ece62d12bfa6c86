//! The forms of the statement that accepts starts.

use crate::store::parts::with_parts;

const ACCEPT: &str = include_str!("../../../sql/queries/start/accept.sql");

/// What the statement of a batch checks; fewer checks are faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum StartForm {
    /// Idempotency keys and activation strategies.
    Checked,
    /// The same, and whether a chosen id was taken since the statement began.
    ChosenId,
    /// Only the published versions and the ids.
    Unclaimed,
    /// Only the published versions: all starts are inserted claimed, with generated ids.
    Claimed,
    /// [`Self::Unclaimed`] and [`Self::Claimed`], where some are for requests, whose routes are checked; the forms that check more
    /// check these, too.
    Routed,
    RoutedClaimed,
    /// All of [`Self::ChosenId`], and versions that are not published.
    Version,
}

impl StartForm {
    pub(in crate::store) const ALL: [Self; 7] = [
        Self::Checked,
        Self::ChosenId,
        Self::Unclaimed,
        Self::Claimed,
        Self::Version,
        Self::Routed,
        Self::RoutedClaimed,
    ];

    /// Whether it checks keys and strategies.
    pub(in crate::store) fn is_checked(self) -> bool {
        matches!(self, Self::Checked | Self::ChosenId | Self::Version)
    }

    pub(super) fn index(self) -> usize {
        match self {
            Self::Checked => 0,
            Self::ChosenId => 1,
            Self::Unclaimed => 2,
            Self::Claimed => 3,
            Self::Version => 4,
            Self::Routed => 5,
            Self::RoutedClaimed => 6,
        }
    }

    /// The statement in this form. `pooled`: for a connection of the pool; `relaxed`: it sets `synchronous_commit` itself.
    pub(in crate::store) fn text(self, pooled: bool, relaxed: bool) -> String {
        let has = |part: &str| match part {
            "checked" => self.is_checked(),
            "unchecked" => !self.is_checked(),
            "chosen" => matches!(self, Self::ChosenId | Self::Version),
            "version" => self == Self::Version,
            "published" => self != Self::Version,
            "unclaimed" => matches!(self, Self::Unclaimed | Self::Routed),
            "routed" => !matches!(self, Self::Unclaimed | Self::Claimed),
            "pooled" => pooled,
            "own" => !pooled,
            _ => relaxed,
        };
        with_parts(ACCEPT, |part| part.split(" and ").all(has))
    }
}
