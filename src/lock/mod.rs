//! Locks on names: one service, three providers.
//!
//! ```
//! use std::time::Duration;
//! use mainspring::lock::{LocalLocks, LockProvider, LockRequest};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> mainspring::Result<()> {
//! let locks = LocalLocks::new();
//! let handle = locks.acquire(LockRequest::exclusive("report 7"), Duration::from_secs(5)).await?;
//! assert!(locks.try_acquire(LockRequest::exclusive("report 7")).await?.is_none());
//! drop(handle);
//! # Ok(())
//! # }
//! ```
//!
//! Among processes, with nothing but a database (which needs no tables for it):
//!
//! ```no_run
//! use std::time::Duration;
//! use mainspring::lock::{LockProvider, LockRequest, PostgresLockOptions, PostgresLocks};
//!
//! # #[tokio::main]
//! # async fn main() -> mainspring::Result<()> {
//! let url = "postgres://user:password@localhost/name";
//! let locks: Box<dyn LockProvider> = Box::new(PostgresLocks::connect(url, PostgresLockOptions::default()).await?);
//! let both = LockRequest::exclusive("account 1").and_exclusive("account 2");
//! let handle = locks.acquire(both, Duration::from_secs(10)).await?;
//! let token = handle.fencing_token().await?;
//! tokio::select! {
//!     () = handle.lost() => println!("another process may hold them now"),
//!     () = transfer(token.get()) => {}
//! }
//! # Ok(())
//! # }
//! # async fn transfer(_token: u64) {}
//! ```
//!
//! The engine's own locks are always those of Postgres: the session that holds the lock of an instance also holds the
//! liveness lock of the node, and the fence rows of its commits are in the same database.
//!
//! [`PostgresLocks`] locks among all processes on one database, [`FileLocks`] among those of one host, [`LocalLocks`]
//! among the tasks of one process. They give the same guarantees, which one suite of tests checks:
//!
//! - **Exclusive, shared, several at once, counting.** See [`LockRequest`]. No lock is held while another one of the same
//!   request is waited for, so requests do not deadlock. A caller that requests more while it holds a handle can
//!   deadlock; its timeout ends that.
//! - **Cancellation.** A future that is dropped, at whatever point, leaves nothing locked and no place in a queue.
//! - **Order.** Within a process locks are granted in the order of the requests. A process that holds a lock for which
//!   another process waits grants it to those of its own requests that were queued by then, 32 at most, and then releases
//!   it for the other process, behind which it queues again. Readers do not overtake a writer of another process. With
//!   files no process knows of waiting ones: there a lock is released after 64 requests of one process.
//! - **Release.** A dropped handle releases its locks. When the process ends, the database or the kernel does.
//! - **Fencing.** A lock cannot stop a holder that was paused; [`FencingToken`] can.
//!
//! # Layout
//!
//! - `request`, `handle`: what is asked for, and what is granted; `key`: names as 64 bits; `stats`: what is counted.
//! - `table`: owners and queues, a state machine without tasks; `frontend`: the table behind its mutex.
//! - `provider/{local,file,postgres}`: the backends.

mod frontend;
mod handle;
mod key;
mod provider;
mod request;
mod stats;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::future::BoxFuture;

pub use frontend::FencingToken;
pub use handle::LockHandle;
pub use provider::file::FileLocks;
pub use provider::local::LocalLocks;
pub use provider::postgres::{PostgresLockOptions, PostgresLocks};
pub use request::{LockMode, LockRequest, MOST_KEYS};
pub use stats::{Durations, LockStats};
pub use table::HeldLock;

pub(crate) use key::LockKey;
pub(crate) use provider::postgres::{SessionLocks, SessionTask};
#[cfg(feature = "bench")]
pub(crate) use stats::Histogram;
pub(crate) use table::KeyView;

use crate::Result;

/// Grants locks.
///
/// # Errors
/// `invalid-lock-request` for a request that cannot be granted, `lock-timeout`, `lost-lock` when the connection
/// ended during the request, and those of an unreachable database. All but the first are transient
/// ([`Error::is_transient`](crate::Error::is_transient)).
pub trait LockProvider: Send + Sync {
    /// Waits until all locks of the request are granted, at most for this long (then `lock-timeout`). Cancellation safe:
    /// dropped anywhere, it leaves nothing locked.
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>>;

    /// Takes the locks if all are free now; returns `None` if another request holds one or queues for it. Does not queue.
    /// Cancellation safe.
    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>>;

    /// The statistics since the provider was opened, or since it last lost its connection.
    fn stats(&self) -> LockStats;

    /// What this process holds now.
    fn held(&self) -> Vec<HeldLock>;
}
