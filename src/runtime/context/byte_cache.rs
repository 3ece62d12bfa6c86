//! A cache that is bounded by bytes, not by entries.
//!
//! It gives a second chance: the oldest entry is evicted, but one that was used since goes to the back once more. A value
//! larger than the whole cache is not kept.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

pub(crate) struct ByteCache<K, V> {
    /// For metrics.
    name: &'static str,
    budget: usize,
    used: usize,
    entries: HashMap<K, Entry<V>>,
    order: VecDeque<(K, u64)>,
    /// Numbers entries, so that an old place in the order is not confused with that of a later entry.
    next: u64,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    number: u64,
    used_since: bool,
}

impl<K: Clone + Eq + Hash, V> ByteCache<K, V> {
    pub(crate) fn new(name: &'static str, budget: usize) -> Self {
        Self {
            name,
            budget,
            used: 0,
            entries: HashMap::new(),
            order: VecDeque::new(),
            next: 0,
        }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        entry.used_since = true;
        Some(&entry.value)
    }

    /// Keeps a value of that many bytes, its key included; returns what was evicted, perhaps the value itself.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) -> Vec<(K, V)> {
        self.remove(&key);
        if bytes > self.budget {
            return vec![(key, value)];
        }
        let mut evicted = Vec::new();
        while self.used + bytes > self.budget
            && let Some((oldest, number)) = self.order.pop_front()
        {
            let Some(entry) = self.entries.get_mut(&oldest).filter(|entry| entry.number == number) else {
                continue;
            };
            if std::mem::take(&mut entry.used_since) {
                self.order.push_back((oldest, number));
            } else if let Some(entry) = self.entries.remove(&oldest) {
                self.used -= entry.bytes;
                evicted.push((oldest, entry.value));
            }
        }
        self.next += 1;
        let number = self.next;
        self.order.push_back((key.clone(), number));
        let entry = Entry {
            value,
            bytes,
            number,
            used_since: false,
        };
        self.entries.insert(key, entry);
        self.used += bytes;
        if !evicted.is_empty() {
            let count = u64::try_from(evicted.len()).unwrap_or(u64::MAX);
            metrics::counter!("mainspring_cache_evictions_total", "cache" => self.name).increment(count);
        }
        self.report();
        evicted
    }

    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.used -= entry.bytes;
            // Keys that are inserted and removed again and again leave entries in the order.
            if self.order.len() > self.entries.len() * 2 + 16 {
                let entries = &self.entries;
                self.order
                    .retain(|(key, number)| entries.get(key).is_some_and(|entry| entry.number == *number));
            }
            self.report();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.used = 0;
        self.report();
    }

    fn report(&self) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge")]
        metrics::gauge!("mainspring_cache_bytes", "cache" => self.name).set(self.used as f64);
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(evicted: Vec<(u32, &'static str)>) -> Vec<u32> {
        evicted.into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn bytes_bound_it_and_what_is_used_stays() {
        let mut cache = ByteCache::new("test", 100);
        for key in 0..4 {
            assert!(cache.insert(key, "value", 25).is_empty());
        }
        assert!(cache.get(&0).is_some() && cache.get(&9).is_none());
        assert_eq!(keys(cache.insert(4, "value", 30)), [1, 2]);
        assert_eq!(cache.used(), 80);
        assert!(cache.get(&0).is_some() && cache.get(&3).is_some());
        // All were used: each had its second chance.
        assert!(!cache.insert(5, "value", 100).is_empty());
        assert_eq!((cache.used(), cache.entries.len()), (100, 1));
        cache.insert(5, "value", 10);
        assert_eq!(cache.used(), 10, "one key counts once");
    }

    #[test]
    fn a_value_larger_than_the_cache_is_not_kept_and_evicts_nothing() {
        let mut cache = ByteCache::new("test", 100);
        cache.insert(1, "value", 60);
        assert_eq!(keys(cache.insert(2, "large", 101)), [2]);
        assert!(cache.get(&1).is_some() && cache.get(&2).is_none());
    }

    #[test]
    fn the_order_shrinks_with_removed_entries() {
        let mut cache = ByteCache::new("test", 100);
        for key in 0..1000 {
            cache.insert(key, "value", 10);
            cache.remove(&key);
        }
        assert!(cache.order.len() < 100, "{}", cache.order.len());
        assert_eq!(cache.used(), 0);
        cache.insert(1, "value", 50);
        cache.insert(1, "value", 50);
        cache.insert(2, "value", 50);
        assert_eq!(keys(cache.insert(3, "value", 50)), [1]);
        cache.clear();
        assert_eq!((cache.used(), cache.entries.len(), cache.order.len()), (0, 0, 0));
    }
}
