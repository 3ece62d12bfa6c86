//! Whether the script of a realm must stop, asked often enough.
//!
//! QuickJS calls the interrupt handler after ten thousand steps: a call, or a turn of a loop. A step takes some nanoseconds,
//! but one over long texts or lists takes as long as the heap is large: a comparison of two texts of 30 MB some milliseconds,
//! ten thousand of them a minute. So the larger the heap is, the fewer steps are between two calls ([`StepCounter`]). Other
//! long operations count as steps in QuickJS (`vendor/README.md`), allocate (`heap_allocator`), or `guards.js` asks before them.

use std::cell::{Cell, RefCell};

use rquickjs::Context;

use super::step_counter::StepCounter;

/// Steps between two checks, times the bytes of the heap: at two nanoseconds for a byte, half a second.
const STEP_BYTES: usize = 256 << 20;

/// How many times its memory limit an interrupted heap may take: the text of the interrupt has the names of functions.
const RESERVE: usize = 8;

/// The most steps between two checks, which then cost a few per cent: a text that was concatenated is longer than the heap.
const MAX_STEPS: usize = 100;

/// Watches over one realm.
pub(super) struct ScriptWatch {
    must_stop: Box<dyn Fn() -> bool>,
    memory_limit: usize,
    /// The bytes of the heap.
    bytes: Cell<usize>,
    /// The bytes of the heap before any script.
    base: Cell<usize>,
    /// Scripts run.
    is_active: Cell<bool>,
    /// The interrupt handler has stopped a script; the realm is spent.
    is_interrupted: Cell<bool>,
    counter: RefCell<Option<StepCounter>>,
}

impl ScriptWatch {
    /// `must_stop` may block; `memory_limit`: of the heap, in bytes.
    pub(super) fn new(memory_limit: usize, must_stop: impl Fn() -> bool + 'static) -> Self {
        Self {
            must_stop: Box::new(must_stop),
            memory_limit,
            bytes: Cell::new(0),
            base: Cell::new(0),
            is_active: Cell::new(false),
            is_interrupted: Cell::new(false),
            counter: RefCell::new(None),
        }
    }

    /// The bytes of the heap.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// From now on scripts run in this context. To be ended, or else the context is never freed.
    pub(super) fn begin(&self, context: &Context) {
        *self.counter.borrow_mut() = Some(StepCounter::of(context));
        self.base.set(self.bytes.get());
        self.is_active.set(true);
    }

    /// No more scripts run.
    pub(super) fn end(&self) {
        self.is_active.set(false);
        let counter = self.counter.borrow_mut().take();
        drop(counter);
    }

    /// Whether the script must stop. Blocks while it waits for a time slice.
    pub(super) fn must_stop(&self) -> bool {
        let must_stop = (self.must_stop)();
        self.set_steps(must_stop);
        must_stop
    }

    /// The interrupt handler of QuickJS: true makes it interrupt the script.
    pub(super) fn interrupts(&self) -> bool {
        let must_stop = self.must_stop();
        if must_stop
            && !self.is_interrupted.replace(true)
            && let Some(counter) = &*self.counter.borrow()
        {
            // Without memory for it, QuickJS would throw null, which a script can catch.
            counter.set_memory_limit(self.memory_limit.saturating_mul(RESERVE));
        }
        must_stop
    }

    /// After an interrupt, for the next call of the test.
    #[cfg(test)]
    pub(super) fn resume(&self) {
        self.is_interrupted.set(false);
        if let Some(counter) = &*self.counter.borrow() {
            counter.set_memory_limit(self.memory_limit);
        }
    }

    /// Before the heap grows. Blocks while the script waits for a time slice.
    pub(super) fn ask(&self) {
        if self.is_active.get() {
            self.must_stop();
        }
    }

    /// The interrupt handler is called at the next step.
    pub(super) fn ask_at_next_step(&self) {
        self.set_steps(true);
    }

    /// The heap has grown.
    pub(super) fn allocated(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        if self.is_active.get() {
            self.set_steps(false);
        }
    }

    /// The heap has shrunk.
    pub(super) fn freed(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// Limits the steps until the next check.
    fn set_steps(&self, must_stop: bool) {
        if let Some(counter) = &*self.counter.borrow() {
            let grown = self.bytes.get().saturating_sub(self.base.get());
            let steps = (STEP_BYTES / grown.max(1)).clamp(1, MAX_STEPS);
            // An async function makes a rejection of the interrupt: it must meet its caller, too.
            counter.set_at_most(if must_stop {
                1
            } else {
                i32::try_from(steps).unwrap_or(i32::MAX)
            });
        }
    }
}
