//! Clusters as they are deployed: roles, poolers, passwords, versions, rolling restarts.

mod credentials;
mod database_roles;
mod patterns;
mod pooler;
mod rolling_restart;
mod secrets;
mod session_settings;
mod versions;
