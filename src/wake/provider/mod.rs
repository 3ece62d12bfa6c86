//! What carries the notifications.

pub(super) mod local;
pub(super) mod postgres;
