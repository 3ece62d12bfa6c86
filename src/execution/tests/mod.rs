//! The interpreter without a database, with a simulated clock.

mod activities;
mod activity_test;
mod activity_timeout;
mod bounds;
mod commits;
mod composition;
mod control_flow;
mod data;
mod elsa_definitions;
mod events_and_tasks;
mod faults;
mod flowchart;
mod flowchart_tokens;
mod in_memory;
mod incidents;
mod nested;
mod random;
mod random_workflow;
mod sample_definitions;
mod state_machine;
mod suspension;
mod try_catch;
mod try_selection;
mod validation;
mod warnings;
mod withdrawal;
