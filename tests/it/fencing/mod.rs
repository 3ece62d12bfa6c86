//! Promise 2. One instance, one writer.

mod activation;
mod cancel;
mod cancel_and_delete;
mod expired_node;
#[cfg(target_os = "linux")]
mod file_locks;
#[cfg(feature = "redis")]
mod redis_clusters;
#[cfg(feature = "redis")]
mod redis_locks;
#[cfg(feature = "redis")]
mod redis_servers;
mod resumes;
mod retry;
mod service_domains;
mod variables;
