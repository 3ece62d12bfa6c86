//! The program: one file per command.

pub(crate) mod private_postgres;
