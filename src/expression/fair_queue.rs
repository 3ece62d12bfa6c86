//! A queue that takes turns among definitions: one that has queued a thousand scripts delays the first of another one
//! by a single script. Within a definition the first in is the first out; an instance has one script at a time, so a
//! definition's instances take turns as well.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// How many definitions' rooms are remembered before those that are not in use are dropped.
const ROOMS: usize = 256;

pub(super) struct FairQueue<T> {
    lines: HashMap<String, VecDeque<T>>,
    /// Whose turn is next; each definition that has something queued, once.
    order: VecDeque<String>,
    len: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            lines: HashMap::new(),
            order: VecDeque::new(),
            len: 0,
        }
    }
}

impl<T> FairQueue<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, definition: &str, item: T) {
        self.len += 1;
        if let Some(line) = self.lines.get_mut(definition) {
            return line.push_back(item);
        }
        self.lines.insert(definition.to_owned(), VecDeque::from([item]));
        self.order.push_back(definition.to_owned());
    }

    /// The first item of the next definition whose first item may be taken.
    pub(super) fn pop_where(&mut self, mut may: impl FnMut(&T) -> bool) -> Option<T> {
        let first = |definition: &String| self.lines.get(definition)?.front();
        let place = self
            .order
            .iter()
            .position(|definition| first(definition).is_some_and(&mut may))?;
        let definition = self.order.remove(place)?;
        let line = self.lines.get_mut(&definition)?;
        let item = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&definition);
        } else {
            self.order.push_back(definition);
        }
        self.len -= 1;
        item
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for line in self.lines.values_mut() {
            line.retain(&mut keep);
        }
        self.lines.retain(|_, line| !line.is_empty());
        let lines = &self.lines;
        self.order.retain(|definition| lines.contains_key(definition));
        self.len = self.lines.values().map(VecDeque::len).sum();
    }
}

/// Room in a queue, for each definition its own: a full one makes only its own scripts wait.
pub(super) struct Rooms {
    size: usize,
    rooms: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Rooms {
    pub(super) fn new(size: usize) -> Self {
        Self {
            size: size.clamp(1, Semaphore::MAX_PERMITS),
            rooms: Mutex::default(),
        }
    }

    pub(super) fn of(&self, definition: &str) -> Arc<Semaphore> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(definition) {
            return Arc::clone(room);
        }
        if rooms.len() >= ROOMS {
            // A permit and an acquire under way each hold the semaphore.
            rooms.retain(|_, room| Arc::strong_count(room) > 1);
        }
        let room = Arc::new(Semaphore::new(self.size));
        rooms.insert(definition.to_owned(), Arc::clone(&room));
        room
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
    fn what_may_not_be_taken_keeps_its_place() {
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
    fn rooms_of_definitions_that_are_gone_are_dropped() {
        let rooms = Rooms::new(1);
        let kept = rooms.of("kept");
        for n in 0..ROOMS * 2 {
            rooms.of(&n.to_string());
        }
        assert!(rooms.rooms.lock().unwrap().len() <= ROOMS);
        assert!(Arc::ptr_eq(&kept, &rooms.of("kept")));
    }
}
