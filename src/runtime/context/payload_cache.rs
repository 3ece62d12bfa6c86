//! The payloads of fan-outs, which many rows of work share.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::byte_cache::ByteCache;
use crate::id::FanOutId;
use crate::weight;

/// The bytes of all cached payloads. A larger one is read for each claim.
const BUDGET: usize = 16 << 20;

/// The payloads that this node has read.
pub(crate) struct PayloadCache(Mutex<ByteCache<FanOutId, Arc<Value>>>);

impl Default for PayloadCache {
    fn default() -> Self {
        Self(Mutex::new(ByteCache::new("payloads", BUDGET)))
    }
}

impl PayloadCache {
    /// The cached ones, and the ids of the others.
    pub(crate) fn find(&self, ids: &BTreeSet<FanOutId>) -> (HashMap<FanOutId, Arc<Value>>, Vec<FanOutId>) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut found, mut missing) = (HashMap::new(), Vec::new());
        for id in ids {
            match cache.get(id) {
                Some(payload) => {
                    found.insert(*id, Arc::clone(payload));
                }
                None => missing.push(*id),
            }
        }
        (found, missing)
    }

    pub(crate) fn insert(&self, id: FanOutId, payload: Arc<Value>) {
        let bytes = weight::json(&payload);
        let evicted = {
            let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            cache.insert(id, payload, bytes)
        };
        // Dropped outside the mutex.
        drop(evicted);
    }
}
