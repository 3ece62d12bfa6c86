//! The interpreter without a database, with a simulated clock.

mod activity_timeout;
mod bounds;
mod commits;
mod elsa_definitions;
mod faults;
mod flowchart;
mod in_memory;
mod sample_definitions;
mod suspension;
mod validation;
