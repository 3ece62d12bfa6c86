//! The commit contract with bursts that nobody ran, against a real server; each race with two open sessions.

mod barrier;
mod contract;
mod demoted;
mod faults;
pub(crate) mod fixture;
mod holders;
mod inbox;
mod lanes;
mod plain;
pub(crate) mod proxy;
mod races;
mod resend;
