//! Promise 2. One instance, one writer.

mod activation;
mod cancel;
mod cancel_and_delete;
mod expired_node;
mod lock_domain;
#[cfg(feature = "redis")]
mod redis_locks;
mod resumes;
mod variables;
