//! A queue that is fair among definitions: one that has queued a thousand scripts delays the first of another one by a
//! single script. Within a definition the first in is the first out; an instance has one script at a time, so the queue
//! is fair among a definition's instances as well.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Semaphores that are kept before those without a permit in use are dropped.
const MAX_SEMAPHORES: usize = 256;

#[derive(Debug)]
pub(in crate::expression) struct FairQueue<T> {
    queues: HashMap<String, VecDeque<T>>,
    /// Each definition with queued items once, the next one first.
    order: VecDeque<String>,
    len: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            queues: HashMap::new(),
            order: VecDeque::new(),
            len: 0,
        }
    }
}

impl<T> FairQueue<T> {
    pub(in crate::expression) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::expression) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(in crate::expression) fn push(&mut self, definition: &str, item: T) {
        self.len += 1;
        if let Some(queue) = self.queues.get_mut(definition) {
            return queue.push_back(item);
        }
        self.queues.insert(definition.to_owned(), VecDeque::from([item]));
        self.order.push_back(definition.to_owned());
    }

    /// Takes the first item of the next definition whose first item meets the condition.
    pub(in crate::expression) fn pop_where(&mut self, mut condition: impl FnMut(&T) -> bool) -> Option<T> {
        let first = |definition: &String| self.queues.get(definition)?.front();
        let position = self
            .order
            .iter()
            .position(|definition| first(definition).is_some_and(&mut condition))?;
        let definition = self.order.remove(position)?;
        let queue = self.queues.get_mut(&definition)?;
        let item = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&definition);
        } else {
            self.order.push_back(definition);
        }
        self.len -= 1;
        item
    }

    pub(in crate::expression) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for queue in self.queues.values_mut() {
            queue.retain(&mut keep);
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        let queues = &self.queues;
        self.order.retain(|definition| queues.contains_key(definition));
        self.len = self.queues.values().map(VecDeque::len).sum();
    }
}

/// The places of a queue or for a kind of work, one semaphore per definition: a full one blocks only its own definition.
#[derive(Debug)]
pub(in crate::expression) struct QueuePermits {
    size: usize,
    semaphores: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl QueuePermits {
    pub(in crate::expression) fn new(size: usize) -> Self {
        Self {
            size: size.clamp(1, Semaphore::MAX_PERMITS),
            semaphores: Mutex::default(),
        }
    }

    pub(in crate::expression) fn of(&self, definition: &str) -> Arc<Semaphore> {
        let mut semaphores = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = semaphores.get(definition) {
            return Arc::clone(semaphore);
        }
        if semaphores.len() >= MAX_SEMAPHORES {
            // A permit and an acquire under way each hold the semaphore.
            semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let semaphore = Arc::new(Semaphore::new(self.size));
        semaphores.insert(definition.to_owned(), Arc::clone(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_take_turns() {
        let mut queue = FairQueue::default();
        for n in 0..3 {
            queue.push("greedy", n);
        }
        queue.push("modest", 10);
        queue.push("late", 20);
        let all: Vec<i32> = std::iter::from_fn(|| queue.pop_where(|_| true)).collect();
        assert_eq!(all, [0, 10, 20, 1, 2]);
        assert!(queue.is_empty());
    }

    #[test]
    fn an_item_that_does_not_meet_the_condition_keeps_its_position() {
        let mut queue = FairQueue::default();
        for (definition, n) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
            queue.push(definition, n);
        }
        assert_eq!(queue.pop_where(|n| n % 2 == 0), Some(2));
        assert_eq!(queue.pop_where(|n| *n == 9), None);
        assert_eq!(queue.pop_where(|_| true), Some(1));
        queue.retain(|n| *n != 4);
        assert_eq!((queue.len(), queue.pop_where(|_| true)), (1, Some(3)));
        assert_eq!(queue.pop_where(|_| true), None);
    }

    #[test]
    fn semaphores_that_are_not_in_use_are_dropped() {
        let permits = QueuePermits::new(1);
        let kept = permits.of("kept");
        for n in 0..MAX_SEMAPHORES * 2 {
            permits.of(&n.to_string());
        }
        assert!(permits.semaphores.lock().unwrap().len() <= MAX_SEMAPHORES);
        assert!(Arc::ptr_eq(&kept, &permits.of("kept")));
    }
}
