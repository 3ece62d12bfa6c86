//! The REST API.

mod cluster;
mod resume;
mod runtime_admin;
mod timers;
mod workflows;
