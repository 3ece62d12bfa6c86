//! Locks on names: one service, several providers.
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
//! Between processes, with only a database (which needs no tables for this):
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
//! An engine keeps the locks of instances with advisory locks of its session, or with the provider that
//! [`EngineBuilder::locks`](crate::EngineBuilder::locks) sets. In either case a lock only saves work: the fences in the
//! database decide which commit succeeds, a lost lease stops its burst before the next activity, and completed activities go
//! through the fences. The locks with which nodes show that they live, and elect a scheduler, are always those of the
//! session.
//!
//! A provider in another crate implements [`LockProvider`] and grants [`LockHandle::new`]; `examples/providers.rs` is one,
//! and `mainspring::testing::conformance` (feature `testing`) is the suite that the providers of this crate pass.
//!
//! [`PostgresLocks`] locks among all processes on one database, `RedisLocks` (feature `redis`) among those on one Redis
//! server, [`FileLocks`] among those on one host, and [`LocalLocks`] among the tasks of one process. All give the same
//! guarantees, which one suite of tests checks:
//!
//! - **Exclusive, shared, several at once, counting.** See [`LockRequest`]. A request holds no lock while it waits for
//!   another one, so requests do not deadlock. A caller that requests more while it holds a handle can deadlock; its timeout
//!   ends that.
//! - **Cancellation.** A future that is dropped, at any point, leaves nothing locked and no place in a queue.
//! - **Order.** Within a process locks are granted in the order of the requests. A process that holds a lock for which
//!   another process waits grants it to those of its own requests that were queued by then, at most 32, and then releases it
//!   for the other process and queues again behind it. Readers do not overtake a writer of another process. With files and
//!   Redis no process knows which others wait, so a lock is released after 64 requests of one process.
//! - **Release.** A dropped handle releases its locks. When the process ends, the database or the kernel releases them;
//!   Redis does so when the lease is over.
//! - **Fencing.** A lock cannot stop a holder that was paused; [`FencingToken`] can.
//!
//! # Layout
//!
//! - `request`, `handle`: requests and granted locks; `key`: names as 64 bits; `stats`: counters.
//! - `table`: owners and queues, a state machine without tasks; `shared_table`: the table behind its mutex.
//! - `owner`: the registration of an engine that takes locks; `lease_time`: the clock of leases.
//! - `provider/{local,file,postgres,redis}`: the backends; `redis` with the feature of that name.

mod handle;
mod key;
#[cfg(feature = "redis")]
mod lease_time;
mod owner;
mod provider;
mod request;
mod shared_table;
mod stats;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

pub use handle::{LockGrant, LockHandle};
pub use owner::LockOwner;
pub use provider::file::FileLocks;
pub use provider::local::LocalLocks;
pub use provider::postgres::{PostgresLockOptions, PostgresLocks};
#[cfg(feature = "redis")]
pub use provider::redis::{RedisLockOptions, RedisLocks};
pub use request::{LockMode, LockRequest, MOST_KEYS};
pub use shared_table::FencingToken;
pub use stats::{Durations, LockStats};
pub use table::HeldLock;

pub(crate) use handle::LockLoss;
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
    /// Waits until all locks of the request are granted, for at most this long (then `lock-timeout`). Cancellation safe: a
    /// future dropped at any point leaves nothing locked.
    fn acquire(&self, request: LockRequest, timeout: Duration) -> BoxFuture<'_, Result<LockHandle>>;

    /// Takes the locks if all are free now; returns `None` if another request holds one or queues for it. Does not queue.
    /// Cancellation safe.
    fn try_acquire(&self, request: LockRequest) -> BoxFuture<'_, Result<Option<LockHandle>>>;

    /// The same for each of several requests; the engine uses it for the instances that a poll has found. A provider should
    /// answer in one round trip; the default asks one after another. Cancellation safe.
    fn try_acquire_many(&self, requests: Vec<LockRequest>) -> BoxFuture<'_, Result<Vec<Option<LockHandle>>>> {
        Box::pin(async move {
            let mut handles = Vec::with_capacity(requests.len());
            for request in requests {
                handles.push(self.try_acquire(request).await?);
            }
            Ok(handles)
        })
    }

    /// The names that other processes release, if this one was recently refused them: a node polls when one arrives. Each is
    /// a hint, which may be lost, late or superfluous. The default has none, and a node tries again in a tenth of a second.
    fn freed(&self) -> BoxStream<'static, Arc<str>> {
        Box::pin(futures_util::stream::pending())
    }

    /// This provider for one registration of an engine. If it names the registration in what it writes, another node can
    /// take over the locks of a killed process once the cluster has removed it. `None` means that it is used as it is.
    /// Called within a tokio runtime.
    fn registered(&self, _owner: LockOwner) -> Option<Arc<dyn LockProvider>> {
        None
    }

    /// Where it keeps locks: equal for two providers that see each other's locks, and different otherwise, as far as is
    /// known. An engine does not start beside a live node of another domain. What follows ` #` is a nonce of the server,
    /// which is left out until the server has answered. `None` means that domains are not compared.
    fn domain(&self) -> Option<String> {
        None
    }

    /// Whether the server that it needs is away; readiness shows it, and the node stays ready.
    fn is_away(&self) -> bool {
        false
    }

    /// Why it is away, in words for an operator and without secrets; readiness shows it. `None` if it is not away, or the
    /// cause is not known.
    fn away_cause(&self) -> Option<String> {
        None
    }

    /// The statistics since the provider was opened, or since it last lost its connection.
    fn stats(&self) -> LockStats;

    /// What this process holds now.
    fn held(&self) -> Vec<HeldLock>;
}
