//! Requests to engines of this process, over a database of their own.

mod http_kill;
mod http_request;
mod http_routes;
