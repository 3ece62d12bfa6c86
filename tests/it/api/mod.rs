//! The REST API.

mod cluster;
mod resume;
mod timers;
mod workflows;
