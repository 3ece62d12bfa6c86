//! The table as operators see it: by request, and by key, as the server lists its locks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{KeyState, LockKey, LockMode, RequestState, Table};

/// A held lock, as an operator sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeldLock {
    /// Its name, or all names of a request for several locks.
    pub name: Arc<str>,
    /// How it is held. A slot of a semaphore counts as exclusive.
    pub mode: LockMode,
    /// How long it has been held, by this process's clock.
    pub held_for: Duration,
    /// How many requests of this process wait for it.
    pub waiters: usize,
}

impl HeldLock {
    /// What a provider in another crate shows of a lock that it holds.
    pub fn new(name: impl Into<Arc<str>>, mode: LockMode, held_for: Duration, waiters: usize) -> Self {
        Self {
            name: name.into(),
            mode,
            held_for,
            waiters,
        }
    }
}

/// A key that the process holds, or for which one of its requests waits.
#[derive(Clone, Debug)]
pub(crate) struct KeyView {
    pub(crate) key: LockKey,
    /// The backend holds it for this process.
    pub(crate) held: bool,
    /// The name that its longest owner uses, or the first request in the queue; `None` if it is kept for the process itself.
    pub(crate) name: Option<Arc<str>>,
    /// For how long the longest owner has held it.
    pub(crate) held_for: Option<Duration>,
    /// Requests in the queue.
    pub(crate) waiters: usize,
}

impl Table {
    /// All that is held now.
    pub(in crate::lock) fn held(&self, now: Instant) -> Vec<HeldLock> {
        let each = self.requests.values().filter_map(|entry| {
            let RequestState::Held { since } = entry.state else {
                return None;
            };
            let keys = entry.keys().iter().filter_map(|(key, _)| self.entries.get(key));
            Some(HeldLock {
                name: entry.request.name.text(),
                mode: entry.keys().iter().map(|(_, mode)| *mode).max()?,
                held_for: now.saturating_duration_since(since),
                waiters: keys.map(|key| key.queue.len()).sum(),
            })
        });
        each.collect()
    }

    /// Every key that is held or waited for.
    pub(in crate::lock) fn view(&self, now: Instant) -> Vec<KeyView> {
        let mut owners: HashMap<LockKey, (Instant, Arc<str>)> = HashMap::new();
        for entry in self.requests.values() {
            let RequestState::Held { since } = entry.state else {
                continue;
            };
            for (key, _) in entry.keys() {
                let owner = owners.entry(*key);
                let owner = owner.or_insert_with(|| (since, entry.request.name.text()));
                if since < owner.0 {
                    *owner = (since, entry.request.name.text());
                }
            }
        }
        let views = self.entries.iter().map(|(key, entry)| {
            let owner = owners.remove(key);
            let first = entry.queue.first().and_then(|ticket| self.requests.get(ticket));
            KeyView {
                key: *key,
                held: matches!(entry.state, KeyState::Held(_)),
                held_for: owner.as_ref().map(|(since, _)| now.saturating_duration_since(*since)),
                name: owner
                    .map(|(_, name)| name)
                    .or_else(|| first.map(|first| first.request.name.text())),
                waiters: entry.queue.len(),
            }
        });
        views.filter(|view| view.held || view.waiters > 0).collect()
    }
}
