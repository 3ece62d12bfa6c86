//! The table as it is shown to operators of a cluster: by key, so that it can be held against the server's own list.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Had, LockKey, State, Table};

/// A key that the process has, or for which somebody in it waits.
#[derive(Clone, Debug)]
pub(crate) struct KeyView {
    pub(crate) key: LockKey,
    /// The back has it.
    pub(crate) had: bool,
    /// The longest owner's, or what the first in line calls it; none: kept for the process itself.
    pub(crate) name: Option<Arc<str>>,
    /// For how long the longest owner has had it.
    pub(crate) held_for: Option<Duration>,
    /// Requests that stand in line.
    pub(crate) waiters: usize,
}

impl Table {
    /// Every key that is had or waited for.
    pub(in crate::lock) fn view(&self, now: Instant) -> Vec<KeyView> {
        let mut owners: HashMap<LockKey, (Instant, Arc<str>)> = HashMap::new();
        for pending in self.requests.values() {
            let State::Held { since } = pending.state else { continue };
            for (key, _) in pending.claimed() {
                let owner = owners.entry(*key);
                let owner = owner.or_insert_with(|| (since, pending.wish.name.text()));
                if since < owner.0 {
                    *owner = (since, pending.wish.name.text());
                }
            }
        }
        let seen = self.entries.iter().map(|(key, entry)| {
            let owner = owners.remove(key);
            let first = entry.parked.first().and_then(|ticket| self.requests.get(ticket));
            KeyView {
                key: *key,
                had: matches!(entry.had, Had::Has(_)),
                held_for: owner.as_ref().map(|(since, _)| now.saturating_duration_since(*since)),
                name: owner
                    .map(|(_, name)| name)
                    .or_else(|| first.map(|pending| pending.wish.name.text())),
                waiters: entry.parked.len(),
            }
        });
        seen.filter(|view| view.had || view.waiters > 0).collect()
    }
}
