//! Promise 4. Only the database's clock counts.

mod nodes;
mod server;
