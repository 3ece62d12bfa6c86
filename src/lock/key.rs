//! The key of a lock in its backend: 64 bits.

use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use sha2::{Digest, Sha256};

use crate::id::{Incarnation, InstanceId, NodeId, TenantId};

/// A lock's key in the 64-bit space of advisory locks; the two-integer space belongs to stimuli. Two names with one key
/// exclude each other, which costs time only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockKey(pub(crate) i64);

/// Maps the schema (or directory) and the parts of a name to a key. A test uses another one, to make names collide.
pub(super) type KeyFunction = fn(&[&str]) -> LockKey;

impl LockKey {
    /// The lock of an instance, held by each burst of it.
    pub(crate) fn instance(schema: &str, tenant: &TenantId, instance: &InstanceId) -> Self {
        Self::of(&[schema, "instance", tenant.as_str(), instance.as_str()])
    }

    /// Held by a process while its session is open; another session that gets it knows that the process has ended.
    pub(crate) fn liveness(schema: &str, incarnation: Incarnation) -> Self {
        Self::of(&[schema, "liveness", &incarnation.to_string()])
    }

    /// Held by a process while it registers under a node id.
    pub(crate) fn node_id(schema: &str, node: &NodeId) -> Self {
        Self::of(&[schema, "node", node.as_str()])
    }

    pub(super) fn of(parts: &[&str]) -> Self {
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

    /// Parses the text form.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        u64::from_str_radix(text, 16).ok().map(|bits| Self(bits.cast_signed()))
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Keys are hashes already, and tickets are consecutive: a multiplication spreads both well enough.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The odd constant nearest to 2^64 divided by the golden ratio.
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }
}

pub(super) type BuildKeyHasher = BuildHasherDefault<KeyHasher>;
