//! When something is due: cron, intervals, points in time, time zones, and misfires.
//!
//! This module is pure: it has no clock, no database and no node. The caller passes the database's time to
//! `Schedule::due` and stores the `FireDecision`; the same input gives the same decision on every node.
//!
//! # Layout
//! - `recurrence`: `Schedule`, how its occurrences are planned, and jitter; `inputs` and `misfire_json`: its JSON;
//!   `parse`: what both share.
//! - `cron`: `Cron`, an expression over local times; `cron_field`: its fields; `interval`: `Interval`.
//! - `zone`: `Zone`, a time zone as periods of one offset; `clock_change`: gaps, overlaps and the rules for them;
//!   `occurrence`: the search for the occurrences of an expression in a zone, where daylight saving is decided.
//! - `policy`: `Misfire` and `OverlapPolicy`; `due`: what fires now.
//! - `similar_names`: the names that a misspelt one may mean.
//!
//! # Invariants
//! - An occurrence is a planned instant. The next one is always later than the last, even if the expression, the zone or the
//!   time zone database has changed in between.
//! - Every search is bounded: by the 400 years after which the calendar repeats, and by the year 9999.

mod clock_change;
mod cron;
mod cron_field;
mod due;
mod inputs;
mod interval;
mod misfire_json;
mod occurrence;
mod parse;
mod policy;
mod recurrence;
mod similar_names;
#[cfg(test)]
mod tests;
mod zone;

pub(crate) use clock_change::{ClockAdjustment, ClockChangeRules, Gap, OverlapTime};
pub(crate) use cron::Cron;
pub(crate) use due::Fire;
#[cfg(test)]
pub(crate) use due::FireDecision;
#[cfg(test)]
pub(crate) use interval::Interval;
pub(crate) use occurrence::Occurrence;
#[cfg(test)]
pub(crate) use policy::MisfirePolicy;
pub(crate) use policy::{OverlapDecision, OverlapPolicy};
pub use recurrence::Schedule;
pub(crate) use recurrence::{PlannedFire, Progress, ScheduleKind};
pub(crate) use similar_names::similar_names;
pub(crate) use zone::{Zone, time_zone_database};
