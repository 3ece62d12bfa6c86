//! Promise 8. Bad input gets a clear error and changes nothing.

mod connections;
mod foreign_sessions;
mod forged_notifications;
mod fuzz;
mod links;
mod long_ids;
mod pages;
mod text;
