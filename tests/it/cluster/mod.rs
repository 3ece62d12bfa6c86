//! Two real processes on one database, killed at random moments and at every failpoint.

mod kill;
mod nodes;
mod stall;
