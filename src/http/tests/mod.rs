//! The server on a connection in memory.

mod instructions;
