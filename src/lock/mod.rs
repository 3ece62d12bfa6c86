//! Locks on names, held by a node.
//!
//! One provider so far: advisory locks of Postgres, all of them on one session of the node. The database lets go of
//! them when the session ends, however it ends.

mod postgres;
#[cfg(test)]
mod tests;

pub(crate) use postgres::{LockGuard, SessionLocks, SessionTask};

use std::fmt;

use sha2::{Digest, Sha256};

use crate::id::{Incarnation, InstanceId, NodeId, TenantId};

/// A lock's key in the 64-bit space of advisory locks; the two-integer space belongs to stimuli. Two names with one
/// key only wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockKey(pub(crate) i64);

impl LockKey {
    /// The lock of one instance: whoever runs a burst of it holds this.
    pub(crate) fn instance(schema: &str, tenant: &TenantId, instance: &InstanceId) -> Self {
        Self::of(&[schema, "instance", tenant.as_str(), instance.as_str()])
    }

    /// Held by a process for as long as its session lives; whoever gets it knows that the process is gone.
    pub(crate) fn liveness(schema: &str, incarnation: Incarnation) -> Self {
        Self::of(&[schema, "liveness", &incarnation.to_string()])
    }

    /// Held by a process while it registers under a node id.
    pub(crate) fn node_id(schema: &str, node: &NodeId) -> Self {
        Self::of(&[schema, "node", node.as_str()])
    }

    fn of(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let mut key = [0u8; 8];
        for (to, from) in key.iter_mut().zip(hash.finalize().iter()) {
            *to = *from;
        }
        Self(i64::from_be_bytes(key))
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
