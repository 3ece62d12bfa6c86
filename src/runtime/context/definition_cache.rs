//! The cache of published definitions as the API shows them, consistent up to a revision.
//!
//! # Invariants
//!
//! - A fill that began before an eviction is not kept, because it may have read what was evicted.
//! - A revision without a notification empties the cache: a notification was lost.
//! - Nothing survives a new connection for notifications, nor a new registration, which begins with an empty cache.
//! - A reader first checks that the last check-in is recent; otherwise it is unknown what is stale.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::byte_cache::ByteCache;
use crate::id::{DefinitionId, TenantId};
use crate::signal::CacheNotification;

/// The bytes of a kept definition beside its own.
const OVERHEAD: usize = 512;

type Key = (TenantId, DefinitionId);

/// The cache of an incarnation.
pub(crate) struct DefinitionCache(Mutex<State>);

struct State {
    known: ByteCache<Key, Arc<Value>>,
    /// The newest revision that all evictions up to it were made for.
    revision: i64,
    evictions: u64,
}

/// A fill under way.
pub(crate) struct Fill(u64);

impl State {
    fn evict(&mut self, key: &Key) {
        self.evictions += 1;
        self.known.remove(key);
    }

    fn evict_all(&mut self) {
        self.evictions += 1;
        self.known.clear();
    }
}

impl DefinitionCache {
    /// Keeps definitions of so many bytes.
    pub(crate) fn new(budget: usize) -> Self {
        Self(Mutex::new(State {
            known: ByteCache::new("definitions", budget),
            revision: 0,
            evictions: 0,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept, or the right to fill it.
    pub(crate) fn get(&self, key: &Key) -> Result<Arc<Value>, Fill> {
        let mut state = self.state();
        let evictions = state.evictions;
        state.known.get(key).cloned().ok_or(Fill(evictions))
    }

    /// Keeps what was read after [`DefinitionCache::get`] found nothing.
    pub(crate) fn keep(&self, fill: Fill, key: Key, definition: Arc<Value>, bytes: usize) {
        let mut state = self.state();
        if fill.0 == state.evictions {
            state.known.insert(key, definition, bytes + OVERHEAD);
        }
    }

    /// This node has changed a definition itself.
    pub(crate) fn changed_here(&self, key: &Key) {
        self.state().evict(key);
    }

    /// Evicts what a notification names.
    pub(crate) fn invalidate(&self, notification: &CacheNotification) {
        let mut state = self.state();
        match notification {
            CacheNotification::Invalidate => state.evict_all(),
            CacheNotification::Changed(change) => {
                state.evict(&(change.tenant.clone(), change.definition.clone()));
                if let Some(revision) = change.revision {
                    if revision > state.revision + 1 {
                        // An earlier one was lost.
                        state.evict_all();
                    }
                    state.revision = state.revision.max(revision);
                }
            }
        }
    }

    /// Compares with the revision of a check-in; returns true if notifications were lost.
    pub(crate) fn verify(&self, revision: i64) -> bool {
        let mut state = self.state();
        let missed = revision > state.revision;
        if missed {
            state.revision = revision;
            state.evict_all();
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::DefinitionChange;

    const BUDGET: usize = 100_000;

    fn key(id: &str) -> Key {
        (TenantId::default(), DefinitionId::new(id))
    }

    fn filled(ids: &[&str]) -> DefinitionCache {
        let cache = DefinitionCache::new(BUDGET);
        cache.verify(5);
        for id in ids {
            let fill = cache.get(&key(id)).err().unwrap();
            cache.keep(fill, key(id), Arc::default(), 1);
        }
        cache
    }

    fn changed(id: &str, revision: Option<i64>) -> CacheNotification {
        let (tenant, definition) = key(id);
        CacheNotification::Changed(DefinitionChange {
            revision,
            tenant,
            definition,
        })
    }

    fn has(cache: &DefinitionCache, id: &str) -> bool {
        cache.get(&key(id)).is_ok()
    }

    #[test]
    fn a_fill_begun_before_an_eviction_is_not_kept() {
        let evictions: [&dyn Fn(&DefinitionCache); 4] = [
            &|cache| cache.invalidate(&changed("a", Some(6))),
            &|cache| cache.invalidate(&CacheNotification::Invalidate),
            &|cache| cache.changed_here(&key("a")),
            &|cache| assert!(cache.verify(6)),
        ];
        for evict in evictions {
            let cache = filled(&[]);
            let fill = cache.get(&key("a")).err().unwrap();
            evict(&cache);
            cache.keep(fill, key("a"), Arc::default(), 1);
            assert!(!has(&cache, "a"));
        }
        // A check-in with the same revision is no eviction.
        let cache = filled(&[]);
        let fill = cache.get(&key("a")).err().unwrap();
        assert!(!cache.verify(5));
        cache.keep(fill, key("a"), Arc::default(), 1);
        assert!(has(&cache, "a"));
    }

    #[test]
    fn a_notification_evicts_what_it_names_and_a_lost_one_everything() {
        let cache = filled(&["a", "b"]);
        cache.invalidate(&changed("a", Some(6)));
        assert!(!has(&cache, "a") && has(&cache, "b"));
        assert!(!cache.verify(6), "the notification had it");
        // An old one, and one without a revision, evict what they name.
        for revision in [Some(3), None] {
            let cache = filled(&["a", "b"]);
            cache.invalidate(&changed("a", revision));
            assert!(!has(&cache, "a") && has(&cache, "b"));
        }
        let cache = filled(&["a", "b"]);
        cache.invalidate(&changed("a", Some(7)));
        assert!(!has(&cache, "b"), "6 was lost");
        let cache = filled(&["a", "b"]);
        assert!(!cache.verify(5) && !cache.verify(4));
        assert!(has(&cache, "b"));
        assert!(cache.verify(6));
        assert!(!has(&cache, "b"));
    }

    #[test]
    fn the_cache_is_bounded_by_bytes() {
        let cache = filled(&[]);
        for n in 0..40 {
            let fill = cache.get(&key(&n.to_string())).err().unwrap();
            cache.keep(fill, key(&n.to_string()), Arc::default(), n * 250);
        }
        let used = cache.state().known.used();
        assert!((BUDGET / 2..=BUDGET).contains(&used), "{used}");
        assert!(has(&cache, "39") && !has(&cache, "0"));
        let fill = cache.get(&key("large")).err().unwrap();
        cache.keep(fill, key("large"), Arc::default(), BUDGET);
        assert!(!has(&cache, "large") && has(&cache, "39"));
    }
}
