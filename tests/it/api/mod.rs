//! The REST API.

mod activity_test;
mod bounds;
mod cluster;
mod definitions;
mod descriptors;
mod elsa_json;
mod expressions;
mod files;
mod instance_files;
mod instance_list;
mod instance_variables;
mod kept_events;
mod links;
mod live;
mod openapi;
mod placeholders;
mod readonly;
mod refresh;
mod resume;
mod runtime_admin;
mod schedules;
mod start_checks;
mod start_versions;
mod tasks;
mod viewer;
mod workflows;
