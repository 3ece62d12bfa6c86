//! Real processes on one database: killed at random moments and at every failpoint, stopped, cut off, and out of each
//! other's hearing.

mod kill;
mod nodes;
mod pooler;
mod stall;
mod takeover;
mod wake;
