//! Promise 1. Nothing accepted is lost.

mod bulk_action;
mod calls;
mod children;
mod cut_connections;
mod database_errors;
mod database_restart;
mod dead_letters;
mod event_races;
mod executed_children;
mod fan_out;
mod inbox;
mod inbox_match;
mod interrupted;
mod kill;
mod links;
mod lost_answers;
mod moves;
mod published_events;
mod random_workflows;
mod repeats;
mod replies;
mod standby;
mod try_parts;
