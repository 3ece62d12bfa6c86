//! What waits to be sent to one master.

use super::calls::Written;
use crate::lock::key::LockKey;
use crate::lock::request::LockMode;
use crate::lock::table::Batch;

#[derive(Default)]
pub(super) struct MasterQueue {
    batch: Batch,
    released: Vec<Written>,
    taken: Vec<Written>,
    /// How many exchanges are in flight.
    pub(super) in_flight: usize,
}

impl MasterQueue {
    /// A key to release.
    pub(super) fn free(&mut self, key: (LockKey, LockMode), written: Written) {
        self.batch.free.push(key);
        self.released.push(written);
    }

    /// A key to take.
    pub(super) fn take(&mut self, key: (LockKey, LockMode), written: Written) {
        self.batch.take.push(key);
        self.taken.push(written);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batch.free.is_empty() && self.batch.take.is_empty()
    }

    /// What is sent next, with at most so many keys to take: the batch, what it releases, what it takes.
    pub(super) fn next(&mut self, most: usize) -> (Batch, Vec<Written>, Vec<Written>) {
        let most = most.min(self.taken.len());
        let (later, taken_later) = (self.batch.take.split_off(most), self.taken.split_off(most));
        let batch = Batch {
            free: std::mem::take(&mut self.batch.free),
            take: std::mem::replace(&mut self.batch.take, later),
            messages: Vec::new(),
        };
        let released = std::mem::take(&mut self.released);
        (batch, released, std::mem::replace(&mut self.taken, taken_later))
    }
}
