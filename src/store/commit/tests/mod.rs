//! The commit contract with artificial bursts against a real server; each race with two open sessions.

mod barrier;
mod contended;
mod contract;
mod demoted;
mod faults;
mod holders;
mod inbox;
mod lanes;
mod races;
mod resend;
mod shapes;
mod single_claim;
