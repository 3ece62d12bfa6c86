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
//!     () = handle.lost() => println!("somebody else may have them now"),
//!     () = transfer(token.get()) => {}
//! }
//! # Ok(())
//! # }
//! # async fn transfer(_token: u64) {}
//! ```
//!
//! The engine's own locks are always those of Postgres: the session that holds the lock of an instance is the one whose
//! end tells others that the process is gone, and what fences its commits is in the same database.
//!
//! [`PostgresLocks`] locks among all processes on one database, [`FileLocks`] among those of one host, [`LocalLocks`]
//! among the tasks of one process. They keep the same promises, proven by one suite of tests:
//!
//! - **Exclusive, shared, several at once, counting.** See [`LockRequest`]. Nothing is held while something else of the
//!   same request is waited for, so requests do not deadlock each other; whoever asks for more while holding a handle
//!   can, and is saved by its timeout.
//! - **Cancellation.** A future that is dropped, at whatever point, leaves nothing locked and no place in line.
//! - **In line.** Within a process locks are granted in order of asking. Processes take turns: who has a lock that another
//!   one waits for gives it to those of its own that stood in line by then, 32 at most, and then to the other, behind
//!   which it queues again. Readers do not go ahead of a writer of another process. Of files nobody tells who waits:
//!   there a process gives a lock back after 64 of its own.
//! - **The end.** A handle gives back when it is dropped. When the process dies, the system (database or kernel) does.
//! - **Fencing.** A lock cannot stop a holder that was paused; [`FencingToken`] can.
//!
//! # Layout
//!
//! - `request`, `handle`: what is asked for, and what is got; `key`: names as 64 bits; `stats`: what is counted.
//! - `table`: who owns and who stands in line, a machine without tasks; `front`: the table behind its mutex.
//! - `local`, `file`, `postgres`: what stands behind it.

mod file;
mod front;
mod handle;
mod key;
mod local;
mod postgres;
mod request;
mod stats;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::future::BoxFuture;

pub use file::FileLocks;
pub use handle::{FencingToken, LockHandle};
pub use local::LocalLocks;
pub use postgres::{PostgresLockOptions, PostgresLocks};
pub use request::{LockMode, LockRequest, MOST_KEYS};
pub use stats::{Durations, LockStats};
pub use table::HeldLock;

pub(crate) use handle::LockHandle as LockGuard;
pub(crate) use key::LockKey;
#[cfg(feature = "bench")]
pub(crate) use postgres::{PlainForm, PlainLocks};
pub(crate) use postgres::{SessionLocks, SessionTask};
#[cfg(feature = "bench")]
pub(crate) use stats::Histogram;
pub(crate) use table::KeyView;

use crate::Result;

/// Somebody who keeps locks.
///
/// Errors: `invalid-lock-request` for a request that nobody can grant, `lock-timeout`, `lost-lock` when the connection
/// ended while the request was under way, and what the database says when it cannot be reached. All but the first are
/// transient ([`Error::is_transient`](crate::Error::is_transient)).
pub trait LockProvider: Send + Sync {
    /// Waits until all that is asked for is had, at most for this long (then `lock-timeout`). Cancellation safe: dropped
    /// anywhere, nothing stays locked.
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>>;

    /// Takes it if it can be had at once; none if somebody has it, or stands in line for it. Cancellation safe.
    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>>;

    /// What was counted since the provider was made, or since it last lost its connection.
    fn stats(&self) -> LockStats;

    /// What this process holds now.
    fn held(&self) -> Vec<HeldLock>;
}
