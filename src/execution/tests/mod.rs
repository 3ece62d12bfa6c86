//! The interpreter in memory: no database, and time passes when the test says so.

mod commits;
mod driver;
mod faults;
mod flowchart;
mod limits;
mod real;
mod samples;
mod time_limit;
mod validation;
mod waiting;
