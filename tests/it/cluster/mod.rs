//! Real processes on one database, killed at random moments and at every failpoint, stopped, and cut off.

mod kill;
mod nodes;
mod stall;
mod takeover;
