//! What a script may use: steps, bytes and time. Each is checked where it is spent.

use std::cell::{Cell, RefCell};

use crate::expression::csharp::problem::{Evaluated, Stop, StopKind};
use crate::expression::csharp::value::{Value, empty};
use crate::expression::processor::{Going, Pace};

/// The bounds of one run.
#[derive(Debug)]
pub(crate) struct Bounds<'a> {
    pub(crate) steps: u64,
    /// Bytes of all values that it makes.
    pub(crate) bytes: usize,
    /// Bytes of JSON that it may return, with its variables.
    pub(crate) result_bytes: usize,
    /// On a thread of its own. None: only its steps bound it.
    pub(crate) pace: Option<Pace<'a>>,
}

/// In steps: how often the clock is read.
const CLOCK_EVERY: u64 = 1_024;

/// Bytes that are as much work as a step.
const BYTES_OF_STEP: usize = 64;

pub(in crate::expression::csharp) struct Meter<'a> {
    bounds: Bounds<'a>,
    steps: Cell<u64>,
    bytes: Cell<usize>,
    next_clock: Cell<u64>,
    /// Containers into which the script has put others: they may refer to themselves.
    changed: RefCell<Vec<Value>>,
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        for container in self.changed.take() {
            empty(&container);
        }
    }
}

impl<'a> Meter<'a> {
    pub(super) fn new(bounds: Bounds<'a>) -> Self {
        Self {
            bounds,
            steps: Cell::new(0),
            bytes: Cell::new(0),
            next_clock: Cell::new(0),
            changed: RefCell::new(Vec::new()),
        }
    }

    pub(in crate::expression::csharp) fn bounds_of_result(&self) -> usize {
        self.bounds.result_bytes
    }

    /// Says that a value was put into a container.
    pub(in crate::expression::csharp) fn put(&self, value: &Value, into: Value) {
        if value.is_container() {
            self.changed.borrow_mut().push(into);
        }
    }

    pub(in crate::expression::csharp) fn step(&self) -> Evaluated<()> {
        self.steps(1)
    }

    pub(in crate::expression::csharp) fn steps(&self, count: usize) -> Evaluated<()> {
        let steps = self
            .steps
            .get()
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        self.steps.set(steps);
        if steps > self.bounds.steps {
            let message = format!("the script needs more than {} steps", self.bounds.steps);
            return Err(Stop::new(StopKind::Steps, message));
        }
        if steps >= self.next_clock.get() {
            self.next_clock.set(steps + CLOCK_EVERY);
            return self.clock();
        }
        Ok(())
    }

    fn clock(&self) -> Evaluated<()> {
        match self.bounds.pace.as_ref().map_or(Going::On, Pace::check) {
            Going::On => Ok(()),
            Going::OutOfTime => Err(Stop::new(StopKind::Time, "the script ran longer than its limit")),
            Going::Stopped => Err(Stop::cancelled()),
        }
    }

    /// Counts a value of so many bytes, before it is made where it can be large.
    pub(in crate::expression::csharp) fn hold(&self, bytes: usize) -> Evaluated<()> {
        let total = self.bytes.get().saturating_add(bytes);
        self.bytes.set(total);
        if total > self.bounds.bytes {
            let message = format!("the script makes values of more than {} bytes", self.bounds.bytes);
            return Err(Stop::new(StopKind::Memory, message));
        }
        self.steps(bytes / BYTES_OF_STEP)
    }
}
