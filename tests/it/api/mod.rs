//! The REST API.

mod cluster;
mod definitions;
mod descriptors;
mod instance_list;
mod live;
mod openapi;
mod resume;
mod runtime_admin;
mod timers;
mod viewer;
mod workflows;
