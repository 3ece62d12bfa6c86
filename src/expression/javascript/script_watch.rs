//! Whether the script of a realm must stop, asked often enough.
//!
//! QuickJS calls the interrupt handler after ten thousand steps: a call, or a turn of a loop. A step takes some nanoseconds,
//! but one over long texts or lists takes as long as the heap is large: a comparison of two texts of 30 MB some milliseconds,
//! ten thousand of them a minute. So the larger the heap is, the fewer steps are between two calls ([`StepCounter`]). Steps
//! that take longer than their operands are large are bounded otherwise: they allocate (`heap_allocator`), or `guards.js`
//! asks before them.

use std::cell::{Cell, RefCell};

use rquickjs::Context;

use super::step_counter::StepCounter;

/// Steps between two checks, times the bytes of the heap: at two nanoseconds for a byte, half a second.
const STEP_BYTES: usize = 256 << 20;

/// The most steps between two checks: those of QuickJS.
const MAX_STEPS: usize = 10_000;

/// Watches over one realm.
pub(super) struct ScriptWatch {
    must_stop: Box<dyn Fn() -> bool>,
    /// The bytes of the heap.
    bytes: Cell<usize>,
    /// The bytes of the heap before any script.
    base: Cell<usize>,
    counter: RefCell<Option<StepCounter>>,
}

impl ScriptWatch {
    /// `must_stop` may block.
    pub(super) fn new(must_stop: impl Fn() -> bool + 'static) -> Self {
        Self {
            must_stop: Box::new(must_stop),
            bytes: Cell::new(0),
            base: Cell::new(0),
            counter: RefCell::new(None),
        }
    }

    /// From now on scripts run in this context. To be ended, or else the context is never freed.
    pub(super) fn begin(&self, context: &Context) {
        self.base.set(self.bytes.get());
        let counter = StepCounter::of(context);
        *self.counter.borrow_mut() = counter;
    }

    /// No more scripts run.
    pub(super) fn end(&self) {
        let counter = self.counter.borrow_mut().take();
        drop(counter);
    }

    /// Whether the script must stop. Blocks while it waits for a time slice.
    pub(super) fn must_stop(&self) -> bool {
        let must_stop = (self.must_stop)();
        self.limit_steps();
        must_stop
    }

    /// The heap has grown.
    pub(super) fn allocated(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        self.limit_steps();
    }

    /// The heap has shrunk.
    pub(super) fn freed(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    fn limit_steps(&self) {
        if let Some(counter) = &*self.counter.borrow() {
            let grown = self.bytes.get().saturating_sub(self.base.get());
            let steps = (STEP_BYTES / grown.max(1)).clamp(1, MAX_STEPS);
            counter.set_at_most(i32::try_from(steps).unwrap_or(i32::MAX));
        }
    }
}
