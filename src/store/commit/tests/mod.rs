//! The commit contract with bursts that nobody ran, against a real server; each race with two open sessions.

mod barrier;
mod contract;
mod demoted;
pub(crate) mod fixture;
mod inbox;
mod lanes;
mod plain;
pub(crate) mod proxy;
mod races;
mod resend;
