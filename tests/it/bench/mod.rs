//! The benchmarks, run for real.

mod failover;
mod plot;
mod runs;
