//! Real processes on one database: killed at random moments and at every failpoint, stopped, cut off, and out of each
//! other's hearing.

mod activation;
mod backlog;
mod clocks;
mod credentials;
mod cut;
mod due;
mod fan_out;
mod foreign_settings;
mod halfway;
mod horizon;
mod inbox;
mod kill;
mod letters;
mod lost;
mod nodes;
mod overview;
mod patterns;
mod pooler;
mod restart;
mod resumes;
mod rolling;
mod schedules;
mod seeds;
mod silence;
mod stall;
mod standby;
mod starved;
mod storm;
mod succession;
mod takeover;
mod ticks;
mod timers;
mod versions;
mod wake;
mod wins;
