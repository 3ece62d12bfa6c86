//! The log of a process: how many lines of one kind it takes, and levels that change while it runs.
//!
//! # Layout
//!
//! - `line_budget`: lines for people, a hundred a second.
//! - `levels`: the level of everything, of one instance, or of one definition.

mod levels;
mod line_budget;

#[cfg(feature = "cli")]
pub(crate) use levels::install;
pub(crate) use levels::{LevelChange, change_level, levels};
pub use levels::{LogLevel, LogLevelOf};
pub(crate) use line_budget::{LINES, bounded_info};
