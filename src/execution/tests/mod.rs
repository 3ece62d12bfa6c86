//! The interpreter without a database, with a simulated clock.

mod activities;
mod activity_test;
mod activity_timeout;
mod bounds;
mod causes;
mod commands;
mod commits;
mod composition;
mod control_flow;
mod data;
mod elsa_definitions;
mod evaluation;
mod events_and_tasks;
mod executed_children;
mod faults;
mod flowchart;
mod flowchart_tokens;
mod flowchart_versions;
#[cfg(all(feature = "csharp", feature = "liquid"))]
mod generated_expressions;
#[cfg(feature = "http")]
mod http_activities;
#[cfg(feature = "http")]
mod http_requests;
mod in_memory;
mod incidents;
mod large_flowcharts;
mod large_graphs;
mod long_ids;
mod names;
mod nested;
mod numbers;
mod older_values;
mod output_converters;
mod random;
mod random_workflow;
mod requests;
mod retry;
mod sample_definitions;
mod scripts;
mod secrets;
mod skipped_joins;
mod state_machine;
mod suspension;
mod timers;
mod try_catch;
mod try_selection;
mod validation;
mod warnings;
mod withdrawal;
