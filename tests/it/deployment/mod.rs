//! Clusters as they are deployed: roles, poolers, proxies, certificates, passwords, versions, rolling restarts.

mod credentials;
mod database_roles;
mod identity_settings;
mod patterns;
mod pooler;
mod rolling_restart;
mod secrets;
mod session_settings;
mod tls;
mod trusted_proxies;
mod versions;
