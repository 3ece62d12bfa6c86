//! Published definitions as the API shows them, kept under the revision.
//!
//! # Invariants
//!
//! - A fill that was begun before an eviction is not kept: what it has read may be what was evicted.
//! - A revision that nobody announced empties the cache: a signal was lost.
//! - Nothing survives a new connection for signals, nor a new registration, whose shift begins with an empty cache.
//! - Whoever reads asks first whether the last check-in is recent: else nobody knows what is stale.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::id::{DefinitionId, TenantId};
use crate::runtime::context::byte_cache::ByteCache;
use crate::runtime::context::node_context::Shift;
use crate::signal::{CacheNotification, CacheSubscription};

/// What a kept definition takes beside itself.
const OVERHEAD: usize = 512;

type Key = (TenantId, DefinitionId);

/// The cache of a shift.
pub(crate) struct PublishedDefinitions(Mutex<State>);

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

impl PublishedDefinitions {
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

    /// What is kept, or word that whoever asks may fill it.
    pub(crate) fn get(&self, key: &Key) -> Result<Arc<Value>, Fill> {
        let mut state = self.state();
        let evictions = state.evictions;
        state.known.get(key).cloned().ok_or(Fill(evictions))
    }

    /// Keeps what was read after [`PublishedDefinitions::get`] found nothing.
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

    /// Evicts what a signal says.
    pub(crate) fn hear(&self, heard: &CacheNotification) {
        let mut state = self.state();
        match heard {
            CacheNotification::Invalidate => state.evict_all(),
            CacheNotification::Changed(change) => {
                state.evict(&(change.tenant.clone(), change.definition.clone()));
                if let Some(revision) = change.revision {
                    if revision > state.revision + 1 {
                        // One before this was lost.
                        state.evict_all();
                    }
                    state.revision = state.revision.max(revision);
                }
            }
        }
    }

    /// What a check-in says of the revision; true: signals were lost.
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

/// Evicts what others change, until the shift stops.
pub(crate) async fn follow(shift: Arc<Shift>, mut signals: CacheSubscription) {
    let mut reports = shift.reports.clone();
    loop {
        // All three are cancellation safe.
        tokio::select! {
            () = shift.stop.cancelled() => return,
            heard = signals.recv() => {
                let Some(heard) = heard else { return };
                shift.published.hear(&heard);
                shift.firing.alarm.now();
                match heard {
                    CacheNotification::Changed(change) => tracing::info!(
                        definition = %change.definition,
                        revision = change.revision,
                        "Received cache invalidation event for workflow definition {}",
                        change.definition
                    ),
                    CacheNotification::Invalidate => tracing::info!("cache invalidation events may have been missed; the cache is empty"),
                }
            }
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                let revision = reports.borrow_and_update().check_in.revision;
                if shift.published.verify(revision) {
                    tracing::debug!(revision, "a check-in shows a revision that nobody announced; the cache is empty");
                }
            }
        }
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

    fn filled(ids: &[&str]) -> PublishedDefinitions {
        let cache = PublishedDefinitions::new(BUDGET);
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

    fn has(cache: &PublishedDefinitions, id: &str) -> bool {
        cache.get(&key(id)).is_ok()
    }

    #[test]
    fn a_fill_begun_before_an_eviction_is_not_kept() {
        let evictions: [&dyn Fn(&PublishedDefinitions); 4] = [
            &|cache| cache.hear(&changed("a", Some(6))),
            &|cache| cache.hear(&CacheNotification::Invalidate),
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
        // A check-in that says nothing new is no eviction.
        let cache = filled(&[]);
        let fill = cache.get(&key("a")).err().unwrap();
        assert!(!cache.verify(5));
        cache.keep(fill, key("a"), Arc::default(), 1);
        assert!(has(&cache, "a"));
    }

    #[test]
    fn a_signal_evicts_what_it_names_and_a_lost_one_everything() {
        let cache = filled(&["a", "b"]);
        cache.hear(&changed("a", Some(6)));
        assert!(!has(&cache, "a") && has(&cache, "b"));
        assert!(!cache.verify(6), "the signal has told of it");
        // An old one, and one without a revision, evict what they name.
        for revision in [Some(3), None] {
            let cache = filled(&["a", "b"]);
            cache.hear(&changed("a", revision));
            assert!(!has(&cache, "a") && has(&cache, "b"));
        }
        let cache = filled(&["a", "b"]);
        cache.hear(&changed("a", Some(7)));
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
