//! One batch while it is being gathered from a backlog.

use std::collections::{HashSet, VecDeque};

use super::holders::ActivationHolders;
use super::options::WriterOptions;
use super::pending::Pending;
use super::pipeline::LockedRows;
use crate::id::{InstanceId, TenantId};

/// A batch with room for more: at most one request per instance, bounded by count, bytes and stimulus keys. A request that
/// ends an instance which holds something goes into a batch of such. A contended request is alone, or with those that missed
/// the same stimulus keys.
struct Gathering<'a, G> {
    options: &'a WriterOptions,
    mode: LockedRows,
    /// The most requests.
    most: usize,
    instances: HashSet<(TenantId, InstanceId)>,
    keys: HashSet<i32>,
    bytes: usize,
    batch: Vec<Pending<G>>,
}

/// Takes one batch from the backlog; what does not fit stays there in its order.
pub(super) fn take_batch<G>(
    backlog: &mut VecDeque<Pending<G>>,
    mode: LockedRows,
    options: &WriterOptions,
    holders: &ActivationHolders,
) -> Vec<Pending<G>> {
    let waits_for_row = mode == LockedRows::Wait && backlog.front().is_some_and(|first| first.missed.is_empty());
    let mut gathering = Gathering {
        options,
        mode,
        most: if waits_for_row { 1 } else { options.batch },
        instances: HashSet::new(),
        keys: HashSet::new(),
        bytes: 0,
        batch: Vec::new(),
    };
    let mut left = VecDeque::new();
    while let Some(mut pending) = backlog.pop_front() {
        pending.request.holds |= holders.contains(&pending.request);
        if gathering.admits(&pending) {
            gathering.batch.push(pending);
        } else {
            left.push_back(pending);
        }
    }
    *backlog = left;
    gathering.batch
}

impl<G> Gathering<'_, G> {
    /// Whether a request belongs into the batch; if so, its room is taken.
    fn admits(&mut self, pending: &Pending<G>) -> bool {
        let bytes = self.bytes + pending.request.size();
        let keys = pending.request.keys();
        let more_keys = keys.iter().filter(|(key, _)| !self.keys.contains(key)).count();
        let is_too_large = bytes > self.options.bytes || self.keys.len() + more_keys > self.options.keys;
        // A single request may exceed both.
        let is_full = self.batch.len() >= self.most || !self.batch.is_empty() && is_too_large;
        if is_full || self.is_apart(pending) {
            return false;
        }
        let instance = (pending.request.tenant.clone(), pending.request.instance.clone());
        if !self.instances.insert(instance) {
            return false;
        }
        self.bytes = bytes;
        self.keys.extend(keys.iter().map(|(key, _)| key));
        true
    }

    /// Whether a request goes into another batch than those before it.
    fn is_apart(&self, pending: &Pending<G>) -> bool {
        self.batch.first().is_some_and(|first| {
            first.request.holds != pending.request.holds
                || self.mode == LockedRows::Wait && first.missed != pending.missed
        })
    }
}
