//! The providers that carry the notifications.

pub(super) mod local;
pub(super) mod postgres;
#[cfg(feature = "rabbitmq")]
pub(super) mod rabbitmq;
