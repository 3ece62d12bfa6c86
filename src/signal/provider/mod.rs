//! What carries the notifications.

pub(super) mod local;
pub(super) mod postgres;
#[cfg(feature = "redis")]
pub(super) mod redis;
