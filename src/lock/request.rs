//! What somebody asks for.

use std::fmt;
use std::sync::Arc;

use super::key::{Keying, LockKey};
use crate::id::InstanceId;
use crate::{Error, Result};

/// The most locks in one request, and the most slots of a semaphore.
pub const MOST_KEYS: usize = 256;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LockMode {
    /// Together with others who hold it shared.
    Shared,
    /// Alone.
    Exclusive,
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        })
    }
}

/// Which locks are wanted, all of them or none: one, several at once, or a slot of a semaphore.
///
/// Names are compared byte by byte, may be of any length, and are locked as 64 bits of their SHA-256 (mixed with the
/// schema or directory of the provider). Two names with the same bits wait for each other; they are never taken for
/// one another.
#[derive(Clone, Debug)]
pub struct LockRequest {
    names: Vec<(String, LockMode)>,
    /// Some: the only name is a semaphore with so many slots.
    slots: Option<usize>,
}

impl LockRequest {
    /// One lock, held alone.
    pub fn exclusive(name: impl Into<String>) -> Self {
        Self::one(name.into(), LockMode::Exclusive)
    }

    /// One lock, held together with others who ask for it shared. Whoever waits for it alone is not overtaken by
    /// sharers of the same provider that come later.
    pub fn shared(name: impl Into<String>) -> Self {
        Self::one(name.into(), LockMode::Shared)
    }

    /// One of so many slots (1 to 256) under a name: at most that many hold one at a time. All who use the name must
    /// give the same number. A semaphore and a lock of the same name have nothing to do with each other. Slots cannot
    /// be combined with locks; [`and_exclusive`](Self::and_exclusive) on one is refused when it is asked for.
    pub fn semaphore(name: impl Into<String>, slots: usize) -> Self {
        Self {
            slots: Some(slots),
            ..Self::one(name.into(), LockMode::Exclusive)
        }
    }

    /// This lock as well, alone. Order does not matter: nothing is held while it is waited for, so that nobody
    /// deadlocks. A name given twice counts once, in the stronger mode.
    #[must_use]
    pub fn and_exclusive(mut self, name: impl Into<String>) -> Self {
        self.names.push((name.into(), LockMode::Exclusive));
        self
    }

    /// This lock as well, shared.
    #[must_use]
    pub fn and_shared(mut self, name: impl Into<String>) -> Self {
        self.names.push((name.into(), LockMode::Shared));
        self
    }

    fn one(name: String, mode: LockMode) -> Self {
        Self {
            names: vec![(name, mode)],
            slots: None,
        }
    }

    /// The keys, sorted, each once.
    pub(super) fn resolve(self, space: &str, keying: Keying) -> Result<Wish> {
        let too_many = |what: &str| {
            Error::invalid(
                "invalid-lock-request",
                format!("a request names 1 to {MOST_KEYS} {what}"),
            )
        };
        if let Some(slots) = self.slots {
            let [(name, _)] = self.names.as_slice() else {
                return Err(Error::invalid(
                    "invalid-lock-request",
                    "a slot of a semaphore is asked for by itself, not together with locks",
                ));
            };
            if slots == 0 || slots > MOST_KEYS {
                return Err(too_many("slots"));
            }
            let keys = (0..slots).map(|slot| {
                let key = keying(&[space, "slot", name, &slot.to_string()]);
                (key, LockMode::Exclusive)
            });
            let mut keys: Vec<_> = keys.collect();
            // From another slot each time, so that nodes do not all try the first one.
            keys.rotate_left(rand::random_range(0..slots));
            return Ok(Wish {
                keys: Keys::Many(keys),
                any: true,
                name: Name::Given(name.as_str().into()),
            });
        }
        if self.names.len() > MOST_KEYS {
            return Err(too_many("locks"));
        }
        if let [(name, mode)] = self.names.as_slice() {
            return Ok(Wish {
                keys: Keys::One([(keying(&[space, "name", name]), *mode)]),
                any: false,
                name: Name::Given(name.as_str().into()),
            });
        }
        let keyed = self.names.iter();
        let mut keys: Vec<_> = keyed
            .map(|(name, mode)| (keying(&[space, "name", name]), *mode))
            .collect();
        // The stronger mode first, and that one stays.
        keys.sort_by(|one, two| one.0.cmp(&two.0).then(two.1.cmp(&one.1)));
        keys.dedup_by_key(|(key, _)| *key);
        let names: Vec<&str> = self.names.iter().map(|(name, _)| name.as_str()).collect();
        Ok(Wish {
            keys: Keys::Many(keys),
            any: false,
            name: Name::Given(names.join(", ").into()),
        })
    }
}

/// What a lock is called where somebody looks at it.
#[derive(Clone)]
pub(super) enum Name {
    Given(Arc<str>),
    /// Written out only when somebody looks: bursts take these locks.
    Instance(InstanceId),
}

impl Name {
    pub(super) fn text(&self) -> Arc<str> {
        match self {
            Self::Given(name) => Arc::clone(name),
            Self::Instance(id) => format!("instance:{id}").into(),
        }
    }
}

/// A request in keys.
pub(super) struct Wish {
    pub(super) keys: Keys,
    /// One of them is enough.
    pub(super) any: bool,
    pub(super) name: Name,
}

/// Most requests have one key and need no memory for it.
pub(super) enum Keys {
    One([(LockKey, LockMode); 1]),
    Many(Vec<(LockKey, LockMode)>),
}

impl Keys {
    pub(super) fn as_slice(&self) -> &[(LockKey, LockMode)] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}
