//! What keeps the locks.

pub(super) mod file;
pub(super) mod local;
pub(super) mod postgres;
