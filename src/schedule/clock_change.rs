//! Clock changes: what they do to local times, and the rules for it.

use chrono::NaiveDateTime;

/// What happens to a local time that a clock change skips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gap {
    /// It fires at the end of the gap, once for all local times in it; as Cronos does.
    #[default]
    FireAtEnd,
    /// It fires later by the length of the gap: 02:30 becomes 03:30.
    Shift,
    /// It does not fire on this day.
    Skip,
}

/// Which of two equal local times fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OverlapTime {
    /// The earlier one; as in Cronos.
    #[default]
    First,
    /// The later one.
    Second,
    /// Both: it fires twice on this day.
    Both,
}

/// What clock changes do to an expression of fixed times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockChangeRules {
    /// For local times that are skipped.
    pub gap: Gap,
    /// For local times that occur twice.
    pub overlap: OverlapTime,
}

/// What a clock change did to an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockAdjustment {
    /// This local time does not exist; it fires at the end of the gap.
    EndOfGap(NaiveDateTime),
    /// This local time does not exist; it fires later by the length of the gap.
    Shifted(NaiveDateTime),
    /// This local time does not exist, and did not fire before this occurrence.
    Skipped(NaiveDateTime),
    /// The first of two equal local times.
    FirstOfTwo,
    /// The second of two equal local times.
    SecondOfTwo,
}
