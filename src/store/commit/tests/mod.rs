//! The commit contract with bursts that nobody ran, against a real server; each race with two open sessions.

mod barrier;
mod contract;
mod demoted;
mod faults;
mod holders;
mod inbox;
mod lanes;
mod plain;
mod races;
mod resend;
mod shapes;
