//! What a caller asks for.

use std::fmt;
use std::sync::Arc;

use super::key::{KeyFunction, LockKey};
use crate::id::InstanceId;
use crate::{Error, Result};

/// The maximum number of locks in one request, and of slots of a semaphore.
pub const MOST_KEYS: usize = 256;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum LockMode {
    /// Together with others that hold it shared.
    Shared,
    /// By one holder at a time.
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

/// The locks to take, all or none: one, several at once, or a slot of a semaphore.
///
/// Names are compared byte by byte, may be of any length, and are locked as 64 bits of their SHA-256 (mixed with the
/// schema or directory of the provider). Two names with the same bits exclude each other, but are never taken for each
/// other.
#[derive(Clone, Debug)]
pub struct LockRequest {
    names: Vec<(String, LockMode)>,
    /// How many slots the only name has, if it is a semaphore.
    slots: Option<usize>,
}

impl LockRequest {
    /// One lock, held exclusively.
    pub fn exclusive(name: impl Into<String>) -> Self {
        Self::one(name.into(), LockMode::Exclusive)
    }

    /// One lock, held together with others that request it shared. A later shared request does not overtake an exclusive one
    /// that waits at the same provider.
    pub fn shared(name: impl Into<String>) -> Self {
        Self::one(name.into(), LockMode::Shared)
    }

    /// One of this many slots (1 to 256) of a semaphore: at most that many are held at a time. All requests for the name
    /// must give the same number. A semaphore and a lock of the same name are independent. Slots cannot be combined with
    /// locks: after [`and_exclusive`](Self::and_exclusive) the request is refused.
    pub fn semaphore(name: impl Into<String>, slots: usize) -> Self {
        Self {
            slots: Some(slots),
            ..Self::one(name.into(), LockMode::Exclusive)
        }
    }

    /// This lock as well, exclusively. The order does not matter: a request holds no lock while it waits for another one, so
    /// requests do not deadlock. A name given twice counts once, in the stronger mode.
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

    /// The names, each as often as it was given, with the mode that was given with it. A provider holds a name once, in the
    /// stronger mode.
    pub fn names(&self) -> impl Iterator<Item = (&str, LockMode)> {
        self.names.iter().map(|(name, mode)| (name.as_str(), *mode))
    }

    /// How many slots the only name has, if it is a semaphore.
    pub fn slots(&self) -> Option<usize> {
        self.slots
    }

    /// Refuses what no provider grants. Each provider calls it first.
    ///
    /// # Errors
    /// `invalid-lock-request`: more than [`MOST_KEYS`] locks or slots, no slot at all, or a slot together with locks.
    pub fn validate(&self) -> Result<()> {
        let refused = |message: String| Err(Error::invalid("invalid-lock-request", message));
        let many = |what: &str| format!("a request names 1 to {MOST_KEYS} {what}");
        match self.slots {
            Some(_) if self.names.len() > 1 => {
                refused("a slot of a semaphore cannot be requested together with locks".to_owned())
            }
            Some(slots) if slots == 0 || slots > MOST_KEYS => refused(many("slots")),
            None if self.names.len() > MOST_KEYS => refused(many("locks")),
            _ => Ok(()),
        }
    }

    fn one(name: String, mode: LockMode) -> Self {
        Self {
            names: vec![(name, mode)],
            slots: None,
        }
    }

    /// The request in keys: sorted, each once. With `named`, each key has its name.
    pub(super) fn resolve(self, namespace: &str, key_function: KeyFunction, named: bool) -> Result<KeyRequest> {
        self.validate()?;
        if let Some(slots) = self.slots {
            let name = self.names.first().map_or("", |(name, _)| name);
            let key_of = |slot: usize| key_function(&[namespace, "slot", name, &slot.to_string()]);
            let name_of = |slot: usize| (key_of(slot), format!("slot/{slot}/{name}").into());
            let names = if named {
                (0..slots).map(name_of).collect()
            } else {
                Vec::new()
            };
            let mut keys: Vec<_> = (0..slots).map(|slot| (key_of(slot), LockMode::Exclusive)).collect();
            // From a random slot on, so that nodes do not all try the same one first.
            keys.rotate_left(rand::random_range(0..slots));
            return Ok(KeyRequest {
                keys: Keys::Many(keys),
                any: true,
                name: LockName::Given(name.into()),
                names,
            });
        }
        let name_of = |name: &str| (key_function(&[namespace, "name", name]), backend_name(name));
        if let [(name, mode)] = self.names.as_slice() {
            let is_other = named && name.starts_with("slot/");
            return Ok(KeyRequest {
                keys: Keys::One([(key_function(&[namespace, "name", name]), *mode)]),
                any: false,
                name: LockName::Given(name.as_str().into()),
                names: if is_other { vec![name_of(name)] } else { Vec::new() },
            });
        }
        let keyed = self.names.iter();
        let mut keys: Vec<_> = keyed
            .map(|(name, mode)| (key_function(&[namespace, "name", name]), *mode))
            .collect();
        // The stronger mode comes first, so it stays.
        keys.sort_by(|one, two| one.0.cmp(&two.0).then(two.1.cmp(&one.1)));
        keys.dedup_by_key(|(key, _)| *key);
        let names: Vec<&str> = self.names.iter().map(|(name, _)| name.as_str()).collect();
        Ok(KeyRequest {
            keys: Keys::Many(keys),
            any: false,
            name: LockName::Given(names.join(", ").into()),
            names: if named {
                names.into_iter().map(name_of).collect()
            } else {
                Vec::new()
            },
        })
    }
}

/// The name that operators see.
#[derive(Clone)]
pub(super) enum LockName {
    Given(Arc<str>),
    /// Formatted only for a view: each burst takes such a lock.
    Instance(InstanceId),
}

impl LockName {
    pub(super) fn text(&self) -> Arc<str> {
        match self {
            Self::Given(name) => Arc::clone(name),
            Self::Instance(id) => format!("instance:{id}").into(),
        }
    }
}

/// A request in keys.
pub(super) struct KeyRequest {
    pub(super) keys: Keys,
    /// One of the keys is enough.
    pub(super) any: bool,
    pub(super) name: LockName,
    /// The name of each key, where there are several and the backend keeps names.
    pub(super) names: Vec<(LockKey, Arc<str>)>,
}

impl KeyRequest {
    /// What a backend that keeps names calls a key of this request.
    pub(super) fn name_of(&self, key: LockKey) -> Arc<str> {
        let named = self.names.iter().find(|(named, _)| *named == key);
        named.map_or_else(|| self.name.text(), |(_, name)| Arc::clone(name))
    }
}

/// The name of a lock in a backend that keeps names. The names of slots are separate from those of locks.
fn backend_name(name: &str) -> Arc<str> {
    match name.strip_prefix("slot/") {
        Some(rest) => format!("slot/-/{rest}").into(),
        None => name.into(),
    }
}

/// Most requests have one key, which needs no allocation.
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
