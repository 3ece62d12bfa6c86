//! Engines of this process on nodes of one database.

mod http_kill;
mod http_request;
mod http_routes;
mod identity;
mod volatile_request;
