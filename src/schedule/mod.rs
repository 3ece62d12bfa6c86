//! When something is due: cron, intervals, points in time, time zones, and what to do about what was missed.
//!
//! Everything here is pure: it knows no clock, no database and no node. Whoever fires asks [`Schedule::due`] with the
//! database's time and stores what the [`FireDecision`] says; the same question gets the same answer on every node.
//!
//! # Layout
//! - [`Schedule`] is what one timer has; `inputs` (and `misfire_value`) read and write its JSON;
//! - [`Cron`] is an expression over local times, `cron_field` reads its fields;
//! - [`Zone`] is a time zone as stretches of one offset; `occurrence` walks an expression over them, and is where
//!   daylight saving is decided ([`Gap`], [`OverlapTime`]);
//! - [`Interval`], `jitter`, [`Misfire`], [`OverlapPolicy`] are what their names say;
//! - `due` decides.
//!
//! # What holds
//! - An occurrence is a planned instant. The next one is always later than the last, whatever changed meanwhile:
//!   expression, zone, time zone database.
//! - Every search is bounded: by the 400 years after which the calendar repeats, and by the year 9999.

mod cron;
mod cron_field;
mod due;
mod inputs;
mod interval;
mod jitter;
mod misfire;
mod misfire_value;
mod nearest_name;
mod occurrence;
mod overlap;
mod plan;
mod zone;

pub use cron::Cron;
pub use due::{Fire, FireDecision, PlannedFire, Progress};
pub use interval::Interval;
pub use misfire::{Misfire, MisfirePolicy};
pub(crate) use nearest_name::similar_names;
pub use occurrence::{ClockAdjustment, ClockChangeRules, Gap, Occurrence, OverlapTime};
pub use overlap::{OverlapDecision, OverlapPolicy};
pub use plan::{Schedule, ScheduleKind};
pub use zone::{Zone, time_zone_database};

#[cfg(test)]
mod tests;
